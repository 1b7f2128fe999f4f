//! `lab explore` on a real kernel: what the model predicts is what the kernel does.

#[expect(dead_code, reason = "only other tests run scenarios")]
mod stage;

use stage::{ONE_RUN, check, scratch, xtask};
use std::{fs, path::Path};

#[test]
fn a_kernel_agrees_with_the_model_and_leaves_no_results() {
    let _alone = ONE_RUN.lock().unwrap();
    let directory = scratch();
    let mut explore = xtask();
    explore.args(["lab", "explore", "--sequences", "40", "--seed", "1", "--minutes", "20", "--results"]);
    explore.arg(directory.path());
    check(&mut explore, 0, &["exploring 6.12 for 20 min with seed 1", "; 0 found"]);
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_mail_about_a_finding_has_steps_that_need_no_lab() {
    let _alone = ONE_RUN.lock().unwrap();
    let directory = scratch();
    let finding =
        Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scenarios/bugs/stacktrace-command.yaml");
    let mut explore = xtask();
    explore.args(["lab", "explore", "--results"]).arg(directory.path()).arg("--triage").arg(finding);
    let says = [
        "Subject: [BUG] tracing: step 9 failed: instances/counted/trace",
        ": fails in 20 of 20 runs\n",
        "  echo 'eventfd_read:stacktrace:2' >> instances/counted/set_ftrace_filter\n",
        "  echo '0' > tracing_on\n",
        "entries-in-buffer/entries-written: 0/0",
    ];
    check(&mut explore, 1, &says);
}

#[test]
fn what_was_found_runs_again() {
    let _alone = ONE_RUN.lock().unwrap();
    let directory = scratch();
    let corpus = directory.path().join("corpus");
    let explore = |options: &[&str]| {
        let mut explore = xtask();
        explore.args(["lab", "explore", "--sequences", "8", "--seed", "1", "--minutes", "20", "--jobs", "1"]);
        explore.args(options).arg("--corpus").arg(&corpus);
        explore.arg("--results").arg(directory.path().join("results"));
        explore
    };
    // All sequences reach new lines, since none ran before.
    check(&mut explore(&["--guided"]), 0, &["; 0 found"]);
    let kept: Vec<_> = corpus.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(kept.len(), 12);
    let found = corpus.join("found/6.12");
    fs::create_dir_all(&found).unwrap();
    fs::copy(&kept[0], found.join("explore-0a1b2c3d.json")).unwrap();
    let says = ["; 0 found", "explore-0a1b2c3d on 6.12  20 of 20"];
    check(&mut explore(&["--again"]), 0, &says);
}
