//! ftracetest's own output format, the only one in 6.1 and before: `[1] name`, a tab, `[PASS]`; then the
//! counts.

use super::{NAME_MAX, Outcome, RESULTS_MAX, TestResult, clean};

/// The last of the counts: output with it is complete.
const LAST: &str = "undefined(test bug)";

/// A result as `eval_result` of ftracetest names it, its name among the counts, and its outcome.
type Word = (&'static str, &'static str, Outcome);

const WORDS: [Word; 7] = [
    ("PASS", "passed", Outcome::Passed),
    ("FAIL", "failed", Outcome::Failed),
    ("UNRESOLVED", "unresolved", Outcome::Skipped),
    ("UNTESTED", "untested", Outcome::Skipped),
    ("UNSUPPORTED", "unsupported", Outcome::Skipped),
    ("XFAIL", "xfailed", Outcome::ExpectedFailure),
    ("UNDEFINED", LAST, Outcome::Failed),
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
    let mut words: Vec<Word> = Vec::new();
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for line in text.lines().skip_while(|line| !is_headline(line)) {
        if results.len() >= RESULTS_MAX {
            break;
        }
        counts.extend(parse_count(line));
        let (head, word) = split_word(line);
        if let Some(name) = begin(head) {
            begun = Some(name);
        }
        if let Some(word) = word
            && let Some(name) = begun.take()
        {
            let (said, _, outcome) = word;
            let detail = if outcome == Outcome::Passed { String::new() } else { said.to_lowercase() };
            results.push(TestResult { name, outcome, detail });
            words.push(word);
        }
    }
    let problem = match begun {
        Some(name) => Some(format!("`{name}` has no result")),
        None if !counts.iter().any(|(name, _)| *name == LAST) => {
            Some("it did not come to its counts of results".to_owned())
        }
        None => counts.into_iter().find_map(|(name, count)| {
            let printed = words.iter().filter(|(_, counted, _)| *counted == name).count();
            (printed != count).then(|| format!("it counted {count} {name} and printed {printed}"))
        }),
    };
    (results, problem)
}

/// Parses `# of passed:  3`; other such lines are a test's own.
fn parse_count(line: &str) -> Option<(&str, usize)> {
    let (name, count) = line.strip_prefix("# of ")?.split_once(':')?;
    let is_known = WORDS.iter().any(|(_, counted, _)| *counted == name);
    is_known.then_some((name, count.trim().parse().ok()?))
}

/// Parses `[12] name`, and returns the name.
fn begin(line: &str) -> Option<String> {
    let (number, name) = line.strip_prefix('[')?.split_once(']')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| clean(name, NAME_MAX))
}

/// Splits a line from the `[PASS]` at its end.
fn split_word(line: &str) -> (&str, Option<Word>) {
    let word = line.trim_end().strip_suffix(']').and_then(|line| line.rsplit_once("\t["));
    let found = word.and_then(|(head, said)| {
        WORDS.into_iter().find(|(known, ..)| *known == said).map(|word| (head, word))
    });
    found.map_or((line, None), |(head, word)| (head, Some(word)))
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
        let counts =
            |passed| format!("# of passed:  {passed}\n# of unsupported:  1\n# of undefined(test bug):  0\n");
        let results = "[1] a\t[PASS]\n[2] b\t[UNSUPPORTED]\n[3] c\t[PASS]\n";
        check(&format!("{results}{}", counts(1)), "it counted 1 passed and printed 2");
        let text = format!("=== Ftrace unit tests ===\n{results}{}", counts(2));
        assert_eq!(parse(&text).1, None);
        check("[x] a\t[PASS]\n]\t[\n[]\t[PASS]\n", "it did not come to its counts of results");
    }
}
