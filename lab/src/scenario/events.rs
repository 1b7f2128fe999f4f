//! `trace:`, what is armed before the first step.

use super::{
    keyed::verb_keyed,
    names::{ArgName, EventName, FetchArg, GroupName, Line, OptionName, ProbePoint, StaticName},
    text::{FromText, from_text},
};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use std::{borrow::Cow, collections::BTreeMap, fmt};

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
    /// Goes to `trace_clock`. Default: local, as the kernel has it.
    pub clock: Option<Clock>,
    /// The ring buffer's size in KiB per CPU. Default 4096.
    pub buffer_kb: Option<u32>,
    /// Events, in the order in which they are created and enabled.
    pub events: Vec<EventSpec>,
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
    pub(super) fn is_time(self) -> bool {
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

verb_keyed! {
    /// One event. The first key of the YAML map says its kind.
    pub enum EventSpec is "event" {
        /// `event: sched:sched_switch`, a tracepoint's event.
        "event" => StaticEvent,
        /// `kprobe: vfs_write`
        "kprobe" => Kprobe,
        /// `kretprobe: vfs_write`
        "kretprobe" => Kretprobe,
    }
}

impl EventSpec {
    /// The group or system.
    pub fn group(&self) -> &str {
        match self {
            EventSpec::StaticEvent(event) => &event.event.system,
            EventSpec::Kprobe(probe) => &probe.group,
            EventSpec::Kretprobe(probe) => &probe.group,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self {
            EventSpec::StaticEvent(event) => &event.event.name,
            EventSpec::Kprobe(probe) => &probe.name,
            EventSpec::Kretprobe(probe) => &probe.name,
        }
    }

    /// The line for `kprobe_events` that creates it; `None` for an event that is always there.
    pub fn definition(&self) -> Option<String> {
        let (kind, place, args) = match self {
            EventSpec::StaticEvent(_) => return None,
            EventSpec::Kprobe(probe) => ("p".to_owned(), &probe.kprobe, &probe.args),
            EventSpec::Kretprobe(probe) => {
                let maxactive = probe.maxactive.map(|n| n.to_string()).unwrap_or_default();
                (format!("r{maxactive}"), &probe.kretprobe, &probe.args)
            }
        };
        let mut line = format!("{kind}:{}/{} {place}", self.group(), self.name());
        for (name, fetch) in &args.0 {
            line.push_str(&format!(" {name}={fetch}"));
        }
        Some(line)
    }

    /// What goes to the event's `filter` file.
    pub fn filter(&self) -> Option<&str> {
        let filter = match self {
            EventSpec::StaticEvent(event) => &event.filter,
            EventSpec::Kprobe(probe) => &probe.filter,
            EventSpec::Kretprobe(probe) => &probe.filter,
        };
        filter.as_deref()
    }

    /// What goes to the event's `trigger` file, one write each.
    pub fn triggers(&self) -> &[Line] {
        match self {
            EventSpec::StaticEvent(event) => &event.triggers,
            EventSpec::Kprobe(probe) => &probe.triggers,
            EventSpec::Kretprobe(probe) => &probe.triggers,
        }
    }

    /// The fields its events have of their own, where the scenario alone tells.
    pub fn fields(&self) -> Option<Vec<&str>> {
        let (own, args): (&[&str], &Args) = match self {
            EventSpec::StaticEvent(_) => return None,
            EventSpec::Kprobe(probe) => (&["__probe_ip"], &probe.args),
            EventSpec::Kretprobe(probe) => (&["__probe_func", "__probe_ret_ip"], &probe.args),
        };
        Some(args.0.keys().map(ArgName::as_str).chain(own.iter().copied()).collect())
    }
}

/// A static event, which a tracepoint of the kernel or of a module defines.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticEvent {
    /// The event, `SYSTEM:NAME` as in `sched:sched_switch`.
    pub event: StaticName,
    /// Goes to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Go to the event's `trigger` file, one write each.
    #[serde(default)]
    pub triggers: Vec<Line>,
}

/// A kprobe event.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kprobe {
    /// Where: `SYMBOL`, `SYMBOL+OFFSET`, `MODULE:SYMBOL` or an address.
    pub kprobe: ProbePoint,
    /// The event's name.
    pub name: EventName,
    /// The event's group. Default `kprobes`.
    #[serde(default = "GroupName::kprobes")]
    #[schemars(default = "kprobes")]
    pub group: GroupName,
    /// Argument names and fetch args, in the order written: `file: "+0($arg2):ustring"`.
    #[serde(default)]
    pub args: Args,
    /// Goes to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Go to the event's `trigger` file, one write each.
    #[serde(default)]
    pub triggers: Vec<Line>,
}

/// A kretprobe event.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kretprobe {
    /// Which function: `SYMBOL` or `MODULE:SYMBOL`.
    pub kretprobe: ProbePoint,
    /// The event's name.
    pub name: EventName,
    /// The event's group. Default `kprobes`.
    #[serde(default = "GroupName::kprobes")]
    #[schemars(default = "kprobes")]
    pub group: GroupName,
    /// As of a kprobe; `$retval` is what the function returned.
    #[serde(default)]
    pub args: Args,
    /// How many calls can be in flight before some are missed. Default: the kernel's.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096))]
    pub maxactive: Option<u32>,
    /// Goes to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Go to the event's `trigger` file, one write each.
    #[serde(default)]
    pub triggers: Vec<Line>,
}

/// The schema's view of [`GroupName::kprobes`].
fn kprobes() -> &'static str {
    "kprobes"
}

/// A probe's arguments, in the order written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(pub IndexMap<ArgName, FetchArg>);

/// `MAX_TRACE_ARGS` of the kernel.
const ARGS_MAX: usize = 128;

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Args, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Args;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map of argument names to fetch args")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = IndexMap::new();
                while let Some((name, fetch)) = map.next_entry::<ArgName, FetchArg>()? {
                    if args.contains_key(&name) {
                        return Err(A::Error::custom(format!("argument `{name}` is there twice")));
                    }
                    args.insert(name, fetch);
                    if args.len() > ARGS_MAX {
                        return Err(A::Error::custom(format!("more than {ARGS_MAX} arguments")));
                    }
                }
                Ok(Args(args))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

impl JsonSchema for Args {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Args".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<ArgName>(),
            "additionalProperties": generator.subschema_for::<FetchArg>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_lines_of_kprobe_events() {
        let check = |yaml, expect: Option<&str>| {
            let event: EventSpec = serde_yaml::from_str(yaml).unwrap();
            assert_eq!(event.definition().as_deref(), expect, "{yaml}");
        };
        check("event: sched:sched_switch", None);
        check("{ kprobe: vfs_write, name: w }", Some("p:kprobes/w vfs_write"));
        check(
            r#"{ kprobe: do_sys_openat2, name: open, group: my_kprobes,
                 args: { file: "+0($arg2):ustring", flags: "+0($arg3):x64" } }"#,
            Some("p:my_kprobes/open do_sys_openat2 file=+0($arg2):ustring flags=+0($arg3):x64"),
        );
        check(
            r#"{ kretprobe: vfs_write, name: w, maxactive: 3, args: { ret: "$retval:s64" } }"#,
            Some("r3:kprobes/w vfs_write ret=$retval:s64"),
        );
    }

    #[test]
    fn arguments_keep_their_order_and_are_there_once() {
        let args: Args = serde_yaml::from_str(r#"{ z: "$arg1", a: "$arg2" }"#).unwrap();
        assert_eq!(args.0.keys().map(ArgName::as_str).collect::<Vec<_>>(), ["z", "a"]);
        let twice = serde_yaml::from_str::<Args>(r#"{ a: "$arg1", a: "$arg2" }"#).unwrap_err();
        assert!(twice.to_string().contains("argument `a` is there twice"), "{twice}");
    }
}
