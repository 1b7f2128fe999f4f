//! `expect:`, what the whole trace must look like.

use super::{
    TextCheck, agrees::Agrees, amount::Amount, bind::Bind, event_ref::EventRef, graph::Graph,
    keyed::one_keyed, literal::Literal, names::Line, sequence::Sequence, span::Span,
};
use crate::verdict::Condition;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{borrow::Cow, fmt};

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
        /// `{ agrees: { step: 1, lines: 'value=(?<value>[0-9]+)', events: [efd_write] } }`
        "agrees" => Agrees,
    }
}

impl Expectation {
    /// Whether it compares the times of events. The times of a `graph` are the tracer's own, whatever
    /// the clock.
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
    /// The events it names.
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
            Expectation::Agrees(agrees) => agrees.events.iter().collect(),
            Expectation::Graph(_) | Expectation::KernelLog(_) => Vec::new(),
        }
    }

    /// The tracing instance whose events it is about; `None` is the top-level one.
    pub fn instance(&self) -> Option<&str> {
        self.events().first()?.instance.as_deref()
    }

    /// Two events of it that are not of one instance.
    pub(super) fn instances_apart(&self) -> Option<(&EventRef, &EventRef)> {
        let events = self.events();
        let first = *events.first()?;
        events.into_iter().find(|event| event.instance != first.instance).map(|other| (first, other))
    }
}

/// What the kernel log must be.
pub type KernelLog = TextCheck;

/// How many events match.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Which events, NAME or GROUP:NAME.
    pub event: EventRef,
    /// Only those for which this CEL condition holds, as in `ret == 8`.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Exactly so many.
    #[serde(default)]
    pub is: Option<u64>,
    /// At least so many.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// At most so many.
    #[serde(default)]
    pub at_most: Option<u64>,
}

/// The values of a field, in the order of the trace.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Values {
    /// Which events, NAME or GROUP:NAME.
    pub event: EventRef,
    /// Only those for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// The field, one of the event's own or `pid`, `cpu`, `comm`.
    pub field: Line,
    /// Its values. A text beside an integer field is a symbol: `ip` is `vfs_write`.
    pub equal: Vec<Literal>,
}

/// The values of a field in any order.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Which events, NAME or GROUP:NAME.
    pub event: EventRef,
    /// Only those for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// The field, one of the event's own or `pid`, `cpu`, `comm`.
    pub field: Line,
    /// Its values, each as often as it is listed.
    pub equal: Vec<Literal>,
    /// Values that come more than once count once.
    #[serde(default)]
    pub distinct: bool,
}

/// No event matches.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Never {
    /// Which events, NAME or GROUP:NAME.
    pub event: EventRef,
    /// Only those for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
}

/// Each enter has its return, task by task; calls may nest.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// The event on the way in.
    pub enter: EventMatch,
    /// The event on the way out.
    #[serde(rename = "return")]
    pub exit: EventMatch,
    /// Exactly so many pairs. Default: at least one.
    #[serde(default)]
    pub is: Option<u64>,
    /// At least so many pairs.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// At most so many pairs.
    #[serde(default)]
    pub at_most: Option<u64>,
    /// No pair takes longer.
    #[serde(default)]
    pub within: Option<Span>,
    /// Tasks may be inside when the trace begins or ends.
    #[serde(default)]
    pub open: bool,
}

/// The time from one event to the next other one.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Where time starts; the latest one before `to` counts.
    pub from: EventMatch,
    /// Where it ends.
    pub to: EventMatch,
    /// A field both have the same value of, or pairs FROM_FIELD: TO_FIELD, as in `{pid: next_pid}`.
    #[serde(default)]
    pub by: Bind,
    /// Half of the times are at most so long.
    #[serde(default)]
    pub p50: Option<Span>,
    /// 95 of 100 are at most so long.
    #[serde(default)]
    pub p95: Option<Span>,
    /// All are at most so long.
    #[serde(default)]
    pub max: Option<Span>,
    /// So many times at least must have been measured. Default 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub at_least: Option<u64>,
}

/// What a hist trigger counted, from the event's `hist` file after the last step.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hist {
    /// Whose `hist` file.
    pub event: EventRef,
    /// Entries that must be there.
    #[serde(default)]
    pub entries: Vec<HistEntry>,
    /// There are no others.
    #[serde(default)]
    pub only: bool,
    /// The total of hits.
    #[serde(default)]
    pub hits: Option<Amount>,
    /// Hits that found the table full.
    #[serde(default)]
    pub dropped: Option<Amount>,
}

/// One entry of a histogram.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistEntry {
    /// Key fields and their values as the file prints them.
    pub key: IndexMap<String, Literal>,
    /// How often it was hit.
    #[serde(default)]
    pub hitcount: Option<Amount>,
    /// Sums of other fields.
    #[serde(default)]
    pub values: IndexMap<String, Amount>,
}

/// A stack trace that follows an event (option or trigger `stacktrace`).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// The event whose stack it is, or `kernel_stack` for any.
    pub event: EventRef,
    /// Only those for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Functions, innermost first; others may stand between them.
    pub frames: Vec<Line>,
    /// No others stand between them.
    #[serde(default)]
    pub strict: bool,
}

/// The kernel's own counters, read after the last step.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// A kprobe or kretprobe event, for `hits` and `missed` (kprobe_profile).
    #[serde(default)]
    pub event: Option<EventRef>,
    /// How often the probe was hit.
    #[serde(default)]
    pub hits: Option<Amount>,
    /// How often it was missed.
    #[serde(default)]
    pub missed: Option<Amount>,
    /// Events that are in the ring buffer, all CPUs together.
    #[serde(default)]
    pub entries: Option<Amount>,
    /// Events that were overwritten by newer ones.
    #[serde(default)]
    pub overruns: Option<Amount>,
    /// Events that were dropped: new ones where the option `overwrite` is off, and those of
    /// interrupts that would have lapped the event they interrupted.
    #[serde(default)]
    pub dropped: Option<Amount>,
}

/// Which events, where an expectation names two: a name, or a map of `event` and `where`.
#[derive(Clone, Debug, PartialEq)]
pub struct EventMatch {
    /// NAME or GROUP:NAME.
    pub event: EventRef,
    /// Only those for which this condition holds.
    pub condition: Option<Condition>,
}

/// The map form of [`EventMatch`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EventMatchMap")]
struct EventMatchMap {
    /// Which events, NAME or GROUP:NAME.
    event: EventRef,
    /// Only those for which this CEL condition holds.
    #[serde(default, rename = "where")]
    condition: Option<Condition>,
}

impl<'de> Deserialize<'de> for EventMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EventMatch, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = EventMatch;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an event's name, or a map of event and where")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EventMatch, E> {
                let event = super::text::FromText::from_text(text).map_err(E::custom)?;
                Ok(EventMatch { event, condition: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EventMatch, A::Error> {
                let map = EventMatchMap::deserialize(MapAccessDeserializer::new(map))?;
                Ok(EventMatch { event: map.event, condition: map.condition })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for EventMatch {
    fn schema_name() -> Cow<'static, str> {
        "EventMatch".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Which events: a name, or a map of `event` and `where`.",
            "oneOf": [generator.subschema_for::<EventRef>(), generator.subschema_for::<EventMatchMap>()],
        })
    }
}
