//! Copies the guest's console to a file of bounded size.

use anyhow::Result;
use fs_err::{self as fs, File};
use memchr::memmem;
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The maximum number of bytes of console that are kept; the rest is counted.
pub const CONSOLE_MAX: u64 = 8 << 20;

/// A console that prints nothing for this time has printed what it was asked for.
const SETTLED: Duration = Duration::from_millis(300);

/// The maximum time to wait for that.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// Copies the console until QEMU exits.
#[derive(Debug)]
pub(super) struct Console {
    socket: UnixStream,
    path: PathBuf,
    copier: Option<JoinHandle<()>>,
    /// Whether the last line of a panic was printed.
    pub(super) panicked: Arc<AtomicBool>,
}

impl Console {
    /// Copies data from `socket` to the file `path`.
    pub(super) fn copy(socket: UnixStream, path: &Path) -> Result<Console> {
        File::create(path)?;
        // In append mode, so that the lab's own lines appear in order between the guest's.
        let file = open_to_append(path)?;
        let reader = socket.try_clone()?;
        let panicked = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&panicked);
        let copier =
            thread::Builder::new().name("console".into()).spawn(move || copy(reader, file, &seen))?;
        Ok(Console { socket, path: path.to_owned(), copier: Some(copier), panicked })
    }

    /// Moves the file; later output also goes there.
    pub(super) fn move_to(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.path = path.to_owned();
        Ok(())
    }

    /// Returns the guest's output so far.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.path).unwrap_or_default()).replace('\r', "")
    }

    /// Returns whether the kernel panicked, also if the panic was dropped, or hung before its last line.
    pub(super) fn shows_panic(&self) -> bool {
        self.panicked.load(Relaxed) || panicked(&self.text())
    }

    /// Types a key.
    pub(super) fn press(&self, key: u8) -> io::Result<()> {
        (&self.socket).write_all(&[key])
    }

    /// Waits until the guest prints nothing more.
    pub(super) fn settle(&self) {
        let length = || fs::metadata(&self.path).map_or(0, |file| file.len());
        let until = Instant::now() + SETTLE_MAX;
        let mut before = None;
        while before != Some(length()) && Instant::now() < until {
            before = Some(length());
            thread::sleep(SETTLED);
        }
    }

    /// Adds a line of the lab.
    pub(super) fn mark(&self, line: &str) {
        // If this fails, a splat is not attributed to a step; the run continues.
        let _ =
            open_to_append(&self.path).and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }

    /// Waits until everything is copied. QEMU must have exited, otherwise this does not return.
    pub(super) fn finish(&mut self) {
        if let Some(copier) = self.copier.take() {
            // A copier that panicked has nothing more to copy.
            let _ = copier.join();
        }
    }
}

fn open_to_append(path: &Path) -> io::Result<File> {
    File::options().append(true).open(path)
}

fn copy(mut socket: UnixStream, mut file: File, panicked: &AtomicBool) {
    let mut kept = 0;
    let mut dropped: u64 = 0;
    let mut buffer = [0; 8192];
    let mut latest = Vec::new();
    while let Ok(count @ 1..) = socket.read(&mut buffer) {
        // A read can end in the middle of it.
        latest.drain(..latest.len().saturating_sub(PANIC_END.len()));
        latest.extend_from_slice(&buffer[..count]);
        if memmem::find(&latest, PANIC_END).is_some() {
            panicked.store(true, Relaxed);
        }
        let room = usize::try_from(CONSOLE_MAX - kept).unwrap_or(usize::MAX).min(count);
        // A full disk loses the console, not the run: its verdict does not depend on this file
        // alone.
        let written = if file.write_all(&buffer[..room]).is_ok() { room } else { 0 };
        kept += written as u64;
        dropped += (count - written) as u64;
    }
    if dropped > 0 {
        let _ = writeln!(file, "\n[ftrace-lab: {dropped} more bytes of console were dropped]");
    }
}

/// The start of the line in which the kernel gives the reason for a panic.
const PANIC: &str = "Kernel panic - not syncing: ";

/// The start of the last line of a panic.
const PANIC_END: &[u8] = b"---[ end Kernel panic - not syncing";

/// Returns the reason for a panic from the text of a console.
pub fn panic_line(console: &str) -> String {
    let line = console.lines().find_map(|line| line.split_once(PANIC).map(|(_, reason)| reason.trim()));
    line.unwrap_or("the console does not say why").to_owned()
}

/// Returns whether a kernel without a pvpanic driver panicked.
fn panicked(console: &str) -> bool {
    console.contains(PANIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_panic_is_found() {
        let console = "[    1.2] Run /init\n[    1.3] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0\n[    1.3] CPU: 0\n";
        assert_eq!(panic_line(console), "Attempted to kill init! exitcode=0x0");
        assert_eq!(panic_line(""), "the console does not say why");
        assert!(panicked(console) && !panicked("[    1.2] Run /init\n"));
    }

    #[test]
    fn a_panic_is_seen_however_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        for parts in
            [["---[ end Kernel pan", "ic - not syncing: x ]---\n"], ["Kernel panic - not syncing", ": x\n"]]
        {
            let (mut guest, lab) = UnixStream::pair().unwrap();
            let mut console = Console::copy(lab, &directory.path().join("console.txt")).unwrap();
            for part in parts {
                guest.write_all(part.as_bytes()).unwrap();
                while !console.text().ends_with(part) {
                    thread::yield_now();
                }
            }
            drop(guest);
            console.finish();
            assert_eq!(console.panicked.load(Relaxed), parts[0].contains("end"), "{parts:?}");
        }
    }

    #[test]
    fn a_panic_after_a_flood_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let (mut guest, lab) = UnixStream::pair().unwrap();
        let mut console = Console::copy(lab, &directory.path().join("console.txt")).unwrap();
        guest.write_all(&vec![b'x'; CONSOLE_MAX as usize]).unwrap();
        guest
            .write_all(b"Kernel panic - not syncing: y\n---[ end Kernel panic - not syncing: y ]---\n")
            .unwrap();
        drop(guest);
        console.finish();
        assert!(!console.text().contains(PANIC) && console.shows_panic());
    }

    #[test]
    fn a_flood_is_capped_and_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("console.txt");
        let (mut guest, lab) = UnixStream::pair().unwrap();
        let mut console = Console::copy(lab, &path).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..9 {
            guest.write_all(&chunk).unwrap();
        }
        drop(guest);
        console.finish();
        let text = console.text();
        assert!(text.ends_with("[ftrace-lab: 1048576 more bytes of console were dropped]\n"));
        assert!(text.len() < (8 << 20) + 100);
    }
}
