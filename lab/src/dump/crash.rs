//! Reads a dump with the crash utility, for hosts without drgn: in a guest with a userland that runs the
//! same kernel and shares the dump.
//!
//! crash has no command for the ring buffer, so the newest sub-buffers of each CPU are read as plain
//! memory. The guest's tracefs provides the formats to decode them, except for events of modules and
//! probes of the kernel that panicked: those have no names.

use super::{
    FoundDump, RingBuffer, Section,
    session::{Session, VMCORE},
};
use crate::{
    context::Lab,
    guest,
    kernel::{self, build_id, text::map},
    machine::{Machine, VMLINUX, boot_userland, machine_spec},
    scenario::UserlandSpec,
};
use anyhow::{Context, Error, Result, bail};
use fs_err as fs;
use memchr::memmem;
use protocol::{Reply, Request};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

/// The userland with crash.
const USERLAND: &str = "debian";

/// The time limit for reading a file of tracefs in the guest.
const DEADLINE: Duration = Duration::from_secs(60);

/// The commands to crash: the panic, the backtrace of the task that panicked with files and lines, the
/// modules.
const QUESTIONS: [&str; 3] = ["sys", "bt -l", "mod"];

/// The maximum number of sub-buffers read per CPU, the newest ones.
const SUB_BUFFERS_MAX: usize = 8;

/// The flag bits of a link between sub-buffers, and the length bits of a commit field, as in
/// `ring_buffer.py`.
const LINK_FLAGS: u64 = 3;
const COMMIT_LENGTH: u64 = (1 << 20) - 1;

/// The size in bytes of a sub-buffer's header: its timestamp and its commit field.
const HEADER: usize = 16;

/// The header of an ELF note with a build ID: the sizes of its name and of the ID, its type, its name.
const BUILD_ID_NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";

/// The size in bytes of a build ID.
const BUILD_ID_SIZE: usize = 20;

/// The answers of crash about a dump.
#[derive(Debug)]
pub struct CrashReport {
    /// The output of crash for each command.
    pub answers: String,
    /// The newest contents of the ring buffer.
    pub trace: Section<RingBuffer>,
}

/// Looks at a dump in a guest.
pub fn by_crash(lab: &Lab, found: &FoundDump) -> Result<CrashReport> {
    let kernel = kernel::build(lab, &found.kernel.name, None)?;
    let guest = guest::build(lab)?;
    let wanted = UserlandSpec::named(USERLAND).map_err(Error::msg)?;
    let place = tempfile::tempdir_in(lab.cache.directory("crash")?)?;
    let _task = lab.progress.task("reading the dump with crash in a guest", None);
    let spec = machine_spec(&kernel, &guest)?;
    let shared = |_: &Path| shared(found, &kernel.release);
    let mut machine = boot_userland(&spec, &wanted, (&kernel, &guest), place.path(), shared)?;
    let mut empty = empty_ring_buffer(&mut machine)?;
    let mut session = Session::start(&mut machine, &kernel.version)?;
    let mut answers = String::new();
    // The output of `mod` shows modules for which it finds nothing.
    session.ask(&format!("mod -S {}", crate::machine::SHARED))?;
    for question in QUESTIONS {
        answers += &format!("crash> {question}\n{}\n", session.ask(question)?);
    }
    let trace = match fill(&mut session, &mut empty) {
        Ok(()) => Section::Found(empty),
        Err(error) => Section::Missing(format!("{error:#}")),
    };
    Ok(CrashReport { answers, trace })
}

/// Returns the files to share: dump, kernel and modules. Of several builds of a module for kernels of this
/// release, the one whose build ID is in the dumped memory, else the newest.
fn shared(found: &FoundDump, release: &str) -> Result<Vec<(String, PathBuf)>> {
    let dump = &found.dump;
    let mut shared =
        vec![(VMCORE.to_owned(), dump.vmcore.clone()), (VMLINUX.to_owned(), dump.vmlinux.clone())];
    let vermagic = format!("vermagic={release} ");
    let loaded = build_ids(&map(&dump.vmcore)?);
    for (name, paths) in &dump.modules {
        let mut best = None;
        for path in paths {
            if memmem::find(&fs::read(path)?, vermagic.as_bytes()).is_none() {
                continue;
            }
            let is_loaded = build_id(path).is_ok_and(|id| loaded.contains(&id));
            let rank = (is_loaded, path.metadata()?.modified()?);
            if best.is_none_or(|(highest, _)| rank > highest) {
                best = Some((rank, path));
            }
        }
        shared.extend(best.map(|(_, path)| (format!("{name}.ko"), path.clone())));
    }
    Ok(shared)
}

/// Returns the build IDs whose ELF notes are in memory, as those of loaded modules are.
fn build_ids(memory: &[u8]) -> BTreeSet<String> {
    let ids = memmem::find_iter(memory, BUILD_ID_NOTE).map(|at| at + BUILD_ID_NOTE.len());
    ids.filter_map(|at| memory.get(at..at + BUILD_ID_SIZE)).map(crate::words::hex).collect()
}

/// Returns an empty ring buffer with the formats of this kernel, from a guest that runs it.
fn empty_ring_buffer(machine: &mut Machine) -> Result<RingBuffer> {
    let systems = names(machine, "events")?;
    let mut formats = Vec::new();
    for system in systems.iter().filter_map(|name| name.strip_suffix('/')) {
        let events = names(machine, &format!("events/{system}"))?;
        let events: Vec<&str> = events.iter().filter_map(|name| name.strip_suffix('/')).collect();
        let paths: Vec<String> =
            events.iter().map(|event| format!("events/{system}/{event}/format")).collect();
        let texts = texts(machine, &paths)?;
        formats.extend(texts.into_iter().map(|text| (system.to_owned(), text)));
    }
    let cpus = machine.hello().cpus;
    let header_page = text(machine, "events/header_page")?;
    let printk_formats = text(machine, "printk_formats")?;
    Ok(RingBuffer {
        cpus,
        header_page,
        formats,
        saved_cmdlines: String::new(),
        printk_formats,
        symbols: String::new(),
        clock: "local".to_owned(),
        pages: Vec::new(),
    })
}

fn names(machine: &mut Machine, path: &str) -> Result<Vec<String>> {
    match machine.call(&Request::ListDirectory { path: path.to_owned() }, DEADLINE)? {
        Reply::Names(names) => Ok(names),
        other => bail!("cannot list `{path}` of the guest: {other:?}"),
    }
}

fn text(machine: &mut Machine, path: &str) -> Result<String> {
    let texts = texts(machine, &[path.to_owned()])?;
    texts.into_iter().next().with_context(|| format!("the guest has no `{path}`"))
}

fn texts(machine: &mut Machine, paths: &[String]) -> Result<Vec<String>> {
    let read = |path: &String| Request::ReadFile { path: path.clone(), max: 512 << 10 };
    let replies = machine.call_all(&paths.iter().map(read).collect::<Vec<_>>(), DEADLINE)?;
    let texts = replies.into_iter().filter_map(|reply| match reply {
        Reply::Data(data) => Some(String::from_utf8_lossy(&data).into_owned()),
        _ => None,
    });
    Ok(texts.collect())
}

/// Adds the newest sub-buffers of each CPU in chronological order.
fn fill(session: &mut Session<'_>, buffer: &mut RingBuffer) -> Result<()> {
    let size = page_size(&buffer.header_page).context("`header_page` does not contain the size of a page")?;
    for cpu in 0..buffer.cpus {
        let said = session.ask(&format!("p -x global_trace.array_buffer.buffer->buffers[{cpu}]"))?;
        let address = said.rsplit("0x").next().and_then(hex);
        let Some(address) = address.filter(|&address| address != 0) else { continue };
        for page in newest(session, address, size)? {
            buffer.pages.push((cpu, crate::words::hex(&page)));
        }
    }
    Ok(())
}

/// Reads the newest sub-buffers of the CPU whose buffer is at `address`.
fn newest(session: &mut Session<'_>, address: u64, size: usize) -> Result<Vec<Vec<u8>>> {
    let of = "struct ring_buffer_per_cpu.commit_page,reader_page,read_stamp";
    let [commit, reader, read_stamp] =
        members(session, of, address, ["commit_page", "reader_page", "read_stamp"])?;
    let mut pages = Vec::new();
    let mut page = commit;
    while page != reader && pages.len() < SUB_BUFFERS_MAX {
        let [prev, at] = members(session, "struct buffer_page.list.prev,page", page, ["prev", "page"])?;
        pages.push(memory(session, at, size)?);
        page = prev & !LINK_FLAGS;
        let [next] = members(session, "struct buffer_page.list.next", page, ["next"])?;
        if next & LINK_FLAGS != 0 {
            // The previous one is not written yet, or is the newest of the previous round.
            page = reader;
        }
    }
    if pages.len() < SUB_BUFFERS_MAX {
        let [read, at] = members(session, "struct buffer_page.read,page", reader, ["read", "page"])?;
        pages.extend(unread(memory(session, at, size)?, read as usize, read_stamp));
    }
    pages.reverse();
    Ok(pages)
}

/// Returns the unread rest of the reader page, as the kernel would return it.
fn unread(mut page: Vec<u8>, read: usize, read_stamp: u64) -> Option<Vec<u8>> {
    let word = |page: &[u8], at: usize| page.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let committed = (word(&page, 8)? & COMMIT_LENGTH) as usize;
    if read >= committed || HEADER + committed > page.len() {
        return None;
    }
    if read > 0 {
        page.drain(HEADER..HEADER + read);
        page.resize(page.len() + read, 0);
        page[..8].copy_from_slice(&read_stamp.to_le_bytes());
        page[8..16].copy_from_slice(&((committed - read) as u64).to_le_bytes());
    }
    Some(page)
}

/// Reads members of a struct as numbers, in the order of `names`.
fn members<const N: usize>(
    session: &mut Session<'_>,
    of: &str,
    address: u64,
    names: [&str; N],
) -> Result<[u64; N]> {
    let said = session.ask(&format!("{of} {address:#x} -x"))?;
    let mut found = [0; N];
    for (value, name) in found.iter_mut().zip(names) {
        *value = member(&said, name).with_context(|| format!("`{of}` has no `{name}`: {}", said.trim()))?;
    }
    Ok(found)
}

/// Parses a line `name = 0x…,`; the name may have a prefix such as `list.`.
fn member(said: &str, name: &str) -> Option<u64> {
    said.lines().find_map(|line| {
        let (before, value) = line.split_once(" = ")?;
        let own = before.trim().rsplit('.').next()?;
        hex(value.trim().strip_prefix("0x")?).filter(|_| own == name)
    })
}

/// Parses the hexadecimal digits at the beginning of a string.
fn hex(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).ok()
}

/// Reads `size` bytes of memory.
fn memory(session: &mut Session<'_>, address: u64, size: usize) -> Result<Vec<u8>> {
    let said = session.ask(&format!("rd -64 -x {address:#x} {}", size / 8))?;
    let bytes = words(&said);
    match bytes.len() == size {
        true => Ok(bytes),
        false => bail!(
            "crash cannot read {size} bytes at {address:#x}: {}",
            said.chars().take(200).collect::<String>()
        ),
    }
}

/// Converts lines like `ffff000001234560:  0123456789abcdef 0123456789abcdef` to the bytes in memory.
fn words(said: &str) -> Vec<u8> {
    let lines = said.lines().filter_map(|line| line.split_once(":  "));
    let words = lines.flat_map(|(_, words)| words.split_whitespace());
    words.filter_map(|word| u64::from_str_radix(word, 16).ok()).flat_map(u64::to_le_bytes).collect()
}

/// Returns the size of a sub-buffer in bytes: the offset of `data` plus its size.
fn page_size(header_page: &str) -> Option<usize> {
    let line = header_page.lines().find(|line| line.contains(" data;"))?;
    let number = |key: &str| line.split(key).nth(1)?.split(';').next()?.trim().parse::<usize>().ok();
    let size = number("offset:")?.checked_add(number("size:")?)?;
    (size % 8 == 0 && (HEADER..=1 << 20).contains(&size)).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_crash_says() {
        // From crash 8.0.6.
        let said = "  commit_page = 0xffff000001a2b3c0,\n  list.prev = 0xffff000001a2b3c1,\n  read = 0x10,\n";
        let check = |name, expect| assert_eq!(member(said, name), expect, "{name}");
        check("commit_page", Some(0xffff_0000_01a2_b3c0));
        check("prev", Some(0xffff_0000_01a2_b3c1));
        check("read", Some(0x10));
        check("page", None);
        assert_eq!(words("ffff000001a2b3c0:  0000000000000001 ff00000000000000\n").len(), 16);
        assert!(words("rd: invalid address\n").is_empty());
    }

    #[test]
    fn build_ids_are_found_in_memory() {
        let note = [BUILD_ID_NOTE, &[0xab; BUILD_ID_SIZE]].concat();
        let memory = [b"before".as_slice(), &note, b"between", &note[..note.len() - 1]].concat();
        assert_eq!(build_ids(&memory), BTreeSet::from(["ab".repeat(BUILD_ID_SIZE)]));
    }

    #[test]
    fn a_page_that_was_read_in_part_has_the_rest() {
        let mut page = vec![0; 64];
        page[8] = 24;
        page[16..40].copy_from_slice(&[7; 24]);
        page[16] = 1;
        assert_eq!(unread(page.clone(), 24, 9), None);
        assert_eq!(unread(page.clone(), 0, 9), Some(page.clone()));
        let rest = unread(page, 8, 9).unwrap();
        assert_eq!((rest[0], rest[8], rest[16], rest[31], rest[32], rest.len()), (9, 16, 7, 7, 0, 64));
    }

    #[test]
    fn the_size_of_a_page_is_in_its_header() {
        let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
        assert_eq!(page_size(header), Some(4096));
        assert_eq!(page_size("\tfield: char data;\toffset:16;\tsize:x;\n"), None);
        let huge = format!("\tfield: char data;\toffset:16;\tsize:{};\n", u64::MAX);
        assert_eq!(page_size(&huge), None);
    }
}
