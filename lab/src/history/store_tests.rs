//! Tests of what the file keeps, what it refuses, and how large it becomes.

use super::*;
use crate::{
    history::{Ending, Lives, simulated::Fleet},
    results::{SCENARIO, ScenarioResult, StepResult, fixture},
};

fn nights(count: u32) -> Vec<Night> {
    let mut fleet = Fleet::new(2, 3, 1);
    (1..=count)
        .map(|number| fleet.night(number, |_, scenario| (if scenario == 1 { 1.0 } else { 0.0 }, 1.0)))
        .collect()
}

#[test]
fn what_was_added_is_read_again() {
    let place = tempfile::tempdir().unwrap();
    let mut history = History::create(place.path()).unwrap();
    for night in nights(3) {
        assert_eq!(history.add(&night).unwrap(), Added::New);
    }
    drop(history);
    let lives = Lives::read(&History::open(place.path()).unwrap(), usize::MAX).unwrap();
    let times: Vec<_> = lives.nights.iter().map(|night| night.time()).collect();
    assert_eq!(times, ["2026-01-01T02:17:00Z", "2026-01-02T02:17:00Z", "2026-01-03T02:17:00Z"]);
    assert_eq!(lives.nights[0].kernel("6.1").unwrap().version, "6.1.0");
    assert_eq!(lives.nights[0].qemu, "QEMU emulator version 10.0.0");
    assert_eq!(lives.lives.len(), 6);
    let life = lives.life("6.1", "area1/scenario-with-a-name-1").unwrap();
    let failed = life.nights[2];
    assert_eq!(
        (failed.ending, failed.status, failed.failed, failed.first_tries),
        (Ending::Failed, Status::Failed, 3, 1)
    );
    assert!(lives.fingerprint(failed.failure).unwrap().starts_with("failed-"));
    let passed = lives.life("6.1", "area2/scenario-with-a-name-2").unwrap().nights[0];
    assert_eq!((passed.ending, passed.failure), (Ending::Passed, None));
    assert!((passed.seconds - 0.42).abs() < 0.3, "{}", passed.seconds);
    // The last nights only.
    let lives = Lives::read(&History::open(place.path()).unwrap(), 1).unwrap();
    assert_eq!((lives.nights.len(), lives.lives[0].nights.len()), (1, 1));
}

#[test]
fn a_night_is_there_once() {
    let place = tempfile::tempdir().unwrap();
    let mut history = History::create(place.path()).unwrap();
    let night = nights(1).remove(0);
    assert_eq!(history.add(&night).unwrap(), Added::New);
    // In another order it is the same.
    let mut other = night.clone();
    other.tries.reverse();
    assert_eq!(history.add(&other).unwrap(), Added::Known);
    other.tries[0].status = Status::Panic;
    let error = history.add(&other).unwrap_err().to_string();
    assert!(
        error.contains("a different one of the night that started at 2026-01-01T02:17:00Z; merge"),
        "{error}"
    );
    let lives = Lives::read(&history, usize::MAX).unwrap();
    assert_eq!((lives.nights.len(), lives.lives.iter().map(|life| life.nights.len()).sum::<usize>()), (1, 6));
    assert!(history.remove(night.info.started).unwrap());
    assert!(!history.remove(night.info.started).unwrap());
    assert_eq!(history.add(&other).unwrap(), Added::New);
}

#[test]
fn other_files_and_later_formats_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let error = |expect: &str| {
        for error in [History::open(place.path()).err(), History::create(place.path()).err()] {
            let error = error.unwrap().to_string();
            assert!(error.contains(expect), "{error}");
        }
    };
    let none = History::open(place.path()).unwrap_err().to_string();
    assert!(none.contains("lab history add REPORT --into"), "{none}");
    drop(History::create(place.path()).unwrap());
    let path = place.path().join(FILE);
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 2).unwrap();
    error("it has format 2, and this version of the lab reads 1; update the lab");
    connection.pragma_update(None, "application_id", 7).unwrap();
    error("it is not a history of the lab");
    drop(connection);
    fs::write(&path, "not a database, but text that is long enough to be looked at").unwrap();
    error("file is not a database");
}

#[test]
fn a_damaged_file_is_an_error_and_not_a_panic() {
    let place = tempfile::tempdir().unwrap();
    let mut history = History::create(place.path()).unwrap();
    for night in nights(20) {
        history.add(&night).unwrap();
    }
    drop(history);
    let path = place.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let mut damaged = whole.clone();
        for _ in 0..8 {
            let at = random.usize(100..damaged.len());
            damaged[at] = random.u8(..);
        }
        fs::write(&path, &damaged[..random.usize(damaged.len() / 2..=damaged.len())]).unwrap();
        if let Ok(history) = History::open(place.path()) {
            let _ = Lives::read(&history, usize::MAX);
        }
    }
}

/// A report in a directory, as another machine may have left it.
fn report(
    directory: &Path,
    change: impl FnOnce(&mut crate::results::Results),
) -> Result<Night, HistoryError> {
    let result = ScenarioResult {
        directory: "6.12/a".into(),
        reason: "step 1".into(),
        steps: vec![StepResult {
            text: "read".into(),
            passed: false,
            detail: "found 3 of 4".into(),
            ..StepResult::default()
        }],
        ..fixture::result("a", Status::Failed)
    };
    let mut results = fixture::results(vec![result]);
    change(&mut results);
    fs::write(directory.join("results.json"), serde_json::to_vec(&results).unwrap()).unwrap();
    Night::read(directory, None, |_| {})
}

#[test]
fn a_failure_is_identified_by_the_scenario_that_was_run() {
    let place = tempfile::tempdir().unwrap();
    let without = report(place.path(), |_| {}).unwrap();
    fs::create_dir_all(place.path().join("6.12/a")).unwrap();
    fs::write(place.path().join("6.12/a").join(SCENARIO), "summary: s\nsteps:\n  - read: trace\n").unwrap();
    fs::write(place.path().join("6.12/a/repro.yaml"), "name: a\n").unwrap();
    let with = report(place.path(), |_| {}).unwrap();
    let print = |night: &Night| night.tries[0].fingerprint.clone().unwrap();
    assert_ne!(print(&with), print(&without));
    let seen = &with.failures[&print(&with)];
    assert_eq!((seen.broken.as_str(), seen.finding.as_str()), ("step 1, `read: trace`", "found 3 of 4"));
    let mut history = History::create(&place.path().join("history")).unwrap();
    history.add(&with).unwrap();
    assert_eq!(history.reproducer(&print(&with)).unwrap().as_deref(), Some("name: a\n"));
    assert_eq!(history.reproducer("none").unwrap(), None);
    // A link leads nowhere.
    fs::remove_dir_all(place.path().join("6.12/a")).unwrap();
    std::os::unix::fs::symlink("/etc", place.path().join("6.12/a")).unwrap();
    assert_eq!(print(&report(place.path(), |_| {}).unwrap()), print(&without));
}

#[test]
fn what_no_lab_writes_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let check = |change: fn(&mut crate::results::Results), expect: &str| {
        let error = report(place.path(), change).unwrap_err().to_string();
        assert!(error.starts_with("cannot add `") && error.contains(expect), "{error}");
    };
    check(
        |results| results.run.started = "last night".into(),
        "it started at `last night`, which is not a time",
    );
    check(|results| results.run.started = "9999-01-01T00:00:00Z".into(), "it started in the year 9999");
    check(|results| results.scenarios[0].name = "x".repeat(301), "is not a name or version");
    check(|results| results.qemu.version = "a\0b".into(), "is not a name or version");
    check(
        |results| {
            results.scenarios[0].directory.clear();
            results.scenarios.extend_from_within(..);
        },
        "`a` on 6.12 is in it twice",
    );
    check(|results| results.schema = 9, "has format 9, and this version of the lab reads 1");
    let endless = report(place.path(), |results| results.scenarios[0].seconds = 1e300).unwrap();
    assert!(endless.tries[0].seconds < 1e6);
}

/// Returns the size of a history of so many nights of 12 kernels and 400 scenarios, in bytes.
fn size_of(nights: u32) -> u64 {
    let place = tempfile::tempdir().unwrap();
    let mut history = History::create(place.path()).unwrap();
    // The disk is not what is tested.
    history.connection.pragma_update(None, "synchronous", "off").unwrap();
    let mut fleet = Fleet::new(12, 400, 7);
    let mut night = fleet.night(1, |_, _| (0.01, 1.0));
    for number in 1..=nights {
        // One night in ten is drawn, and its times are stretched for the others: drawing takes longer than writing.
        if number % 10 == 0 {
            night = fleet.night(number, |_, _| (0.01, 1.0));
        }
        night.info.started += 86_400;
        night.tries.iter_mut().for_each(|tried| tried.seconds *= 1.01);
        assert_eq!(history.add(&night).unwrap(), Added::New);
    }
    drop(history);
    let lives = Lives::read(&History::open(place.path()).unwrap(), usize::MAX).unwrap();
    assert_eq!((lives.nights.len(), lives.lives.len()), (nights as usize, 4800));
    assert_eq!(lives.lives.iter().map(|life| life.nights.len()).sum::<usize>(), nights as usize * 4800);
    fs::metadata(place.path().join(FILE)).unwrap().len()
}

#[test]
fn a_year_of_nights_of_12_kernels_and_400_scenarios_is_below_50_mb() {
    // A night more is a night's rows more, so the months of a year are at most as large as this one.
    let (month, longer) = (size_of(20), size_of(30));
    let year = month + (longer - month) / 10 * 345;
    println!("{:.1} MB", year as f64 / 1e6);
    assert!(year < 50_000_000, "{year} bytes");
}

#[test]
#[ignore = "half a minute on an idle machine"]
fn a_whole_year_is_below_50_mb() {
    let year = size_of(365);
    println!("{:.1} MB", year as f64 / 1e6);
    assert!(year < 50_000_000, "{year} bytes");
}
