//! Probe events: the fields of each kind, and the line that creates it.

use super::{
    Args, UserPlace, UserPlaces,
    kinds::{Definition, Kind, Probe, ProbeKind, recorded},
};
use crate::scenario::values::{
    event_ref::StaticName,
    names::{EventName, GroupName, InstanceName, Line, ProbePoint},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The directory of the workloads in a guest.
pub(crate) const WORKLOADS: &str = "/workloads";

/// The default groups of the kernel.
mod groups {
    use super::GroupName;

    pub(super) fn kprobes() -> GroupName {
        GroupName::default_of("kprobes")
    }

    pub(super) fn fprobes() -> GroupName {
        GroupName::default_of("fprobes")
    }

    pub(super) fn tracepoints() -> GroupName {
        GroupName::default_of("tracepoints")
    }

    pub(super) fn uprobes() -> GroupName {
        GroupName::default_of("uprobes")
    }

    pub(super) fn eprobes() -> GroupName {
        GroupName::default_of("eprobes")
    }
}

/// Defines a kind of probe from its own fields, to which it adds those that every probe has. After
/// `define`: the parts of its definition before and after the event's name.
macro_rules! probe {
    (
        $(#[$meta:meta])*
        $name:ident at $target:ident, $group:literal
        { $($own:tt)* }
        define in $file:literal: |$probe:ident, $places:ident| $letter:expr, $place:expr, $end:expr
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// The event's name.
            pub name: EventName,
            /// The event's group.
            #[serde(default = $group)]
            pub group: GroupName,
            /// Arguments to record: their names and fetch arguments, in the order written, as in `file:
            /// "+0($arg2):ustring"`.
            #[serde(default)]
            pub args: Args,
            /// The event filter, written to the event's `filter` file.
            #[serde(default)]
            pub filter: Option<Line>,
            /// Event triggers, written to the event's `trigger` file, one write each.
            #[serde(default)]
            pub triggers: Vec<Line>,
            /// The tracing instance that records the event. Default: the top-level one.
            #[serde(default)]
            pub instance: Option<InstanceName>,
        }

        impl Kind for $name {
            fn group(&self) -> &str {
                &self.group
            }

            fn name(&self) -> &str {
                &self.name
            }

            recorded!();

            fn probe(&self) -> Option<Probe<'_>> {
                let target = self.$target.as_str();
                Some(Probe { kind: ProbeKind::$name, target, args: &self.args })
            }

            fn args_mut(&mut self) -> Option<&mut Args> {
                Some(&mut self.args)
            }

            fn probe_point_mut(&mut self) -> Option<&mut ProbePoint> {
                self.$target.in_kernel()
            }

            fn user_place(&self) -> Option<&UserPlace> {
                self.$target.in_program()
            }

            fn definition(&self, $places: &UserPlaces) -> Option<Definition> {
                let $probe = self;
                let (letter, place, end): (String, String, String) = ($letter, $place, $end);
                let (group, name, args) = (&self.group, &self.name, &self.args);
                let line = format!("{letter}:{group}/{name} {place}{args}{end}");
                Some(Definition { file: $file, line })
            }
        }
    };
}

/// A place for a probe.
trait Target {
    /// Returns the place if it is in a program.
    fn in_program(&self) -> Option<&UserPlace> {
        None
    }

    /// Returns the place if it is in the kernel.
    fn in_kernel(&mut self) -> Option<&mut ProbePoint> {
        None
    }
}

impl Target for ProbePoint {
    fn in_kernel(&mut self) -> Option<&mut ProbePoint> {
        Some(self)
    }
}

impl Target for StaticName {}

impl Target for EventName {}

impl Target for UserPlace {
    fn in_program(&self) -> Option<&UserPlace> {
        Some(self)
    }
}

impl UserPlace {
    /// Returns the place in the form of `uprobe_events`, if it is one of `places`.
    fn in_file(&self, places: &UserPlaces) -> Option<String> {
        let offset = places.get(self)?;
        Some(format!("{WORKLOADS}/{}:{offset:#x}", self.program))
    }
}

probe! {
    /// Defines a kprobe event.
    Kprobe at kprobe, "groups::kprobes"
    {
        /// The probe point: `SYMBOL`, `SYMBOL+OFFSET`, `MODULE:SYMBOL` or an address. A function of Rust may be
        /// written as its path, as in `<rust_print_main::RustPrint as kernel::Module>::init`.
        pub kprobe: ProbePoint,
    }
    define in "kprobe_events": |probe, _places| "p".into(), probe.kprobe.to_string(), String::new()
}

probe! {
    /// Defines a kretprobe event. In `args`, `$retval` is the return value; since 6.9, `$argN` is an
    /// argument of the call.
    Kretprobe at kretprobe, "groups::kprobes"
    {
        /// The function: `SYMBOL` or `MODULE:SYMBOL`.
        pub kretprobe: ProbePoint,
        /// Maximum number of calls that can be probed simultaneously before some are missed. Default:
        /// the kernel's.
        #[serde(default)]
        #[schemars(range(min = 1, max = 4096))]
        pub maxactive: Option<u32>,
    }
    define in "kprobe_events": |probe, _places|
        format!("r{}", probe.maxactive.map(|number| number.to_string()).unwrap_or_default()),
        probe.kretprobe.to_string(),
        String::new()
}

probe! {
    /// Defines an fprobe event at the entry of a function, which uses ftrace instead of a breakpoint.
    Fprobe at fprobe, "groups::fprobes"
    {
        /// The function: `SYMBOL`.
        pub fprobe: ProbePoint,
    }
    define in "dynamic_events": |probe, _places| "f".into(), probe.fprobe.to_string(), String::new()
}

probe! {
    /// Defines an fprobe event at the return of a function. In `args`, `$retval` is the return value
    /// and `$argN` an argument of the call.
    Fexit at fexit, "groups::fprobes"
    {
        /// The function: `SYMBOL`.
        pub fexit: ProbePoint,
    }
    define in "dynamic_events":
        |probe, _places| "f".into(), format!("{}%return", probe.fexit), String::new()
}

probe! {
    /// Defines a tracepoint probe: an event at a tracepoint, with or without an event of its own, made of the
    /// tracepoint's parameters.
    Tprobe at tprobe, "groups::tracepoints"
    {
        /// The tracepoint. In `args`, `$argN` and paths start from the parameters of its `TP_PROTO`.
        pub tprobe: EventName,
    }
    define in "dynamic_events": |probe, _places| "t".into(), probe.tprobe.to_string(), String::new()
}

probe! {
    /// Defines a uprobe event. `args` name registers, as in `+0(%x1):u64`.
    Uprobe at uprobe, "groups::uprobes"
    {
        /// The place in a workload: `PROGRAM:SYMBOL` or `PROGRAM:SYMBOL+OFFSET`.
        pub uprobe: UserPlace,
    }
    define in "uprobe_events": |probe, places| "p".into(), probe.uprobe.in_file(places)?, String::new()
}

probe! {
    /// Defines a uretprobe event. In `args`, `$retval` is the return value.
    Uretprobe at uretprobe, "groups::uprobes"
    {
        /// The function of a workload: `PROGRAM:SYMBOL`.
        pub uretprobe: UserPlace,
    }
    define in "uprobe_events": |probe, places| "r".into(), probe.uretprobe.in_file(places)?, String::new()
}

probe! {
    /// Defines an event probe: an event made of the fields of another event.
    Eprobe at eprobe, "groups::eprobes"
    {
        /// The event it is attached to, `SYSTEM:NAME`; `args` name the fields of that event: `pid:
        /// "$next_pid"`.
        pub eprobe: StaticName,
        /// Condition on the fields of the attached event, as in `next_pid != 0`; since 6.2. `filter` in
        /// contrast applies to the probe's own arguments.
        #[serde(default, rename = "if")]
        pub condition: Option<Line>,
    }
    define in "dynamic_events": |probe, _places|
        "e".into(),
        format!("{}/{}", probe.eprobe.system, probe.eprobe.name),
        probe.condition.as_ref().map(|condition| format!(" if {condition}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{EventSpec, FromText};

    fn check(yaml: &str, expect: Option<(&'static str, &str)>) {
        let event: EventSpec = crate::yaml::from_str(yaml).unwrap();
        let main = UserPlace::from_text("eventfd:main").unwrap();
        let found = event.definition(&UserPlaces::from([(main, 0x530)]));
        let expect = expect.map(|(file, line)| Definition { file, line: line.to_owned() });
        assert_eq!(found, expect, "{yaml}");
        assert!(event.probe().is_some_and(|probe| yaml.contains(probe.target)), "{yaml}");
    }

    #[test]
    fn probes_of_functions_are_created_by_these_lines() {
        check("{ kprobe: vfs_write, name: w }", Some(("kprobe_events", "p:kprobes/w vfs_write")));
        check(
            r#"{ kprobe: do_sys_openat2, name: open, group: my_kprobes,
                 args: { file: "+0($arg2):ustring", flags: "+0($arg3):x64" } }"#,
            Some((
                "kprobe_events",
                "p:my_kprobes/open do_sys_openat2 file=+0($arg2):ustring flags=+0($arg3):x64",
            )),
        );
        check(
            r#"{ kretprobe: vfs_write, name: w, maxactive: 3, args: { ret: "$retval:s64" } }"#,
            Some(("kprobe_events", "r3:kprobes/w vfs_write ret=$retval:s64")),
        );
        check("{ fprobe: vfs_write, name: w }", Some(("dynamic_events", "f:fprobes/w vfs_write")));
        check(
            r#"{ fexit: vfs_write, name: w, group: g, args: { ret: "$retval" } }"#,
            Some(("dynamic_events", "f:g/w vfs_write%return ret=$retval")),
        );
        check(
            r#"{ tprobe: sched_switch, name: s, args: { preempt: "$arg1:u8" } }"#,
            Some(("dynamic_events", "t:tracepoints/s sched_switch preempt=$arg1:u8")),
        );
    }

    #[test]
    fn probes_of_programs_are_created_once_their_place_is_known() {
        check(
            r#"{ uprobe: "eventfd:main", name: m, args: { argc: "%x0" } }"#,
            Some(("uprobe_events", "p:uprobes/m /workloads/eventfd:0x530 argc=%x0")),
        );
        check(
            r#"{ uretprobe: "eventfd:main", name: m }"#,
            Some(("uprobe_events", "r:uprobes/m /workloads/eventfd:0x530")),
        );
        check("{ uprobe: 'eventfd:main+4', name: m }", None);
    }

    #[test]
    fn an_event_probe_is_created_with_its_condition_behind_its_arguments() {
        check(
            r#"{ eprobe: "sched:sched_switch", name: next, args: { pid: "$next_pid" }, if: next_pid != 0 }"#,
            Some(("dynamic_events", "e:eprobes/next sched/sched_switch pid=$next_pid if next_pid != 0")),
        );
    }
}
