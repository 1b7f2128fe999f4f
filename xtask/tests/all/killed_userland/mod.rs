//! Guests with a userland leave nothing behind, whatever ends them.

use crate::{
    patience::wait_for,
    stage::{check, run, said, scenarios, scratch, share_host, signal, stored},
    watched::Mark,
};
use lab::results::Status;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
};
use tempfile::TempDir;

/// A scenario that does not end by itself.
const ENDLESS: &str = "summary: x\nuserland: debian\ntimeout: 600s\nsteps: [sh: exec sleep 900]\n";

/// A lab with a private directory for temporary files.
struct Watched {
    command: Command,
    mark: Mark,
    temporary: TempDir,
}

impl Watched {
    fn new(results: &Path, scenarios: &Path) -> Watched {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = run(results, scenarios);
        command.env("TMPDIR", temporary.path());
        let mark = Mark::on(&mut command);
        Watched { command, mark, temporary }
    }

    /// Returns the number of running guests.
    fn guests(&self) -> usize {
        self.mark.running().iter().filter(|process| process.name.starts_with("qemu-system")).count()
    }

    /// Returns the files of vmtest, the lab and QEMU outside of the results, once all of them exist.
    fn files(&self) -> Option<Vec<PathBuf>> {
        let running = self.mark.running();
        let files = running.iter().find_map(|process| files(&process.arguments))?;
        assert_eq!(files.len(), 10, "{files:?}");
        files.iter().all(|path| path.exists()).then_some(files)
    }

    /// Checks that nothing is running and that none of the files exists.
    fn left_nothing(&self, files: &[PathBuf]) {
        self.mark.is_over();
        let left: Vec<_> = fs::read_dir(self.temporary.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        let left: Vec<_> = files.iter().filter(|path| path.symlink_metadata().is_ok()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Returns the files that the arguments of a QEMU show: sockets, their directory, vmtest's paths for them,
/// and its /init. Returns `None` for other processes.
pub(crate) fn files(arguments: &[String]) -> Option<Vec<PathBuf>> {
    arguments.first().filter(|program| program.starts_with("qemu-system"))?;
    let value = |argument: &str, before: &str, end: char| {
        let (_, value) = argument.split_once(before)?;
        Some(value.split(end).next().unwrap_or(value).to_owned())
    };
    let mut found = Vec::new();
    for argument in arguments.iter().filter(|argument| argument.contains("server=on")) {
        let socket = value(argument, "path=", ',').or_else(|| value(argument, "unix:", ','));
        let socket = PathBuf::from(socket.unwrap());
        let vmtests = Path::new("/tmp").join(socket.file_name().unwrap());
        found.extend([socket.parent().unwrap().to_owned(), vmtests, socket]);
    }
    let of = |before, end| arguments.iter().find_map(|argument| value(argument, before, end));
    found.push(PathBuf::from(of("local,id=root,path=", ',')? + &of(" init=", ' ')?));
    Some(found)
}

/// Kills a lab that a failed test would leave running.
pub(crate) struct Ended(pub(crate) Pid);

impl Drop for Ended {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

/// Returns whether a console below `results` contains this text.
fn console_has(results: &Path, text: &str) -> bool {
    let found = Command::new("grep").args(["-rqs", "--include=console.txt", text]).arg(results).status();
    found.unwrap().success()
}

/// Ends a lab by a signal, once while its guest boots and once while a step runs.
fn ended_by(by: Signal, code: Option<i32>) {
    for booted in [false, true] {
        let directory = scratch();
        let results = directory.path().join("results");
        let endless = scenarios(directory.path(), [("endless", ENDLESS)]);
        let mut watched = Watched::new(&results, &endless);
        // Like a terminal, which signals the whole foreground process group.
        let mut lab = watched.command.process_group(0).spawn().unwrap();
        let _ended = Ended(Pid::from_child(&lab));
        // The files that must be removed exist.
        let files = wait_for("guest with its files", || watched.files());
        if booted {
            wait_for("step", || console_has(&results, "step 1").then_some(()));
        }
        if code.is_some() {
            kill_process_group(Pid::from_child(&lab), by).unwrap();
        } else {
            signal(&lab, by);
        }
        let status = lab.wait().unwrap();
        assert_eq!(status.code(), code, "{status}");
        watched.left_nothing(&files);
    }
}

#[test]
fn a_lab_killed_hard_leaves_no_guest_with_a_userland_and_none_of_its_files() {
    let _host = share_host();
    ended_by(Signal::KILL, None);
}

#[test]
fn ctrl_c_leaves_no_guest_with_a_userland_and_none_of_its_files() {
    let _host = share_host();
    ended_by(Signal::INT, Some(3));
}

#[test]
fn a_deadline_ends_a_guest_with_a_userland_and_names_the_step() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let yaml =
        "summary: x\nuserland: debian\ntimeout: 1s\nsteps:\n  - sh: echo first\n  - sh: exec sleep 900\n";
    let late = scenarios(directory.path(), [("late", yaml)]);
    let mut watched = Watched::new(&results, &late);
    check(&mut watched.command, 1, &["1 hang", "step 2", "sh: exec sleep 900", "the deadline of 1 s"]);
    watched.left_nothing(&[]);
}

/// Writes a file in /tmp, which is private to each guest, and cannot write to /usr, which is shared.
const BESIDE: &str = "summary: x
userland: debian
timeout: 60s
steps:
  - sh: |
      test ! -e mine
      echo $$ >mine
      sleep 5
      [ $(cat mine) = $$ ]
      ! touch /usr/mine
";

#[test]
fn guests_with_a_userland_run_side_by_side() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let two = scenarios(directory.path(), [("one", BESIDE), ("other", BESIDE)]);
    let mut watched = Watched::new(&results, &two);
    let lab = watched.command.args(["--jobs", "2"]).spawn().unwrap();
    wait_for("second guest in parallel with the first", || (watched.guests() == 2).then_some(()));
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(stored(&results.join("latest")).unwrap().count(Status::Passed), 2);
    watched.left_nothing(&[]);
}
