//! `lab merge` and `lab report`.

use super::Victim;
use crate::{
    stage::{TRIVIAL, check, run, scenarios, scratch, share_host, xtask},
    tree::{Tree, is_below_temporary, restore, tree, unfinished},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Results of two runs, and a merged report of the first.
pub(crate) struct Stored {
    /// What the lab changes.
    pub(crate) place: PathBuf,
    /// A copy of it.
    kept: PathBuf,
}

impl Stored {
    pub(crate) fn new(directory: &Path) -> Stored {
        let (place, kept) = (directory.join("place"), directory.join("kept"));
        for (name, scenario) in [("first", "a"), ("second", "b")] {
            let one = scenarios(&directory.join(name), [(scenario, TRIVIAL)]);
            let results = directory.join(name).join("results");
            check(&mut run(&results, &one), 0, &["1 passed"]);
            let made = fs::canonicalize(results.join("latest")).unwrap();
            fs::create_dir_all(place.join("results")).unwrap();
            fs::rename(made, place.join("results").join(name)).unwrap();
        }
        let stored = Stored { place, kept };
        check(&mut stored.merge(&["first"]), 0, &["1 passed"]);
        restore(&stored.place, &stored.kept);
        stored
    }

    pub(crate) fn report(&self) -> PathBuf {
        self.place.join("report")
    }

    fn restore(&self) {
        restore(&self.kept, &self.place);
    }

    /// Merges these runs into the report.
    fn merge(&self, runs: &[&str]) -> Command {
        self.merge_into(&self.report(), runs)
    }

    /// Merges these runs into a report, which is replaced if it exists.
    pub(crate) fn merge_into(&self, report: &Path, runs: &[&str]) -> Command {
        let mut merge = xtask();
        merge.args(["lab", "merge", "--into"]).arg(report);
        if report.exists() {
            merge.arg("--last").arg(report);
        }
        merge.args(runs.iter().map(|run| self.place.join("results").join(run)));
        merge.env_remove("GITHUB_STEP_SUMMARY");
        merge
    }

    /// Returns the report with both runs.
    fn merged(&self) -> Tree {
        self.restore();
        check(&mut self.merge(&["first", "second"]), 0, &["2 passed"]);
        tree(&self.report())
    }

    pub(crate) fn check_older(&self) {
        assert!(
            tree(&self.place.join("results")) == tree(&self.kept.join("results")),
            "older results changed"
        );
    }
}

#[test]
fn a_merge_into_a_report_leaves_the_old_one_or_the_new_one() {
    let _host = share_host();
    let directory = scratch();
    let stored = Stored::new(directory.path());
    let new = stored.merged();
    let old = tree(&stored.kept.join("report"));
    let killed = || {
        let left = tree(&stored.report());
        assert!(left == old || left == new, "{:?}", left.keys());
        stored.check_older();
    };
    let done = || {
        assert!(tree(&stored.report()) == new);
        stored.check_older();
        assert_eq!(unfinished(&stored.place), Vec::<PathBuf>::new());
    };
    let command = || stored.merge(&["first", "second"]);
    Victim {
        command: &command,
        place: &stored.place,
        before: &|| stored.restore(),
        killed: &killed,
        done: &done,
    }
    .check(12);
}

#[test]
fn a_merge_into_new_results_on_another_disk_leaves_no_part_of_a_file() {
    let _host = share_host();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("unsupported: there is no /dev/shm");
        return;
    };
    let directory = scratch();
    let stored = Stored::new(directory.path());
    let new = stored.merged();
    let results = other.path().join("results");
    let command = || {
        let mut merge = xtask();
        merge.args(["lab", "merge"]).arg(stored.place.join("results"));
        merge.env("FTRACE_LAB_RESULTS", &results).env_remove("GITHUB_STEP_SUMMARY");
        merge
    };
    // The page has the name of its directory.
    let named_report = |content: &[u8], run: &str| String::from_utf8_lossy(content).replace(run, "report");
    let is_whole = |path: &Path, content: &[u8]| {
        let run = path.iter().next().unwrap().to_str().unwrap();
        let of_run = path.strip_prefix(run).unwrap();
        let expect = new.get(of_run).unwrap_or_else(|| panic!("{} is in no part", path.display()));
        if path.ends_with("report.html") {
            named_report(content, run) == named_report(expect, run)
        } else {
            content == expect
        }
    };
    let check_files = || {
        let left = tree(&results);
        for (path, content) in &left {
            if !is_below_temporary(path) && path.iter().count() > 1 {
                assert!(is_whole(path, content), "{} is incomplete", path.display());
            }
        }
        let Some(latest) = left.get(Path::new("latest")) else { return false };
        let latest = Path::new(str::from_utf8(latest).unwrap());
        assert!(new.keys().all(|path| left.contains_key(&latest.join(path))), "`latest` is incomplete");
        true
    };
    let killed = || {
        check_files();
    };
    let done = || {
        assert!(check_files());
        stored.check_older();
        assert_eq!(unfinished(other.path()), Vec::<PathBuf>::new());
    };
    let before = || drop(fs::remove_dir_all(&results));
    Victim { command: &command, place: other.path(), before: &before, killed: &killed, done: &done }
        .check(12);
}

#[test]
fn a_report_is_written_whole() {
    let _host = share_host();
    let directory = scratch();
    let stored = Stored::new(directory.path());
    let new = tree(&stored.report());
    let forms = ["junit.xml", "report.html", "results.ktap"];
    let before = || {
        stored.restore();
        // Files of their own, not links to those of a run.
        for form in forms {
            fs::write(stored.report().join(form), "old").unwrap();
        }
    };
    let command = || {
        let mut report = xtask();
        report.args(["lab", "report"]).arg(stored.report());
        report
    };
    let killed = || {
        for (path, content) in tree(&stored.report()).iter().filter(|(path, _)| !is_below_temporary(path)) {
            let old = forms.iter().any(|form| path == Path::new(form)) && content == b"old";
            assert!(old || new[path] == *content, "{} is incomplete", path.display());
        }
        check(xtask().args(["lab", "judge"]).arg(stored.report()), 0, &[]);
    };
    let done = || {
        assert!(tree(&stored.report()) == new);
        assert_eq!(unfinished(&stored.place), Vec::<PathBuf>::new());
    };
    Victim { command: &command, place: &stored.place, before: &before, killed: &killed, done: &done }
        .check(8);
}
