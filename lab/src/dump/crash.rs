//! The crash utility on a dump, for hosts without drgn: in a guest with a userland, which runs the same
//! kernel, with the dump shared in.
//!
//! crash knows nothing of the ring buffer, so it is asked for the newest sub-buffers of each CPU as for
//! any other memory. What it takes to decode them is in the tracefs of the guest: events of modules and
//! probes of the kernel that died are not, and have no names.

use super::{
    FoundDump, Part, RingBuffer,
    session::{Session, VMCORE},
};
use crate::{
    cache::Cache,
    guest, kernel,
    machine::Machine,
    progress::Progress,
    recording::VMLINUX,
    run::{boot_userland, machine_spec},
    scenario::WantedUserland,
};
use anyhow::{Context, Error, Result, bail};
use protocol::{Reply, Request};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The userland.
const USERLAND: &str = "debian";

/// How long the guest may take for a file of tracefs.
const DEADLINE: Duration = Duration::from_secs(60);

/// What crash is asked: the panic, the backtrace of the task that panicked with files and lines, the
/// modules.
const QUESTIONS: [&str; 3] = ["sys", "bt -l", "mod"];

/// The most sub-buffers of a CPU that are asked for, the newest.
const SUB_BUFFERS_MAX: usize = 8;

/// Bits of a link that say something of the sub-buffer behind it, and those of a commit field that are a
/// length, as in `ring_buffer.py`.
const LINK_FLAGS: u64 = 3;
const COMMIT_LENGTH: u64 = (1 << 20) - 1;

/// Bytes before the data of a sub-buffer: its time and its commit field.
const HEADER: usize = 16;

/// What a guest found in a dump.
#[derive(Debug)]
pub struct FoundByCrash {
    /// What crash said to each of its questions.
    pub answers: String,
    /// What was in the ring buffer, the newest of it.
    pub trace: Part<RingBuffer>,
}

/// Looks at a dump in a guest. `root` is the repository.
pub fn by_crash(cache: &Cache, root: &Path, found: &FoundDump, progress: &Progress) -> Result<FoundByCrash> {
    let kernel = kernel::build(cache, root, &found.kernel.name, None, progress)?;
    let guest = guest::build(cache, root, progress)?;
    let wanted = WantedUserland::named(USERLAND).map_err(Error::msg)?;
    let place = tempfile::tempdir_in(cache.directory("crash")?)?;
    let _task = progress.task("looking at the memory with crash, in a guest", None);
    let spec = machine_spec(&kernel, &guest)?;
    let shared = |_: &Path| Ok(shared(found));
    let mut machine = boot_userland(&spec, &wanted, &guest, place.path(), shared)?;
    let mut empty = empty_ring_buffer(&mut machine)?;
    let mut session = Session::start(&mut machine, &kernel.version)?;
    let mut answers = String::new();
    // Where it finds nothing for a module, it says so in its list.
    session.ask(&format!("mod -S {}", crate::machine::SHARED))?;
    for question in QUESTIONS {
        answers += &format!("crash> {question}\n{}\n", session.ask(question)?);
    }
    let trace = match fill(&mut session, &mut empty) {
        Ok(()) => Part::Found(empty),
        Err(error) => Part::Missing(format!("{error:#}")),
    };
    Ok(FoundByCrash { answers, trace })
}

/// The dump, the kernel and its modules. Of several builds of a module crash is given the newest.
fn shared(found: &FoundDump) -> Vec<(String, PathBuf)> {
    let dump = &found.dump;
    let newest = |(name, paths): (&String, &Vec<PathBuf>)| {
        let built = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
        Some((format!("{name}.ko"), paths.iter().max_by_key(|path| built(path))?.clone()))
    };
    let own = [(VMCORE.to_owned(), dump.vmcore.clone()), (VMLINUX.to_owned(), dump.vmlinux.clone())];
    dump.modules.iter().filter_map(newest).chain(own).collect()
}

/// What it takes to decode a ring buffer of this kernel, from a guest that runs it.
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

/// Adds the newest sub-buffers of each CPU, in the order of time.
fn fill(session: &mut Session<'_>, buffer: &mut RingBuffer) -> Result<()> {
    let size = page_size(&buffer.header_page).context("`header_page` does not say how large a page is")?;
    for cpu in 0..buffer.cpus {
        let said = session.ask(&format!("p -x global_trace.array_buffer.buffer->buffers[{cpu}]"))?;
        let address = said.rsplit("0x").next().and_then(hex);
        let Some(address) = address.filter(|&address| address != 0) else { continue };
        for page in newest(session, address, size)? {
            buffer.pages.push((cpu, crate::cache::hex(&page)));
        }
    }
    Ok(())
}

/// The newest sub-buffers of the CPU whose buffer is at `address`.
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
            // The one before is not written yet, or is the newest of the round before.
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

/// What is left of the sub-buffer that the reader has, as the kernel would hand it out.
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

/// Members of a struct, as numbers, in the order of their names.
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

/// `name = 0x…,`, whatever stands before the name.
fn member(said: &str, name: &str) -> Option<u64> {
    said.lines().find_map(|line| {
        let (before, value) = line.split_once(" = ")?;
        let own = before.trim().rsplit('.').next()?;
        hex(value.trim().strip_prefix("0x")?).filter(|_| own == name)
    })
}

/// The hexadecimal digits that a text begins with.
fn hex(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    u64::from_str_radix(&text[..end], 16).ok()
}

/// So many bytes of memory.
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

/// `ffff000001234560:  0123456789abcdef 0123456789abcdef`, line by line, as the bytes that they were.
fn words(said: &str) -> Vec<u8> {
    let lines = said.lines().filter_map(|line| line.split_once(":  "));
    let words = lines.flat_map(|(_, words)| words.split_whitespace());
    words.filter_map(|word| u64::from_str_radix(word, 16).ok()).flat_map(u64::to_le_bytes).collect()
}

/// The bytes of a sub-buffer: `data`'s offset and size.
fn page_size(header_page: &str) -> Option<usize> {
    let line = header_page.lines().find(|line| line.contains(" data;"))?;
    let number = |key: &str| line.split(key).nth(1)?.split(';').next()?.trim().parse::<usize>().ok();
    let size = number("offset:")? + number("size:")?;
    (size % 8 == 0 && (HEADER..=1 << 20).contains(&size)).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_crash_says() {
        // Of crash 8.0.6.
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
    }
}
