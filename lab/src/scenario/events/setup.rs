//! What of `trace:` is no event: tracer, filters, options, clock, buffer.

use super::EventSpec;
use crate::scenario::{
    names::{Line, OptionName},
    text::{FromText, from_text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is armed before the first step. Everything else of tracefs is as the kernel booted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TraceSetup {
    /// Goes to `current_tracer`: function, function_graph, irqsoff, …
    pub tracer: Option<Line>,
    /// Go to `set_ftrace_filter`: names, globs, `*:mod:NAME`.
    pub functions: Vec<Line>,
    /// Go to `set_ftrace_notrace`.
    pub notrace: Vec<Line>,
    /// Go to `set_graph_function`.
    pub graph_functions: Vec<Line>,
    /// Files of `options/`: name to on or off.
    pub options: BTreeMap<OptionName, Switch>,
    /// Goes to `trace_clock`, also of tracing instances. Default: local, as the kernel has it.
    pub clock: Option<Clock>,
    /// The ring buffer's size in KiB per CPU, and that of each tracing instance. Default 4096.
    pub buffer_kb: Option<u32>,
    /// Events, in the order in which they are created and enabled. An event with `instance: NAME` is
    /// recorded by that tracing instance, which is made for it; expectations name it `EVENT@NAME`.
    pub events: Vec<EventSpec>,
}

impl TraceSetup {
    /// The tracing instances that record some of the events, each once.
    pub fn instances(&self) -> BTreeSet<&str> {
        self.events.iter().filter_map(EventSpec::instance).collect()
    }
}

/// `on` or `off`; YAML's true and false will do too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl FromText for Switch {
    const EXPECTED: &'static str = "on or off";

    fn from_text(text: &str) -> Result<Switch, String> {
        match text {
            "on" | "true" | "1" => Ok(Switch(true)),
            "off" | "false" | "0" => Ok(Switch(false)),
            _ => Err(format!("`{text}` is not a switch, expected on or off")),
        }
    }
}

from_text!(Switch, { "enum": ["on", "off", true, false] });

/// The ring buffer's size where a scenario does not say, in KiB per CPU.
pub const DEFAULT_BUFFER_KB: u32 = 4096;

/// The clocks a trace can be stamped with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the kernel's own names")]
pub enum Clock {
    Local,
    Global,
    Counter,
    Uptime,
    Perf,
    Mono,
    MonoRaw,
    Boot,
    Tai,
}

impl Clock {
    /// Whether it counts nanoseconds: of the others one counts events and one ticks.
    pub(in crate::scenario) fn is_time(self) -> bool {
        !matches!(self, Clock::Counter | Clock::Uptime)
    }

    /// The name that goes to `trace_clock`.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Local => "local",
            Clock::Global => "global",
            Clock::Counter => "counter",
            Clock::Uptime => "uptime",
            Clock::Perf => "perf",
            Clock::Mono => "mono",
            Clock::MonoRaw => "mono_raw",
            Clock::Boot => "boot",
            Clock::Tai => "tai",
        }
    }
}
