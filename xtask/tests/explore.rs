//! `lab explore` on a real kernel: what the model predicts is what the kernel does.

#[expect(dead_code, reason = "only other tests run scenarios")]
mod stage;

use stage::{ONE_RUN, check, scratch, xtask};
use std::path::Path;

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
