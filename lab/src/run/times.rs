//! How long each scenario took on each kernel the last time, kept in the cache.
//!
//! The times decide what starts first, never what a verdict is: a file that is missing, damaged or
//! cannot be written costs a little time and nothing else. They are this machine's own; what a
//! fleet splits by is read from results that all of it has ([`Times::of_results`]).

use crate::{
    cache::Cache,
    report::{Results, ScenarioResult, write_whole},
    verdict::Status,
};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// The file below the cache.
const NAME: &str = "times.json";

/// The most bytes of a file of times, or of results, that are read.
const FILE_MAX_BYTES: u64 = 256 << 20;

/// More entries than this in the cache are more than anyone's scenarios: it begins anew.
const ENTRIES_MAX: usize = 20_000;

/// Seconds by kernel and scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(BTreeMap<String, BTreeMap<String, f64>>);

impl Times {
    /// Those that earlier runs left in the cache; none, if there is no such file that can be read.
    pub fn load(cache: &Cache) -> Times {
        let read = || -> Result<_> { Ok(serde_json::from_slice(&read_capped(&path(cache))?)?) };
        let mut times = Times(read().unwrap_or_default());
        for scenarios in times.0.values_mut() {
            scenarios.retain(|_, seconds| seconds.is_finite() && *seconds >= 0.0);
        }
        times
    }

    /// The mean times of stored results: files `results.json`, or the directories they are in.
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

    /// Seconds that a scenario took on a kernel.
    pub fn get(&self, kernel: &str, scenario: &str) -> Option<f64> {
        self.0.get(kernel)?.get(scenario).copied()
    }

    /// Adds what results say to those in the cache.
    pub fn learn(cache: &Cache, results: &[ScenarioResult]) -> Result<()> {
        let _lock = cache.lock("times", || {})?;
        let mut times = Times::load(cache);
        if times.0.values().map(BTreeMap::len).sum::<usize>() > ENTRIES_MAX {
            times = Times::default();
        }
        for result in results.iter().filter(|result| tells_time(result)) {
            // Half of the old stays, so that one slow moment of the host does not decide alone.
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

/// Whether how long it took says how long it will take.
fn tells_time(result: &ScenarioResult) -> bool {
    result.status != Status::LabError && result.seconds.is_finite() && result.seconds >= 0.0
}

fn path(cache: &Cache) -> PathBuf {
    cache.root().join(NAME)
}

/// The results stored at `path`, a `results.json` or the directory it is in.
pub fn stored_results(path: &Path) -> Result<Results> {
    let path = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    let bytes = read_capped(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("`{}` is damaged", path.display()))
}

fn read_capped(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        bail!("it has more than {} MiB", FILE_MAX_BYTES >> 20);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{result, results};
    use std::fs;

    #[test]
    fn times_are_kept_and_one_slow_run_counts_half() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        assert_eq!(Times::load(&cache), Times::default());
        let took = |seconds| crate::report::ScenarioResult { seconds, ..result("a", Status::Passed) };
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
        assert!(error.contains("cannot read `no/such`"), "{error}");
    }
}
