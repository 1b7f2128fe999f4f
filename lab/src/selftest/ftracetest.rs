//! ftracetest's own output format, the only one in 6.1 and before: `[1] name`, a tab, `[PASS]`; then the
//! counts.

use super::{NAME_MAX, Outcome, RESULTS_MAX, TestResult, clean};

/// The last line of the counts: output with it is complete.
const LAST: &str = "# of undefined(test bug):";

/// Results, by their names in `eval_result` of ftracetest.
const OUTCOMES: [(&str, Outcome); 7] = [
    ("PASS", Outcome::Passed),
    ("FAIL", Outcome::Failed),
    ("UNRESOLVED", Outcome::Skipped),
    ("UNTESTED", Outcome::Skipped),
    ("UNSUPPORTED", Outcome::Skipped),
    ("XFAIL", Outcome::ExpectedFailure),
    ("UNDEFINED", Outcome::Failed),
];

/// Returns whether this is the first line of such output.
pub(super) fn is_headline(line: &str) -> bool {
    line.trim() == "=== Ftrace unit tests ==="
}

/// Returns the results, and why they are incomplete, if they are.
pub(super) fn parse(text: &str) -> (Vec<TestResult>, Option<String>) {
    let mut results: Vec<TestResult> = Vec::new();
    // A test without its result yet: its own output comes in between.
    let mut begun: Option<String> = None;
    let mut ended = false;
    for line in text.lines().skip_while(|line| !is_headline(line)) {
        if results.len() >= RESULTS_MAX {
            break;
        }
        ended |= line.starts_with(LAST);
        let (head, outcome) = split_outcome(line);
        if let Some(name) = begin(head) {
            begun = Some(name);
        }
        if let Some((word, outcome)) = outcome
            && let Some(name) = begun.take()
        {
            let detail = if outcome == Outcome::Passed { "" } else { word };
            results.push(TestResult { name, outcome, detail: detail.to_lowercase() });
        }
    }
    let problem = match begun {
        Some(name) => Some(format!("`{name}` has no result")),
        None if !ended => Some("it did not come to its counts of results".to_owned()),
        None => None,
    };
    (results, problem)
}

/// Parses `[12] name`, and returns the name.
fn begin(line: &str) -> Option<String> {
    let (number, name) = line.strip_prefix('[')?.split_once(']')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| clean(name, NAME_MAX))
}

/// Splits a line from the `[PASS]` at its end.
fn split_outcome(line: &str) -> (&str, Option<(&'static str, Outcome)>) {
    let word = line.trim_end().strip_suffix(']').and_then(|line| line.rsplit_once("\t["));
    let found = word.and_then(|(head, word)| {
        OUTCOMES.into_iter().find(|(known, _)| *known == word).map(|outcome| (head, outcome))
    });
    found.map_or((line, None), |(head, outcome)| (head, Some(outcome)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_behind_their_names() {
        let text = "=== Ftrace unit tests ===\n[1] Basic trace file check\t[PASS]\n[2] one [x]\t[UNSUPPORTED]\n\
                    [3] loud\nit says\n\t[FAIL]\n[4] (instance)  last\t[XFAIL]\n\n\n# of passed:  1\n\
                    # of undefined(test bug):  0\n";
        let (results, problem) = parse(text);
        let found: Vec<_> = results.iter().map(|result| (result.name.as_str(), result.outcome)).collect();
        use Outcome::{ExpectedFailure, Failed, Passed, Skipped};
        let expect = [
            ("Basic trace file check", Passed),
            ("one [x]", Skipped),
            ("loud", Failed),
            ("(instance)  last", ExpectedFailure),
        ];
        assert_eq!(found, expect);
        assert_eq!(results[1].detail, "unsupported");
        assert_eq!(problem, None);
    }

    #[test]
    fn what_is_cut_short_is_said() {
        let check = |text: &str, expect| {
            let text = format!("=== Ftrace unit tests ===\n{text}");
            assert_eq!(parse(&text).1.as_deref(), Some(expect), "{text}");
        };
        check("[1] a\t[PASS]\n[2] b\n", "`b` has no result");
        check("[1] a\t[PASS]\n", "it did not come to its counts of results");
        check("[x] a\t[PASS]\n]\t[\n[]\t[PASS]\n", "it did not come to its counts of results");
    }
}
