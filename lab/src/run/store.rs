//! What a run has found so far: told in order, and on disk the moment it is there.

use super::{Options, Prepared};
use crate::{
    host::process::Tool,
    machine::{Accelerator, qemu},
    report::{self, Host, KernelInfo, Qemu, Results, Run, SCHEMA, ScenarioResult},
};
use anyhow::Result;
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

/// The results of a run while it grows.
pub(super) struct Store<F> {
    results: Results,
    /// Every result as JSON, by its place in the list: the file is written anew for each, and to serialize
    /// all results each time was a quarter of a run of fifteen hundred.
    texts: BTreeMap<usize, Box<RawValue>>,
    directory: PathBuf,
    started: Instant,
    /// Results that wait for an earlier one, by their place in the list.
    waiting: BTreeMap<usize, ScenarioResult>,
    finished: F,
}

impl<F: FnMut(&ScenarioResult, &Path)> Store<F> {
    /// An empty one. `finished` sees each result when its turn in the list has come.
    pub(super) fn new(results: Results, directory: &Path, finished: F) -> Store<F> {
        let directory = directory.to_owned();
        let (texts, waiting) = (BTreeMap::new(), BTreeMap::new());
        Store { results, texts, directory, started: Instant::now(), waiting, finished }
    }

    /// How many results there are.
    pub(super) fn count(&self) -> usize {
        self.results.scenarios.len() + self.waiting.len()
    }

    /// Takes a result for `place` in the list. `results.json` has it when this returns, also where
    /// an earlier one is still missing.
    pub(super) fn add(&mut self, place: usize, result: ScenarioResult) -> Result<()> {
        self.texts.insert(place, serde_json::value::to_raw_value(&result)?);
        self.waiting.insert(place, result);
        while let Some(result) = self.waiting.remove(&self.results.scenarios.len()) {
            self.take(result);
        }
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
        report::write_json(&grown, &self.directory)
    }

    /// The end: what came behind a gap, because the run was broken off there, still counts.
    /// `whole` is false if the run was interrupted.
    pub(super) fn finish(mut self, whole: bool, restored_ahead: usize) -> Result<Results> {
        for (_, result) in std::mem::take(&mut self.waiting) {
            self.take(result);
        }
        self.results.run.complete = whole;
        self.results.run.restored_ahead = restored_ahead;
        self.update();
        report::write_json(&self.results, &self.directory)?;
        report::write_forms(&self.results, &self.directory)?;
        Ok(self.results)
    }

    fn take(&mut self, result: ScenarioResult) {
        (self.finished)(&result, &self.directory);
        self.results.scenarios.push(result);
    }

    fn update(&mut self) {
        self.results.run.seconds = self.started.elapsed().as_secs_f64();
    }
}

/// The results of a run that has not started.
pub(super) fn empty_results(prepared: &Prepared, options: &Options) -> Result<Results> {
    let version = Tool::new(qemu::PROGRAM).arg("--version").run()?;
    let kernels = prepared.kernels.iter().map(KernelInfo::from);
    Ok(Results {
        schema: SCHEMA,
        run: Run {
            started: report::now(),
            seconds: 0.0,
            first_machine_micros: report::now_micros(),
            restored_ahead: 0,
            complete: false,
            shuffle: options.shuffle,
            shard: options.shard.clone(),
            cases: options.cases,
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
    use crate::{
        report::fixture::{result, results},
        verdict::Status,
    };
    use std::fs;

    fn stored(directory: &Path) -> Vec<String> {
        let json = fs::read(directory.join("results.json")).unwrap();
        let results: Results = serde_json::from_slice(&json).unwrap();
        results.scenarios.into_iter().map(|scenario| scenario.name).collect()
    }

    #[test]
    fn results_are_told_in_order_and_stored_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let finished = |result: &ScenarioResult, _: &Path| told.push(result.name.clone());
        let mut store = Store::new(results(Vec::new()), directory.path(), finished);
        store.add(1, result("b", Status::Passed)).unwrap();
        assert_eq!(stored(directory.path()), ["b"]);
        store.add(0, result("a", Status::Passed)).unwrap();
        assert_eq!(stored(directory.path()), ["a", "b"]);
        store.add(3, result("d", Status::Failed)).unwrap();
        assert_eq!(store.count(), 3);
        let results = store.finish(false, 0).unwrap();
        assert!(!results.run.complete);
        assert_eq!(stored(directory.path()), ["a", "b", "d"]);
        assert_eq!(told, ["a", "b", "d"]);
    }
}
