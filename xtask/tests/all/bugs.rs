//! Scenarios of real kernel bugs, on a pinned distribution kernel; those that have been fixed since also on the default
//! kernel.

use crate::stage::{check, root, run, scratch, share_host, stored};
use lab::{
    kernel::KernelSpec,
    results::{
        ScenarioResult,
        Status::{self, KnownBug, Passed, Unsupported},
    },
};
use std::collections::{BTreeMap, BTreeSet};

const AFFECTED: &str = "debian-6.12.95";
const FIXED: &str = "6.12";

#[test]
fn a_bug_fails_where_it_is_and_passes_where_it_is_fixed() {
    let _host = share_host();
    let fixed = [
        ("bugs/arg0", "expected EINVAL, found ENOENT"),
        ("bugs/uprobe-file-offset", "half == 0x6b72616d }: found 3, expected none"),
        ("bugs/watchpoint-length", r#"it is "watched 4 5 6 7\n""#),
    ];
    let directory = scratch();
    let results = directory.path().join("results");
    let scenarios = root().join("scenarios/bugs");
    // The failures are known bugs because they match the kernel's description.
    let known = format!("known bug    bugs/arg0 on {AFFECTED}");
    check(run(&results, &scenarios).args(["--kernel", AFFECTED]), 0, &[" 0 failed, ", &known]);
    let stored = stored(&results.join("latest")).unwrap();
    let found: BTreeMap<&str, &ScenarioResult> =
        stored.scenarios.iter().map(|result| (result.name.as_str(), result)).collect();
    let with = |status: Status| -> BTreeSet<&str> {
        found.values().filter(|result| result.status == status).map(|result| result.name.as_str()).collect()
    };
    let unsupported = with(Unsupported);
    let expected = [
        // A distribution kernel has no user events,
        "bugs/eprobe-relative",
        // no fprobe events,
        "bugs/fprobe-append",
        "bugs/fprobe-command",
        "bugs/fprobe-exists",
        "bugs/fprobe-graph",
        // and cannot make allocations fail.
        "bugs/event-directory-no-memory",
        "bugs/filter-no-memory",
        "bugs/names-unregistered",
    ];
    assert_eq!(unsupported, expected.into());
    // All that the kernel is said to have and can run, and no other.
    let listed: Vec<String> = KernelSpec::load(root(), AFFECTED).unwrap().bugs.into_keys().collect();
    let listed = listed.iter().map(String::as_str);
    let listed = listed.filter(|name| name.starts_with("bugs/") && !unsupported.contains(name));
    assert_eq!(with(KnownBug), listed.collect());
    assert!(with(KnownBug).len() >= 34, "{}", with(KnownBug).len());
    // It has the fix of the first one, and only newer kernels have the second.
    assert!(with(Passed).is_superset(&["bugs/eventfd-semaphore", "bugs/fields-pointer"].into()));
    let files = fixed.map(|(name, says)| {
        assert!(found[name].reason.contains(says), "{name}: {}", found[name].reason);
        scenarios.with_file_name(format!("{name}.yaml"))
    });
    let [first, rest @ ..] = &files;
    check(run(&results, first).args(rest).args(["--kernel", FIXED]), 0, &["3 passed, 0 failed"]);
}
