//! Tests of what is asked, on small histories that are written as strings.

use super::*;
use crate::{
    history::{DenyList, FailureSeen, NightInfo, NightKernel},
    results::{Host, Status},
};

/// Returns the history of scenarios on 6.12. A letter is a night: `.` passed, `F` and `G` failed in two ways, `x` flaky,
/// `u` unsupported, `e` a lab error, a space not there. The kernel's version is raised by each `|` of `versions`.
pub(crate) fn history(versions: &str, lives: &[(&str, &str)]) -> Lives {
    let nights = versions.len();
    let version = |night: usize| format!("6.12.{}", versions[..=night].matches('|').count());
    let night = |number: usize| NightInfo {
        started: 1_767_233_820 + 86_400 * number as i64,
        seconds: 1.0,
        complete: true,
        qemu: "QEMU 10".into(),
        host: Host { architecture: "x86_64".into(), cpus: 2, accelerator: "tcg".into() },
        kernels: vec![NightKernel {
            name: "6.12".into(),
            version: version(number),
            config: String::new(),
            covered: None,
        }],
    };
    let lived = |(number, letter): (usize, char)| {
        let (ending, failed, failed_first) = match letter {
            '.' => (Ending::Passed, 0, 0),
            'F' | 'G' => (Ending::Failed, 3, 1),
            'x' => (Ending::Flaky, 1, 1),
            'u' => (Ending::Unsupported, 0, 0),
            'e' => (Ending::LabError, 0, 0),
            _ => return None,
        };
        let first_tries = u32::from(!matches!(letter, 'u' | 'e'));
        let failure = match letter {
            'F' | 'x' => Some(0),
            'G' => Some(1),
            _ => None,
        };
        let status = if failed > 0 { Status::Failed } else { Status::Passed };
        Some(Lived {
            night: number as u32,
            ending,
            status,
            first_tries,
            failed_first,
            failed,
            failure,
            seconds: 1.0,
        })
    };
    let life = |(name, letters): &(&str, &str)| Life {
        kernel: "6.12".into(),
        scenario: (*name).into(),
        nights: letters.chars().enumerate().filter_map(lived).collect(),
    };
    let failure = |print: &str| {
        (
            print.to_owned(),
            FailureSeen { broken: "step 1".into(), finding: "found 3".into(), reproducer: Vec::new() },
        )
    };
    let mut lives: Vec<_> = lives.iter().map(life).collect();
    lives.sort_by(|a, b| a.scenario.cmp(&b.scenario));
    Lives {
        nights: (0..nights).map(night).collect(),
        lives,
        failures: vec![failure("failed-f"), failure("failed-g")],
    }
}

/// Returns what a night says, as words.
fn said(lives: &Lives, night: u32) -> Vec<String> {
    let judged = crate::history::judge(lives, night, &DenyList::default()).unwrap();
    assert_eq!(judged.fails, !judged.alarms.is_empty());
    let alarms = judged
        .alarms
        .iter()
        .map(|alarm| format!("alarm {} {:?} {}", alarm.case.scenario, alarm.kind, alarm.tries));
    let named = |what: &'static str, cases: Vec<&crate::history::Case>| {
        cases.into_iter().map(|case| format!("{what} {}", case.scenario)).collect::<Vec<_>>()
    };
    alarms
        .chain(named("flaky", judged.flaky.iter().map(|flaky| &flaky.case).collect()))
        .chain(named("unrepeated", judged.unrepeated.iter().collect()))
        .chain(named("still", judged.still_failing.iter().map(|failing| &failing.case).collect()))
        .chain(named("fixed", judged.fixed.iter().map(|failing| &failing.case).collect()))
        .chain(named("lab error", judged.lab_errors.iter().collect()))
        .collect()
}

#[test]
fn a_night_fails_for_what_is_new_and_repeated() {
    let check = |letters: &str, expect: &[&str]| {
        let lives = history(&".".repeat(letters.len()), &[("s", letters)]);
        assert_eq!(said(&lives, letters.len() as u32 - 1), expect, "{letters}");
    };
    check("....", &[]);
    check("....F", &["alarm s NewFailure 3"]);
    check("F", &["alarm s NewFailure 3"]);
    check("....FF", &["still s"]);
    check("....FFG", &["alarm s NewFailure 3"]);
    check("....FFGF", &["still s"]);
    check("....FFGG", &["still s"]);
    check("....FF.", &["fixed s"]);
    check("....FF.F", &["alarm s NewFailure 3"]);
    check("....x", &["flaky s"]);
    check("....e", &["lab error s"]);
    check("....eF", &["alarm s NewFailure 3"]);
    // A flake that fails three times in a row may do so by chance; six times in a row, it does not.
    check("....x.........F", &["flaky s"]);
    check("....x..............................FF", &["alarm s NewFailure 6"]);
    check("....x..............................FF.", &["fixed s"]);
    // It passed on other tries: not new, but too often.
    check("...............................xx.xx", &["alarm s RateRose 1"]);
    check("...............................xx.xxx", &["flaky s"]);
    check("...............................x...x", &["flaky s"]);
    // What had a verdict and has none.
    check("....u", &["alarm s NoLongerRuns 0"]);
    check("...uu", &[]);
    check(".... ", &["alarm s NoLongerRuns 0"]);
    check("...e ", &[]);
}

#[test]
fn one_failure_is_not_repeated_until_the_next_night() {
    let mut lives = history("...", &[("s", ".FF")]);
    lives.lives[0].nights.iter_mut().for_each(|lived| lived.failed = lived.failed.min(1));
    assert_eq!(said(&lives, 1), ["unrepeated s"]);
    assert_eq!(said(&lives, 2), ["alarm s NewFailure 2"]);
}

#[test]
fn an_incomplete_night_misses_nothing_that_is_news() {
    let mut lives = history("..", &[("s", ". "), ("t", "..")]);
    assert_eq!(said(&lives, 1), ["alarm s NoLongerRuns 0"]);
    lives.nights[1].complete = false;
    assert_eq!(said(&lives, 1), Vec::<String>::new());
}

#[test]
fn a_life_is_told_with_its_versions() {
    let lives = history("..|", &[("s", ".x "), ("t", "..F")]);
    let shown = lives.of_scenario("t", None).unwrap();
    let last = shown[0].nights.last().unwrap();
    assert_eq!(
        (last.ending.as_str(), last.version.as_str(), last.fingerprint.as_deref()),
        ("failed", "6.12.1", Some("failed-f"))
    );
    assert_eq!((shown[0].rate.failed, shown[0].rate.tried), (1, 3));
    let error = lives.of_scenario("tt", None).unwrap_err().to_string();
    assert_eq!(error, "the history has no scenario `tt`; did you mean `t`?");
    assert!(lives.of_scenario("t", Some("6.1")).is_err());
}

#[test]
fn changes_are_those_since_the_kernel_ran_last() {
    let lives =
        history("...", &[("a", ".. "), ("b", "..F"), ("c", "..."), ("d", "  ."), ("e", ".FG"), ("f", ".FF")]);
    let changes: Vec<_> = lives
        .changes(2)
        .into_iter()
        .map(|change| {
            format!(
                "{} {:?} {:?}",
                change.scenario,
                change.before.unwrap_or_default(),
                change.now.unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        changes,
        ["a \"passed\" \"\"", "b \"passed\" \"failed\"", "d \"\" \"passed\"", "e \"failed\" \"failed\""]
    );
}

#[test]
fn flakes_are_not_breaks() {
    let lives = history(
        "......",
        &[
            ("alone", "..F..."),
            ("breaks", "..FF.."),
            ("new", ".....F"),
            ("tries", ".x.x.."),
            ("never", "......"),
        ],
    );
    let flakes: Vec<_> = lives
        .flakes()
        .into_iter()
        .map(|flake| (flake.scenario, flake.rate.failed, flake.rate.tried))
        .collect();
    assert_eq!(flakes, [("tries".into(), 2, 6), ("alone".into(), 1, 6)]);
}

#[test]
fn failures_are_told_across_scenarios() {
    let lives = history("....", &[("a", ".F.."), ("b", "..F."), ("c", "...G")]);
    let failures = lives.failures();
    assert_eq!((failures[0].fingerprint.as_str(), failures[0].is_current), ("failed-g", true));
    let other = &failures[1];
    assert_eq!((other.scenarios.as_slice(), other.nights), (["a".to_owned(), "b".to_owned()].as_slice(), 2));
    assert_eq!((other.first.as_str(), other.last.as_str()), ("2026-01-02T02:17:00Z", "2026-01-03T02:17:00Z"));
}

#[test]
fn the_first_bad_night_lies_between_versions() {
    let lives = history("..|..", &[("s", ".FF.."), ("t", "..FFG"), ("u", "FFFFF"), ("w", "x....")]);
    let since =
        |what: &str| lives.since(what, None).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        since("t"),
        [
            "t on 6.12 fails [failed-g]: between 2026-01-02T02:17:00Z and 2026-01-03T02:17:00Z: kernel 6.12.0 → 6.12.1"
        ]
    );
    assert_eq!(
        since("s"),
        [
            "s on 6.12 failed last [failed-f]: between 2026-01-01T02:17:00Z and 2026-01-02T02:17:00Z: same kernel 6.12.0, \
          configuration, QEMU and host"
        ]
    );
    assert_eq!(
        since("u"),
        ["u on 6.12 fails [failed-f]: it never passed before 2026-01-01T02:17:00Z (kernel 6.12.0)"]
    );
    assert_eq!(since("failed-g").len(), 1);
    assert_eq!(since("failed-f").len(), 4);
    assert_eq!(since("w"), Vec::<String>::new());
    assert!(lives.since("failed-h", None).is_err());
}
