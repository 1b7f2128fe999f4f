//! Kernels × scenarios → [`Selection`]: the cases of a run.

use super::{schedule::Case, shard};
use crate::{
    results::{Shard, Times, stored_results},
    scenario::{Scenario, ScenarioFile},
};
use anyhow::Result;
use std::{collections::BTreeSet, path::Path};

/// The kernels, scenarios and cases of a run.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The names of `kernels/*.yaml`, each needed by a case.
    pub kernels: Vec<String>,
    /// The scenarios, parsed.
    pub scenarios: Vec<(ScenarioFile, Scenario)>,
    /// The combinations of scenario and kernel to run, in the order of the results.
    pub cases: Vec<Case>,
}

impl Selection {
    /// Selects every scenario on every kernel.
    pub fn all(kernels: Vec<String>, scenarios: Vec<(ScenarioFile, Scenario)>) -> Selection {
        let cases = Case::all(kernels.len(), scenarios.len());
        Selection { kernels, scenarios, cases }
    }

    /// Has each scenario run on as many machines as it soaks on.
    pub fn soak(&mut self) {
        let several = |case: &Case| match u32::from(self.scenarios[case.scenario].1.soak) {
            0 | 1 => vec![*case],
            machines => (1..=machines).map(|number| Case { soak: Some(number), ..*case }).collect(),
        };
        self.cases = self.cases.iter().flat_map(several).collect();
    }

    /// Returns the names of a case's kernel and scenario.
    pub fn names(&self, case: Case) -> (&str, &str) {
        (&self.kernels[case.kernel], &self.scenarios[case.scenario].0.name)
    }

    /// Keeps one part of several, split by `times`. Returns the name of the split, which must be the
    /// same for all parts.
    pub fn keep_shard(&mut self, shard: Shard, times: &Times) -> String {
        let weighed = |&case: &Case| {
            let (kernel, scenario) = self.names(case);
            ((kernel, scenario), times.get(kernel, scenario))
        };
        let weighed: Vec<_> = self.cases.iter().map(weighed).collect();
        let split = shard::fingerprint(&weighed);
        self.cases = shard.pick(&weighed).into_iter().map(|item| self.cases[item]).collect();
        self.drop_unneeded_kernels();
        split
    }

    /// Keeps the cases in `wanted`, pairs of kernel and scenario. Returns the pairs that are not selected.
    pub fn keep(&mut self, wanted: &BTreeSet<(String, String)>) -> Vec<(String, String)> {
        let mut missing = wanted.clone();
        let cases = std::mem::take(&mut self.cases);
        self.cases = cases
            .into_iter()
            .filter(|&case| {
                let (kernel, scenario) = self.names(case);
                missing.remove(&(kernel.to_owned(), scenario.to_owned()))
            })
            .collect();
        self.drop_unneeded_kernels();
        missing.into_iter().collect()
    }

    /// Drops kernels without cases, which need not be built.
    fn drop_unneeded_kernels(&mut self) {
        let needed: BTreeSet<usize> = self.cases.iter().map(|case| case.kernel).collect();
        let place = |kernel: usize| needed.range(..kernel).count();
        self.cases.iter_mut().for_each(|case| case.kernel = place(case.kernel));
        self.kernels = needed.iter().map(|&kernel| self.kernels[kernel].clone()).collect();
    }
}

/// Returns two scenarios whose result directories would overlap: the name of the first is that of a
/// directory of the second.
pub fn nested(scenarios: &[(ScenarioFile, Scenario)]) -> Option<(&str, &str)> {
    let names: BTreeSet<&str> = scenarios.iter().map(|(found, _)| found.name.as_str()).collect();
    names.iter().find_map(|name| {
        let outer = name.match_indices('/').find_map(|(end, _)| names.get(&name[..end]))?;
        Some((*outer, *name))
    })
}

/// Returns kernel and scenario of every bad result of the run stored in `directory`.
pub fn failed(directory: &Path) -> Result<BTreeSet<(String, String)>> {
    let results = stored_results(directory)?.scenarios.into_iter();
    let failed = results.filter(|result| !result.status.is_good());
    Ok(failed.map(|result| (result.kernel, result.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{
        Status,
        fixture::{result, results},
    };

    fn scenario(name: &str) -> (ScenarioFile, Scenario) {
        let found = ScenarioFile { name: name.to_owned(), path: name.into() };
        (found, Scenario::parse(Path::new(name), "summary: x\nsteps: [read: trace]\n").unwrap())
    }

    #[test]
    fn a_scenario_is_not_inside_of_another() {
        let check = |names: &[&str], expect| {
            let scenarios: Vec<_> = names.iter().map(|name| scenario(name)).collect();
            assert_eq!(nested(&scenarios), expect);
        };
        check(&["a", "b/a", "b/c", "ab"], None);
        check(&["a/b", "a"], Some(("a", "a/b")));
        check(&["a/b", "a-b", "a/b/c/d"], Some(("a/b", "a/b/c/d")));
    }

    fn selection() -> Selection {
        Selection::all(vec!["6.1".into(), "6.12".into()], ["a", "b", "c"].map(scenario).into())
    }

    fn names(selection: &Selection) -> Vec<String> {
        let name = |&case| {
            let (kernel, scenario) = selection.names(case);
            format!("{kernel}:{scenario}")
        };
        selection.cases.iter().map(name).collect()
    }

    #[test]
    fn what_failed_is_kept_with_its_kernel_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut stored = results(vec![
            result("a", Status::Passed),
            result("b", Status::Hang),
            result("b", Status::Passed),
            result("c", Status::Unsupported),
            result("gone", Status::Failed),
        ]);
        stored.run.complete = false;
        let json = serde_json::to_vec(&stored).unwrap();
        std::fs::write(directory.path().join("results.json"), json).unwrap();
        let mut selection = selection();
        let missing = selection.keep(&failed(directory.path()).unwrap());
        assert_eq!(names(&selection), ["6.12:b"]);
        assert_eq!(selection.kernels, ["6.12"]);
        assert_eq!(missing, [("6.12".to_owned(), "gone".to_owned())]);
    }

    #[test]
    fn a_scenario_soaks_on_several_machines() {
        let mut selection = selection();
        selection.scenarios[1].1.soak = 3;
        selection.soak();
        assert_eq!(names(&selection)[..5], ["6.1:a", "6.1:b", "6.1:b", "6.1:b", "6.1:c"]);
        let numbers: Vec<_> = selection.cases.iter().take(5).map(|case| case.soak).collect();
        assert_eq!(numbers, [None, Some(1), Some(2), Some(3), None]);
        assert_eq!(selection.cases.len(), 10);
    }

    #[test]
    fn shards_have_every_case_once() {
        let mut seen = Vec::new();
        for shard in ["1/4", "2/4", "3/4", "4/4"] {
            let mut selection = selection();
            selection.keep_shard(shard.parse().unwrap(), &Times::default());
            seen.extend(names(&selection));
        }
        seen.sort();
        let mut all = names(&selection());
        all.sort();
        assert_eq!(seen, all);
    }
}
