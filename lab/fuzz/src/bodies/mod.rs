//! The bodies of the fuzz targets. The tests of `lab` run them on every input that ever failed, so
//! nothing here depends on the fuzzer.

mod artifacts;
mod guest;

use artifacts::{histories, kernels, recordings, reproducers, results};
use guest::{logs, vmcore};

use lab::scenario::{Project, Scenario};
use protocol::{Reply, Request, read_frame};
use rustix::fs::{MemfdFlags, memfd_create};
use std::{
    fs::File,
    io::Write,
    ops::ControlFlow,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};
use trace::{EventFormat, Item, Trace, page::PageLayout};

/// What a target does with an input.
pub(crate) type Body = fn(&[u8]);

/// The fuzz targets.
pub(crate) const TARGETS: [(&str, Body); 13] = [
    ("pages", pages),
    ("layouts", layouts),
    ("formats", formats),
    ("trace_dat", trace_dat),
    ("frames", frames),
    ("scenarios", scenarios),
    ("results", results),
    ("recordings", recordings),
    ("logs", logs),
    ("vmcore", vmcore),
    ("kernels", kernels),
    ("reproducers", reproducers),
    ("histories", histories),
];

/// The size of a page of `HEADER_PAGE`, in bytes.
const PAGE: usize = 4096;

const HEADER_PAGE: &[u8] = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

const HEADER_EVENT: &[u8] = b"# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

/// An event with a field of every kind, as the kernel prints formats.
const EVERY_KIND: &[u8] = b"name: every_kind\nID: 1\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:__data_loc char[] name;\toffset:16;\tsize:4;\tsigned:0;\n\
    \tfield:__rel_loc u32[] list;\toffset:20;\tsize:4;\tsigned:0;\n\
    \tfield:__data_loc char[][2] many;\toffset:24;\tsize:8;\tsigned:0;\n\
    \tfield:s16 odd[3];\toffset:32;\tsize:6;\tsigned:1;\n\
    \tfield:char comm[16];\toffset:38;\tsize:16;\tsigned:0;\n\
    \tfield:struct pair pair;\toffset:54;\tsize:10;\tsigned:0;\n\
    \tfield:long flags;\toffset:64;\tsize:8;\tsigned:1;\n\n\
    print fmt: \"%pS %s %*.*s flags=%s kind=%s list=%s\", (void *)REC->ip, __get_str(name), 3, 4, \
    REC->comm, REC->flags ? __print_flags(REC->flags, \"|\", { 1, \"A\" }, { 0x2, \"B\" }) : \"0\", \
    __print_symbolic(REC->odd[1], { 0, \"none\" }), __print_array(__get_rel_dynamic_array(list), 2, 4)\n";

/// Parses a scenario file, and the file of a project.
fn scenarios(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Scenario::parse(Path::new("x.yaml"), &text) {
        assert!(!error.to_string().is_empty(), "an error without a message");
    }
    if let Err(error) = Project::parse(Path::new("ftrace-lab.yaml"), &text) {
        assert!(!error.to_string().is_empty(), "an error without a message");
    }
}

/// Reads the sub-buffers of one CPU.
fn pages(bytes: &[u8]) {
    let whole = bytes.len().next_multiple_of(PAGE);
    let mut pages = bytes.to_vec();
    pages.resize(whole, 0);
    walk(&trace_dat_of(EVERY_KIND, &pages));
}

/// Reads the text of a `header_page` and, after a NUL, a page with that layout.
fn layouts(bytes: &[u8]) {
    let [layout, page] = parts(bytes);
    let Ok(layout) = PageLayout::parse(&String::from_utf8_lossy(layout)) else { return };
    let mut page = page.to_vec();
    page.resize(layout.size(), 0);
    let Ok(header) = layout.page(&page) else { return };
    let (mut cursor, mut last) = (header.cursor, 0);
    while let Ok(Some(record)) = cursor.next(&page) {
        assert!(record.payload.start >= last && record.payload.end <= page.len(), "records overlap");
        last = record.payload.end;
    }
}

/// Reads the text of a `format` file and, after a NUL, a record of that event.
fn formats(bytes: &[u8]) {
    let [format, record] = parts(bytes);
    tables(&String::from_utf8_lossy(format));
    // One page with one record: page header, record header, a word with the record's size, record.
    let record = &record[..record.len().min(PAGE - 24)];
    let length = record.len().next_multiple_of(4);
    let mut page = vec![0; PAGE];
    page[8..16].copy_from_slice(&(length as u64 + 8).to_le_bytes());
    page[20..24].copy_from_slice(&(length as u32 + 4).to_le_bytes());
    page[24..24 + record.len()].copy_from_slice(record);
    walk(&trace_dat_of(format, &page));
}

/// Looks up names in the tables of flags and symbols of a print format.
fn tables(text: &str) {
    for group in ["ftrace", "sched"] {
        let Ok(format) = EventFormat::parse(group, text, 8) else { continue };
        for field in format.fields() {
            for table in format.symbolic(&field.name).into_iter().chain(format.flags(&field.name)) {
                let _ = (table.text(0), table.text(u64::MAX), table.value("A"));
            }
        }
    }
}

/// Reads a whole trace file.
fn trace_dat(bytes: &[u8]) {
    walk(bytes);
}

/// Reads the frames of the agent's port, in either direction.
fn frames(bytes: &[u8]) {
    let mut port = bytes;
    while let Ok(reply) = read_frame::<Reply>(&mut port) {
        let again = protocol::encode(&reply).expect("encoding a decoded reply");
        assert_eq!(read_frame::<Reply>(&mut &again[..]).expect("decoding it again"), reply);
    }
    let mut port = bytes;
    while let Ok(request) = read_frame::<Request>(&mut port) {
        let again = protocol::encode(&request).expect("encoding a decoded request");
        assert_eq!(read_frame::<Request>(&mut &again[..]).expect("decoding it again"), request);
    }
}

/// Reads everything in a trace file.
fn walk(bytes: &[u8]) {
    let (_file, path) = in_memory(bytes);
    walk_file(&path);
}

/// Reads everything in the trace file at `path`.
fn walk_file(path: &Path) {
    let Ok(trace) = Trace::open(path) else { return };
    let _ = trace.for_each(|item| {
        if let Item::Event(event) = item {
            for (_, value) in event.fields() {
                let _ = event.metadata().symbols().resolve(value.as_u64().unwrap_or_default());
            }
            let _ = trace.display(&event);
        }
        Ok(ControlFlow::Continue(()))
    });
}

/// Returns a file in memory with this content, and its path.
fn in_memory(bytes: &[u8]) -> (File, PathBuf) {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC).expect("a file in memory"));
    file.write_all(bytes).expect("writing to memory");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    (file, path)
}

/// Returns the parts of an input, which are separated by NULs. All but the first may be missing, and are
/// then empty.
fn parts<const N: usize>(bytes: &[u8]) -> [&[u8]; N] {
    let mut parts = bytes.splitn(N, |&byte| byte == 0);
    [(); N].map(|()| parts.next().unwrap_or_default())
}

/// Checks that text from elsewhere neither moves the cursor nor begins a command.
fn assert_printable(text: &str) {
    let odd = text.chars().find(|&c| c.is_control() && c != '\n' && c != '\t');
    assert!(odd.is_none(), "{odd:?} in {text:?}");
}

/// Returns a version 6 file of one CPU, with one event's format and pages.
fn trace_dat_of(format: &[u8], pages: &[u8]) -> Vec<u8> {
    let mut file = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    file.extend((PAGE as u32).to_le_bytes());
    let sized = |file: &mut Vec<u8>, text: &[u8]| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text);
    };
    file.extend(b"header_page\0");
    sized(&mut file, HEADER_PAGE);
    file.extend(b"header_event\0");
    sized(&mut file, HEADER_EVENT);
    // No events of ftrace, one system with one event.
    file.extend([0; 4]);
    file.extend([1, 0, 0, 0]);
    file.extend(b"fuzz\0");
    file.extend([1, 0, 0, 0]);
    sized(&mut file, format);
    let symbols = b"ffff800080000000 t first\nffff800080001000 T second\n";
    file.extend((symbols.len() as u32).to_le_bytes());
    file.extend(symbols);
    // No printk formats, one task name, one CPU.
    file.extend([0; 4]);
    sized(&mut file, b"1 init\n");
    file.extend([1, 0, 0, 0]);
    file.extend(b"flyrecord\0");
    let start = (file.len() + 16).next_multiple_of(PAGE);
    file.extend((start as u64).to_le_bytes());
    file.extend((pages.len() as u64).to_le_bytes());
    file.resize(start, 0);
    file.extend(pages);
    file
}
