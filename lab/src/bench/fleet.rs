//! `bench fleet`: simulates a fleet of 200 machines that runs 1,000 scenarios on 1,000 kernels, and larger and smaller
//! ones. The jobs, their order and the scenarios of each are those of `lab matrix` and `lab run --shard`; the times of
//! scenarios are drawn from stored results.

use super::Figures;
use crate::{
    fleet::{Split, jobs},
    results::{Results, Times, stored_results},
    run::shard::{Weighed, assign},
};
use anyhow::{Result, ensure};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    path::Path,
    time::{Duration, Instant},
};

const KERNELS: usize = 1_000;
const SCENARIOS: usize = 1_000;

/// The fleet of the figures, and the numbers of machines of the table.
const MACHINES: usize = 200;
const FLEETS: [usize; 8] = [1, 10, 50, 100, 200, 500, 1_000, 2_000];

/// The targets of a part's seconds in the table.
const TARGETS: [u64; 3] = [60, 300, 1_200];

/// The CPUs of a machine, and the guests that they run at once.
const CPUS: usize = 2;
const GUESTS: usize = 2 * CPUS;

/// The seconds that a machine needs for a kernel that it does not have yet, from a registry, and for each part until its
/// first scenario starts, with a snapshot to be made (docs/fleet.md).
const PULL_SECONDS: f64 = 20.0;
const START_SECONDS: f64 = 15.0;

/// The maximum size of a `results.json` that is read as one, in bytes.
const RESULTS_MAX_BYTES: f64 = (256_u64 << 20) as f64;

const SEED: u64 = 1;

/// Simulates fleets with the times of the results stored in `stored`.
pub fn fleet(stored: &Path) -> Result<Figures> {
    let results = stored_results(stored)?;
    let fleet = Fleet::drawn(&results)?;
    let started = Instant::now();
    let parts = fleet.parts(Duration::from_secs(300));
    let planned = started.elapsed().as_secs_f64();
    let makespan = simulate(&parts, MACHINES);
    let work: f64 = parts.iter().map(|part| part.seconds).sum();
    let lower = work / MACHINES as f64;
    let bytes = serde_json::to_vec_pretty(&results)?.len() as f64 / results.scenarios.len() as f64;
    let figures = [
        ("parts", parts.len() as f64),
        ("plan_and_split_seconds", planned),
        ("work_machine_hours", work / 3_600.0),
        ("scenarios_only_machine_hours", fleet.seconds() / GUESTS as f64 / 3_600.0),
        ("makespan_hours", makespan / 3_600.0),
        ("makespan_by_lower_bound_ratio", makespan / lower),
        ("longest_part_minutes", parts.iter().map(|part| part.seconds).fold(0.0, f64::max) / 60.0),
        ("results_json_megabytes", bytes * (KERNELS * SCENARIOS) as f64 / 1e6),
        ("results_in_one_report_max", RESULTS_MAX_BYTES / bytes),
    ];
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Figures { bench: "fleet".to_owned(), figures, table: table(&fleet) })
}

/// The kernels of a simulated fleet, with the seconds of their scenarios.
struct Fleet {
    names: Vec<String>,
    kernels: BTreeMap<String, Vec<f64>>,
}

/// A part of a kernel's scenarios.
struct Part {
    kernel: usize,
    /// The time of its scenarios and until the first of them starts.
    seconds: f64,
}

impl Fleet {
    /// Draws the seconds of each scenario on each kernel from measured ones: a scenario takes about as long on all
    /// kernels, and some kernels take longer for all scenarios.
    fn drawn(results: &Results) -> Result<Fleet> {
        let measured: Vec<f64> =
            results.scenarios.iter().map(|result| result.seconds).filter(|&s| s > 0.0).collect();
        ensure!(!measured.is_empty(), "the results have no times");
        let mut random = fastrand::Rng::with_seed(SEED);
        let typical: Vec<f64> = (0..SCENARIOS).map(|_| measured[random.usize(..measured.len())]).collect();
        // Plain kernels take 0.42 s for a scenario, those with KASAN 0.8 s, with lockdep 1.5 s (docs/fleet.md).
        let slower = [1.0, 1.0, 1.0, 1.9, 3.6];
        let kernel = |number: usize| {
            let slower = slower[number % slower.len()];
            let seconds = typical.iter().map(|seconds| seconds * slower * (0.8 + 0.4 * random.f64()));
            (format!("kernel-{number:04}"), seconds.collect())
        };
        let kernels = (0..KERNELS).map(kernel).collect();
        Ok(Fleet { names: (0..SCENARIOS).map(|number| format!("scenario-{number:04}")).collect(), kernels })
    }

    /// Returns the time of all scenarios, one after the other.
    fn seconds(&self) -> f64 {
        self.kernels.values().flatten().sum()
    }

    /// Returns the parts in the order in which an engine starts them.
    fn parts(&self, target: Duration) -> Vec<Part> {
        let split = Split { shards: None, target, guests: GUESTS };
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut parts = Vec::new();
        for (number, (kernel, seconds)) in self.kernels.iter().enumerate() {
            let times = Times::of(
                names.iter().zip(seconds).map(|(name, &seconds)| (kernel.as_str(), *name, seconds)),
            );
            let weighed: Vec<Weighed<'_>> =
                names.iter().map(|name| ((kernel.as_str(), *name), times.get(kernel, name))).collect();
            let jobs = jobs(kernel, &names, &times, split);
            let mut picked = vec![Vec::new(); jobs.len()];
            for (shard, &seconds) in assign(&weighed, jobs.len()).into_iter().zip(seconds) {
                picked[shard - 1].push(seconds);
            }
            let part = |seconds| Part { kernel: number, seconds: START_SECONDS + run_seconds(seconds) };
            parts.extend(picked.into_iter().map(part));
        }
        parts
    }
}

/// Returns how long a machine takes for scenarios: the longest starts first, each as soon as a guest has ended.
fn run_seconds(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(|one, two| two.total_cmp(one));
    let mut guests = [0.0_f64; GUESTS];
    for seconds in seconds {
        let first = (0..GUESTS).min_by(|&one, &two| guests[one].total_cmp(&guests[two])).unwrap_or_default();
        guests[first] += seconds;
    }
    guests.into_iter().fold(0.0, f64::max)
}

/// Returns the seconds until the last part ends: each machine that is free takes the next one, and pulls its kernel
/// unless it ran a part of it last.
fn simulate(parts: &[Part], machines: usize) -> f64 {
    // Whole milliseconds, which are ordered.
    let mut free: BinaryHeap<Reverse<(u64, usize)>> =
        (0..machines).map(|machine| Reverse((0, machine))).collect();
    let mut last = vec![usize::MAX; machines];
    let mut end = 0;
    for part in parts {
        let Some(Reverse((time, machine))) = free.pop() else { break };
        let pull = if last[machine] == part.kernel { 0.0 } else { PULL_SECONDS };
        last[machine] = part.kernel;
        let done = time + ((pull + part.seconds) * 1_000.0) as u64;
        end = end.max(done);
        free.push(Reverse((done, machine)));
    }
    end as f64 / 1_000.0
}

/// Formats the hours of fleets by machines and seconds of a part, with the share of them in which scenarios run.
fn table(fleet: &Fleet) -> String {
    let header: String =
        TARGETS.iter().map(|target| format!("{:>20}", format!("{target} s a part"))).collect();
    let mut lines = vec![format!("machines{header}")];
    let parts: Vec<_> = TARGETS.iter().map(|&target| fleet.parts(Duration::from_secs(target))).collect();
    for machines in FLEETS {
        let cell = |parts: &Vec<Part>| {
            let hours = simulate(parts, machines) / 3_600.0;
            let useful = fleet.seconds() / GUESTS as f64 / 3_600.0 / machines as f64 / hours;
            format!("{:>20}", format!("{hours:.2} h ({:.0} %)", 100.0 * useful))
        };
        lines.push(format!("{machines:>8}{}", parts.iter().map(cell).collect::<String>()));
    }
    let parts = parts.iter().map(|parts| format!("{:>20}", format!("{} parts", parts.len())));
    lines.push(format!("        {}", parts.collect::<String>()));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{
        ScenarioResult, Status,
        fixture::{result, results},
    };

    fn drawn() -> Fleet {
        let took = |seconds| ScenarioResult { seconds, ..result("a", Status::Passed) };
        Fleet::drawn(&results(vec![took(0.5), took(1.0), took(30.0)])).unwrap()
    }

    #[test]
    fn every_scenario_runs_in_one_part_and_machines_share_the_work() {
        let fleet = drawn();
        let parts = fleet.parts(Duration::from_secs(1_200));
        let (alone, work) = (simulate(&parts, 1), parts.iter().map(|part| part.seconds).sum::<f64>());
        // The only machine pulls each kernel once.
        let expect = work + PULL_SECONDS * KERNELS as f64;
        assert!((alone - expect).abs() < parts.len() as f64 / 1_000.0, "{alone} {expect}");
        assert!(work >= fleet.seconds() / GUESTS as f64 + START_SECONDS * parts.len() as f64);
        let many = simulate(&parts, MACHINES);
        assert!(many >= work / MACHINES as f64 && many < alone / 100.0, "{many} {alone}");
        // No fleet is faster than one part.
        let longest = parts.iter().map(|part| part.seconds).fold(0.0, f64::max);
        assert!(simulate(&parts, 1_000_000) >= longest);
        // The same results lead to the same fleet.
        assert!((simulate(&drawn().parts(Duration::from_secs(1_200)), MACHINES) - many).abs() < 1e-9);
    }

    #[test]
    fn a_machine_runs_its_guests_at_once() {
        assert!((run_seconds(vec![1.0; 8]) - 2.0).abs() < 1e-9);
        assert!((run_seconds(vec![5.0, 1.0, 1.0, 1.0, 1.0, 1.0]) - 5.0).abs() < 1e-9);
    }
}
