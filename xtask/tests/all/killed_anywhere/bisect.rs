//! `lab bisect`.

use super::Victim;
use crate::{
    kernel_commits::{Repository, SCENARIO},
    stage::{cache, scratch, share_host},
    traced::Call,
    tree::{tree, unfinished},
};
use std::{fs, path::PathBuf};

#[test]
fn a_bisection_keeps_its_verdicts_until_its_result_is_stored() {
    let _host = share_host();
    let directory = scratch();
    let repository = Repository::new(directory.path());
    let own = cache(directory.path(), &["bisect", "builds", "snapshots", "times.json"], true);
    let (file, results) = (directory.path().join("howto.yaml"), directory.path().join("results"));
    fs::write(&file, SCENARIO).unwrap();
    let command = || {
        let [good, bad] = [3, 4].map(|index| &*repository.commits[index]);
        let mut bisect = repository.bisect(&file, [good, bad], &results);
        bisect.args(["--failure-rate", "1"]).env("FTRACE_LAB_CACHE", &own);
        bisect
    };
    let state = repository.state();
    let conclusions = || {
        let runs = fs::read_dir(&results).unwrap().flatten();
        let files = runs.map(|run| run.path().join("bisect.json")).filter(|path| path.exists());
        files.map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
    };
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    let killed = || {
        for conclusion in conclusions() {
            serde_json::from_str::<serde_json::Value>(&conclusion).unwrap();
        }
        let logged = tree(&own.join("bisect")).into_keys().any(|path| is_log(&path));
        assert!(logged || !conclusions().is_empty(), "its verdicts are lost");
        assert_eq!(repository.state(), state);
    };
    let done = || {
        assert!(conclusions().iter().any(|conclusion| conclusion.contains(&repository.commits[4])));
        assert_eq!(repository.state(), state);
        assert_eq!(unfinished(&results), Vec::<PathBuf>::new());
    };
    let before = || drop(fs::remove_dir_all(&results));
    // Its kernels are tested by then: it stores its result and removes its log.
    let last = |calls: &[Call]| calls[calls.len() - 8..].iter().step_by(2).cloned().collect();
    Victim { command: &command, place: directory.path(), before: &before, killed: &killed, done: &done }
        .check_at(last);
}
