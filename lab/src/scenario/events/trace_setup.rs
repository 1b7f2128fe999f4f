//! The parts of `trace:` other than events: tracer, filters, options, clock, buffer.

use super::EventSpec;
use crate::scenario::{
    read::scalar::{FromText, from_text},
    values::names::{Line, OptionName},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Sets up tracing before the first step. Everything else in tracefs stays as after boot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TraceSetup {
    /// The tracer, written to `current_tracer`: function, function_graph, irqsoff, …
    pub tracer: Option<Line>,
    /// Functions to trace, written to `set_ftrace_filter`: names, globs, `*:mod:NAME`.
    pub functions: Vec<Line>,
    /// Functions not to trace, written to `set_ftrace_notrace`.
    pub notrace: Vec<Line>,
    /// Functions whose calls the function_graph tracer follows, written to `set_graph_function`.
    pub graph_functions: Vec<Line>,
    /// Trace options, the files of `options/`: names, each with on or off.
    pub options: BTreeMap<OptionName, Switch>,
    /// The trace clock, written to `trace_clock`, including that of tracing instances. Default: local,
    /// the kernel's default.
    pub clock: Option<Clock>,
    /// Ring buffer size in KiB per CPU, also for each tracing instance. Default 4096.
    pub buffer_kb: Option<u32>,
    /// Events, in the order in which they are created and enabled. An event with `instance: NAME` is
    /// recorded by that tracing instance, which is created for it; expectations name it `EVENT@NAME`.
    pub events: Vec<EventSpec>,
}

impl TraceSetup {
    /// Returns the tracing instances that record events, each once.
    pub fn instances(&self) -> BTreeSet<&str> {
        self.events.iter().filter_map(EventSpec::instance).collect()
    }
}

/// `on` or `off`; YAML's true and false are also accepted.
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

/// The default size of the ring buffer, in KiB per CPU.
pub const DEFAULT_BUFFER_KB: u32 = 4096;

/// A trace clock, the source of timestamps.
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
    /// Returns whether it counts nanoseconds; `counter` counts events and `uptime` clock ticks.
    pub(in crate::scenario) fn is_time(self) -> bool {
        !matches!(self, Clock::Counter | Clock::Uptime)
    }

    /// Returns the name to write to `trace_clock`.
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
