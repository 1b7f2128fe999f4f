//! Golden tests on logs of real kernels. `UPDATE_EXPECT=1` rewrites the expected results.

use super::*;
use std::{fs, path::Path};

/// Returns a log's splats, then its stacks, with everything that was read of them.
fn rendered(log: &str) -> String {
    let mut text = String::new();
    for splat in find(log).into_iter().chain(blocked(log)) {
        let time = splat.time.map_or_else(|| "-".to_owned(), |time| format!("{time:.6}"));
        text += &format!("{} at {time}\n{splat}", splat.severity);
        for (name, value) in &splat.registers {
            text += &format!("  {name}={value}\n");
        }
        text.push('\n');
    }
    text
}

#[test]
fn real_logs_are_read_as_recorded() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/splats");
    let mut logs: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    assert!(logs.len() >= 10, "only {} logs in {}", logs.len(), directory.display());
    for path in logs {
        let log = fs::read_to_string(&path).unwrap();
        assert!(log.starts_with("# "), "`{}` does not say where it comes from", path.display());
        let found = rendered(&log);
        let expected = path.with_extension("expect");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        let expect = fs::read_to_string(&expected).unwrap_or_default();
        assert!(found == expect, "`{}` is read differently:\n{found}", path.display());
    }
}

#[test]
fn a_log_without_complaints_has_no_splats() {
    let log = "[    0.000000] Booting Linux on physical CPU 0x0\n\
        <6>[    0.9] Run /init as init process\n\
        <14>[    1.0] ftrace-lab: step 1\n\
        <4>[    1.1] deaths: loading out-of-tree module taints kernel.\n";
    assert_eq!(find(log), []);
    assert_eq!(blocked(log), []);
}

#[test]
fn a_splat_belongs_to_the_step_before_it() {
    let log = format!(
        "<4>[ 0.5] WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1/0x2\n{}\n<4>[ 1.0] WARNING: CPU: 0 PID: 1 at b.c:1 \
         g+0x1/0x2\n<14>[ 2.0] {}\nBUG: h\n",
        step_mark(1),
        step_mark(2)
    );
    let steps: Vec<_> = find(&log).iter().map(|splat| splat.step).collect();
    assert_eq!(steps, [None, Some(1), Some(2)]);
}

#[test]
fn an_oops_is_one_splat_and_the_panic_it_becomes_another() {
    let log = "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000\n\
        Internal error: Oops: 0000000096000044 [#1] PREEMPT SMP\n\
        pc : f+0x10/0x20\n\
        Call trace:\n f+0x10/0x20\n g+0x4/0x8 [m]\n\
        ---[ end trace 0000000000000000 ]---\n\
        Kernel panic - not syncing: Oops: Fatal exception in interrupt\n\
        ---[ end Kernel panic - not syncing: Oops: Fatal exception in interrupt ]---\n";
    let found: Vec<_> =
        find(log).into_iter().map(|splat| (splat.severity, splat.kind, splat.frames.len())).collect();
    assert_eq!(found, [(Severity::Oops, "oops".into(), 2), (Severity::Panic, "panic".into(), 0)]);
}
