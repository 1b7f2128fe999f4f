//! The command line as a user sees it: exit codes, and the messages for bad input.

use crate::stage::{check, kill_hard, scratch, share_host, signal, xtask};
use lab::host::process::write_program;
use rustix::process::Signal;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The maximum time that a run may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a command that runs one real scenario, with its results in `results`.
fn run(results: &Path, scenario: &str) -> Command {
    let mut command = xtask();
    command.args(["lab", "run", "--results"]).arg(results).arg(scenario);
    command
}

fn scenario(directory: &Path, yaml: &str) -> PathBuf {
    let path = directory.join("mine.yaml");
    fs::write(&path, yaml).unwrap();
    path
}

#[test]
fn a_reader_that_is_gone_ends_a_command_quietly() {
    for verb in ["list", "kernels", "cache"] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = xtask().args(["lab", verb]).stdout(writer).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "lab {verb}");
    }
}

#[test]
fn a_wrong_scenario_file_is_usage() {
    let directory = scratch();
    let path = scenario(directory.path(), "summary: x\nsteps:\n  - wirte: kprobe_events\n    text: x\n");
    let expect = ["mine.yaml:3:5", "wirte", "write", "0 valid, 1 invalid"];
    check(xtask().args(["lab", "check"]).arg(&path), 2, &expect);
    check(&mut run(directory.path(), path.to_str().unwrap()), 2, &["mine.yaml:3:5"]);
}

#[test]
fn what_does_not_exist_is_usage() {
    check(xtask().args(["lab", "run", "no/such/scenario"]), 2, &["no/such/scenario"]);
    check(xtask().args(["lab", "run", "--filter", "^nothing$"]), 2, &["no scenario matches"]);
    check(xtask().args(["lab", "build", "0.99"]), 2, &["no kernel `0.99`", "6.12"]);
    check(xtask().args(["lab", "run", "--frobnicate"]), 2, &["--frobnicate"]);
}

/// Returns a PATH on which QEMU is `script`, or missing.
fn path_with_qemu(directory: &Path, script: Option<&str>) -> std::ffi::OsString {
    let programs = path_without(directory, "qemu-system-aarch64");
    if let Some(script) = script {
        write_program(&programs.join("qemu-system-aarch64"), script).unwrap();
    }
    programs.into_os_string()
}

/// Returns a directory with all programs but one.
fn path_without(directory: &Path, program: &str) -> PathBuf {
    let programs = directory.join("bin");
    fs::create_dir(&programs).unwrap();
    for place in env::split_paths(&env::var_os("PATH").unwrap()) {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_name() != program {
                // The first directory that has a program wins, as on any PATH.
                let _ = std::os::unix::fs::symlink(entry.path(), programs.join(entry.file_name()));
            }
        }
    }
    programs
}

#[test]
fn a_missing_gdb_is_named_where_crash_attaches() {
    let _host = share_host();
    let directory = scratch();
    let path = path_without(directory.path(), "gdb-multiarch");
    let run = |step: &str| {
        let scenario = directory.path().join("x.yaml");
        let text = format!("summary: x\nrequires: {{ kernel: '<4' }}\nuserland: debian\nsteps: [{step}]\n");
        fs::write(&scenario, text).unwrap();
        let mut run = xtask();
        run.args(["lab", "run", "--results"]).arg(directory.path().join("results")).arg(scenario);
        run.env("PATH", &path).env_remove("CI").output().unwrap()
    };
    let said =
        |output: Output| String::from_utf8_lossy(&output.stderr).contains("`gdb-multiarch` is not installed");
    assert!(said(run("{ crash: [{ run: log }] }")));
    assert!(!said(run("{ sh: ls }")));
}

#[test]
fn a_missing_qemu_is_named_with_the_command_that_installs_it() {
    let directory = scratch();
    let path = path_with_qemu(directory.path(), None);
    let expect = ["qemu-system-aarch64", "missing", "apt-get install", "qemu-system-arm", "--yes"];
    check(xtask().args(["lab", "run"]).env("PATH", &path).env_remove("CI"), 3, &expect);
    check(xtask().arg("doctor").env("PATH", &path), 3, &["MISSING", "qemu-system-aarch64"]);
}

#[test]
fn a_qemu_that_is_too_old_is_said_with_both_versions() {
    let directory = scratch();
    let old = "#!/bin/sh\necho 'QEMU emulator version 4.2.1 (Debian 1:4.2-3)'\n";
    let path = path_with_qemu(directory.path(), Some(old));
    check(xtask().args(["lab", "run"]).env("PATH", &path).env_remove("CI"), 3, &["4.2.1 is too old"]);
}

#[test]
fn kernels_are_asked_for_by_name_by_version_or_all_at_once() {
    let list = |kernel: &str| {
        let mut list = xtask();
        list.args(["lab", "list", "--kernel", kernel]);
        list
    };
    check(&mut list("all"), 0, &["probes/eventfd-write"]);
    let output = check(&mut list("<6"), 0, &["probes/eventfd-write"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("modules/livepatch-sample"));
    check(&mut list(">=7.2"), 0, &["modules/livepatch-sample"]);
    for verb in ["list", "run", "matrix"] {
        let mut command = xtask();
        command.args(["lab", verb, "--kernel", ">=99"]);
        check(&mut command, 2, &["no kernel matches `>=99`; there are `5.10`"]);
    }
    let of_none = scratch();
    for verb in ["diff", "merge"] {
        check(xtask().args(["lab", verb]).arg(of_none.path()).arg(of_none.path()), 2, &["results.json"]);
    }
}

#[test]
fn a_lost_network_is_said_and_leaves_nothing() {
    let directory = scratch();
    let mut build = xtask();
    build.args(["lab", "build", "6.12"]).env("FTRACE_LAB_CACHE", directory.path());
    // Nothing listens on the discard port.
    build.env("FTRACE_LAB_DEBIAN_MIRROR", "http://127.0.0.1:9/debian");
    check(&mut build, 3, &["127.0.0.1", "network"]);
}

#[test]
fn what_cannot_be_probed_fails_by_preflight_or_in_the_kernels_words() {
    let _host = share_host();
    let directory = scratch();
    let check = |probe: &str, expect: &[&str]| {
        let yaml =
            format!("summary: x\ntrace:\n  events:\n    - {probe}\nexpect:\n  - never: {{ event: x }}\n");
        let path = scenario(directory.path(), &yaml);
        check(&mut run(directory.path(), path.to_str().unwrap()), 1, expect);
    };
    check(
        "{ kprobe: eventfd_wirte, name: x }",
        &["failed", "this kernel has no such function", "try `eventfd_write`"],
    );
    check(
        "{ kprobe: eventfd_write, name: x, args: { a: $stack10000 } }",
        &["failed", "cannot write `p:kprobes/x eventfd_write a=$stack10000`", "Invalid stack number"],
    );
}

#[test]
fn a_results_directory_that_is_full_is_the_labs_error() {
    let _host = share_host();
    let directory = scratch();
    let full = directory.path().join("full");
    fs::create_dir(&full).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&full).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("unsupported: only root can mount a filesystem to fill");
        return;
    }
    let output = run(&full, "probes/eventfd-write").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let unmounted = Command::new("umount").arg(&full).status().unwrap();
    assert!(unmounted.success());
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
}

#[test]
fn two_labs_at_once_both_pass() {
    let _host = share_host();
    let directory = scratch();
    let start = |name: &str| {
        let mut command = run(&directory.path().join(name), "probes/eventfd-write");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for lab in [start("a"), start("b")] {
        let output = lab.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Starts a lab and returns it with the PID of its QEMU, once that runs.
fn running_lab(results: &Path) -> (Child, u32) {
    let mut command = run(results, "probes/eventfd-write");
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let qemu = loop {
        let qemu = children(lab.id()).into_iter().find(|pid| is_qemu(*pid));
        if qemu.is_some() || start.elapsed() > PATIENCE || lab.try_wait().unwrap().is_some() {
            break qemu;
        }
        thread::sleep(Duration::from_millis(5));
    };
    if qemu.is_none() {
        lab.kill().unwrap();
        lab.wait().unwrap();
    }
    (lab, qemu.expect("no QEMU was started"))
}

fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn is_qemu(pid: u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // Between fork and exec the child still has the lab's name, and `--version` does not start a machine.
    line.starts_with("qemu-system-aarch64") && line.contains("virtserialport")
}

fn is_gone_soon(pid: u32) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if !is_qemu(pid) {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn ctrl_c_leaves_nothing_running_and_nothing_half_written() {
    let _host = share_host();
    let directory = scratch();
    let (mut lab, qemu) = running_lab(directory.path());
    signal(&lab, Signal::INT);
    assert_eq!(lab.wait().unwrap().code(), Some(3));
    assert!(is_gone_soon(qemu), "QEMU {qemu} is still running");
    let left =
        Command::new("find").arg(directory.path()).args(["-mindepth", "1", "-name", ".*"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn a_killed_lab_takes_its_qemu_with_it() {
    let _host = share_host();
    let directory = scratch();
    let (mut lab, qemu) = running_lab(directory.path());
    kill_hard(&mut lab);
    assert!(is_gone_soon(qemu), "QEMU {qemu} is still running");
}
