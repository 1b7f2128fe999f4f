//! Draws the events of a run: on a terminal a bar with the slow scenarios, elsewhere occasional lines.

use super::Event;
use crate::progress::{Progress, Task};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Scenarios are reported as slow after this time.
const SLOW: Duration = Duration::from_secs(3);

/// The number of slow scenarios that are named; the others are counted.
const NAMED: usize = 3;

/// The progress of one run.
#[derive(Debug)]
pub struct Reporter {
    progress: Progress,
    task: Option<Task>,
    /// The running scenarios by the positions of their results, with their start times.
    running: BTreeMap<usize, (String, Instant)>,
}

impl Reporter {
    /// A reporter that draws on `progress`.
    pub fn new(progress: &Progress) -> Reporter {
        Reporter { progress: progress.clone(), task: None, running: BTreeMap::new() }
    }

    /// Draws an event. Results are left to the caller.
    pub fn draw(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { results } => {
                let total = results.map(|results| results as u64);
                self.task = Some(self.progress.task("running scenarios", total));
            }
            Event::ScenarioStarted { place, scenario, kernel } => {
                self.running.insert(*place, (format!("{scenario} on {kernel}"), Instant::now()));
            }
            Event::ScenarioEnded { place, stored } => {
                self.running.remove(place);
                if let Some(task) = &self.task {
                    task.set(*stored as u64);
                }
            }
            Event::Tick => {
                if let Some(task) = &self.task {
                    let running = self.running.values();
                    task.slow(slow(running.map(|(what, since)| (what.as_str(), since.elapsed())).collect()));
                }
            }
            Event::Warning(text) => self.progress.line(format!("warning: {text}")),
            Event::Ended => self.task = None,
            Event::Result { .. } => {}
        }
    }
}

/// Describes the slow scenarios, slowest first: `probes/x on 6.12 for 32 s`; `None` if there are none.
fn slow(mut running: Vec<(&str, Duration)>) -> Option<String> {
    running.retain(|(_, time)| *time >= SLOW);
    running.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let named = running.iter().take(NAMED);
    let mut slow: Vec<String> =
        named.map(|(what, time)| format!("{what} for {} s", time.as_secs())).collect();
    if running.len() > NAMED {
        slow.push(format!("{} more", running.len() - NAMED));
    }
    (!slow.is_empty()).then(|| slow.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_scenarios_are_named_and_others_are_not() {
        let seconds = Duration::from_secs;
        assert_eq!(slow(vec![("a", seconds(1))]), None);
        assert_eq!(
            slow(vec![("a", seconds(4)), ("b", seconds(1)), ("c", seconds(32))]).as_deref(),
            Some("c for 32 s, a for 4 s")
        );
        let many = slow(vec![("a", seconds(9)); 5]).unwrap();
        assert!(many.ends_with(", a for 9 s, 2 more"), "{many}");
    }

    #[test]
    fn a_scenario_that_has_ended_does_not_run() {
        let mut reporter = Reporter::new(&Progress::silent());
        reporter.draw(&Event::Started { results: Some(1) });
        reporter.draw(&Event::ScenarioStarted { place: 1, scenario: "a", kernel: "6.12" });
        assert_eq!(reporter.running.len(), 1);
        reporter.draw(&Event::ScenarioEnded { place: 1, stored: 1 });
        assert!(reporter.running.is_empty());
    }
}
