//! The results of a run so far: returned in the order of the list, and written to disk immediately.

use super::{Options, Prepared};
use crate::{
    machine::{Accelerator, version_text},
    report,
    results::{self, Host, KernelInfo, Qemu, Results, Run, SCHEMA, ScenarioResult},
};
use anyhow::Result;
use serde_json::value::RawValue;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Instant,
};

/// The results of a run in progress.
pub(super) struct Store {
    results: Results,
    /// The number of `results` that [`Store::next`] has returned.
    returned: usize,
    /// Every result as JSON, by the position of its turn in the list and the number of its try. The file is rewritten for each result, and
    /// serializing all results each time took a quarter of the time of a run with 1,500 of them.
    texts: BTreeMap<(usize, usize), Box<RawValue>>,
    directory: PathBuf,
    started: Instant,
    /// The results of turns that have not ended, or wait for an earlier one, by their positions in the list.
    waiting: BTreeMap<usize, Vec<ScenarioResult>>,
    /// The positions of those that have ended.
    ended: BTreeSet<usize>,
    /// The number of turns whose results are in the list.
    listed: usize,
}

impl Store {
    /// A store without results, in a run's directory.
    pub(super) fn new(results: Results, directory: &Path) -> Store {
        let directory = directory.to_owned();
        Store {
            results,
            returned: 0,
            texts: BTreeMap::new(),
            directory,
            started: Instant::now(),
            waiting: BTreeMap::new(),
            ended: BTreeSet::new(),
            listed: 0,
        }
    }

    /// Returns the number of turns that have ended.
    pub(super) fn turns(&self) -> usize {
        self.listed + self.ended.len()
    }

    /// Adds a result, the next try of the turn at position `place` of the list. When this returns, `results.json` has
    /// it, even if an earlier one is still missing.
    pub(super) fn add(&mut self, place: usize, result: ScenarioResult) -> Result<()> {
        let tries = self.waiting.entry(place).or_default();
        self.texts.insert((place, tries.len()), serde_json::value::to_raw_value(&result)?);
        tries.push(result);
        self.update();
        let known = &self.results;
        let grown = Results {
            schema: known.schema,
            run: known.run.clone(),
            host: known.host.clone(),
            qemu: known.qemu.clone(),
            kernels: known.kernels.clone(),
            scenarios: self.texts.values().collect(),
        };
        results::write_json(&grown, &self.directory)
    }

    /// Ends a turn: it has no further tries.
    pub(super) fn end_turn(&mut self, place: usize) {
        self.ended.insert(place);
        while self.ended.remove(&self.listed) {
            self.results.scenarios.extend(self.waiting.remove(&self.listed).into_iter().flatten());
            self.listed += 1;
        }
    }

    /// Returns the next result, unless an earlier one is still missing.
    pub(super) fn next(&mut self) -> Option<&ScenarioResult> {
        let next = self.results.scenarios.get(self.returned)?;
        self.returned += 1;
        Some(next)
    }

    /// Closes the list: results after a gap that an interruption left still count.
    pub(super) fn close(&mut self) {
        self.results.scenarios.extend(std::mem::take(&mut self.waiting).into_values().flatten());
    }

    /// Writes the results in every form. `complete` is false if some of it did not run.
    pub(super) fn finish(mut self, complete: bool, restored_ahead: usize) -> Result<Results> {
        self.results.run.complete = complete;
        self.results.run.restored_ahead = restored_ahead;
        self.update();
        results::write_json(&self.results, &self.directory)?;
        report::write_forms(&self.results, &self.directory, &self.directory, None)?;
        Ok(self.results)
    }

    fn update(&mut self) {
        self.results.run.seconds = self.started.elapsed().as_secs_f64();
    }
}

/// Returns the results of a run that has not started.
pub(super) fn empty_results(prepared: &Prepared, options: &Options) -> Result<Results> {
    let version = version_text()?;
    let kernels = prepared.kernels.iter().map(KernelInfo::from);
    Ok(Results {
        schema: SCHEMA,
        run: Run {
            started: results::now(),
            seconds: 0.0,
            first_machine_micros: results::now_micros(),
            restored_ahead: 0,
            complete: false,
            shuffle: options.shuffle,
            shard: options.part.as_ref().map(|part| part.name.clone()),
            cases: options.part.as_ref().map(|part| part.cases),
            options: options.part.as_ref().map(|part| part.options.clone()),
        },
        host: Host {
            architecture: std::env::consts::ARCH.to_owned(),
            cpus: super::cpus(),
            accelerator: Accelerator::of_host().name().to_owned(),
        },
        qemu: Qemu { version: version.lines().next().unwrap_or_default().to_owned() },
        kernels: kernels.collect(),
        scenarios: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{
        Status,
        fixture::{result, results},
    };
    use std::fs;

    fn stored(directory: &Path) -> Vec<String> {
        let json = fs::read(directory.join("results.json")).unwrap();
        let results: Results = serde_json::from_slice(&json).unwrap();
        results.scenarios.into_iter().map(|scenario| scenario.name).collect()
    }

    #[test]
    fn results_are_returned_in_order_and_stored_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::new(results(Vec::new()), directory.path());
        let next = |store: &mut Store| store.next().map(|result| result.name.clone());
        let ends = |store: &mut Store, place, result| {
            store.add(place, result).unwrap();
            store.end_turn(place);
        };
        ends(&mut store, 1, result("b", Status::Passed));
        assert_eq!(stored(directory.path()), ["b"]);
        assert_eq!(next(&mut store), None);
        ends(&mut store, 0, result("a", Status::Passed));
        assert_eq!(stored(directory.path()), ["a", "b"]);
        ends(&mut store, 3, result("d", Status::Failed));
        assert_eq!(store.turns(), 3);
        assert_eq!(
            [next(&mut store), next(&mut store), next(&mut store)],
            [Some("a".into()), Some("b".into()), None]
        );
        store.close();
        assert_eq!(next(&mut store), Some("d".into()));
        let results = store.finish(false, 0).unwrap();
        assert!(!results.run.complete);
        assert_eq!(stored(directory.path()), ["a", "b", "d"]);
    }

    #[test]
    fn each_try_is_stored_when_it_ends_and_listed_with_its_turn() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::new(results(Vec::new()), directory.path());
        let again = ScenarioResult { retry: Some(1), ..result("a", Status::Passed) };
        store.add(0, result("a", Status::Failed)).unwrap();
        store.add(1, result("b", Status::Passed)).unwrap();
        store.end_turn(1);
        assert_eq!(stored(directory.path()), ["a", "b"]);
        assert_eq!((store.next().map(ScenarioResult::label), store.turns()), (None, 1));
        store.add(0, again).unwrap();
        store.end_turn(0);
        assert_eq!(stored(directory.path()), ["a", "a", "b"]);
        let labels: Vec<_> = std::iter::from_fn(|| store.next().map(ScenarioResult::label)).collect();
        assert_eq!((labels, store.turns()), (vec!["a".into(), "a@retry1".into(), "b".into()], 2));
    }
}
