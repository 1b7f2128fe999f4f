//! `lab explore` on a real kernel: what the model predicts is what the kernel does.

#[expect(dead_code, reason = "only other tests run scenarios")]
mod stage;

use stage::{ONE_RUN, check, scratch, xtask};

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
