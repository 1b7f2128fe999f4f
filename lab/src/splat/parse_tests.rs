//! Tests on lines and reports as kernels print them.

use super::*;

#[test]
fn times_levels_and_callers_are_taken_off() {
    let check = |line, time, text| assert_eq!(split_time(line), (time, text), "{line}");
    check("<4>[    2.104242] WARNING: x", Some(2.104242), "WARNING: x");
    check("[    2.1][   T44] BUG: y", Some(2.1), "BUG: y");
    check("[    2.1][    C1]  f+0x1/0x2", Some(2.1), "f+0x1/0x2");
    check("[ BUG: Invalid wait context ]", None, "[ BUG: Invalid wait context ]");
    check("plain", None, "plain");
    check("[", None, "[");
}

#[test]
fn frames_are_told_from_other_lines() {
    let check = |text: &str, expect: Option<(&str, u64, u64, Option<&str>)>| {
        let found = frame(text);
        let found = found
            .as_ref()
            .map(|frame| (frame.symbol.as_str(), frame.offset, frame.size, frame.module.as_deref()));
        assert_eq!(found, expect, "{text}");
    };
    check("vfs_write+0x10/0x20", Some(("vfs_write", 16, 32, None)));
    check("f.isra.0+0x1c/0x3c [deaths] (P)", Some(("f.isra.0", 28, 60, Some("deaths"))));
    check("f+0x0/0x3c [deaths f00dcafe]", Some(("f", 0, 60, Some("deaths"))));
    check("f+0x4/0x8 (P)", Some(("f", 4, 8, None)));
    check("Code: aa1e03e9 d503201f", None);
    check("0xffff800080001234", None);
    check("f+0xffffffffffffffffff/0x1", None);
}

const HEAD: &str =
    "CPU: 1 PID: 40 Comm: insmod Not tainted 5.10.0 #1\nHardware name: linux,dummy-virt (DT)\n";

#[test]
fn a_stack_dump_is_a_splat_unless_something_announced_it() {
    let check = |log: &str, expect: &[(&str, &str, &str)]| {
        let found = find(log);
        let found: Vec<_> = found
            .iter()
            .map(|splat| (splat.kind.as_str(), splat.title.as_str(), splat.task.as_str()))
            .collect();
        assert_eq!(found, expect, "{log}");
    };
    let task = "insmod (40) on CPU 1";
    let dump = format!("{HEAD}Call trace:\n dump_backtrace+0x0/0x8\n dump_stack+0x0/0x8\n f+0x1/0x2\nrest\n");
    let bare = ("stack dump", "dump_stack() in f", task);
    check(&dump, &[bare]);
    check(&format!("WARNING: x\n{dump}"), &[("warning", "WARNING: x", task)]);
    check(&format!("NMI backtrace for cpu 1\n{dump}"), &[]);
    check(&format!("a invoked oom-killer: gfp_mask=0x0\n{dump}"), &[]);
    check("task:init state:D\nCall trace:\n f+0x1/0x2\n", &[]);
    check(&format!("{HEAD}{}Call trace:\n f+0x1/0x2\n", "x0 : 0\n".repeat(9)), &[]);
    // A leak has no stack of its own.
    let leaks = "kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)";
    check(&format!("{leaks}\n{dump}"), &[("kmemleak", leaks, ""), bare]);
    let unknown = "kmemleak: Freeing unknown object at 0xffff000003b61c48";
    check(&format!("{unknown}\n{dump}"), &[("kmemleak", unknown, task)]);
    // The reason stands before the dump.
    let positive = "do_init_module: 'm'->init suspiciously returned 2, it should follow 0/-E convention";
    let log = format!("{positive}\ndo_init_module: loading module anyway...\n{dump}");
    check(&log, &[("positive init", positive, task)]);
}

#[test]
fn slub_dumps_the_stack_after_the_bytes_of_the_object() {
    let title = "BUG kmalloc-4k (Not tainted): Right Redzone overwritten";
    let bytes =
        "Object   ffff000003b61c40: 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b  kkkkkkkkkkkkkkkk\n";
    let log =
        format!("{title}\n{}{HEAD}Call trace:\n f+0x1/0x2\nFIX kmalloc-4k: Restoring\n", bytes.repeat(256));
    let [splat] = <[Splat; 1]>::try_from(find(&log)).unwrap();
    assert_eq!((splat.kind.as_str(), splat.title.as_str(), splat.frames.len()), ("SLUB", title, 1));
}

#[test]
fn a_flood_of_splats_is_capped() {
    let log = |n| format!("BUG: a\nCall trace:\n f{n}+0x1/0x2\n") + &" f+0x1/0x2\n".repeat(1000);
    let splats = find(&(0..100).map(log).collect::<String>());
    assert_eq!((splats.len(), splats[0].frames.len()), (SPLATS_MAX, FRAMES_MAX));
    let same = find(&log(1).repeat(100));
    assert_eq!((same.len(), same[0].times), (1, 100));
    let long = find(&format!("BUG: {}", "x".repeat(100_000)));
    assert_eq!(long[0].title.len(), TITLE_MAX);
}
