//! The exit status and the output of a test's program → its results.

use super::{DETAIL_MAX, clean, ftracetest, tap};
use std::fmt;

/// The outcome of a test, as the test reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It crashed, or its results are incomplete or contradict its exit status.
    Incomplete,
    /// It could not run its test: unsupported, unresolved, untested.
    Skipped,
    /// It failed, and expects to: XFAIL.
    ExpectedFailure,
    /// It exceeded its deadline.
    TimedOut,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// The name as printed; empty for the program as a whole.
    pub name: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its diagnostics, on few lines.
    pub detail: String,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this status.
    Exited(i32),
    /// It was killed by this signal.
    Signaled(i32),
    /// It was killed at its deadline.
    TimedOut,
}

impl fmt::Display for Ended {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exited(status) => write!(out, "exit status {status}"),
            Ended::Signaled(signal) => write!(out, "signal {signal}"),
            Ended::TimedOut => out.write_str("a passed deadline"),
        }
    }
}

/// kselftest.h: KSFT_SKIP.
const EXIT_SKIP: i32 = 4;

/// Returns the results of a program that printed `text` and ended like this. There is at least one; any
/// inconsistency is reported as an [`Outcome::Incomplete`].
pub fn read(text: &str, ended: Ended) -> Vec<TestResult> {
    let (mut results, mut problem) = if text.lines().any(tap::is_version) {
        let tap = tap::parse(text);
        if let Some(reason) = tap.skipped() {
            return vec![whole(Outcome::Skipped, reason)];
        }
        let problem = tap.problem();
        (tap.results, problem)
    } else if text.lines().any(ftracetest::is_headline) {
        ftracetest::parse(text)
    } else {
        return vec![plain(text, ended)];
    };
    let has = |outcome| results.iter().any(|result| result.outcome == outcome);
    let explained = |status| match status {
        0 => true,
        EXIT_SKIP => has(Outcome::Skipped) || has(Outcome::Failed),
        _ => has(Outcome::Failed),
    };
    match ended {
        Ended::TimedOut => {
            results.push(whole(Outcome::TimedOut, ""));
            return results;
        }
        Ended::Signaled(_) => problem = Some(format!("it ended by {ended}")),
        Ended::Exited(status) if problem.is_none() && !explained(status) => {
            problem = Some(format!("it ended with {ended}, which no result explains"));
        }
        Ended::Exited(_) => {}
    }
    if results.is_empty() && problem.is_none() {
        problem = Some("it printed no result".to_owned());
    }
    results.extend(problem.map(|problem| whole(Outcome::Incomplete, &problem)));
    results
}

fn whole(outcome: Outcome, detail: &str) -> TestResult {
    TestResult { name: String::new(), outcome, detail: clean(detail, DETAIL_MAX) }
}

/// Words with which a program says that it did not test something, in any case.
const SKIP_WORDS: [&str; 6] = ["skip", "skipped", "skipping", "unresolved", "unsupported", "untested"];

/// Returns the result of a program without a protocol: its exit status counts, unless its output reports a
/// failure, as that of static_keys and livepatch does with a status of 0, or that it did not test.
fn plain(text: &str, ended: Ended) -> TestResult {
    let says_failed = |line: &&str| {
        let end = line.trim_end();
        line.contains("[FAIL]") || line.starts_with("not ok") || end.ends_with("... not ok") || end == "FAIL"
    };
    let says_skipped = |line: &&str| {
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.any(|word| SKIP_WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)))
    };
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    match ended {
        Ended::TimedOut => whole(Outcome::TimedOut, ""),
        Ended::Exited(EXIT_SKIP) => whole(Outcome::Skipped, last),
        Ended::Exited(0) => {
            if let Some(line) = text.lines().find(says_failed) {
                let line = clean(line, 200);
                return whole(Outcome::Failed, &format!("it ended with exit status 0 and said `{line}`"));
            }
            match text.lines().find(says_skipped) {
                Some(line) => whole(Outcome::Skipped, line),
                None => whole(Outcome::Passed, ""),
            }
        }
        ended => {
            let outcome =
                if matches!(ended, Ended::Exited(_)) { Outcome::Failed } else { Outcome::Incomplete };
            whole(outcome, &format!("it ended with {ended}: {}", clean(last, 200)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ended::{Exited, Signaled, TimedOut};

    fn check(text: &str, ended: Ended, expect: &[(&str, Outcome, &str)]) {
        let results = read(text, ended);
        let found: Vec<_> = results
            .iter()
            .map(|result| (result.name.as_str(), result.outcome, result.detail.as_str()))
            .collect();
        assert_eq!(found, expect, "{text}, {ended}");
    }

    #[test]
    fn a_program_without_a_protocol_is_judged_by_its_status_and_its_words() {
        use Outcome::{Failed, Incomplete, Passed, Skipped};
        check("all well\n", Exited(0), &[("", Passed, "")]);
        check(
            "static_keys: [FAIL]\n",
            Exited(0),
            &[("", Failed, "it ended with exit status 0 and said `static_keys: [FAIL]`")],
        );
        check(
            "TEST: basic ... not ok\n",
            Exited(0),
            &[("", Failed, "it ended with exit status 0 and said `TEST: basic ... not ok`")],
        );
        check("no module [SKIP]\n", Exited(4), &[("", Skipped, "no module [SKIP]")]);
        for line in
            ["x: [SKIP]", "SKIP: no such CPU", "hotplug is unsupported", "result: UNRESOLVED", "Untested"]
        {
            check(&format!("one\n{line}\ntwo\n"), Exited(0), &[("", Skipped, line)]);
        }
        check("TEST: skip_list ... ok\nskipper\n", Exited(0), &[("", Passed, "")]);
        check("a\nwrong\n\n", Exited(1), &[("", Failed, "it ended with exit status 1: wrong")]);
        check("", Signaled(11), &[("", Incomplete, "it ended with signal 11: it said nothing")]);
        check("so far\n", TimedOut, &[("", Outcome::TimedOut, "")]);
    }

    #[test]
    fn status_and_results_have_to_agree() {
        use Outcome::{Failed, Incomplete, Passed, Skipped};
        let one = "TAP version 13\n1..1\nok 1 a\n";
        check(one, Exited(0), &[("a", Passed, "")]);
        check(
            one,
            Exited(1),
            &[("a", Passed, ""), ("", Incomplete, "it ended with exit status 1, which no result explains")],
        );
        check(
            one,
            Exited(4),
            &[("a", Passed, ""), ("", Incomplete, "it ended with exit status 4, which no result explains")],
        );
        check(
            "TAP version 13\n1..2\nok 1 a\nok 2 # SKIP no\n",
            Exited(4),
            &[("a", Passed, ""), ("2", Skipped, "no")],
        );
        check(one, Signaled(9), &[("a", Passed, ""), ("", Incomplete, "it ended by signal 9")]);
        check("TAP version 13\n1..1\nnot ok 1 a\n", Exited(1), &[("a", Failed, "")]);
        check("TAP version 13\n1..2\nok 1 a\n", TimedOut, &[("a", Passed, ""), ("", Outcome::TimedOut, "")]);
        check("TAP version 13\n1..0 # SKIP no\n", Exited(4), &[("", Skipped, "no")]);
        check("TAP version 13\n1..0\n", Exited(0), &[("", Skipped, "")]);
        check(
            "=== Ftrace unit tests ===\n",
            Exited(0),
            &[("", Incomplete, "it did not come to its counts of results")],
        );
    }
}
