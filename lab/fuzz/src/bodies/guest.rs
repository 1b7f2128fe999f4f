//! What a guest prints, and what its memory contains.

use super::{assert_printable, in_memory, walk_file};
use lab::{
    dump::{PostMortem, Section, dumped_build_id},
    kernel::{Types, text::Binary},
    machine::{mark_notes_complete, panic_line},
    selftest::{self, Ended},
    splat::{Binaries, blocked, decode, find},
};
use std::path::Path;

/// The maximum number of splats of a log, of frames of a splat, and of results of a program.
const SPLATS_MAX: usize = 32;
const FRAMES_MAX: usize = 64;
const RESULTS_MAX: usize = 1100;

/// An oops in a function of the seeds, so that its frames are looked up.
const OOPS: &str = "Internal error: Oops: 0000000096000004 [#1] SMP\npc : f+0x4/0x20\nCall trace:\n \
    f+0x4/0x20 (P)\n g+0x8/0x20\n";

/// Reads a kernel log or a console, which is also taken as the output of a selftest.
pub(super) fn logs(bytes: &[u8]) {
    let log = String::from_utf8_lossy(bytes);
    let _ = panic_line(&log);
    let splats = find(&log);
    let stacks = blocked(&log);
    assert!(splats.len() <= SPLATS_MAX && stacks.len() <= SPLATS_MAX, "{} splats", splats.len());
    for splat in splats.iter().chain(&stacks) {
        assert!(splat.frames.len() <= FRAMES_MAX, "{} frames", splat.frames.len());
        assert_printable(&splat.to_string());
    }
    for ended in [Ended::Exited(0), Ended::Exited(1), Ended::Signaled(9), Ended::TimedOut] {
        let results = selftest::read(&log, ended);
        assert!((1..=RESULTS_MAX).contains(&results.len()), "{} results", results.len());
        for result in results {
            assert!(!result.name.contains('\n'), "{result:?}");
            assert_printable(&result.name);
            assert_printable(&result.detail);
        }
    }
}

/// Reads a dump, a vmlinux, or the answer of drgn about a dump.
pub(super) fn vmcore(bytes: &[u8]) {
    if bytes.first() == Some(&b'{') {
        return post_mortem(bytes);
    }
    let (file, path) = in_memory(bytes);
    let _ = dumped_build_id(&path);
    vmlinux(&path);
    if mark_notes_complete(&file).is_ok() {
        let size = file.metadata().expect("its metadata").len();
        assert_eq!(size, bytes.len() as u64, "the dump has another size");
    }
}

/// Reads symbols, source lines, tables and types of an ELF file.
fn vmlinux(path: &Path) {
    let mut splats = find(OOPS);
    assert!(!splats.is_empty(), "the log has no splat");
    let binaries = Binaries { vmlinux: Some(path.to_owned()), ..Binaries::default() };
    let _ = decode(&mut splats, &binaries);
    let _ = (Types::of_vmlinux(path), Types::of_image(path));
    let sections = [".text", ".init.text"].map(|name| (name.to_owned(), 0xffff_8000_8000_0000));
    for binary in [Binary::vmlinux(path), Binary::module(path, sections.into())] {
        let Ok(binary) = binary else { continue };
        let _ = (binary.jump_entries(), binary.alternatives(), binary.section(".text"));
        let _ = (binary.code(), binary.loaded());
        for symbol in binary.symbols().unwrap_or_default().iter().take(100) {
            let _ = (binary.name(symbol), symbol.range(), binary.ftrace_site(symbol));
            let _ = (binary.instruction(symbol.address), binary.contents(symbol.address, 64));
        }
    }
}

/// Reads the answer of drgn, and writes the ring buffer in it as a trace file.
fn post_mortem(bytes: &[u8]) {
    let Ok(found) = serde_json::from_slice::<PostMortem>(bytes) else { return };
    let _ = found.to_string();
    let Some(Section::Found(ring_buffer)) = &found.trace else { return };
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("trace.dat");
    if ring_buffer.write(&path, "ffff800080000000 T first\n").is_ok() {
        walk_file(&path);
    }
}
