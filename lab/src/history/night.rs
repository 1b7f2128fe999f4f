//! A report → [`Night`]: what the history keeps of it.

use super::HistoryError;
use crate::{
    cache::Cache,
    coverage::{Measured, Share, SourceFiles},
    host::beneath::{directory_beneath, read_beneath},
    reproducer::{FILE, Failure},
    results::{Host, Results, SCENARIO, ScenarioResult, Status, stored_results},
    words::excerpt,
};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The maximum length of a name or version, in bytes.
const NAME_MAX: usize = 300;

/// The maximum number of results of a night, and of kernels.
const RESULTS_MAX: usize = 2_000_000;
const KERNELS_MAX: usize = 10_000;

/// The maximum size of a scenario that is read to identify a failure, and of a reproducer that is kept, in bytes.
const SCENARIO_MAX: u64 = 1 << 20;
const REPRODUCER_MAX: u64 = 256 << 10;

/// The maximum number of characters kept of what failed, and of what was found.
const TEXT_MAX: usize = 400;

/// The years in which a night may have started.
const YEARS: std::ops::Range<i16> = 2000..2200;

/// What is kept of a report.
#[derive(Clone, Debug)]
pub struct Night {
    /// The night as a whole.
    pub info: NightInfo,
    /// Every try of every scenario.
    pub tries: Vec<Tried>,
    /// What failed, by fingerprint.
    pub failures: BTreeMap<String, FailureSeen>,
}

/// A night as a whole.
#[derive(Clone, Debug)]
pub struct NightInfo {
    /// When it started, in seconds since 1970. No two nights of a history start at the same time.
    pub started: i64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether everything ran.
    pub complete: bool,
    /// The version that QEMU prints.
    pub qemu: String,
    /// The computer.
    pub host: Host,
    /// The kernels.
    pub kernels: Vec<NightKernel>,
}

/// A kernel of a night.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NightKernel {
    /// Its file below `kernels/`.
    pub name: String,
    /// The version of its source.
    pub version: String,
    /// A digest of its configuration.
    pub config: String,
    /// The lines and functions that ran, if it was measured and its build is in the cache.
    pub covered: Option<[Share; 2]>,
}

/// One try of a scenario on a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The kernel's name.
    pub kernel: String,
    /// The scenario's name.
    pub scenario: String,
    /// The number of the repeat, from 1; 0 without repeats.
    pub repeat: u32,
    /// The number of the try after a failure, from 1; 0 for the first try.
    pub retry: u32,
    /// How it ended.
    pub status: Status,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The fingerprint of its failure.
    pub fingerprint: Option<String>,
}

/// A failure, as it was seen first in a night.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureSeen {
    /// The check that failed, in a line.
    pub broken: String,
    /// What was found, in a line.
    pub finding: String,
    /// The text of a `repro.yaml`; empty if there is none.
    pub reproducer: Vec<u8>,
}

impl Night {
    /// Reads a report, or a run: its directory, or its `results.json`. Coverage is read if the builds of the kernels
    /// are in `cache`; what could not be read is said with `note`.
    ///
    /// # Errors
    /// It cannot be read, or is not what a lab writes.
    pub fn read(
        report: &Path,
        measured: Option<(&Cache, &SourceFiles)>,
        mut note: impl FnMut(String),
    ) -> Result<Night, HistoryError> {
        let results = stored_results(report).map_err(|error| HistoryError::Report(format!("{error:#}")))?;
        let directory = if report.is_dir() { report } else { report.parent().unwrap_or(Path::new("")) };
        let mut night = Night::of(&results, |result| details(result, directory))
            .map_err(|cause| HistoryError::Report(format!("`{}`: {cause}", report.display())))?;
        let Some((cache, files)) = measured else { return Ok(night) };
        for (kernel, info) in night.info.kernels.iter_mut().zip(&results.kernels) {
            match Measured::of_kernel(directory, &results, info, cache, files) {
                Ok(measured) => kernel.covered = measured.as_ref().map(covered),
                Err(error) => note(format!("the coverage of {} is not kept: {error:#}", info.name)),
            }
        }
        Ok(night)
    }

    /// Returns what is kept of results. `details` returns the failure of a result, and its `repro.yaml`.
    pub(crate) fn of(
        results: &Results,
        details: impl Fn(&ScenarioResult) -> Option<(Failure, Vec<u8>)>,
    ) -> Result<Night, String> {
        let run = &results.run;
        let started = started(&run.started)?;
        within("results", results.scenarios.len(), RESULTS_MAX)?;
        within("kernels", results.kernels.len(), KERNELS_MAX)?;
        let mut kernels = Vec::with_capacity(results.kernels.len());
        for info in &results.kernels {
            let [name, version, config] =
                [&info.name, &info.source_version, &info.config_hash].map(|text| name(text));
            kernels.push(NightKernel { name: name?, version: version?, config: config?, covered: None });
        }
        let info = NightInfo {
            started,
            seconds: seconds(run.seconds),
            complete: run.complete,
            qemu: name(&results.qemu.version)?,
            host: Host {
                architecture: name(&results.host.architecture)?,
                cpus: results.host.cpus,
                accelerator: name(&results.host.accelerator)?,
            },
            kernels,
        };
        let mut night = Night { info, tries: Vec::new(), failures: BTreeMap::new() };
        let mut seen = BTreeSet::new();
        for result in &results.scenarios {
            if !seen.insert((&result.kernel, &result.name, result.repeat, result.retry)) {
                return Err(format!(
                    "`{}` on {} is in it twice",
                    excerpt(&result.label(), 100),
                    excerpt(&result.kernel, 100)
                ));
            }
            night.add(result, &details)?;
        }
        Ok(night)
    }

    fn add(
        &mut self,
        result: &ScenarioResult,
        details: &impl Fn(&ScenarioResult) -> Option<(Failure, Vec<u8>)>,
    ) -> Result<(), String> {
        let is_failure = !result.status.is_good() && result.status != Status::LabError;
        let failure = if is_failure { details(result) } else { None };
        let fingerprint = match failure {
            Some((failure, reproducer)) => {
                let seen =
                    self.failures.entry(name(&failure.fingerprint)?).or_insert_with_key(|_| FailureSeen {
                        broken: shortened(&failure.broken.to_string()),
                        finding: shortened(&failure.finding),
                        reproducer: Vec::new(),
                    });
                if seen.reproducer.is_empty() {
                    seen.reproducer = reproducer;
                }
                Some(failure.fingerprint)
            }
            None => None,
        };
        self.tries.push(Tried {
            kernel: name(&result.kernel)?,
            scenario: name(&result.name)?,
            repeat: result.repeat.unwrap_or_default(),
            retry: result.retry.unwrap_or_default(),
            status: result.status,
            seconds: seconds(result.seconds),
            fingerprint,
        });
        Ok(())
    }

    /// Parses the time at which a night started into seconds since 1970.
    ///
    /// # Errors
    /// It is not a time.
    pub fn parse_time(text: &str) -> Result<i64, String> {
        let error =
            || format!("`{}` is not a time, expected one like 2026-01-31T02:17:00Z", excerpt(text, 40));
        text.parse::<Timestamp>().map(Timestamp::as_second).map_err(|_| error())
    }

    /// Returns a digest of its results. Two reports of the same night have the same one, in whatever order they were
    /// merged.
    pub(crate) fn digest(&self) -> Vec<u8> {
        let key = |tried: &Tried| (tried.repeat, tried.retry, tried.status, tried.seconds.to_bits());
        let mut tries: Vec<_> =
            self.tries.iter().map(|tried| (&tried.kernel, &tried.scenario, key(tried))).collect();
        tries.sort_unstable();
        let mut digest = Sha256::new();
        digest.update(self.info.started.to_le_bytes());
        for (kernel, scenario, (repeat, retry, status, seconds)) in tries {
            for text in [kernel, scenario, status.name()] {
                digest.update(text);
                digest.update([0]);
            }
            digest.update(repeat.to_le_bytes());
            digest.update(retry.to_le_bytes());
            digest.update(seconds.to_le_bytes());
        }
        digest.finalize()[..16].to_vec()
    }
}

impl NightInfo {
    /// Returns when it started, as `2026-01-31T02:17:00Z`.
    pub fn time(&self) -> String {
        time(self.started)
    }

    /// Returns its kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&NightKernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// Formats a time in seconds since 1970.
pub(super) fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the failure of a result, identified by the scenario that was run, and its `repro.yaml`. A result whose
/// files are gone is identified by what it says itself.
fn details(result: &ScenarioResult, run: &Path) -> Option<(Failure, Vec<u8>)> {
    let place =
        (!result.directory.is_empty()).then(|| directory_beneath(run, &result.directory).ok()).flatten();
    let read = |file: &str, max| place.as_deref().and_then(|place| read_beneath(place, file, max).ok());
    let scenario = read(SCENARIO, SCENARIO_MAX).unwrap_or_default();
    let failure = Failure::of(result, &String::from_utf8_lossy(&scenario))?;
    Some((failure, read(FILE, REPRODUCER_MAX).unwrap_or_default()))
}

fn covered(measured: &Measured) -> [Share; 2] {
    let files = measured.files(&measured.ran());
    files.iter().fold([Share::default(); 2], |[lines, functions], file| {
        [lines.and(file.lines), functions.and(file.functions)]
    })
}

fn started(text: &str) -> Result<i64, String> {
    let started = text
        .parse::<Timestamp>()
        .map_err(|_| format!("it started at `{}`, which is not a time", excerpt(text, 40)))?;
    let year = started.to_zoned(jiff::tz::TimeZone::UTC).year();
    if !YEARS.contains(&year) {
        return Err(format!("it started in the year {year}"));
    }
    Ok(started.as_second())
}

fn within(what: &str, count: usize, max: usize) -> Result<(), String> {
    if count > max { Err(format!("it has {count} {what}, more than {max}")) } else { Ok(()) }
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// Returns a name unchanged, if it is short enough.
fn name(text: &str) -> Result<String, String> {
    if text.len() > NAME_MAX || text.contains('\0') {
        return Err(format!(
            "`{}` is not a name or version: longer than {NAME_MAX} bytes, or with a NUL",
            excerpt(text, 60)
        ));
    }
    Ok(text.to_owned())
}

/// Returns a duration that can be added: a week at most.
fn seconds(seconds: f64) -> f64 {
    const WEEK: f64 = 7.0 * 86400.0;
    if seconds.is_finite() { seconds.clamp(0.0, WEEK) } else { 0.0 }
}
