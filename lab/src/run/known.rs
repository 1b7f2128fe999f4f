//! A result, in view of the bugs that its kernel is known to have: `bugs:` of its description.
//!
//! The list has to be true, as that of the selftests has to: what it says fails has to fail, and to
//! say what the list says it says. Whoever only wants to know what a scenario came to, as to find
//! the commit that broke it, does not ask here.

use crate::{kernel::KernelSpec, report::ScenarioResult, verdict::Status};

/// What `result` comes to on a kernel of which `spec` tells the bugs.
pub fn in_view_of_bugs(spec: &KernelSpec, result: ScenarioResult) -> ScenarioResult {
    let Some(says) = spec.bugs.get(&result.name) else { return result };
    let listed = format!("`bugs` of `kernels/{}.yaml`", spec.name);
    match result.status {
        Status::Failed if result.reason.contains(says.as_str()) => {
            ScenarioResult { status: Status::KnownBug, ..result }
        }
        Status::Passed => ScenarioResult {
            status: Status::Failed,
            reason: format!("passed unexpectedly: its entry in {listed} can go"),
            ..result
        },
        Status::Unsupported => ScenarioResult {
            status: Status::Failed,
            reason: format!("{listed} has it, and it did not run: {}", result.reason),
            ..result
        },
        // It stays what it is, and says why that is not the known bug.
        _ => {
            let mut result = result;
            result.notes.push(format!("{listed} has it as failing with `{says}`, which is not what it said"));
            result
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::result;

    fn check(status: Status, reason: &str, expect: Status, says: &str) {
        let text = "summary: s\nfragments: []\nsource: { tree: /l }\nbugs: { bugs/a: is 7 }";
        let spec = KernelSpec { name: "6.1".into(), ..serde_yaml::from_str(text).unwrap() };
        let found = ScenarioResult { reason: reason.into(), ..result("bugs/a", status) };
        let found = in_view_of_bugs(&spec, found);
        assert_eq!(found.status, expect, "{status}: {reason}");
        let told = format!("{}\n{}", found.reason, found.notes.join("\n"));
        assert!(told.contains(says), "{status}: {told}");
        // The list is of this scenario alone.
        let other = ScenarioResult { reason: reason.into(), ..result("bugs/b", status) };
        let other = in_view_of_bugs(&spec, other);
        assert_eq!((other.status, other.reason.as_str(), other.notes.len()), (status, reason, 0));
    }

    #[test]
    fn a_listed_bug_has_to_fail_as_it_is_listed() {
        let entry = "`bugs` of `kernels/6.1.yaml`";
        check(Status::Failed, "value is 7", Status::KnownBug, "value is 7");
        check(
            Status::Failed,
            "value is 8",
            Status::Failed,
            &format!("{entry} has it as failing with `is 7`"),
        );
        check(
            Status::Passed,
            "",
            Status::Failed,
            &format!("passed unexpectedly: its entry in {entry} can go"),
        );
        check(Status::Unsupported, "no BTF", Status::Failed, "it did not run: no BTF");
        check(Status::Panic, "is 7", Status::Panic, "which is not what it said");
    }
}
