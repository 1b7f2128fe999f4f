//! Pass rates of repeated scenarios, with confidence intervals.

use super::ScenarioResult;
use crate::results::{Status, TRACE};
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

/// The quantile of the normal distribution for a two-sided confidence of 95 %.
const Z: f64 = 1.959_964;

/// The pass rate of each scenario on each kernel.
#[derive(Debug, Default)]
pub struct Rates {
    /// By name and kernel.
    cases: BTreeMap<(String, String), Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    /// Runs that tested the kernel, passed or not.
    tried: u64,
    /// Runs in which the lab failed, which say nothing about the kernel.
    lab_errors: u64,
    /// The directories of the first pass and the first failure that left a trace.
    pass: Option<PathBuf>,
    failure: Option<PathBuf>,
}

/// A scenario that both passed and failed, with a trace of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flake {
    /// The scenario's name.
    pub name: String,
    /// The kernel's name.
    pub kernel: String,
    /// The directory of a run that passed.
    pub passed: PathBuf,
    /// The directory of a run that did not.
    pub failed: PathBuf,
}

impl Rates {
    /// Counts a result of the run in the directory `run`. A try after a failure is not one more run.
    pub fn add(&mut self, result: &ScenarioResult, run: &Path) {
        if result.retry.is_some() {
            return;
        }
        let tally = self.cases.entry((result.name.clone(), result.kernel.clone())).or_default();
        let kept = match result.status {
            Status::Unsupported => return,
            Status::LabError => {
                tally.lab_errors += 1;
                return;
            }
            Status::Passed => {
                tally.passed += 1;
                &mut tally.pass
            }
            _ => &mut tally.failure,
        };
        tally.tried += 1;
        let directory = run.join(&result.directory);
        if kept.is_none() && !result.directory.is_empty() && directory.join(TRACE).is_file() {
            *kept = Some(directory);
        }
    }

    /// Returns the scenarios that both passed and failed and left a trace of each.
    pub fn flakes(&self) -> Vec<Flake> {
        let flake = |((name, kernel), tally): (&(String, String), &Tally)| {
            let (passed, failed) = (tally.pass.clone()?, tally.failure.clone()?);
            Some(Flake { name: name.clone(), kernel: kernel.clone(), passed, failed })
        };
        self.cases.iter().filter_map(flake).collect()
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.cases.values().all(|tally| tally.tried + tally.lab_errors == 0)
    }
}

impl fmt::Display for Rates {
    /// One line per scenario, the least reliable first.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> =
            self.cases.iter().filter(|(_, tally)| tally.tried + tally.lab_errors > 0).collect();
        lines.sort_by(|a, b| a.1.rate().total_cmp(&b.1.rate()));
        let label = |(name, kernel): &(String, String)| format!("{name} on {kernel}");
        let width = lines.iter().map(|(case, _)| label(case).len()).max().unwrap_or_default();
        writeln!(out, "pass rates, with 95 % confidence intervals:")?;
        for (case, tally) in lines {
            writeln!(out, "  {:<width$}  {tally}", label(case))?;
        }
        Ok(())
    }
}

impl Tally {
    fn rate(&self) -> f64 {
        if self.tried == 0 { 1.0 } else { self.passed as f64 / self.tried as f64 }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if let Some((low, high)) = wilson(self.passed, self.tried) {
            let rate = 100.0 * self.rate();
            let (low, high) = (100.0 * low, 100.0 * high);
            write!(text, "{} of {}: {rate:.1} % ({low:.1} to {high:.1} %)", self.passed, self.tried)?;
            if self.passed > 0 && self.passed < self.tried {
                text.push_str("  flaky");
            }
        } else {
            text.push_str("never ran");
        }
        if self.lab_errors > 0 {
            write!(text, "; {} lab errors not counted", self.lab_errors)?;
        }
        out.write_str(&text)
    }
}

/// Returns the 95 % confidence interval of the rate `passed` / `tried`: the Wilson score interval, which
/// also holds for few runs and for rates near 0 and 1. `None` if `tried` is 0.
pub(crate) fn wilson(passed: u64, tried: u64) -> Option<(f64, f64)> {
    if tried == 0 {
        return None;
    }
    let (count, rate) = (tried as f64, passed as f64 / tried as f64);
    let spread = Z * Z / count;
    let centre = (rate + spread / 2.0) / (1.0 + spread);
    let half = Z / (1.0 + spread) * (rate * (1.0 - rate) / count + spread / (4.0 * count)).sqrt();
    Some(((centre - half).max(0.0), (centre + half).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture::result;
    use std::fs;

    #[test]
    fn wilson_is_as_in_the_tables() {
        let check = |passed, tried, low: f64, high: f64| {
            let found = wilson(passed, tried).unwrap();
            assert!((found.0 - low).abs() < 5e-4 && (found.1 - high).abs() < 5e-4, "{found:?}");
        };
        // Computed by R's `prop.test(…, correct = FALSE)`.
        check(0, 10, 0.0, 0.2775);
        check(10, 10, 0.7225, 1.0);
        check(5, 10, 0.2366, 0.7634);
        check(1, 20, 0.0089, 0.2361);
        check(81, 263, 0.2553, 0.3662);
        assert_eq!(wilson(0, 0), None);
    }

    fn repeat(run: &Path, name: &str, repeat: u32, status: Status) -> ScenarioResult {
        let directory = format!("6.12/{name}@{repeat}");
        fs::create_dir_all(run.join(&directory)).unwrap();
        fs::write(run.join(&directory).join(TRACE), "").unwrap();
        ScenarioResult { directory, repeat: Some(repeat), ..result(name, status) }
    }

    #[test]
    fn rates_are_listed_and_flakes_are_paired() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path();
        let mut rates = Rates::default();
        assert!(rates.is_empty());
        for (number, status) in
            [(1, Status::Passed), (2, Status::Splat), (3, Status::Failed), (4, Status::Passed)]
        {
            rates.add(&repeat(run, "flaky", number, status), run);
            rates.add(&repeat(run, "solid", number, Status::Passed), run);
            rates.add(&repeat(run, "other", number, Status::Unsupported), run);
        }
        rates.add(&result("solid", Status::LabError), run);
        rates.add(&ScenarioResult { retry: Some(1), ..repeat(run, "solid", 1, Status::Failed) }, run);
        let text = rates.to_string();
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "  flaky on 6.12  2 of 4: 50.0 % (15.0 to 85.0 %)  flaky",
                "  solid on 6.12  4 of 4: 100.0 % (51.0 to 100.0 %); 1 lab errors not counted",
            ]
        );
        let flake = Flake {
            name: "flaky".into(),
            kernel: "6.12".into(),
            passed: run.join("6.12/flaky@1"),
            failed: run.join("6.12/flaky@2"),
        };
        assert_eq!(rates.flakes(), [flake]);
    }
}
