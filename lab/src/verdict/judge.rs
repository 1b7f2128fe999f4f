//! Feeds every expectation of a scenario from one pass over a trace.

use super::{
    Outcome, Said,
    agreement::Agreement,
    count::Counting,
    counters::{BUFFER_STATS, Counters, Histogram, KPROBE_PROFILE, LogCheck},
    finding::{After, Evaluate},
    graph::Trees,
    latency::Timing,
    losses::Losses,
    observed::Observed,
    pairs::Pairing,
    sequence::Following,
    stack::Stacks,
    values::{Ordered, Unordered},
};
use crate::{
    plan::below,
    scenario::{DEFAULT_BUFFER_KB, EventRef, Expectation, Scenario, Written},
    trace::{Item, Loss, Trace},
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

/// What a recording brings back for expectations to look at.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The trace of the whole scenario.
    pub trace: &'a Trace,
    /// Those of the tracing instances, by name.
    pub instances: &'a BTreeMap<String, Trace>,
    /// The kernel log of the guest, as text.
    pub kernel_log: &'a str,
    /// What [`Scenario::evidence_files`] asked for: path below tracefs, `*` replaced, and content.
    pub files: &'a BTreeMap<String, String>,
    /// What [`Scenario::evidence_outputs`] asked for: steps from 1, and what they wrote to stdout.
    pub outputs: &'a BTreeMap<usize, Said>,
}

/// Judges every expectation of a scenario, in the order of its file, in one pass over each trace.
///
/// # Errors
/// A trace that cannot be read or is damaged, or is not there.
pub fn judge(scenario: &Scenario, evidence: &Evidence<'_>) -> Result<Vec<Outcome>> {
    let mut outcomes = BTreeMap::new();
    for instance in [None].into_iter().chain(scenario.trace.instances().into_iter().map(Some)) {
        let trace = match instance {
            None => evidence.trace,
            Some(name) => evidence
                .instances
                .get(name)
                .with_context(|| format!("the trace of the tracing instance `{name}` is missing"))?,
        };
        let mut judge = Judge::of(scenario, instance);
        trace.for_each(|item| {
            match item {
                Item::Event(event) => judge.observe(&event),
                Item::Loss(loss) => judge.loss(&loss),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let indices = of_instance(scenario, instance).map(|(index, _)| index);
        let found = judge.finish(evidence.kernel_log, evidence.files, evidence.outputs);
        outcomes.extend(indices.zip(found));
    }
    Ok(outcomes.into_values().collect())
}

/// The expectations about one tracing instance, with their places in the file.
fn of_instance<'a>(
    scenario: &'a Scenario,
    instance: Option<&'a str>,
) -> impl Iterator<Item = (usize, &'a Written<Expectation>)> {
    scenario.expect.iter().enumerate().filter(move |(_, item)| item.value.instance() == instance)
}

/// The expectations about one trace of a scenario at work.
pub struct Judge {
    running: Vec<(String, Box<dyn Evaluate>)>,
    /// For each kind of event, which of `running` want it; `None` as long as none was seen.
    wanted: Vec<Option<Box<[usize]>>>,
    losses: Losses,
    buffer_kb: u32,
    events: u64,
    bytes: u64,
}

impl Judge {
    /// Ready for the first event of a tracing instance; `None` is the top-level one.
    pub fn of(scenario: &Scenario, instance: Option<&str>) -> Judge {
        let running = of_instance(scenario, instance)
            .map(|(_, item)| (item.text.clone(), evaluator(scenario, &item.value)));
        Judge {
            running: running.collect(),
            wanted: Vec::new(),
            losses: Losses::default(),
            buffer_kb: scenario.trace.buffer_kb.unwrap_or(DEFAULT_BUFFER_KB),
            events: 0,
            bytes: 0,
        }
    }

    /// Looks at the next event; events come in the order of their time, losses at any time.
    #[inline]
    pub fn observe<E: Observed>(&mut self, event: &E) {
        self.events += 1;
        self.bytes += event.size() as u64;
        let kind = usize::from(event.kind());
        if self.wanted.get(kind).is_none_or(Option::is_none) {
            self.meet(kind, event);
        }
        if let Some(Some(wanted)) = self.wanted.get(kind) {
            for index in wanted {
                self.running[*index].1.observe(event);
            }
        }
    }

    /// The first event of a kind: who wants such events is asked once.
    #[cold]
    fn meet(&mut self, kind: usize, event: &dyn Observed) {
        if self.wanted.len() <= kind {
            self.wanted.resize(kind + 1, None);
        }
        let wants = |(_, (_, running)): &(usize, &(String, Box<dyn Evaluate>))| {
            running.wants(event.group(), event.name())
        };
        let wanted = self.running.iter().enumerate().filter(wants).map(|(index, _)| index).collect();
        self.wanted[kind] = Some(wanted);
    }

    /// Takes note of lost events.
    pub fn loss(&mut self, loss: &Loss) {
        self.losses.add(loss);
    }

    /// The outcomes, in the order of the file. `files` are what
    /// [`Scenario::evidence_files`] asked for, by path, and `outputs` what
    /// [`Scenario::evidence_outputs`] did, by step.
    pub fn finish(
        self,
        kernel_log: &str,
        files: &BTreeMap<String, String>,
        outputs: &BTreeMap<usize, Said>,
    ) -> Vec<Outcome> {
        let event_bytes = self.bytes.checked_div(self.events).unwrap_or(64);
        let lost =
            if self.losses.any() { self.losses.describe(self.buffer_kb, event_bytes) } else { String::new() };
        let after = After { losses: &self.losses, lost, kernel_log, files, outputs };
        let outcome = |(text, running): (String, Box<dyn Evaluate>)| {
            let finding = running.finish(&after);
            Outcome { text, status: finding.status, detail: finding.detail }
        };
        self.running.into_iter().map(outcome).collect()
    }
}

fn evaluator(scenario: &Scenario, expectation: &Expectation) -> Box<dyn Evaluate> {
    match expectation {
        Expectation::Count(count) => Box::new(Counting::of_count(count)),
        Expectation::Agrees(agrees) => Box::new(Agreement::new(agrees)),
        Expectation::Values(values) => Box::new(Ordered::new(values)),
        Expectation::Set(set) => Box::new(Unordered::new(set)),
        Expectation::Never(never) => Box::new(Counting::of_never(never)),
        Expectation::Sequence(sequence) => Box::new(Following::new(sequence)),
        Expectation::Pairs(pairs) => Box::new(Pairing::new(pairs)),
        Expectation::Latency(latency) => Box::new(Timing::new(latency)),
        Expectation::Graph(graph) => Box::new(Trees::new(graph)),
        Expectation::Hist(hist) => {
            Box::new(Histogram { hist: hist.clone(), path: hist_path(scenario, &hist.event) })
        }
        Expectation::Stack(stack) => Box::new(Stacks::new(stack)),
        Expectation::Stats(stats) => Box::new(Counters { stats: stats.clone() }),
        Expectation::KernelLog(check) => Box::new(LogCheck(check.clone())),
    }
}

fn hist_path(scenario: &Scenario, event: &EventRef) -> String {
    let named = scenario.trace.events.iter().find(|spec| spec.name() == event.name);
    let group = event.group.as_deref().or(named.map(|spec| spec.group())).unwrap_or("kprobes");
    below(event.instance.as_deref(), &format!("events/{group}/{}/hist", event.name))
}

impl Scenario {
    /// Files below tracefs that expectations need. The recording reads them after the last step,
    /// before anything is disarmed; `*` stands for the number of each CPU. A file that is not
    /// there is left out.
    pub fn evidence_files(&self) -> Vec<String> {
        let mut files = BTreeSet::new();
        for item in &self.expect {
            match &item.value {
                Expectation::Hist(hist) => {
                    files.insert(hist_path(self, &hist.event));
                }
                Expectation::Stats(stats) => {
                    if stats.event.is_some() {
                        files.insert(KPROBE_PROFILE.to_owned());
                    }
                    if stats.entries.or(stats.overruns).or(stats.dropped).is_some() {
                        files.insert(BUFFER_STATS.to_owned());
                    }
                }
                _ => {}
            }
        }
        files.into_iter().collect()
    }

    /// Steps, counted from 1, whose stdout expectations need.
    pub fn evidence_outputs(&self) -> BTreeSet<usize> {
        let step = |item: &Written<Expectation>| match &item.value {
            Expectation::Agrees(agrees) => Some(agrees.step),
            _ => None,
        };
        self.expect.iter().filter_map(step).collect()
    }
}
