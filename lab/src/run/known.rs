//! Compares a result with the known bugs of its kernel: `bugs:` of its description.
//!
//! The list must be accurate, like that of the selftests: a listed scenario must fail, hang, or end with a splat or an
//! oops, and the reason must contain the listed text. It may be unsupported if the entry is that of another kernel, which
//! `bugs_of` names; on a tree that replaces the kernel's source, or on a later version than `bugs_as_of`, it
//! may pass as well, with a note. Callers that need the plain result, such as a bisection, do not use this module.

use crate::{
    kernel::KernelSpec,
    results::{ScenarioResult, Status},
};

/// Returns `result` with the known bugs of the kernel, listed in `spec`, taken into account.
pub fn in_view_of_bugs(spec: &KernelSpec, result: ScenarioResult) -> ScenarioResult {
    let Some(says) = spec.bugs.get(&result.name) else { return result };
    let listed = format!("`bugs` of `kernels/{}.yaml`", spec.name);
    match result.status {
        Status::Failed | Status::Hang | Status::Splat | Status::Oops
            if result.reason.contains(says.as_str()) =>
        {
            ScenarioResult { status: Status::KnownBug, ..result }
        }
        Status::Unsupported if spec.bugs_may_be_fixed => result,
        Status::Passed if spec.bugs_may_be_fixed => {
            let mut result = result;
            result.notes.push(format!("this kernel does not have its bug, which is listed in {listed}"));
            result
        }
        Status::Passed => ScenarioResult {
            status: Status::Failed,
            reason: format!("passed unexpectedly: remove its entry from {listed}"),
            ..result
        },
        Status::Unsupported if spec.inherited_bugs.contains(&result.name) => result,
        Status::Unsupported => ScenarioResult {
            status: Status::Failed,
            reason: format!("did not run, but is listed in {listed}: {}", result.reason),
            ..result
        },
        // The status stays, with a note that this is not the known bug.
        _ => {
            let mut result = result;
            result.notes.push(format!("failed differently from its entry in {listed}: expected `{says}`"));
            result
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture::result;

    fn spec() -> KernelSpec {
        let text = "summary: s\nfragments: []\nsource: { tree: /l }\nbugs: { bugs/a: is 7 }";
        KernelSpec { name: "6.1".into(), ..crate::yaml::from_str(text).unwrap() }
    }

    fn check(status: Status, reason: &str, expect: Status, says: &str) {
        let spec = spec();
        let found = ScenarioResult { reason: reason.into(), ..result("bugs/a", status) };
        let found = in_view_of_bugs(&spec, found);
        assert_eq!(found.status, expect, "{status}: {reason}");
        let told = format!("{}\n{}", found.reason, found.notes.join("\n"));
        assert!(told.contains(says), "{status}: {told}");
        // Other scenarios are not affected.
        let other = ScenarioResult { reason: reason.into(), ..result("bugs/b", status) };
        let other = in_view_of_bugs(&spec, other);
        assert_eq!((other.status, other.reason.as_str(), other.notes.len()), (status, reason, 0));
    }

    #[test]
    fn a_bug_of_another_kernel_may_be_unsupported() {
        let spec = KernelSpec { inherited_bugs: ["bugs/a".into()].into(), ..spec() };
        let found = |status| in_view_of_bugs(&spec, result("bugs/a", status)).status;
        assert_eq!(found(Status::Unsupported), Status::Unsupported);
        assert_eq!(found(Status::Passed), Status::Failed);
    }

    #[test]
    fn a_listed_bug_has_to_fail_as_it_is_listed() {
        let entry = "`bugs` of `kernels/6.1.yaml`";
        check(Status::Failed, "value is 7", Status::KnownBug, "value is 7");
        check(Status::Hang, "value is 7", Status::KnownBug, "value is 7");
        check(Status::Splat, "value is 7", Status::KnownBug, "value is 7");
        check(Status::Oops, "value is 7", Status::KnownBug, "value is 7");
        check(
            Status::Failed,
            "value is 8",
            Status::Failed,
            &format!("failed differently from its entry in {entry}: expected `is 7`"),
        );
        check(
            Status::Passed,
            "",
            Status::Failed,
            &format!("passed unexpectedly: remove its entry from {entry}"),
        );
        check(Status::Unsupported, "no BTF", Status::Failed, "did not run, but is listed in");
        check(Status::Panic, "is 7", Status::Panic, "failed differently");
    }

    #[test]
    fn a_tree_may_have_the_fix() {
        let spec = KernelSpec { bugs_may_be_fixed: true, ..spec() };
        let check = |status, reason: &str, expect| {
            let found = ScenarioResult { reason: reason.into(), ..result("bugs/a", status) };
            assert_eq!(in_view_of_bugs(&spec, found).status, expect, "{status}: {reason}");
        };
        check(Status::Passed, "", Status::Passed);
        check(Status::Unsupported, "no BTF", Status::Unsupported);
        check(Status::Failed, "value is 7", Status::KnownBug);
        check(Status::Failed, "value is 8", Status::Failed);
    }
}
