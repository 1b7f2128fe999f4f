//! Scenarios of real kernel bugs, on a pinned distribution kernel and on the default kernel, which has the fixes
//! of some of them.

use crate::stage::{ONE_RUN, check, run, scratch, stored};
use lab::{
    kernel::KernelSpec,
    results::Status::{self, KnownBug, Passed, Unsupported},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const AFFECTED: &str = "debian-6.12.95";
const FIXED: &str = "6.12";

#[test]
fn a_bug_fails_where_it_is_and_passes_where_it_is_fixed() {
    let _one = ONE_RUN.lock();
    let expected = [
        (("bugs/arg0", AFFECTED), KnownBug),
        (("bugs/arg0", FIXED), Passed),
        // Its fix is older than any available kernel: 6.12-unfixed reverts it.
        // Distribution kernels have no user events.
        (("bugs/eprobe-relative", AFFECTED), Unsupported),
        (("bugs/eprobe-relative", FIXED), KnownBug),
        (("bugs/eventfd-semaphore", AFFECTED), Passed),
        (("bugs/eventfd-semaphore", FIXED), Passed),
        // Only newer kernels have it.
        (("bugs/fields-pointer", AFFECTED), Passed),
        (("bugs/fields-pointer", FIXED), Passed),
        // Neither has fprobe events.
        (("bugs/fprobe-append", AFFECTED), Unsupported),
        (("bugs/fprobe-append", FIXED), Unsupported),
        (("bugs/fprobe-command", AFFECTED), Unsupported),
        (("bugs/fprobe-command", FIXED), Unsupported),
        (("bugs/fprobe-exists", AFFECTED), Unsupported),
        (("bugs/fprobe-exists", FIXED), Unsupported),
        (("bugs/fprobe-graph", AFFECTED), Unsupported),
        (("bugs/fprobe-graph", FIXED), Unsupported),
        // Neither can make allocations fail.
        (("bugs/event-directory-no-memory", AFFECTED), Unsupported),
        (("bugs/event-directory-no-memory", FIXED), Unsupported),
        (("bugs/filter-no-memory", AFFECTED), Unsupported),
        (("bugs/filter-no-memory", FIXED), Unsupported),
        (("bugs/names-unregistered", AFFECTED), Unsupported),
        (("bugs/names-unregistered", FIXED), Unsupported),
        (("bugs/uprobe-file-offset", AFFECTED), KnownBug),
        (("bugs/uprobe-file-offset", FIXED), Passed),
        (("bugs/watchpoint-length", AFFECTED), KnownBug),
        (("bugs/watchpoint-length", FIXED), Passed),
    ];
    let unsupported = expected.iter().filter(|(_, status)| *status == Unsupported).count();
    let directory = scratch();
    let results = directory.path().join("results");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scenarios/bugs");
    let mut lab = run(&results, &scenarios);
    lab.args(["--kernel", AFFECTED, "--kernel", FIXED]);
    // The failures are known bugs because they match the kernel's description.
    check(
        &mut lab,
        0,
        &[
            &format!(" 0 failed, {unsupported} unsupported, "),
            &format!("known bug    bugs/arg0 on {AFFECTED}"),
        ],
    );
    let stored = stored(&results.join("latest")).unwrap();
    let mut found: BTreeMap<(&str, &str), Status> = stored
        .scenarios
        .iter()
        .map(|result| ((result.name.as_str(), result.kernel.as_str()), result.status))
        .collect();
    // All that the pinned kernel is said to have and can run, and no other.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let listed = KernelSpec::load(root, AFFECTED).unwrap().bugs.into_keys();
    let listed = listed.filter(|name| {
        name.starts_with("bugs/") && found.get(&(name.as_str(), AFFECTED)) != Some(&Unsupported)
    });
    let known = found.iter().filter(|((_, kernel), status)| *kernel == AFFECTED && **status == KnownBug);
    let known: BTreeSet<String> = known.map(|((name, _), _)| (*name).to_owned()).collect();
    assert_eq!(known, listed.collect());
    assert!(known.len() >= 34, "{}", known.len());
    found.retain(|(name, _), _| expected.iter().any(|((expected, _), _)| expected == name));
    assert_eq!(found, expected.into_iter().collect());
    let reason = |name: &str| {
        let result = stored.scenarios.iter().find(|result| result.name == name && result.kernel == AFFECTED);
        result.unwrap().reason.clone()
    };
    for (name, says) in [
        ("bugs/arg0", "expected EINVAL, found ENOENT"),
        ("bugs/uprobe-file-offset", "half == 0x6b72616d }: found 3, expected none"),
        ("bugs/watchpoint-length", r#"it is "watched 4 5 6 7\n""#),
    ] {
        assert!(reason(name).contains(says), "{name}: {}", reason(name));
    }
}
