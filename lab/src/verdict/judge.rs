//! Evaluates all expectations of a scenario in one pass over a trace.

use super::{
    agreement::Agreement,
    count::Counting,
    counters::{Counters, Histogram, LogCheck},
    executed::Tracing,
    finding::{EndState, Evaluate},
    graph::Trees,
    kernel_text::TextCheck,
    latency::Timing,
    losses::Losses,
    observed::Observed,
    pairs::Pairing,
    sequence::Following,
    stack::Stacks,
    values::{Ordered, Unordered},
};
use crate::{
    recording::{StepStdout, hist_path},
    results::Outcome,
    scenario::{DEFAULT_BUFFER_KB, Expectation, Scenario, Written},
};
use anyhow::{Context, Result};
use std::{collections::BTreeMap, ops::ControlFlow};
use trace::{Item, Loss, Trace};

/// The parts of a recording that expectations judge.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The trace of the whole scenario.
    pub trace: &'a Trace,
    /// The traces of the tracing instances by name.
    pub instances: &'a BTreeMap<String, Trace>,
    /// The kernel log of the guest.
    pub kernel_log: &'a str,
    /// The files of [`Scenario::evidence_files`]: path below tracefs, `*` replaced, to content.
    pub files: &'a BTreeMap<String, String>,
    /// The stdout of the steps of [`Scenario::evidence_outputs`] by their numbers, from 1.
    pub outputs: &'a BTreeMap<usize, StepStdout>,
}

/// Judges every expectation of a scenario, in the order of its file, in one pass over each trace.
///
/// # Errors
/// A trace is missing or corrupt, or cannot be read.
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
        let mut judge = Judge::of(scenario, instance, trace.cpus().collect());
        trace.for_each(|item| {
            match item {
                Item::Event(event) => judge.observe(&event),
                Item::Loss(loss) => judge.loss(&loss),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let indices = of_instance(scenario, instance).map(|(index, _)| index);
        let found = judge.finish(Some(trace), evidence.kernel_log, evidence.files, evidence.outputs);
        outcomes.extend(indices.zip(found));
    }
    Ok(outcomes.into_values().collect())
}

/// Returns the expectations about one tracing instance, with their indices in the file.
fn of_instance<'a>(
    scenario: &'a Scenario,
    instance: Option<&'a str>,
) -> impl Iterator<Item = (usize, &'a Written<Expectation>)> {
    scenario.expect.iter().enumerate().filter(move |(_, item)| item.value.instance() == instance)
}

/// The kind of events without a format. Each could be one that an expectation wants.
const UNKNOWN: usize = 0;

/// Evaluates the expectations of a scenario about one trace.
pub struct Judge {
    running: Vec<(String, Box<dyn Evaluate>)>,
    /// Per kind of event, the indices in `running` of those that want it; `None` before the first such event.
    wanted: Vec<Option<Box<[usize]>>>,
    losses: Losses,
    buffer_kb: u32,
    events: u64,
    bytes: u64,
    cpus: Vec<u32>,
}

impl Judge {
    /// Ready for the first event of a tracing instance on these CPUs; `None` stands for the top-level one.
    pub fn of(scenario: &Scenario, instance: Option<&str>, cpus: Vec<u32>) -> Judge {
        let running = of_instance(scenario, instance)
            .map(|(_, item)| (item.text.clone(), evaluator(scenario, &item.value)));
        Judge {
            running: running.collect(),
            wanted: Vec::new(),
            losses: Losses::default(),
            buffer_kb: scenario.trace.buffer_kb.unwrap_or(DEFAULT_BUFFER_KB),
            events: 0,
            bytes: 0,
            cpus,
        }
    }

    /// Observes the next event. Events come in order of time, losses at any time.
    #[inline]
    pub fn observe<E: Observed>(&mut self, event: &E) {
        self.events += 1;
        self.bytes += event.size() as u64;
        let kind = usize::from(event.kind());
        if kind == UNKNOWN {
            self.losses.add_unknown(event.cpu(), event.time());
        }
        if self.wanted.get(kind).is_none_or(Option::is_none) {
            self.meet(kind, event);
        }
        if let Some(Some(wanted)) = self.wanted.get(kind) {
            for index in wanted {
                self.running[*index].1.observe(event);
            }
        }
    }

    /// Asks each expectation once whether it wants events of this kind.
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

    /// Notes lost events.
    pub fn loss(&mut self, loss: &Loss) {
        self.losses.add(loss);
    }

    /// Returns the outcomes in the order of the file. `trace` is what was observed; `files` are those of [`Scenario::evidence_files`] by
    /// path, and `outputs` those of [`Scenario::evidence_outputs`] by step.
    pub fn finish(
        self,
        trace: Option<&Trace>,
        kernel_log: &str,
        files: &BTreeMap<String, String>,
        outputs: &BTreeMap<usize, StepStdout>,
    ) -> Vec<Outcome> {
        let event_bytes = self.bytes.checked_div(self.events).unwrap_or(64);
        let lost =
            if self.losses.any() { self.losses.describe(self.buffer_kb, event_bytes) } else { String::new() };
        let (losses, cpus) = (&self.losses, &self.cpus[..]);
        let after = EndState { losses, lost, cpus, trace, kernel_log, files, outputs };
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
        Expectation::MatchesOutput(agrees) => Box::new(Agreement::new(agrees)),
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
        Expectation::KernelText(text) => Box::new(TextCheck(text.clone())),
        Expectation::Executed(executed) => Box::new(Tracing::new(executed)),
    }
}
