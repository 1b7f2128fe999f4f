//! What guests with a whole userland leave behind, whatever ends them: nothing.

use crate::{
    stage::{ONE_RUN, check, run, said, scenarios, scratch, stored},
    watched::{Mark, PATIENCE},
};
use lab::{cache::Cache, verdict::Status};
use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Does not end by itself.
const ENDLESS: &str = "summary: x\nuserland: debian\ntimeout: 600s\nsteps: [sh: exec sleep 900]\n";

/// A lab with a directory for temporary files that nobody else uses.
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

    /// How many guests run.
    fn guests(&self) -> usize {
        self.mark.running().iter().filter(|process| process.name.starts_with("qemu-system")).count()
    }

    /// vmtest's own sockets, which are where it wants them, once the guest has them all and its /init is in
    /// the tree.
    fn sockets(&self) -> Option<Vec<PathBuf>> {
        let trees = self.places();
        let has_init = |place: &PathBuf| fs::read_dir(place).is_ok_and(|mut files| files.next().is_some());
        let running = self.mark.running();
        let guest = running.iter().find(|process| process.name.starts_with("qemu-system"))?;
        let paths = guest.arguments.iter().filter_map(|argument| {
            let path = argument.strip_prefix("socket,path=").or(argument.strip_prefix("unix:"))?;
            path.starts_with('/').then(|| PathBuf::from(path.split(',').next().unwrap_or(path)))
        });
        let paths: Vec<_> = paths.collect();
        let there = !paths.is_empty() && paths.iter().all(|path| path.exists());
        (there && trees.iter().any(has_init)).then_some(paths)
    }

    /// Nothing runs, and there is no file in any of the places.
    fn left_nothing(&self) {
        self.mark.is_over();
        for place in self.places() {
            let left: Vec<_> = fs::read_dir(&place).into_iter().flatten().flatten().collect();
            assert!(left.is_empty(), "{left:?}");
            if place != self.temporary.path() {
                // In a tree it is where the guest mounts its own; it is this test's only.
                fs::remove_dir(place).unwrap();
            }
        }
    }

    /// The directory for temporary files, as the host and as each userland has it. vmtest's /init is in one.
    fn places(&self) -> Vec<PathBuf> {
        let path = self.temporary.path();
        let trees = fs::read_dir(Cache::open().unwrap().root().join("userlands")).unwrap().flatten();
        let trees = trees.map(|entry| entry.path().join("tree").join(path.strip_prefix("/").unwrap()));
        trees.filter(|place| place.is_dir()).chain([path.to_owned()]).collect()
    }
}

/// Ends a lab that a failed test would leave.
struct Ended(u32);

impl Drop for Ended {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).status();
        }
    }
}

fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a console below `results` has this text.
fn console_has(results: &Path, text: &str) -> bool {
    let found = Command::new("grep").args(["-rqs", "--include=console.txt", text]).arg(results).status();
    found.unwrap().success()
}

/// Ends a lab by a signal: while its guest boots, and while a step runs.
fn ended_by(signal: &str, code: Option<i32>) {
    for booted in [false, true] {
        let directory = scratch();
        let results = directory.path().join("results");
        let endless = scenarios(directory.path(), [("endless", ENDLESS)]);
        let mut watched = Watched::new(&results, &endless);
        // As a terminal does, to everybody in the foreground.
        let mut lab = watched.command.process_group(0).spawn().unwrap();
        let _ended = Ended(lab.id());
        // What is to be cleared away is there.
        let mut sockets = None;
        wait_for("guest with its files", || {
            sockets = watched.sockets();
            sockets.is_some()
        });
        if booted {
            wait_for("step", || console_has(&results, "step 1"));
        }
        let whom = if code.is_some() { format!("-{}", lab.id()) } else { lab.id().to_string() };
        let killed = Command::new("kill").args([signal, "--", &whom]).status();
        assert!(killed.unwrap().success());
        let status = lab.wait().unwrap();
        assert_eq!(status.code(), code, "{status}");
        watched.left_nothing();
        let left: Vec<_> = sockets.iter().flatten().filter(|socket| socket.exists()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_lab_killed_hard_leaves_no_guest_with_a_userland_and_none_of_its_files() {
    let _one = ONE_RUN.lock();
    ended_by("-KILL", None);
}

#[test]
fn ctrl_c_leaves_no_guest_with_a_userland_and_none_of_its_files() {
    let _one = ONE_RUN.lock();
    ended_by("-INT", Some(3));
}

#[test]
fn a_deadline_ends_a_guest_with_a_userland_and_names_the_step() {
    let _one = ONE_RUN.lock();
    let directory = scratch();
    let results = directory.path().join("results");
    let yaml =
        "summary: x\nuserland: debian\ntimeout: 1s\nsteps:\n  - sh: echo first\n  - sh: exec sleep 900\n";
    let late = scenarios(directory.path(), [("late", yaml)]);
    let mut watched = Watched::new(&results, &late);
    check(&mut watched.command, 1, &["1 hang", "step 2", "sh: exec sleep 900", "the deadline of 1 s"]);
    watched.left_nothing();
}

/// Each waits in its own /tmp for a file, which nobody makes but itself.
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
    let _one = ONE_RUN.lock();
    let directory = scratch();
    let results = directory.path().join("results");
    let two = scenarios(directory.path(), [("one", BESIDE), ("other", BESIDE)]);
    let mut watched = Watched::new(&results, &two);
    let lab = watched.command.args(["--jobs", "2"]).spawn().unwrap();
    wait_for("second guest beside the first", || watched.guests() == 2);
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(stored(&results.join("latest")).unwrap().count(Status::Passed), 2);
    watched.left_nothing();
}
