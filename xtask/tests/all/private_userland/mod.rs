//! Guests with a userland see no variable of the host, and only QEMU and this user reach their sockets.

use crate::{
    killed_userland::{Ended, files},
    patience::wait_for,
    stage::{check, run, said, scenarios, scratch, share_host, signal},
    watched::Mark,
};
use rustix::{
    process::{Gid, Pid, Signal, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use std::{
    fs, io,
    os::unix::{fs::FileTypeExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// The value of a variable of the lab.
const TOKEN: &str = "token-74f1c2";

/// A step that reads the environment of each process.
const READS: &str = "summary: x
userland: debian
timeout: 60s
steps:
  - sh: cat /proc/1/environ /proc/$PPID/environ /proc/[0-9]*/environ | tr '\\0' '\\n'
";

/// Leaves the guest's memory.
const PANICS: &str = "summary: x
userland: debian
timeout: 60s
expect_panic: { panic: { equal: sysrq triggered crash } }
steps:
  - sh: echo c >/proc/sysrq-trigger
";

/// Returns whether a file at or below `place` contains `text`.
fn contains(place: &Path, text: &str) -> bool {
    let mut grep = Command::new("grep");
    match grep.args(["--recursive", "--fixed-strings", "--quiet", text]).arg(place).status().unwrap().code() {
        Some(0) => true,
        Some(1) => false,
        code => panic!("grep ended with {code:?}"),
    }
}

#[test]
fn no_variable_of_the_host_is_in_the_memory_of_a_guest_with_a_userland() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let two = scenarios(directory.path(), [("reads", READS), ("panics", PANICS)]);
    check(run(&results, &two).env("FTRACE_LAB_TEST_TOKEN", TOKEN), 0, &["2 passed"]);
    let files = results.join("latest/6.12");
    // Of the agent's environment, which is vmtest's.
    for file in ["reads/steps/1-stdout.txt", "panics/vmcore"] {
        assert!(contains(&files.join(file), "TMPDIR=/tmp"), "{file} has no environment");
    }
    assert!(!contains(&results, TOKEN), "a guest has the lab's environment");
}

/// A step that waits until its guest is killed.
const WAITS: &str = "summary: x\nuserland: debian\ntimeout: 600s\nsteps: [sh: exec sleep 900]\n";

/// Connects to a socket as the user nobody, in a thread with that user's identity.
fn connect_as_nobody(path: PathBuf) -> io::Result<UnixStream> {
    let connect = move || {
        let (user, group) = (Uid::from_raw(65534), Gid::from_raw(65534));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        UnixStream::connect(path)
    };
    thread::spawn(connect).join().unwrap()
}

#[test]
fn another_user_cannot_connect_to_a_guest_with_a_userland() {
    let _host = share_host();
    if !rustix::process::geteuid().is_root() {
        eprintln!("unsupported: only root can become another user");
        return;
    }
    let directory = scratch();
    let results = directory.path().join("results");
    let waits = scenarios(directory.path(), [("waits", WAITS)]);
    let open = run(&results, &waits);
    // Files that the lab does not protect are open to all users.
    let mut lab = Command::new("sh");
    lab.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(open.get_program()).args(open.get_args());
    lab.envs(open.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mark = Mark::on(&mut lab);
    let mut lab = lab.stdin(Stdio::null()).spawn().unwrap();
    let _ended = Ended(Pid::from_child(&lab));
    let found = wait_for("guest with its sockets", || {
        let running = mark.running();
        let mut found = running.iter().find_map(|process| files(&process.arguments)).unwrap_or_default();
        let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|data| data.file_type().is_socket());
        found.retain(is_socket);
        (found.len() == 6).then_some(found)
    });
    for path in &found {
        drop(UnixStream::connect(path).expect("this user can connect"));
        let error = connect_as_nobody(path.clone()).expect_err("another user connected");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{}: {error}", path.display());
    }
    signal(&lab, Signal::INT);
    assert_eq!(lab.wait().unwrap().code(), Some(3));
    mark.is_over();
}

/// A step that shows that its guest works.
const WORKS: &str = "summary: x\nuserland: debian\ntimeout: 60s\nsteps: [sh: 'true']\n";

/// Returns the open sockets of a process that have a path.
fn listening(lab: u32) -> Vec<PathBuf> {
    let of_lab: Vec<_> = fs::read_dir(format!("/proc/{lab}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned))
        .collect();
    let table = fs::read_to_string("/proc/net/unix").unwrap();
    let paths = table.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (inode, path) = (fields.get(6)?, fields.get(7)?);
        of_lab.contains(&format!("socket:[{inode}]")).then(|| PathBuf::from(path))
    });
    paths.collect()
}

#[test]
fn a_connection_of_a_process_other_than_qemu_does_not_disturb_a_boot() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let works = scenarios(directory.path(), [("works", WORKS)]);
    let lab = run(&results, &works).spawn().unwrap();
    let _ended = Ended(Pid::from_child(&lab));
    let _connected = wait_for("socket of the lab", || {
        let connected: Vec<_> = listening(lab.id()).iter().flat_map(UnixStream::connect).collect();
        (connected.len() == 2).then_some(connected)
    });
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}
