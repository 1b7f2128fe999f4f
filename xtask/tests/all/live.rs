//! Interactive machines: shells and gdb, on terminals and from pipes.

use crate::{
    pty::Pty,
    stage::{scratch, share_host},
    watched::Mark,
};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

/// The end of the prompt of a guest's shell.
const PROMPT: &str = "# ";

fn lab(results: &Path, arguments: &[&str]) -> (Command, Mark) {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_xtask"));
    lab.args(["lab", arguments[0], "--results"]).arg(results).args(&arguments[1..]);
    let mark = Mark::on(&mut lab);
    (lab, mark)
}

/// Runs a lab to its end with `stdin`; it must leave no process running and nothing in its results.
fn run(arguments: &[&str], stdin: &str) -> (Option<i32>, String, String) {
    let results = scratch();
    let (mut lab, mark) = lab(results.path(), arguments);
    let mut child = lab.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_owned();
    let writer = std::thread::spawn(move || pipe.write_all(stdin.as_bytes()));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    // The lab need not read all of its input.
    let _ = writer.join().unwrap();
    mark.is_over();
    is_empty(results.path());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

fn is_empty(results: &Path) {
    let left: Vec<_> = fs::read_dir(results).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_shell_on_a_terminal_is_one() {
    let _host = share_host();
    let results = scratch();
    let (lab, mark) = lab(results.path(), &["shell"]);
    let mut pty = Pty::new(lab, 33, 99);
    let banner = pty.until(PROMPT);
    for expect in ["Linux 6.12", "/workloads", "ftracehook", "Ctrl-]"] {
        assert!(banner.contains(expect), "{expect}: {banner}");
    }
    let mut check = |keys: &str, expect: &str| {
        pty.type_in(&format!("{keys}\r"));
        pty.until(expect);
        pty.until(PROMPT);
    };
    check("echo a$((1 + 1))b", "a2b\r\n");
    check("stty size", "33 99\r\n");
    check("uname -r", "6.12.");
    check("pwd; grep -c tracefs /proc/mounts", "/sys/kernel/tracing\r\n1\r\n");
    check("eventfd --sleep 0 1 2 | tail -n 1", "Parent read 3 (0x3) from efd\r\n");
    check("insmod /modules/ftracehook.ko && ls /sys/kernel/debug/ftracehook", "control");
    // A key interrupts the command, and the shell continues.
    pty.type_in("echo going; sleep 600; echo then $?\r");
    pty.until("going\r\n");
    // sleep must be in the foreground before the key can interrupt it.
    std::thread::sleep(Duration::from_secs(1));
    pty.type_in("\x03");
    pty.until(PROMPT);
    pty.resize(44, 111);
    // The new size arrives with the next key, or within half a second without one.
    pty.type_in("until [ \"$(stty size)\" = '44 111' ]; do sleep 0.1; done; echo re''sized\r");
    pty.until("resized\r\n");
    pty.until(PROMPT);
    pty.type_in("exit 3\r");
    let (code, _) = pty.end();
    assert_eq!(code, Some(0));
    mark.is_over();
    is_empty(results.path());
}

#[test]
fn a_key_leaves_a_guest_whatever_it_does() {
    let _host = share_host();
    let results = scratch();
    let (lab, mark) = lab(results.path(), &["shell"]);
    let mut pty = Pty::new(lab, 24, 80);
    pty.until(PROMPT);
    pty.type_in("trap '' INT; while :; do echo bu''sy; done\r");
    pty.until("busy\r\n");
    pty.type_in("\x1d");
    assert_eq!(pty.end().0, Some(0));
    mark.is_over();
    is_empty(results.path());
}

#[test]
fn a_guest_that_panics_under_ones_hands_says_so_and_leaves_its_files() {
    let _host = share_host();
    let results = scratch();
    let (lab, mark) = lab(results.path(), &["shell"]);
    let mut pty = Pty::new(lab, 24, 80);
    pty.until(PROMPT);
    pty.type_in("echo c >/proc/sysrq-trigger\r");
    let (code, shown) = pty.end();
    assert_eq!(code, Some(1), "{shown}");
    for expect in ["the kernel panicked: sysrq triggered crash", "sysrq_handle_crash", "vmcore"] {
        assert!(shown.contains(expect), "{expect}: {shown}");
    }
    mark.is_over();
    let run = fs::read_dir(results.path()).unwrap().next().unwrap().unwrap().path();
    for file in ["console.txt", "vmcore"] {
        assert!(run.join("live").join(file).is_file(), "{file}");
    }
}

#[test]
fn commands_from_a_pipe_are_run_and_nothing_of_their_output_is_lost() {
    let _host = share_host();
    let script = "uname -r; echo to stderr >&2; cat /sys/module/ftracehook/initstate; seq 300000; exit 4";
    let (code, stdout, stderr) = run(&["shell", "--load", "ftracehook"], script);
    assert_eq!(code, Some(1), "{stderr}");
    let numbers: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    assert!(stdout.starts_with("6.12.") && stderr.contains("to stderr\n"), "{stderr}");
    assert!(stdout.ends_with(&format!("\nlive\n{numbers}")), "{} bytes", stdout.len());
    // Input larger than the capacity of the guest's pipe also arrives.
    let many: String = (0..20_000).map(|number| format!(": {number}\n")).collect();
    assert_eq!(run(&["shell"], &format!("{many}echo $((6 * 7))\n")).1, "42\n");
}

#[test]
fn a_shell_in_a_debian_userland_has_its_tools() {
    let _host = share_host();
    let script = "cat /etc/debian_version; echo $BASH; command -v strace trace-cmd eventfd; ls /modules; pwd";
    let (code, stdout, stderr) = run(&["shell", "--userland", "debian"], script);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    for expect in ["13", "/bin/bash", "/usr/bin/strace", "trace-cmd", "/workloads/eventfd", "ftracehook.ko"] {
        assert!(stdout.contains(expect), "{expect}: {stdout}");
    }
    assert!(stdout.ends_with("/sys/kernel/tracing\n"), "{stdout}");
}

#[test]
fn what_is_not_there_is_said_before_a_machine_starts() {
    let check = |arguments: &[&str], code: i32, expect: &str| {
        let (found, _, stderr) = run(arguments, "");
        assert!(found == Some(code) && stderr.contains(expect), "{found:?} {stderr}");
    };
    check(&["shell", "--kernel", "6.99"], 2, "6.99");
    check(&["shell", "--load", "ftracehok"], 3, "the nearest is `ftracehook`");
    check(&["shell", "--userland", "../x"], 2, "the name of a file of guest/userland/");
    check(&["gdb", "--run", "../x"], 2, "not a program's name");
}

#[test]
fn gdb_stops_in_the_kernel_and_knows_the_modules() {
    let _host = share_host();
    let commands = [
        "break eventfd_write",
        "continue",
        "backtrace",
        "info symbol hook_callback",
        "info line hook_callback",
    ];
    let mut arguments = vec!["gdb", "--load", "ftracehook", "--run", "eventfd --sleep 0 7", "--", "-batch"];
    arguments.extend(commands.iter().flat_map(|command| ["-ex", command]));
    let (code, stdout, stderr) = run(&arguments, "");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    for expect in [
        "hit Breakpoint 1",
        "in eventfd_write",
        "in vfs_write",
        "hook_callback in section .text",
        "of \"guest/modules/ftracehook/hook.c\"",
    ] {
        assert!(stdout.contains(expect), "{expect}: {stdout}{stderr}");
    }
}

#[test]
fn gdb_on_a_terminal_is_interrupted_and_left_by_its_keys() {
    let _host = share_host();
    let results = scratch();
    let (lab, mark) = lab(results.path(), &["gdb"]);
    let mut pty = Pty::new(lab, 24, 200);
    pty.until("(gdb) ");
    pty.type_in("continue\r");
    pty.until("Continuing.");
    std::thread::sleep(Duration::from_secs(1));
    // The key ends neither the lab nor its guest.
    pty.type_in("\x03");
    pty.until("received signal SIGINT");
    pty.until("(gdb) ");
    // Nor does Ctrl-Z stop gdb.
    pty.type_in("\x1a");
    pty.type_in("print 40 + 2\r");
    pty.until("= 42");
    pty.type_in("quit\r");
    let (code, shown) = pty.end();
    assert_eq!(code, Some(0), "{shown}");
    mark.is_over();
    is_empty(results.path());
}
