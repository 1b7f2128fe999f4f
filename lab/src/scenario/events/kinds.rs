//! `trace: { events: }`: each kind of event with its own fields.

use super::Args;
use crate::{
    probe::Prototype,
    scenario::{
        keyed::verb_keyed,
        names::{ArgName, EventName, GroupName, Line, ProbePoint, StaticName},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

verb_keyed! {
    /// One event. The first key of the YAML map says its kind.
    pub enum EventSpec is "event" {
        /// `event: sched:sched_switch`, a tracepoint's event.
        "event" => StaticEvent,
        /// `kprobe: vfs_write`
        "kprobe" => Kprobe,
        /// `kretprobe: vfs_write`
        "kretprobe" => Kretprobe,
        /// `function: "do_sys_openat2(int dfd, string filename)"`
        "function" => Function,
    }
}

impl EventSpec {
    /// The group or system.
    pub fn group(&self) -> &str {
        match self {
            EventSpec::StaticEvent(event) => &event.event.system,
            EventSpec::Kprobe(probe) => &probe.group,
            EventSpec::Kretprobe(probe) => &probe.group,
            EventSpec::Function(probe) => &probe.group,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self {
            EventSpec::StaticEvent(event) => &event.event.name,
            EventSpec::Kprobe(probe) => &probe.name,
            EventSpec::Kretprobe(probe) => &probe.name,
            EventSpec::Function(probe) => probe.name.as_deref().unwrap_or(probe.function.function()),
        }
    }

    /// What it probes and fetches; `None` for an event that is always there.
    pub fn probe(&self) -> Option<Probe<'_>> {
        let (kind, target, args) = match self {
            EventSpec::StaticEvent(_) => return None,
            EventSpec::Kprobe(probe) => (ProbeKind::Kprobe, &probe.kprobe, &probe.args),
            EventSpec::Kretprobe(probe) => (ProbeKind::Kretprobe, &probe.kretprobe, &probe.args),
            EventSpec::Function(probe) => {
                return Some(Probe {
                    kind: ProbeKind::Kprobe,
                    target: probe.function.function(),
                    args: probe.function.args(),
                });
            }
        };
        Some(Probe { kind, target, args })
    }

    /// The args of [`EventSpec::probe`], to be changed.
    pub fn args_mut(&mut self) -> Option<&mut Args> {
        match self {
            EventSpec::StaticEvent(_) => None,
            EventSpec::Kprobe(probe) => Some(&mut probe.args),
            EventSpec::Kretprobe(probe) => Some(&mut probe.args),
            EventSpec::Function(probe) => Some(probe.function.args_mut()),
        }
    }

    /// The line for `kprobe_events` that creates it; `None` for an event that is always there.
    pub fn definition(&self) -> Option<String> {
        let Probe { target, args, .. } = self.probe()?;
        let kind = match self {
            EventSpec::StaticEvent(_) => return None,
            EventSpec::Kprobe(_) | EventSpec::Function(_) => "p".to_owned(),
            EventSpec::Kretprobe(probe) => {
                format!("r{}", probe.maxactive.map(|n| n.to_string()).unwrap_or_default())
            }
        };
        let mut line = format!("{kind}:{}/{} {target}", self.group(), self.name());
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
            EventSpec::Function(probe) => &probe.filter,
        };
        filter.as_deref()
    }

    /// What goes to the event's `trigger` file, one write each.
    pub fn triggers(&self) -> &[Line] {
        match self {
            EventSpec::StaticEvent(event) => &event.triggers,
            EventSpec::Kprobe(probe) => &probe.triggers,
            EventSpec::Kretprobe(probe) => &probe.triggers,
            EventSpec::Function(probe) => &probe.triggers,
        }
    }

    /// The fields its events have of their own, where the scenario alone tells.
    pub fn fields(&self) -> Option<Vec<&str>> {
        let probe = self.probe()?;
        let args = probe.args.0.keys().map(ArgName::as_str);
        Some(args.chain(probe.kind.fields().iter().copied()).collect())
    }
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Where the kernel executes an instruction.
    Kprobe,
    /// Where a function of the kernel returns.
    Kretprobe,
}

impl ProbeKind {
    /// The fields that its events have beside their arguments.
    fn fields(self) -> &'static [&'static str] {
        match self {
            ProbeKind::Kprobe => &["__probe_ip"],
            ProbeKind::Kretprobe => &["__probe_func", "__probe_ret_ip"],
        }
    }
}

/// What every probe has, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe<'a> {
    /// Its kind.
    pub kind: ProbeKind,
    /// Where it is, as written.
    pub target: &'a str,
    /// What it fetches.
    pub args: &'a Args,
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

/// A kprobe event at the entry of a function, written as its prototype.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// The function and which of its parameters are recorded, `do_sys_openat2(int dfd, string filename)`.
    pub function: Prototype,
    /// The event's name. Default: the function's.
    #[serde(default)]
    pub name: Option<EventName>,
    /// The event's group. Default `functions`.
    #[serde(default = "GroupName::functions")]
    #[schemars(default = "functions")]
    pub group: GroupName,
    /// Goes to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Go to the event's `trigger` file, one write each.
    #[serde(default)]
    pub triggers: Vec<Line>,
}

/// The schema's view of [`GroupName::functions`].
fn functions() -> &'static str {
    "functions"
}

/// The schema's view of [`GroupName::kprobes`].
fn kprobes() -> &'static str {
    "kprobes"
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
        check(
            r#"{ function: "do_sys_openat2(int dfd, string filename)" }"#,
            Some("p:functions/do_sys_openat2 do_sys_openat2 dfd=$arg1:s32 filename=+0($arg2):string"),
        );
        check(
            r#"{ function: "vfs_read(ptr file)", name: r, group: g }"#,
            Some("p:g/r vfs_read file=$arg1:x64"),
        );
    }
}
