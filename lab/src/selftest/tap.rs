//! TAP 13 and KTAP 1: `1..N`, `ok 1 name # SKIP why`, `not ok 2 name`, `# diagnostic`.
//!
//! Indented results belong to the result that follows and summarizes them; they are kept as its
//! diagnostics.

use super::{DETAIL_MAX, NAME_MAX, Outcome, RESULTS_MAX, TestResult, clean};

/// The output of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tap {
    pub(super) results: Vec<TestResult>,
    /// The planned number of results.
    plan: Option<usize>,
    /// The reason in `1..0 # SKIP why`: nothing to test.
    skipped: Option<String>,
    /// The reason in `Bail out! why`.
    bail: Option<String>,
    /// The counts of passed results and expected failures in `# Totals:`.
    totals: Option<[usize; 2]>,
    /// The first result whose number does not match its position.
    misnumbered: Option<String>,
}

/// Directives after a `#`, and the outcome of a result with one; `None` does not change it. `UNRESOLVED`
/// is specific to ftracetest, and follows `not ok`.
const DIRECTIVES: [(&str, Option<Outcome>); 8] = [
    ("SKIP", Some(Outcome::Skipped)),
    ("UNRESOLVED", Some(Outcome::Skipped)),
    ("UNSUPPORTED", Some(Outcome::Skipped)),
    ("UNTESTED", Some(Outcome::Skipped)),
    ("XFAIL", Some(Outcome::ExpectedFailure)),
    ("TODO", Some(Outcome::ExpectedFailure)),
    ("XPASS", Some(Outcome::Failed)),
    ("error", None),
];

/// Returns whether a line begins such output.
pub(super) fn is_version(line: &str) -> bool {
    let number = line.strip_prefix("TAP version ").or_else(|| line.strip_prefix("KTAP version "));
    number.is_some_and(|number| number.trim().parse::<u32>().is_ok())
}

/// Parses the output after the first line that [`is_version`].
pub(super) fn parse(text: &str) -> Tap {
    let mut tap = Tap::default();
    let mut said = String::new();
    for line in text.lines().skip_while(|line| !is_version(line)).skip(1) {
        if tap.results.len() >= RESULTS_MAX {
            break;
        }
        if let Some(reason) = line.strip_prefix("Bail out!") {
            tap.bail = Some(clean(reason, DETAIL_MAX));
            break;
        }
        if let Some(plan) = line.strip_prefix("1..") {
            tap.take_plan(plan);
        } else if let Some((passed, rest)) = result_line(line) {
            tap.take_result(passed, rest, &std::mem::take(&mut said));
        } else if let Some(totals) = line.strip_prefix("# Totals: ") {
            tap.totals = Some(["pass:", "xfail:"].map(|name| count(totals, name)));
        } else {
            let line = line.trim_start_matches('#');
            if said.chars().count() < DETAIL_MAX && !line.trim().is_empty() {
                said += &clean(line, DETAIL_MAX);
                said.push('\n');
            }
        }
    }
    tap
}

/// Parses the number after `name` among words such as `pass:3`; 0 if there is none.
fn count(totals: &str, name: &str) -> usize {
    let number = totals.split(' ').find_map(|word| word.strip_prefix(name)?.trim().parse().ok());
    number.unwrap_or(0)
}

/// Splits a line into `ok` or `not ok` and the rest.
fn result_line(line: &str) -> Option<(bool, &str)> {
    let (passed, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    (rest.is_empty() || rest.starts_with(' ')).then_some((passed, rest.trim()))
}

impl Tap {
    fn take_plan(&mut self, plan: &str) {
        let (number, reason) = plan.split_once('#').unwrap_or((plan, ""));
        let Ok(number) = number.trim().parse() else { return };
        self.plan.get_or_insert(number);
        if number == 0 {
            let reason = reason.trim();
            self.skipped = Some(clean(reason.strip_prefix("SKIP").unwrap_or(reason), DETAIL_MAX));
        }
    }

    fn take_result(&mut self, passed: bool, rest: &str, said: &str) {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, rest) = rest.split_at(digits);
        let place = self.results.len() + 1;
        if !number.is_empty() && number.parse() != Ok(place) {
            self.misnumbered
                .get_or_insert_with(|| format!("result {place} has the number {}", clean(number, 12)));
        }
        let (name, directive) = split_directive(rest);
        let mut name = clean(name.trim().trim_start_matches("- "), NAME_MAX);
        // Before 6.8, kselftest.h prints no name for a skipped test.
        if name.is_empty() {
            name = place.to_string();
        }
        let own = if passed { Outcome::Passed } else { Outcome::Failed };
        let (outcome, comment) = match directive {
            Some((outcome, comment)) => (outcome.unwrap_or(own), clean(comment, DETAIL_MAX)),
            None => (own, String::new()),
        };
        let detail = match outcome {
            Outcome::Passed => String::new(),
            _ if comment.is_empty() => said.trim_end().to_owned(),
            _ => comment,
        };
        self.results.push(TestResult { name, outcome, detail });
    }

    /// Returns why the results are incomplete.
    pub(super) fn problem(&self) -> Option<String> {
        if let Some(reason) = &self.bail {
            return Some(format!("it bailed out: {reason}"));
        }
        if let Some(misnumbered) = &self.misnumbered {
            return Some(misnumbered.clone());
        }
        let counted = [Outcome::Passed, Outcome::ExpectedFailure]
            .map(|outcome| self.results.iter().filter(|result| result.outcome == outcome).count());
        if let Some([passed, expected]) = self.totals.filter(|totals| *totals != counted) {
            let [found, also] = counted;
            return Some(format!(
                "it counted {passed} passed and {expected} xfailed results, but printed {found} and {also}"
            ));
        }
        match self.plan {
            None => Some("it printed no plan `1..N`".to_owned()),
            Some(plan) if plan != self.results.len() => {
                Some(format!("it planned {plan} results and printed {}", self.results.len()))
            }
            Some(_) => None,
        }
    }

    /// Returns why there was nothing to test.
    pub(super) fn skipped(&self) -> Option<&str> {
        self.skipped.as_deref().filter(|_| self.results.is_empty())
    }
}

/// Splits a name, which may itself contain a `#`, from the directive after it.
fn split_directive(rest: &str) -> (&str, Option<(Option<Outcome>, &str)>) {
    for (at, _) in rest.match_indices('#') {
        let behind = rest[at + 1..].trim_start();
        for (word, outcome) in DIRECTIVES {
            let Some(head) = behind.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word)) else {
                continue;
            };
            let comment = &behind[head.len()..];
            if comment.is_empty() || comment.starts_with([' ', ':']) {
                return (&rest[..at], Some((outcome, comment.trim_start_matches([' ', ':']))));
            }
        }
    }
    (rest, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[(&str, Outcome, &str)], problem: Option<&str>) {
        let tap = parse(text);
        let found: Vec<_> = tap
            .results
            .iter()
            .map(|result| (result.name.as_str(), result.outcome, result.detail.as_str()))
            .collect();
        assert_eq!(found, expect, "{text}");
        assert_eq!(tap.problem().as_deref(), problem, "{text}");
    }

    #[test]
    fn results_have_a_name_an_outcome_and_what_was_said() {
        use Outcome::{ExpectedFailure, Failed, Passed, Skipped};
        check(
            "noise\nTAP version 13\n1..5\n# said of one\nok 1 one\n# why\n#   more\nnot ok 2 - two # three\n\
             ok 3 # SKIP no such feature\nok 4 four # xfail known\nnot ok 5 five # UNRESOLVED\n\
             # Totals: pass:1 fail:1 xfail:1 xpass:0 skip:2 error:0\n",
            &[
                ("one", Passed, ""),
                ("two # three", Failed, "why\nmore"),
                ("3", Skipped, "no such feature"),
                ("four", ExpectedFailure, "known"),
                ("five", Skipped, ""),
            ],
            None,
        );
        check(
            "KTAP version 1\n1..1\n  ok 1 inner\n  not ok 2 inner\nnot ok 1 outer # error\n",
            &[("outer", Failed, "ok 1 inner\nnot ok 2 inner")],
            None,
        );
        check("TAP version 13\n1..0 # SKIP not here\n", &[], None);
        assert_eq!(parse("TAP version 13\n1..0 # SKIP not here\n").skipped(), Some("not here"));
        // A comment that only begins like a directive is part of the name.
        check("TAP version 13\n1..1\nok 1 a # skipper\n", &[("a # skipper", Passed, "")], None);
    }

    #[test]
    fn what_is_not_whole_is_said() {
        use Outcome::Passed;
        let one = [("a", Passed, "")];
        check("TAP version 13\n1..2\nok 1 a\n", &one, Some("it planned 2 results and printed 1"));
        check("TAP version 13\nok 1 a\n", &one, Some("it printed no plan `1..N`"));
        check("TAP version 13\n1..1\nok 7 a\n", &one, Some("result 1 has the number 7"));
        check(
            "TAP version 13\n1..2\nok 1 a\nBail out! no memory\nok 2 b\n",
            &one,
            Some("it bailed out: no memory"),
        );
    }

    #[test]
    fn a_result_that_was_not_tested_is_skipped() {
        use Outcome::{Passed, Skipped};
        check(
            "TAP version 13\n1..4\nok 1 a\nok 2 b # UNSUPPORTED\nok 3 c # untested: no\n\
             not ok 4 d # UNRESOLVED\n# Totals: pass:1 fail:0 xfail:0 xpass:0 skip:2 error:1\n",
            &[("a", Passed, ""), ("b", Skipped, ""), ("c", Skipped, "no"), ("d", Skipped, "")],
            None,
        );
        // The program counts them.
        check(
            "TAP version 13\n1..2\nok 1 a\nok 2 b\n# Totals: pass:1 fail:0 xfail:0 xpass:0 skip:1 error:0\n",
            &[("a", Passed, ""), ("b", Passed, "")],
            Some("it counted 1 passed and 0 xfailed results, but printed 2 and 0"),
        );
    }

    #[test]
    fn hostile_output_is_capped_and_cleaned() {
        let text = format!(
            "TAP version 13\n1..1\n{}not ok 1 {}\x1b[31m\n",
            "# x\u{e9}\x07y\n".repeat(9000),
            "n".repeat(9000)
        );
        let tap = parse(&text);
        assert_eq!(tap.results[0].name.len(), NAME_MAX);
        assert!(tap.results[0].detail.chars().count() <= DETAIL_MAX + 10);
        assert!(tap.results[0].detail.starts_with("x\u{e9} y\n"));
        let text = format!("TAP version 13\n1..99999999999999999999\n{}", "ok\n".repeat(5000));
        assert_eq!(parse(&text).results.len(), RESULTS_MAX);
        for text in
            ["TAP version 13\n1..\nok #\nnot ok ##\u{e9}#SKI\u{e9}\nok 99999999999999999999999 x", "", "\0"]
        {
            parse(text);
        }
    }
}
