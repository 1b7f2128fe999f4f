//! Labs killed by SIGKILL at points spread over all of their system calls that change files.

mod bisect;
mod merge;
mod prune;

pub(crate) use merge::Stored;

use crate::{
    stage::{TRIVIAL, UNSUPPORTED, check, run, scenarios, scratch, share_host, stored},
    traced::{Call, changes, kill_at, spread},
    tree::{is_below_temporary, restore, tree, unfinished},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A command to kill, and what holds afterwards.
struct Victim<'a> {
    command: &'a dyn Fn() -> Command,
    /// The directory that it changes.
    place: &'a Path,
    /// Restores the state before the command.
    before: &'a dyn Fn(),
    /// Checks the state after a kill.
    killed: &'a dyn Fn(),
    /// Checks the state after the next command, which is not killed.
    done: &'a dyn Fn(),
}

impl Victim<'_> {
    /// Kills the command at `count` points.
    fn check(&self, count: usize) {
        self.check_at(|calls| spread(calls, count));
    }

    fn check_at(&self, choose: impl Fn(&[Call]) -> Vec<Call>) {
        (self.before)();
        let calls = choose(&changes(&(self.command)(), self.place));
        let mut missed = 0;
        for call in &calls {
            (self.before)();
            // Shown if a check fails.
            eprintln!("killed at {call:?}");
            if !kill_at(&(self.command)(), call) {
                missed += 1;
                continue;
            }
            (self.killed)();
            check(&mut (self.command)(), 0, &[]);
            (self.done)();
        }
        // Threads do not always do the same.
        assert!(missed <= calls.len() / 4, "{missed} of {} points were missed", calls.len());
    }
}

#[test]
fn a_run_leaves_whole_results() {
    let _host = share_host();
    let directory = scratch();
    let (results, kept) = (directory.path().join("results"), directory.path().join("kept"));
    let two = scenarios(directory.path(), [("a", TRIVIAL), ("b", UNSUPPORTED)]);
    let command = || {
        let mut lab = run(&results, &two);
        lab.args(["--jobs", "1"]);
        lab
    };
    check(&mut command(), 0, &["1 passed"]);
    fs::rename(&results, &kept).unwrap();
    let older = tree(&kept);
    let latest = || fs::canonicalize(results.join("latest")).unwrap();
    let before = || restore(&kept, &results);
    let check_older = || {
        older.iter().all(|(path, content)| {
            path == Path::new("latest") || fs::read(results.join(path)).unwrap_or_default() == *content
        })
    };
    let killed = || {
        assert!(check_older());
        assert!(stored(&latest()).unwrap().run.complete);
        tree(&results)
            .keys()
            .filter(|path| !is_below_temporary(path))
            .for_each(|path| is_whole(&results.join(path)));
    };
    let done = || {
        assert!(check_older());
        let made = stored(&latest()).unwrap();
        assert!(made.run.complete && made.scenarios.len() == 2);
        assert!(!kept.join(latest().file_name().unwrap()).exists(), "`latest` is the older run");
        assert_eq!(unfinished(directory.path()), Vec::<PathBuf>::new());
    };
    Victim { command: &command, place: directory.path(), before: &before, killed: &killed, done: &done }
        .check(40);
}

/// Checks a file of a run by what stands at its end.
fn is_whole(path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let text = || fs::read_to_string(path).unwrap();
    let ends = |end: &str| assert!(text().trim_end().ends_with(end), "{} is incomplete", path.display());
    match name {
        "report.html" => ends("</html>"),
        "junit.xml" => ends("</testsuites>"),
        "trace.dat" => drop(trace::Trace::open(path).unwrap()),
        _ if name.ends_with(".json") => drop(serde_json::from_str::<serde_json::Value>(&text()).unwrap()),
        _ => {}
    }
}
