//! Dumps the memory of a guest, panicked or stopped for the dump, to a file that crash and drgn can
//! open.
//!
//! The file is ELF. QEMU's compressed format would need a quarter of the disk space, but drgn
//! cannot open what QEMU 7.2 writes for an arm64 guest ("ARCH_NAME: Key has no value").
//!
//! It contains the registers of every CPU and is marked accordingly ([`mark_notes_complete`]). Without
//! the mark crash would assign the first registers to the first online CPU, but after a panic only
//! the CPU that panicked is online.
//!
//! QEMU writes the dump to a pipe, and zeros become holes in the file. Of 512 MB of memory of a
//! freshly booted guest, only 25 MB are written, which reduces the load on a busy disk.

use super::{
    Death, Machine,
    monitor::{MONITOR_DEADLINE, Monitor},
};
use crate::host::interrupt;
use anyhow::{Context, Result, bail};
use object::{
    LittleEndian,
    elf::{self, FileHeader64},
    read::elf::{FileHeader, ProgramHeader},
};
use qapi::qmp;
use rustix::pipe::{fcntl_setpipe_size, pipe};
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};
use tempfile::NamedTempFile;

/// The file in a scenario's directory with the memory of its guest, which panicked or had its
/// memory requested.
pub const VMCORE: &str = "vmcore";

/// The time limit for writing it. An idle host writes half a gigabyte per second.
const DUMP_DEADLINE: Duration = Duration::from_secs(30);

/// The name of the pipe in QEMU's monitor.
const PIPE: &str = "vmcore";

/// Bytes per read, and the size of the pipe: the maximum that Linux allows unprivileged users.
const CHUNK: usize = 1 << 20;

/// The first bytes of a dump, which contain its notes: a few kilobytes per CPU.
const NOTES_MAX: usize = 1 << 20;

/// The names of ELF notes.
const CORE: &[u8] = b"CORE";
const QEMU: &[u8] = b"QEMU";

/// Bytes that become a hole if all are zero: a page of most filesystems.
const HOLE: usize = 4096;

impl Machine {
    /// Writes the stopped guest's memory to [`VMCORE`] in `directory`, where it appears complete or
    /// not at all. After a failure the machine may be gone.
    pub(super) fn dump(&mut self, directory: &Path) -> Result<()> {
        let mut file = NamedTempFile::new_in(directory)
            .with_context(|| format!("cannot create a file in `{}`", directory.display()))?;
        self.write_memory(file.as_file_mut())?;
        let path = directory.join(VMCORE);
        // A temporary file is private, but a result must be readable by anyone who may read the
        // run.
        file.as_file().set_permissions(PermissionsExt::from_mode(0o644))?;
        file.persist(&path)
            .with_context(|| format!("cannot rename a temporary file to `{}`", path.display()))?;
        Ok(())
    }

    /// Dumps the running guest's memory to [`VMCORE`] in the machine's directory. The guest is
    /// stopped for the dump and then resumed.
    pub fn keep_memory(&mut self) -> Result<(), Death> {
        let directory = self.directory.clone();
        self.stopped(|machine| machine.dump(&directory)).map_err(Death::Lab)
    }

    /// Like [`Machine::keep_memory`], but dumps to an unnamed file, which is removed when it is
    /// closed.
    pub fn memory(&mut self) -> Result<File, Death> {
        let directory = self.directory.clone();
        let taken = self.stopped(|machine| {
            let mut file = tempfile::tempfile_in(&directory)
                .with_context(|| format!("cannot create a file in `{}`", directory.display()))?;
            machine.write_memory(&mut file)?;
            Ok(file)
        });
        taken.map_err(Death::Lab)
    }

    /// Stops the guest, runs `work`, and resumes the guest.
    fn stopped<T>(&mut self, work: impl FnOnce(&mut Machine) -> Result<T>) -> Result<T> {
        self.monitor.execute(&qmp::stop {}).context("QEMU cannot stop the guest")?;
        let done = work(self)?;
        self.monitor.wait_at_most(MONITOR_DEADLINE)?;
        self.monitor.execute(&qmp::cont {}).context("QEMU cannot resume the guest")?;
        Ok(done)
    }

    fn write_memory(&mut self, file: &mut File) -> Result<()> {
        let (from, to) = pipe().context("cannot create a pipe")?;
        // A smaller pipe only makes the dump slower.
        let _ = fcntl_setpipe_size(&to, CHUNK);
        self.monitor.hand_over(PIPE, &File::from(to)).context("QEMU does not accept the pipe")?;
        let until = Instant::now() + DUMP_DEADLINE;
        let (written, asked) = thread::scope(|scope| {
            let writer = scope.spawn(|| copy(File::from(from), file, until));
            let asked = self.monitor.dump(DUMP_DEADLINE);
            if asked.is_err() {
                // A hanging QEMU would keep the pipe open, and the writer would wait for it.
                let _ = self.qemu.kill();
            }
            (writer.join(), asked)
        });
        // If the copy failed, QEMU's broken pipe is only the consequence.
        match written {
            Ok(written) => written?,
            Err(_) => bail!("the thread that writes the dump panicked"),
        }
        asked.context("QEMU cannot dump the guest")?;
        mark_notes_complete(file).context("cannot complete the notes of the dump")
    }
}

/// Renames the first CPU's NT_PRFPREG note to `QEMU`, the note by which crash recognizes a dump
/// with notes for all CPUs, not only the online ones. QEMU writes such a note for x86 guests only,
/// and there is no room to add one.
pub fn mark_notes_complete(file: &File) -> Result<()> {
    let mut notes = vec![0; NOTES_MAX];
    let count = file.read_at(&mut notes, 0)?;
    let data = &notes[..count];
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    for segment in header.program_headers(LittleEndian, data)? {
        let Some(mut of_segment) = segment.notes(LittleEndian, data)? else { continue };
        while let Some(note) = of_segment.next()? {
            if note.name() == CORE && note.n_type(LittleEndian) == elf::NT_PRFPREG {
                let name = (note.name().as_ptr() as usize - data.as_ptr() as usize) as u64;
                // The type precedes the name.
                file.write_all_at(&[0; 4], name - 4)?;
                file.write_all_at(QEMU, name)?;
                return Ok(());
            }
        }
    }
    bail!("there is no note of floating-point registers")
}

impl Monitor {
    fn dump(&mut self, within: Duration) -> io::Result<()> {
        self.wait_at_most(within)?;
        let format = Some(qmp::DumpGuestMemoryFormat::elf);
        let protocol = format!("fd:{PIPE}");
        // crash and drgn evaluate the guest's page tables themselves.
        let paging = false;
        let command =
            qmp::dump_guest_memory { begin: None, detach: None, format, length: None, paging, protocol };
        self.execute(&command).map(drop)
    }
}

/// Copies everything to a new file, leaving holes for zeros.
fn copy(mut from: impl Read, to: &mut File, until: Instant) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        interrupt::check()?;
        if Instant::now() > until {
            bail!("the dump is not done after {} s", DUMP_DEADLINE.as_secs());
        }
        let count = fill(&mut from, &mut chunk).context("cannot read the dump from QEMU")?;
        write_sparse(&chunk[..count], to, offset).context("cannot write the dump")?;
        offset += count as u64;
        if count < chunk.len() {
            break;
        }
    }
    // The end may be a hole.
    to.set_len(offset).context("cannot write the dump")
}

/// Reads until `chunk` is full or the input ends. Returns the number of bytes read.
fn fill(from: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < chunk.len() {
        match from.read(&mut chunk[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Writes a chunk at its offset, except its zeros. Adjacent blocks are written at once.
fn write_sparse(chunk: &[u8], to: &File, offset: u64) -> io::Result<()> {
    const ZEROES: [u8; HOLE] = [0; HOLE];
    let is_zero = |part: &[u8]| part == &ZEROES[..part.len()];
    let parts: Vec<&[u8]> = chunk.chunks(HOLE).collect();
    let mut at = offset;
    for run in parts.chunk_by(|one, other| is_zero(one) == is_zero(other)) {
        let start = (at - offset) as usize;
        let length: usize = run.iter().map(|part| part.len()).sum();
        if !is_zero(run[0]) {
            to.write_all_at(&chunk[start..start + length], at)?;
        }
        at += length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::MetadataExt};

    fn soon() -> Instant {
        Instant::now() + DUMP_DEADLINE
    }

    #[test]
    fn a_copy_is_the_same_and_has_holes() {
        let check = |data: &[u8], most_bytes_on_disk: u64| {
            let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            copy(data, file.as_file_mut(), soon()).unwrap();
            assert!(fs::read(file.path()).unwrap() == data, "another content of {} bytes", data.len());
            let bytes = file.as_file().metadata().unwrap().blocks() * 512;
            assert!(bytes <= most_bytes_on_disk, "{bytes} on disk of {}", data.len());
        };
        let mut data = vec![0; 3 * CHUNK + 7];
        check(&data, 0);
        data[CHUNK - 1] = 1;
        data[CHUNK] = 2;
        data[2 * CHUNK + HOLE + 5] = 3;
        check(&data, 64 << 10);
        check(&data[..CHUNK], 64 << 10);
        check(b"short", 64 << 10);
        check(b"", 0);
    }

    #[test]
    fn a_full_disk_is_said() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = copy(&[1; 10][..], &mut full, soon()).unwrap_err();
        assert!(format!("{error:#}").contains("No space left on device"), "{error:#}");
    }

    #[test]
    fn a_dump_without_end_meets_its_deadline() {
        let mut file = tempfile::tempfile().unwrap();
        let until = Instant::now() + Duration::from_millis(10);
        let error = copy(io::repeat(0), &mut file, until).unwrap_err();
        assert!(format!("{error:#}").contains("not done after"), "{error:#}");
    }
}
