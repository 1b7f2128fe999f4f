//! `trace: { events: }`: the kinds of events and their common interface.

use super::{
    Args, UserPlace, UserPlaces,
    function::Function,
    non_probes::{Feed, StaticEvent, Synthetic, UserEvent},
    probes::{Eprobe, Fexit, Fprobe, Kprobe, Kretprobe, Tprobe, Uprobe, Uretprobe},
};
use crate::scenario::{
    read::keyed::verb_keyed,
    values::names::{ArgName, InstanceName, Line, ProbePoint},
};

verb_keyed! {
    /// One event. The first key of the YAML map selects its kind.
    pub enum EventSpec is "event" {
        /// `{ event: "sched:sched_switch", filter: prev_pid != 0 }`
        "event" => StaticEvent,
        /// `{ kprobe: vfs_write, name: write, args: { type: "file->f_inode->i_sb->s_type->name", count: "$arg3:u64" } }`
        "kprobe" => Kprobe,
        /// `{ kretprobe: vfs_write, name: written, args: { ret: "$retval:s64" } }`
        "kretprobe" => Kretprobe,
        /// `{ fprobe: vfs_write, name: write, args: { count: count } }`
        "fprobe" => Fprobe,
        /// `{ fexit: vfs_write, name: written, args: { ret: "$retval:s64" } }`
        "fexit" => Fexit,
        /// `{ tprobe: sched_switch, name: switched, args: { next: "next->pid" } }`
        "tprobe" => Tprobe,
        /// `{ uprobe: "eventfd:main", name: main, args: { argc: "%x0" } }`
        "uprobe" => Uprobe,
        /// `{ uretprobe: "eventfd:main", name: main_returns, args: { ret: "$retval" } }`
        "uretprobe" => Uretprobe,
        /// `{ eprobe: "sched:sched_switch", name: next, args: { pid: "$next_pid" } }`
        "eprobe" => Eprobe,
        /// `{ synthetic: waited, fields: { lat: u64 }, sources: [ { event: "sched:sched_waking", trigger: "hist:keys=pid:ts0=common_timestamp.usecs" }, { event: "sched:sched_switch", trigger: "hist:keys=next_pid:wait=common_timestamp.usecs-$ts0:onmatch(sched.sched_waking).waited($wait)" } ] }`
        "synthetic" => Synthetic,
        /// `{ function: "do_sys_openat2(int dfd, string filename)", name: open }`
        "function" => Function,
        /// `{ user_event: tick, fields: { count: u32 } }`
        "user_event" => UserEvent,
    }
}

/// The line that creates an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The file to write it to, below tracefs.
    pub file: &'static str,
    /// The line.
    pub line: String,
}

/// Fields common to all kinds of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded<'a> {
    pub(super) filter: Option<&'a Line>,
    pub(super) triggers: &'a [Line],
    pub(super) instance: Option<&'a InstanceName>,
}

/// Implements [`Kind::recorded`] for a type with these three fields.
macro_rules! recorded {
    () => {
        fn recorded(&self) -> $crate::scenario::events::kinds::Recorded<'_> {
            $crate::scenario::events::kinds::Recorded {
                filter: self.filter.as_ref(),
                triggers: &self.triggers,
                instance: self.instance.as_ref(),
            }
        }
    };
}

pub(super) use recorded;

/// The interface of each kind.
pub(super) trait Kind {
    fn group(&self) -> &str;

    fn name(&self) -> &str;

    fn recorded(&self) -> Recorded<'_>;

    fn probe(&self) -> Option<Probe<'_>> {
        None
    }

    fn args_mut(&mut self) -> Option<&mut Args> {
        None
    }

    fn probe_point_mut(&mut self) -> Option<&mut ProbePoint> {
        None
    }

    fn user_place(&self) -> Option<&UserPlace> {
        None
    }

    fn feeds(&self) -> &[Feed] {
        &[]
    }

    fn is_defined(&self) -> bool {
        true
    }

    fn definition(&self, _: &UserPlaces) -> Option<Definition>;

    fn fields(&self) -> Option<Vec<&str>> {
        let probe = self.probe()?;
        let args = probe.args.0.keys().map(ArgName::as_str);
        Some(args.chain(probe.kind.fields().iter().copied()).collect())
    }
}

macro_rules! of_kind {
    ($spec:expr) => {
        match $spec {
            EventSpec::StaticEvent(event) => event,
            EventSpec::Kprobe(event) => event,
            EventSpec::Kretprobe(event) => event,
            EventSpec::Fprobe(event) => event,
            EventSpec::Fexit(event) => event,
            EventSpec::Tprobe(event) => event,
            EventSpec::Uprobe(event) => event,
            EventSpec::Uretprobe(event) => event,
            EventSpec::Eprobe(event) => event,
            EventSpec::Function(event) => event,
            EventSpec::Synthetic(event) => event,
            EventSpec::UserEvent(event) => event,
        }
    };
}

impl EventSpec {
    fn kind(&self) -> &dyn Kind {
        of_kind!(self)
    }

    /// Returns the group (the system of a tracepoint).
    pub fn group(&self) -> &str {
        self.kind().group()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.kind().name()
    }

    /// Returns the instance that records it; `None` is the top-level one.
    pub fn instance(&self) -> Option<&str> {
        self.kind().recorded().instance.map(InstanceName::as_str)
    }

    /// Returns whether the scenario defines it.
    pub fn is_defined(&self) -> bool {
        self.kind().is_defined()
    }

    /// Returns its probe point and arguments; `None` if it is not a probe.
    pub fn probe(&self) -> Option<Probe<'_>> {
        self.kind().probe()
    }

    /// Returns the arguments of [`EventSpec::probe`], mutably.
    pub fn args_mut(&mut self) -> Option<&mut Args> {
        let kind: &mut dyn Kind = of_kind!(self);
        kind.args_mut()
    }

    /// Returns the probe point in the kernel that it is defined at.
    pub fn probe_point_mut(&mut self) -> Option<&mut ProbePoint> {
        let kind: &mut dyn Kind = of_kind!(self);
        kind.probe_point_mut()
    }

    /// Returns the place in a workload whose offset [`EventSpec::definition`] needs.
    pub fn user_place(&self) -> Option<&UserPlace> {
        self.kind().user_place()
    }

    /// Returns the line that creates it, given the offsets of `places` in workloads; `None` for an
    /// existing event, and for a place that is not among them.
    pub fn definition(&self, places: &UserPlaces) -> Option<Definition> {
        self.kind().definition(places)
    }

    /// Returns the content for the event's `filter` file.
    pub fn filter(&self) -> Option<&str> {
        self.kind().recorded().filter.map(Line::as_str)
    }

    /// Returns the contents for the event's `trigger` file, one write each.
    pub fn triggers(&self) -> &[Line] {
        self.kind().recorded().triggers
    }

    /// Returns the triggers of other events that generate it.
    pub fn feeds(&self) -> &[Feed] {
        self.kind().feeds()
    }

    /// Returns the event's own fields, if the scenario alone determines them.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.kind().fields()
    }
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// At an instruction of the kernel.
    Kprobe,
    /// At the return of a kernel function.
    Kretprobe,
    /// At the entry of a kernel function, through ftrace.
    Fprobe,
    /// At the return of a kernel function, through ftrace.
    Fexit,
    /// At a tracepoint.
    Tprobe,
    /// At an instruction of a program.
    Uprobe,
    /// At the return of a function of a program.
    Uretprobe,
    /// On another event.
    Eprobe,
}

impl ProbeKind {
    /// Returns the fields of its events other than the arguments.
    fn fields(self) -> &'static [&'static str] {
        match self {
            ProbeKind::Kprobe | ProbeKind::Fprobe | ProbeKind::Tprobe | ProbeKind::Uprobe => &["__probe_ip"],
            ProbeKind::Kretprobe | ProbeKind::Fexit | ProbeKind::Uretprobe => {
                &["__probe_func", "__probe_ret_ip"]
            }
            ProbeKind::Eprobe => &[],
        }
    }
}

/// The data common to all kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe<'a> {
    /// Its kind.
    pub kind: ProbeKind,
    /// The probe point, as written.
    pub target: &'a str,
    /// The arguments that it fetches.
    pub args: &'a Args,
}
