//! Kernels × scenarios → the jobs of a fleet: on how many machines each kernel's scenarios run.

use super::times::Times;
use serde::Serialize;
use std::time::Duration;

/// What a scenario is taken to need where nothing is known of any.
const UNKNOWN_SECONDS: f64 = 1.0;

/// One part of one kernel's scenarios, on a machine of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// The kernel's name.
    pub kernel: String,
    /// Which part, as `--shard` takes it.
    pub shard: String,
    /// A name for files and people, without a slash: `6.12-1-of-2`.
    pub name: String,
    /// How long it is expected to take, in whole seconds, without what is built before.
    pub seconds: u64,
}

/// How the scenarios of a kernel are to be split.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// Into so many parts; otherwise as many as it takes for `target`.
    pub shards: Option<usize>,
    /// How long a part may take.
    pub target: Duration,
    /// How many guests run side by side on a machine.
    pub guests: usize,
}

/// The jobs of one kernel.
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

/// What has no time counts as the mean of what has one.
fn total_seconds(times: &[Option<f64>]) -> f64 {
    let known: Vec<f64> = times.iter().flatten().copied().collect();
    let mean =
        if known.is_empty() { UNKNOWN_SECONDS } else { known.iter().sum::<f64>() / known.len() as f64 };
    times.iter().map(|time| time.unwrap_or(mean)).sum()
}

/// Words as a shell reads them back.
pub fn shell_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |word: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
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
        // Nothing is known: 1 s each, two at a time.
        check(600, None, 300, (1, 300));
        check(600, None, 299, (2, 150));
        check(600, None, 60, (5, 60));
        check(600, Some(3), 300, (3, 100));
        // No more parts than scenarios, and always one.
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

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        let check = |words: &[&str], expect: &str| assert_eq!(shell_words(words.iter().copied()), expect);
        check(&["--shard", "1/2"], "--shard 1/2");
        check(&["--filter", "^a (b|$c)'", ""], r"--filter '^a (b|$c)'\''' ''");
    }
}
