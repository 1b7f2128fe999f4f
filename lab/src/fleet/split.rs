//! The jobs of a fleet: each kernel's scenarios, split over several machines.

use crate::results::Times;
use serde::Serialize;
use std::time::Duration;

/// The assumed time of each scenario if no times are known, in seconds.
const UNKNOWN_SECONDS: f64 = 1.0;

/// One part of one kernel's scenarios, for one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// The kernel's name.
    pub kernel: String,
    /// The part, in the format of `--shard`.
    pub shard: String,
    /// A name for files and job lists, without a slash: `6.12-1-of-2`.
    pub name: String,
    /// The expected time in whole seconds, without builds.
    pub seconds: u64,
}

/// The split of a kernel's scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The number of parts; `None` for as many as `target` requires.
    pub shards: Option<usize>,
    /// The maximum time of a part.
    pub target: Duration,
    /// The number of guests that run in parallel on a machine.
    pub guests: usize,
}

/// Returns the jobs of one kernel.
pub fn jobs(kernel: &str, scenarios: &[&str], times: &Times, split: Split) -> Vec<Job> {
    let total = total_seconds(&scenarios.iter().map(|name| times.get(kernel, name)).collect::<Vec<_>>());
    let alone = total / split.guests.max(1) as f64;
    let wanted = (alone / split.target.as_secs_f64().max(1.0)).ceil() as usize;
    // A part has at least one scenario.
    let of = split.shards.unwrap_or(wanted).clamp(1, scenarios.len().max(1));
    let job = |number| Job {
        kernel: kernel.to_owned(),
        shard: format!("{number}/{of}"),
        name: format!("{kernel}-{number}-of-{of}"),
        seconds: (alone / of as f64).ceil() as u64,
    };
    (1..=of).map(job).collect()
}

/// Adds up the times. A scenario without one counts as the mean of the others.
fn total_seconds(times: &[Option<f64>]) -> f64 {
    let known: Vec<f64> = times.iter().flatten().copied().collect();
    let mean =
        if known.is_empty() { UNKNOWN_SECONDS } else { known.iter().sum::<f64>() / known.len() as f64 };
    times.iter().map(|time| time.unwrap_or(mean)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_gets_as_many_machines_as_its_scenarios_take() {
        let scenarios: Vec<String> = (0..600).map(|number| format!("s{number}")).collect();
        let names: Vec<&str> = scenarios.iter().map(String::as_str).collect();
        let check = |count: usize, shards, target, expect: (usize, u64)| {
            let split = Split { shards, target: Duration::from_secs(target), guests: 2 };
            let jobs = jobs("6.12", &names[..count], &Times::default(), split);
            assert_eq!((jobs.len(), jobs[0].seconds), expect);
            let last = jobs.len();
            assert_eq!(jobs[last - 1].shard, format!("{last}/{last}"));
            assert_eq!(jobs[0].name, format!("6.12-1-of-{last}"));
        };
        // No times are known: 1 s each, two at a time.
        check(600, None, 300, (1, 300));
        check(600, None, 299, (2, 150));
        check(600, None, 60, (5, 60));
        check(600, Some(3), 300, (3, 100));
        // At most one part per scenario, and at least one.
        check(4, Some(9), 300, (4, 1));
        check(0, None, 300, (1, 0));
    }

    #[test]
    fn what_is_not_known_counts_as_the_mean() {
        let check = |times: &[Option<f64>], expect: f64| assert_eq!(total_seconds(times), expect);
        check(&[], 0.0);
        check(&[None, None], 2.0);
        check(&[Some(4.0), None, Some(2.0)], 9.0);
        check(&[Some(0.0), None], 0.0);
    }
}
