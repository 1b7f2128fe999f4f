//! `kselftest:`, the selftests of the kernel tree.

use crate::{
    kernel::{SELFTEST_COLLECTIONS, SelftestCollection},
    scenario::{
        Document, Expectation, Step, TraceSetup,
        read::{
            locate::{PathSegment, Problem},
            scalar::{FromText, from_text},
        },
        values::timespan::Timespan,
    },
    words::unknown,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{fmt, time::Duration};

/// Runs selftests of the kernel tree one by one, each with a deadline. A test fails the step unless it
/// passes, skips, or ends as listed in `guest/selftests/known.yaml`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kselftest {
    /// A test, or a directory of tests, below `tools/testing/selftests`.
    pub kselftest: SelftestPath,
    /// Time limit of each test, on the reference machine. Default 30s. The scenario's `timeout` applies
    /// to all tests in total.
    #[serde(default)]
    pub deadline: Option<Timespan>,
}

/// The time limit of a test unless the step sets one.
const DEADLINE: Duration = Duration::from_secs(30);

impl Kselftest {
    /// Returns the time limit of each test, on the reference machine.
    pub fn deadline(&self) -> Duration {
        self.deadline.map_or(DEADLINE, |span| span.0)
    }

    /// Returns whether its tests need a complete userland.
    pub(in crate::scenario) fn needs_userland(&self) -> bool {
        SelftestCollection::find(self.kselftest.collection())
            .is_some_and(|collection| collection.needs_userland)
    }
}

/// A path below `tools/testing/selftests` whose first part is a collection that the lab supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelftestPath(String);

/// Maximum number of characters of a path.
const PATH_MAX: usize = 200;

impl SelftestPath {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns its first part.
    pub fn collection(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// Returns whether it is `test`, or a directory above it.
    pub fn selects(&self, test: &str) -> bool {
        test.strip_prefix(self.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for SelftestPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromText for SelftestPath {
    const EXPECTED: &'static str = "a test's path such as ftrace/test.d/kprobe";

    fn from_text(text: &str) -> Result<SelftestPath, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
        if text.len() > PATH_MAX || !text.split('/').all(part) {
            return Err(format!("`{text}` is not a selftest, expected {}", Self::EXPECTED));
        }
        let path = SelftestPath(text.to_owned());
        if SelftestCollection::find(path.collection()).is_none() {
            let known: Vec<&str> = SELFTEST_COLLECTIONS.iter().map(|collection| collection.name).collect();
            return Err(unknown("collection of selftests", path.collection(), &known));
        }
        Ok(path)
    }
}

from_text!(SelftestPath, {
    "type": "string",
    "examples": ["ftrace/test.d/kprobe", "ftrace/test.d/00basic/basic1.tc", "ptrace"],
});

/// Checks that selftests of ftrace have tracing for themselves: they reset it before and after each
/// test.
pub(in crate::scenario) fn check<'a>(
    document: &Document,
    mut steps: impl Iterator<Item = &'a Step>,
) -> Result<(), Problem> {
    let of_ftrace = |step: &'a Step| match step {
        Step::Kselftest(step) => Some(&step.kselftest).filter(|test| test.collection() == "ftrace"),
        _ => None,
    };
    let Some(test) = steps.find_map(of_ftrace) else { return Ok(()) };
    if document.trace != TraceSetup::default() {
        let message = format!("`kselftest: {test}` needs tracing for itself, expected no `trace`");
        return Err(Problem { path: vec![PathSegment::Key("trace")], message });
    }
    let of_trace = |expectation: &Expectation| !matches!(expectation, Expectation::KernelLog(_));
    let Some(index) = document.expect.iter().position(of_trace) else { return Ok(()) };
    let message = format!("`kselftest: {test}` leaves no trace to judge, expected only `kernel_log`");
    Err(Problem { path: vec![PathSegment::Key("expect"), PathSegment::Index(index)], message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use std::path::Path;

    #[test]
    fn tests_of_ftrace_have_tracing_for_themselves() {
        let check = |rest: &str, expect: Option<&str>| {
            let source = format!("summary: x\n{rest}");
            let found = Scenario::parse(Path::new("x.yaml"), &source).map_err(|error| error.message);
            assert_eq!(found.err().as_deref(), expect, "{rest}");
        };
        let ftrace = "userland: debian\nsteps: [{ kselftest: ftrace }]\n";
        check(
            "steps: [{ kselftest: ftrace }]",
            Some("steps[0]: `kselftest` without a userland, expected `userland: debian` as well"),
        );
        check(ftrace, None);
        check(&format!("{ftrace}expect: [{{ kernel_log: {{ never: [BUG] }} }}]"), None);
        check(
            &format!("{ftrace}trace: {{ tracer: function }}"),
            Some("trace: `kselftest: ftrace` needs tracing for itself, expected no `trace`"),
        );
        let count = "expect: [{ count: { event: function, at_least: 1 } }]";
        check(
            &format!("{ftrace}{count}"),
            Some("expect[0]: `kselftest: ftrace` leaves no trace to judge, expected only `kernel_log`"),
        );
        check(
            &format!("steps: [{{ kselftest: breakpoints }}]\ntrace: {{ tracer: function }}\n{count}"),
            None,
        );
    }

    #[test]
    fn a_path_selects_itself_and_what_is_below() {
        let path = SelftestPath::from_text("ftrace/test.d/kprobe").unwrap();
        assert_eq!(path.collection(), "ftrace");
        let check = |test, expect| assert_eq!(path.selects(test), expect, "{test}");
        check("ftrace/test.d/kprobe", true);
        check("ftrace/test.d/kprobe/profile.tc", true);
        check("ftrace/test.d/kprobes/profile.tc", false);
        check("ftrace/test.d", false);
    }

    #[test]
    fn what_leads_elsewhere_is_no_path() {
        let check = |text: &str, expect: &str| {
            let error = SelftestPath::from_text(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        for text in
            ["", "/ftrace", "ftrace/", "ftrace//x", "ftrace/../x", "ftrace/.x", "ftrace/$(x)", "ftrace/a b"]
        {
            check(text, "is not a selftest, expected a test's path");
        }
        check(&"ftrace/x".repeat(99), "is not a selftest");
        check("ftrce", "unknown collection of selftests `ftrce`, expected one of `breakpoints`, `ftrace`");
    }
}
