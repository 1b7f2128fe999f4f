//! `lab explore` on a real kernel: what the model predicts is what the kernel does.

use crate::stage::{check, root, said, scratch, share_host, signal, xtask};
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader},
};

#[test]
fn a_kernel_agrees_with_the_model_and_leaves_no_results() {
    let _host = share_host();
    let directory = scratch();
    let mut explore = xtask();
    explore.args(["lab", "explore", "--sequences", "40", "--seed", "1", "--results"]);
    explore.arg(directory.path());
    check(&mut explore, 0, &["exploring 6.12 with seed 1", "; 0 found"]);
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn ctrl_c_ends_a_search_which_says_what_it_came_to() {
    let _host = share_host();
    let directory = scratch();
    let mut explore = xtask();
    // With several machines, one is in the middle of its steps.
    explore.args(["lab", "explore", "--seed", "1", "--results"]).arg(directory.path());
    let mut lab = explore.spawn().unwrap();
    let mut progress = BufReader::new(lab.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(progress.any(|line| line.starts_with("exploring: ")));
    signal(&lab, Signal::INT);
    let last = progress.last().unwrap();
    let output = lab.wait_with_output().unwrap();
    assert!(said(&output).contains(" sequences, "), "{last}, {}", said(&output));
    assert_eq!((output.status.code(), last.as_str()), (Some(3), "error: interrupted"));
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_mail_about_a_finding_has_steps_that_need_no_lab() {
    let _host = share_host();
    let directory = scratch();
    let finding = root().join("scenarios/bugs/stacktrace-command.yaml");
    let mut explore = xtask();
    explore.args(["lab", "explore", "--results"]).arg(directory.path()).arg("--triage").arg(finding);
    let says = [
        "Subject: [BUG] tracing: step 9 failed: instances/counted/trace",
        ": fails in 100 of 100 runs\n",
        "  echo 'eventfd_read:stacktrace:2' >> instances/counted/set_ftrace_filter\n",
        "  echo '0' > tracing_on\n",
        "entries-in-buffer/entries-written: 0/0",
    ];
    check(&mut explore, 1, &says);
}

#[test]
fn a_corpus_becomes_smaller_and_what_was_found_runs_again() {
    let _host = share_host();
    let directory = scratch();
    let corpus = directory.path().join("corpus");
    let explore = |options: &str| {
        let mut explore = xtask();
        explore.args(["lab", "explore", "--jobs", "1", "--corpus"]).arg(&corpus);
        explore.args(options.split(' '));
        explore.arg("--results").arg(directory.path().join("results"));
        explore
    };
    // All sequences reach new lines, since none ran before.
    check(&mut explore("--sequences 8 --seed 1 --guided"), 0, &["; 0 found"]);
    let kept = || corpus.read_dir().unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(kept().len(), 12);
    // One does nothing but look, which each of the others does, too.
    let nothing = "[\"Look\"]";
    // By `sha256sum`.
    let digest = "87247169e7843160afa15d1cae7c4abb68f7aba52c0d4b73ae34c3bbf6ae6764";
    fs::write(corpus.join(format!("{digest}.json")), nothing).unwrap();
    let output = check(
        &mut explore("--minimize-corpus"),
        0,
        &[" of 13 sequences in the corpus: each of the others reached nothing new"],
    );
    let kept = kept();
    assert!(
        kept.len() > 1 && kept.iter().all(|file| fs::read_to_string(file).unwrap() != nothing),
        "{kept:?}"
    );
    assert!(said(&output).contains(&format!("{} of 13", kept.len())));
    let found = corpus.join("found/6.12");
    fs::create_dir_all(&found).unwrap();
    fs::copy(&kept[0], found.join("explore-0a1b2c3d.json")).unwrap();
    let says = ["; 0 found", "explore-0a1b2c3d on 6.12  100 of 100"];
    check(&mut explore("--sequences 8 --seed 1 --again"), 0, &says);
}
