//! The evidence of expectations besides the trace: files below tracefs, and the stdout of steps.

use crate::{
    plan::below,
    scenario::{EventRef, Expectation, Scenario, Written},
};
use std::collections::BTreeSet;

/// Statistics of the ring buffer; `*` stands for the number of each CPU.
const BUFFER_STATS: &str = "per_cpu/cpu*/stats";

/// Hits and misses of kprobe and kretprobe events.
pub(crate) const KPROBE_PROFILE: &str = "kprobe_profile";

/// Returns the path of an event's histogram, relative to tracefs.
pub(crate) fn hist_path(scenario: &Scenario, event: &EventRef) -> String {
    let named = scenario.trace.events.iter().find(|spec| spec.name() == event.name);
    let group = event.group.as_deref().or(named.map(|spec| spec.group())).unwrap_or("kprobes");
    below(event.instance.as_deref(), &format!("events/{group}/{}/hist", event.name))
}

impl Scenario {
    /// Returns the files below tracefs that expectations need. The recording reads them after the last
    /// step, before anything is disarmed; `*` stands for the number of each CPU. It leaves out missing
    /// files.
    pub fn evidence_files(&self) -> Vec<String> {
        let mut files = BTreeSet::new();
        for item in &self.expect {
            match &item.value {
                Expectation::Hist(hist) => {
                    files.insert(hist_path(self, &hist.event));
                }
                Expectation::Stats(stats) => {
                    if stats.hits.or(stats.missed).is_some() {
                        files.insert(KPROBE_PROFILE.to_owned());
                    }
                    if stats.entries.or(stats.overruns).or(stats.dropped).is_some() {
                        files.insert(below(item.value.instance(), BUFFER_STATS));
                    }
                }
                _ => {}
            }
        }
        files.into_iter().collect()
    }

    /// Returns the steps, counted from 1, whose stdout expectations need.
    pub fn evidence_outputs(&self) -> BTreeSet<usize> {
        let step = |item: &Written<Expectation>| match &item.value {
            Expectation::MatchesOutput(agrees) => Some(agrees.step),
            _ => None,
        };
        self.expect.iter().filter_map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn expectations_name_the_files_they_need() {
        let check = |expect: &str, files: &[&str]| {
            let source = format!(
                "summary: x\ntrace:\n  events: [{{ kprobe: f, name: e, group: g }}, {{ event: 'a:b', instance: i }}]\n\
                 expect:\n  - {expect}\n"
            );
            let scenario = Scenario::parse(Path::new("x.yaml"), &source).unwrap();
            assert_eq!(scenario.evidence_files(), files, "{expect}");
        };
        check("count: { event: e, is: 1 }", &[]);
        check("hist: { event: e, hits: 1 }", &["events/g/e/hist"]);
        check("hist: { event: sched:sched_switch, hits: 1 }", &["events/sched/sched_switch/hist"]);
        check("stats: { event: 'a:b@i', dropped: 0 }", &["instances/i/per_cpu/cpu*/stats"]);
        check("stats: { event: e, missed: 0, dropped: 0 }", &["kprobe_profile", "per_cpu/cpu*/stats"]);
    }
}
