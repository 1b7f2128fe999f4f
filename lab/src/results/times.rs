//! The time that each scenario takes on each kernel, kept in the cache.
//!
//! Times determine the order of starts, never a verdict: a file that is missing, corrupt or not
//! writable only costs a little time. They are those of this machine; a fleet is split by the times
//! in results that all of its machines have ([`Times::of_results`]).

use crate::{
    cache::Cache,
    host::{
        beneath::{capped, read_beneath},
        whole::write_whole,
    },
    results::{Results, SCHEMA, ScenarioResult, Status, directories::check_directories},
};
use anyhow::{Context, Error, Result, bail};
use fs_err::File;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The file below the cache.
const NAME: &str = "times.json";

/// The maximum size of a file of times or results, in bytes.
const FILE_MAX_BYTES: u64 = 256 << 20;

/// With more entries than this, the cache of times is emptied: most of them must be obsolete.
const ENTRIES_MAX: usize = 20_000;

/// Seconds by kernel and scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(BTreeMap<String, BTreeMap<String, f64>>);

impl Times {
    /// Returns the times that earlier runs left in the cache; none if the file is missing or corrupt.
    pub fn load(cache: &Cache) -> Times {
        let stored = || -> Result<_> { Ok(serde_json::from_slice(&read(&path(cache))?)?) };
        let mut times = Times(stored().unwrap_or_default());
        for scenarios in times.0.values_mut() {
            scenarios.retain(|_, seconds| seconds.is_finite() && *seconds >= 0.0);
        }
        times
    }

    /// Returns the mean times in stored results: files `results.json`, or their directories.
    pub fn of_results(paths: &[PathBuf]) -> Result<Times> {
        let mut sums: BTreeMap<(String, String), (f64, u32)> = BTreeMap::new();
        for path in paths {
            for result in stored_results(path)?.scenarios.into_iter().filter(tells_time) {
                let sum = sums.entry((result.kernel, result.name)).or_default();
                *sum = (sum.0 + result.seconds, sum.1 + 1);
            }
        }
        let mut times = Times::default();
        for ((kernel, name), (sum, count)) in sums {
            times.set(&kernel, &name, sum / f64::from(count));
        }
        Ok(times)
    }

    /// Returns these times: kernels, scenarios and seconds.
    pub(crate) fn of<'a>(known: impl Iterator<Item = (&'a str, &'a str, f64)>) -> Times {
        let mut times = Times::default();
        known.for_each(|(kernel, scenario, seconds)| times.set(kernel, scenario, seconds));
        times
    }

    /// Returns the time of a scenario on a kernel, in seconds.
    pub fn get(&self, kernel: &str, scenario: &str) -> Option<f64> {
        self.0.get(kernel)?.get(scenario).copied()
    }

    /// Returns the median of the times of all scenarios on a kernel, in seconds; 0 if none is known.
    pub fn median(&self, kernel: &str) -> f64 {
        let mut times: Vec<f64> =
            self.0.get(kernel).into_iter().flat_map(BTreeMap::values).copied().collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    }

    /// Updates the times in the cache with those of `results`.
    pub fn learn(cache: &Cache, results: &[ScenarioResult]) -> Result<()> {
        let _lock = cache.lock("times", || {})?;
        let mut times = Times::load(cache);
        if times.0.values().map(BTreeMap::len).sum::<usize>() > ENTRIES_MAX {
            times = Times::default();
        }
        for result in results.iter().filter(|result| tells_time(result)) {
            // The mean of the old and new time, so that one slow moment of the host has less weight.
            let before = times.get(&result.kernel, &result.name).unwrap_or(result.seconds);
            times.set(&result.kernel, &result.name, (before + result.seconds) / 2.0);
        }
        let mut json = serde_json::to_vec_pretty(&times.0)?;
        json.push(b'\n');
        write_whole(&path(cache), &json)
    }

    fn set(&mut self, kernel: &str, scenario: &str, seconds: f64) {
        self.0.entry(kernel.to_owned()).or_default().insert(scenario.to_owned(), seconds);
    }
}

/// Returns whether the time of a result predicts that of the next run.
fn tells_time(result: &ScenarioResult) -> bool {
    result.status != Status::LabError && result.seconds.is_finite() && result.seconds >= 0.0
}

fn read(path: &Path) -> Result<Vec<u8>> {
    capped(File::open(path)?, FILE_MAX_BYTES, path)
}

fn path(cache: &Cache) -> PathBuf {
    cache.root().join(NAME)
}

/// What every format has.
#[derive(Deserialize)]
struct Format {
    schema: u32,
}

/// Reads the results at `path`, a `results.json` or its directory. Each of them has its own directory
/// inside the run, or none.
pub fn stored_results(path: &Path) -> Result<Results> {
    let (bytes, run) = match path.is_dir() {
        true => (read_beneath(path, "results.json", FILE_MAX_BYTES)?, path),
        false => (read(path)?, path.parent().unwrap_or(Path::new(""))),
    };
    let results = serde_json::from_slice::<Results>(&bytes);
    // A later format may not even parse.
    let format = results
        .as_ref()
        .map(|results| results.schema)
        .or_else(|_| serde_json::from_slice::<Format>(&bytes).map(|format| format.schema));
    if let Some(later) = format.ok().filter(|schema| *schema > SCHEMA) {
        bail!(
            "`{}` has format {later}, and this version of the lab reads {SCHEMA}; update the lab",
            path.display()
        );
    }
    let results = results.with_context(|| format!("`{}` is corrupt", path.display()))?;
    check_directories(results.scenarios.iter().map(|result| (run, result))).map_err(Error::msg)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture::{result, results};
    use std::fs;

    #[test]
    fn times_are_kept_and_one_slow_run_counts_half() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        assert_eq!(Times::load(&cache), Times::default());
        let took = |seconds| crate::results::ScenarioResult { seconds, ..result("a", Status::Passed) };
        Times::learn(&cache, &[took(2.0)]).unwrap();
        assert_eq!(Times::load(&cache).get("6.12", "a"), Some(2.0));
        Times::learn(&cache, &[took(4.0)]).unwrap();
        assert_eq!(Times::load(&cache).get("6.12", "a"), Some(3.0));
        assert_eq!(Times::load(&cache).get("6.1", "a"), None);
        let lab_error = ScenarioResult { seconds: 99.0, ..result("a", Status::LabError) };
        Times::learn(&cache, &[lab_error]).unwrap();
        assert_eq!(Times::load(&cache).get("6.12", "a"), Some(3.0));
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none_and_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        for damage in ["", "{", "[1]", "{\"6.12\": {\"a\": \"x\"}}", "{\"6.12\": {\"a\": -1.0}}"] {
            fs::write(directory.path().join(NAME), damage).unwrap();
            assert_eq!(Times::load(&cache).get("6.12", "a"), None, "{damage}");
        }
        Times::learn(&cache, &[ScenarioResult { seconds: 1.0, ..result("a", Status::Failed) }]).unwrap();
        assert_eq!(Times::load(&cache).get("6.12", "a"), Some(1.0));
    }

    #[test]
    fn a_later_format_is_refused_even_if_it_parses() {
        let directory = tempfile::tempdir().unwrap();
        let check = |json: &str, expect: &str| {
            fs::write(directory.path().join("results.json"), json).unwrap();
            let error = format!("{:#}", stored_results(directory.path()).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        let mut later = results(Vec::new());
        later.schema = SCHEMA + 1;
        check(
            &serde_json::to_string(&later).unwrap(),
            "has format 2, and this version of the lab reads 1; update the lab",
        );
        check(r#"{ "schema": 7, "nights": {} }"#, "has format 7");
        check(r#"{ "schema": 1, "nights": {} }"#, "is corrupt");
        check("[]", "is corrupt");
    }

    #[test]
    fn the_results_of_several_machines_give_one_mean() {
        let directory = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (name, seconds) in [("one", 1.0), ("two", 2.0)] {
            let place = directory.path().join(name);
            fs::create_dir(&place).unwrap();
            let took = ScenarioResult { seconds, ..result("a", Status::Passed) };
            fs::write(place.join("results.json"), serde_json::to_vec(&results(vec![took])).unwrap()).unwrap();
            paths.push(place);
        }
        assert_eq!(Times::of_results(&paths).unwrap().get("6.12", "a"), Some(1.5));
        let error = format!("{:#}", Times::of_results(&["no/such".into()]).unwrap_err());
        assert!(error.contains("failed to open file `no/such`"), "{error}");
    }
}
