//! The selection, repetition and order of scenarios that a user requests.

use crate::stage::{
    TRIVIAL, UNSUPPORTED, check, labels, run, said, scenarios, scratch, stored, whole_host, xtask,
};

#[test]
fn the_order_of_a_seed_is_reproducible_and_shards_make_up_the_whole() {
    let directory = scratch();
    let results = directory.path().join("results");
    let names: Vec<_> = (0..12).map(|number| format!("s{number:02}")).collect();
    let many = scenarios(directory.path(), names.iter().map(|name| (name, UNSUPPORTED)));
    let order = |arguments: &[&str]| {
        let output = check(run(&results, &many).args(arguments), 0, &[]);
        let found = stored(&results.join("latest")).unwrap();
        (labels(&found.scenarios), found.run, said(&output))
    };
    let (shuffled, of_run, said) = order(&["--shuffle", "7"]);
    assert!(said.contains("--shuffle 7") && of_run.shuffle == Some(7), "{said}");
    assert_ne!(shuffled, names);
    assert_eq!(order(&["--shuffle", "7", "--jobs", "8"]).0, shuffled);
    assert_ne!(order(&["--shuffle", "8"]).0, shuffled);
    let mut together = Vec::new();
    let mut splits = Vec::new();
    for shard in ["1/5", "2/5", "3/5", "4/5", "5/5"] {
        let (part, of_run, _) = order(&["--shard", shard]);
        assert!(part.len() <= 3, "{part:?}");
        together.extend(part);
        splits.push(of_run.shard.unwrap().split_once(" of ").unwrap().1.to_owned());
    }
    together.sort();
    assert_eq!(together, names);
    splits.dedup();
    assert_eq!(splits.len(), 1);
    check(run(&results, &many).args(["--shard", "6/5"]), 2, &["6/5", "as in 2/5"]);
    check(run(&results, &many).args(["--shard", "200/200"]), 0, &["nothing to run"]);
    check(run(&results, &many).args(["--rerun-failed"]), 0, &["nothing to run"]);
}

#[test]
fn repeats_have_places_of_their_own_and_what_failed_is_run_again_alone() {
    let _host = whole_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let fails = "summary: x\nsteps: [{ read: trace_clock, text: { contains: [sundial] } }]\n";
    let both = scenarios(directory.path(), [("fails", fails), ("passes", TRIVIAL)]);
    let expect =
        ["passes@2 on 6.12", "passes on 6.12  2 of 2: 100.0 % (34.2 to 100.0 %)", "fails on 6.12   0 of 2"];
    check(run(&results, &both).args(["--repeat", "2"]), 1, &expect);
    let found = stored(&results.join("latest")).unwrap();
    assert_eq!(labels(&found.scenarios), ["fails@1", "passes@1", "fails@2", "passes@2"]);
    for result in &found.scenarios {
        assert_eq!(result.directory, format!("6.12/{}", result.label()));
        assert!(results.join("latest").join(&result.directory).join("trace.dat").is_file());
    }
    let mut diff = xtask();
    let of = |name: &str| results.join("latest/6.12").join(name);
    check(diff.args(["lab", "trace", "diff"]).arg(of("passes@1")).arg(of("passes@2")), 0, &["are the same"]);
    check(run(&results, &both).args(["--rerun-failed"]), 1, &["0 passed, 1 failed"]);
    assert_eq!(labels(&stored(&results.join("latest")).unwrap().scenarios), ["fails"]);
    let until = run(&results, &both).args(["--until-fail", "--jobs", "1"]).output().unwrap();
    assert_eq!(until.status.code(), Some(1), "{}", said(&until));
}
