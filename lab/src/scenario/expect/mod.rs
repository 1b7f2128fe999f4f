//! `expect:`, checks of the whole trace.

pub(super) mod bind;
pub(crate) mod comparison;
pub(crate) mod condition;
pub(super) mod executed;
pub(super) mod graph;
pub(super) mod kernel_text;
pub(super) mod matches_output;
pub(super) mod sequence;

pub use bind::{Bind, Same};
pub use condition::Condition;
pub use executed::Executed;
pub use graph::{Graph, GraphCall};
pub use kernel_text::KernelText;
pub use matches_output::{LinePattern, MatchesOutput};
pub use sequence::{Sequence, SequenceStep};

use super::{
    InstanceName, TextCheck,
    read::{keyed::one_keyed, scalar::FromText, shapes::Shapes},
    values::{amount::Amount, event_ref::EventRef, literal::Literal, names::Line, timespan::Timespan},
};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

one_keyed! {
    /// One expectation: a map of one key.
    pub enum Expectation is "an expectation" {
        /// `{ count: { event: efd_ret, where: ret == 8, is: 5 } }`
        "count" => Count,
        /// `{ values: { event: efd_write, field: value, equal: [1, 2, 4] } }`
        "values" => Values,
        /// `{ set: { event: efd_write, field: comm, equal: [eventfd], distinct: true } }`
        "set" => Set,
        /// `{ never: { event: efd_ret, where: ret < 0 } }`
        "never" => Never,
        /// `{ sequence: [ { event: efd_write, bind: pid }, { event: efd_ret, same: pid } ] }`
        "sequence" => Sequence,
        /// `{ pairs: { enter: efd_write, return: efd_ret, is: 5 } }`
        "pairs" => Pairs,
        /// `{ latency: { from: efd_write, to: efd_ret, by: pid, max: 10ms } }`
        "latency" => Latency,
        /// `{ graph: { call: ksys_write, calls: [vfs_write] } }`
        "graph" => Graph,
        /// `{ hist: { event: efd_write, entries: [ { key: { value: 4 }, hitcount: 1 } ] } }`
        "hist" => Hist,
        /// `{ stack: { event: efd_write, frames: [eventfd_write, vfs_write, ksys_write] } }`
        "stack" => Stack,
        /// `{ stats: { event: efd_write, hits: 5, missed: 0 } }`
        "stats" => Stats,
        /// `{ kernel_log: { contains: ["farewell: good night"], never: [BUG] } }`
        "kernel_log" => KernelLog,
        /// `{ matches_output: { step: 1, lines: 'value=(?<value>[0-9]+)', events: [efd_write] } }`
        "matches_output" => MatchesOutput,
        /// `{ kernel_text: { options: { sym-offset: on } } }`
        "kernel_text" => KernelText,
        /// `{ executed: { functions: { at_least: 300 }, except: [ftrace_stub_graph] } }`
        "executed" => Executed,
    }
}

impl Expectation {
    /// Returns whether it compares timestamps of events. The times of a `graph` are the tracer's own,
    /// independent of the clock.
    pub(super) fn compares_times(&self) -> bool {
        match self {
            Expectation::Latency(_) => true,
            Expectation::Pairs(pairs) => pairs.within.is_some(),
            Expectation::Sequence(sequence) => {
                sequence.within.is_some() || sequence.steps.iter().any(|step| step.within.is_some())
            }
            _ => false,
        }
    }
}

impl Expectation {
    /// Returns the events it names.
    pub fn events(&self) -> Vec<&EventRef> {
        match self {
            Expectation::Count(count) => vec![&count.event],
            Expectation::Values(values) => vec![&values.event],
            Expectation::Set(set) => vec![&set.event],
            Expectation::Never(never) => vec![&never.event],
            Expectation::Sequence(sequence) => sequence.steps.iter().map(|step| &step.event).collect(),
            Expectation::Pairs(pairs) => vec![&pairs.enter.event, &pairs.exit.event],
            Expectation::Latency(latency) => vec![&latency.from.event, &latency.to.event],
            Expectation::Hist(hist) => vec![&hist.event],
            Expectation::Stack(stack) => vec![&stack.event],
            Expectation::Stats(stats) => stats.event.iter().collect(),
            Expectation::MatchesOutput(agrees) => agrees.events.iter().collect(),
            Expectation::Graph(_)
            | Expectation::KernelLog(_)
            | Expectation::KernelText(_)
            | Expectation::Executed(_) => Vec::new(),
        }
    }

    /// Returns the tracing instance of its events; `None` is the top-level one.
    pub fn instance(&self) -> Option<&str> {
        if let Expectation::KernelText(text) = self {
            return text.instance.as_ref().map(InstanceName::as_str);
        }
        self.events().first()?.instance.as_deref()
    }

    /// Returns two of its events that are recorded by different instances.
    pub(super) fn instances_apart(&self) -> Option<(&EventRef, &EventRef)> {
        let events = self.events();
        let first = *events.first()?;
        events.into_iter().find(|event| event.instance != first.instance).map(|other| (first, other))
    }
}

/// Checks the kernel log.
pub type KernelLog = TextCheck;

/// Checks the number of matching events.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// The events to count, `NAME` or `GROUP:NAME`.
    pub event: EventRef,
    /// Counts only events for which this CEL condition holds, as in `ret == 8`.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Requires exactly this many.
    #[serde(default)]
    pub is: Option<u64>,
    /// Requires at least this many.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// Requires at most this many.
    #[serde(default)]
    pub at_most: Option<u64>,
}

/// Checks the values of a field, in the order of the trace.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Values {
    /// The events, `NAME` or `GROUP:NAME`.
    pub event: EventRef,
    /// Considers only events for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// The field: one of the event's own, or `pid`, `cpu` or `comm`.
    pub field: Line,
    /// The expected values. A string for an integer field is a symbol: `ip` is `vfs_write`.
    pub equal: Vec<Literal>,
}

/// Checks the values of a field, in any order.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The events, `NAME` or `GROUP:NAME`.
    pub event: EventRef,
    /// Considers only events for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// The field: one of the event's own, or `pid`, `cpu` or `comm`.
    pub field: Line,
    /// The expected values, each as often as it is listed.
    pub equal: Vec<Literal>,
    /// Ignores duplicates: a value that occurs several times counts once.
    #[serde(default)]
    pub distinct: bool,
}

/// Requires that no event matches.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Never {
    /// The events, `NAME` or `GROUP:NAME`.
    pub event: EventRef,
    /// Considers only events for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
}

/// Requires that every enter event has its return event in the same task; calls may nest.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// The event at function entry.
    pub enter: EventMatch,
    /// The event at function return.
    #[serde(rename = "return")]
    pub exit: EventMatch,
    /// Requires exactly this many pairs. Default: at least one.
    #[serde(default)]
    pub is: Option<u64>,
    /// Requires at least this many pairs.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// Requires at most this many pairs.
    #[serde(default)]
    pub at_most: Option<u64>,
    /// Maximum time between enter and return of each pair.
    #[serde(default)]
    pub within: Option<Timespan>,
    /// Allows each task to be between enter and return once when the trace begins, and once when it ends.
    #[serde(default)]
    pub allow_open: bool,
}

/// Checks the time from one event to the next occurrence of another event.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The event that starts the time; the last one before `to` counts.
    pub from: EventMatch,
    /// The event that ends the time.
    pub to: EventMatch,
    /// Matches events by a field that has the same value in both, or by pairs `FROM_FIELD: TO_FIELD`,
    /// as in `{pid: next_pid}`.
    #[serde(default)]
    pub by: Bind,
    /// Maximum of the median time.
    #[serde(default)]
    pub p50: Option<Timespan>,
    /// Maximum of the 95th percentile.
    #[serde(default)]
    pub p95: Option<Timespan>,
    /// Maximum of all times.
    #[serde(default)]
    pub max: Option<Timespan>,
    /// Requires at least this many measurements. Default 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub at_least: Option<u64>,
}

/// Checks the histogram of a hist trigger, read from the event's `hist` file after the last step.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hist {
    /// The event that has the hist trigger.
    pub event: EventRef,
    /// Entries that the histogram must contain.
    #[serde(default)]
    pub entries: Vec<HistEntry>,
    /// Requires that there are no other entries.
    #[serde(default)]
    pub only: bool,
    /// Total number of hits.
    #[serde(default)]
    pub hits: Option<Amount>,
    /// Number of hits dropped because the table was full.
    #[serde(default)]
    pub dropped: Option<Amount>,
}

/// One entry of a histogram.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistEntry {
    /// Key fields and their values, as the `hist` file prints them.
    pub key: IndexMap<String, Literal>,
    /// Hit count of the entry.
    #[serde(default)]
    pub hitcount: Option<Amount>,
    /// Sums of other fields.
    #[serde(default)]
    pub values: IndexMap<String, Amount>,
}

/// Checks a stack trace that follows an event (option or trigger `stacktrace`).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// The event that the stack trace belongs to, or `kernel_stack` for any.
    pub event: EventRef,
    /// Considers only events for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Functions, innermost first; other frames may come between them.
    pub frames: Vec<Line>,
    /// Requires that no other frames come between them.
    #[serde(default)]
    pub strict: bool,
}

/// Checks the kernel's own counters, read after the last step.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// A kprobe or kretprobe event, for `hits` and `missed` (`kprobe_profile`), or any event of a tracing
    /// instance, `EVENT@INSTANCE`: the other counters are those of the buffer of its instance.
    #[serde(default)]
    pub event: Option<EventRef>,
    /// Number of hits of the probe.
    #[serde(default)]
    pub hits: Option<Amount>,
    /// Number of missed hits of the probe.
    #[serde(default)]
    pub missed: Option<Amount>,
    /// Number of events in the ring buffer, over all CPUs.
    #[serde(default)]
    pub entries: Option<Amount>,
    /// Number of events overwritten by newer ones.
    #[serde(default)]
    pub overruns: Option<Amount>,
    /// Number of dropped events: new events if the option `overwrite` is off, and events of interrupts
    /// that would have overwritten the event that they interrupted.
    #[serde(default)]
    pub dropped: Option<Amount>,
}

/// The events on one side of an expectation: a name, or a map of `event` and `where`.
#[derive(Clone, Debug, PartialEq)]
pub struct EventMatch {
    /// `NAME` or `GROUP:NAME`.
    pub event: EventRef,
    /// Considers only events for which this condition holds.
    pub condition: Option<Condition>,
}

/// The map form of [`EventMatch`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EventMatchMap")]
struct EventMatchMap {
    /// The events, `NAME` or `GROUP:NAME`.
    event: EventRef,
    /// Considers only events for which this CEL condition holds.
    #[serde(default, rename = "where")]
    condition: Option<Condition>,
}

impl<'de> Deserialize<'de> for EventMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EventMatch, D::Error> {
        Shapes::new("an event's name, or a map of event and where")
            .text(|text| Ok(EventMatch { event: EventRef::from_text(text)?, condition: None }))
            .map(|EventMatchMap { event, condition }| Ok(EventMatch { event, condition }))
            .read(deserializer)
    }
}

impl JsonSchema for EventMatch {
    fn schema_name() -> Cow<'static, str> {
        "EventMatch".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The events: a name, or a map of `event` and `where`.",
            "oneOf": [generator.subschema_for::<EventRef>(), generator.subschema_for::<EventMatchMap>()],
        })
    }
}
