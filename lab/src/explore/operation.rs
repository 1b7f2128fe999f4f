//! The operations that sequences are made of.

use std::fmt::{self, Display, Formatter};

/// A function that the workload calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Function {
    /// `eventfd_write`.
    Write,
    /// `eventfd_read`.
    Read,
}

/// All of them.
pub(super) const FUNCTIONS: [Function; 2] = [Function::Write, Function::Read];

/// The workload. It calls `eventfd_write` for each number and `eventfd_read` once.
pub(super) const WORKLOAD: &str = "counter 1 2 4";

/// The values that the workload writes.
const WRITTEN: [u64; 3] = [1, 2, 4];

/// The return value of each of its calls.
const TRANSFERRED: u64 = 8;

impl Function {
    /// The symbol.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Function::Write => "eventfd_write",
            Function::Read => "eventfd_read",
        }
    }

    /// Returns how often the workload calls it.
    pub(super) fn calls(self) -> u64 {
        match self {
            Function::Write => WRITTEN.len() as u64,
            Function::Read => 1,
        }
    }
}

/// A kind of probe event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// `p:`
    Kprobe,
    /// `r:`
    Kretprobe,
    /// `f:`, at the entry.
    Fprobe,
    /// `f:`, at the return.
    Fexit,
}

impl Kind {
    /// Returns whether a BRK in the function's text serves it.
    pub(super) fn is_kprobe(self) -> bool {
        matches!(self, Kind::Kprobe | Kind::Kretprobe)
    }

    /// Returns whether it is hit when the function returns.
    pub(super) fn is_return(self) -> bool {
        matches!(self, Kind::Kretprobe | Kind::Fexit)
    }
}

/// The fetch arguments of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Arguments {
    /// None.
    None,
    /// `value`, something that the call has.
    Own,
    /// `value`, a number.
    Immediate,
}

/// A probe: what one line of `dynamic_events` defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Probe {
    /// Its kind.
    pub(super) kind: Kind,
    /// The probed function.
    pub(super) function: Function,
    /// What it records.
    pub(super) arguments: Arguments,
}

impl Probe {
    /// The fetch argument as written; empty if there is none.
    fn fetched(self) -> &'static str {
        match (self.arguments, self.kind.is_return(), self.function) {
            (Arguments::None, ..) => "",
            (Arguments::Immediate, ..) => " value=\\3:u64",
            (Arguments::Own, true, _) => " value=$retval:u64",
            (Arguments::Own, false, Function::Write) => " value=+u0($arg2):u64",
            // Its arguments are a kiocb and an iov_iter.
            (Arguments::Own, false, Function::Read) => " value=\\9:u64",
        }
    }

    /// Returns the values that it records in one run of the workload; without `value`, zeros.
    pub(super) fn values(self) -> Vec<u64> {
        let one = match (self.arguments, self.kind.is_return(), self.function) {
            (Arguments::Own, false, Function::Write) => return WRITTEN.to_vec(),
            (Arguments::Own, false, Function::Read) => 9,
            (Arguments::Own, true, _) => TRANSFERRED,
            (Arguments::Immediate, ..) => 3,
            (Arguments::None, ..) => 0,
        };
        vec![one; usize::try_from(self.function.calls()).unwrap_or(usize::MAX)]
    }

    /// Returns its place and arguments, as written and as listed.
    pub(super) fn place(self) -> String {
        let exit = if self.kind == Kind::Fexit { "%return" } else { "" };
        format!("{}{exit}{}", self.function.symbol(), self.fetched())
    }
}

/// The name of an event: those of sequence `x3` are `x3/e0`, `x3/e1` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Event {
    /// The number of the sequence.
    pub(super) sequence: u16,
    /// Its number in the sequence.
    pub(super) number: u8,
}

impl Display for Event {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "x{}/e{}", self.sequence, self.number)
    }
}

/// Something with a name of its own: a tracing instance or a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Named {
    /// The number of the sequence.
    pub(super) sequence: u16,
    /// Its number in the sequence.
    pub(super) number: u8,
}

impl Display for Named {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "x{}_{}", self.sequence, self.number)
    }
}

/// Where an event is enabled: in a tracing instance, or at the top level.
pub(super) type Place = Option<Named>;

/// An event filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Filter {
    /// All events pass.
    Clear,
    /// `value > 2`
    Above,
    /// `value == 4 || value == 8`
    Either,
    /// `value >`, which is no filter.
    Malformed,
}

impl Filter {
    /// As written.
    pub(super) fn text(self) -> &'static str {
        match self {
            Filter::Clear => "0",
            Filter::Above => "value > 2",
            Filter::Either => "value == 4 || value == 8",
            Filter::Malformed => "value >",
        }
    }

    /// Returns whether it lets an event pass.
    pub(super) fn passes(self, value: u64) -> bool {
        match self {
            Filter::Clear | Filter::Malformed => true,
            Filter::Above => value > 2,
            Filter::Either => value == 4 || value == 8,
        }
    }
}

/// The files that list probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum List {
    /// `kprobe_events`: kprobes and kretprobes.
    Kprobes,
    /// `dynamic_events`: all.
    All,
}

impl List {
    pub(super) fn file(self) -> &'static str {
        match self {
            List::Kprobes => "kprobe_events",
            List::All => "dynamic_events",
        }
    }

    /// Returns whether it lists probes of this kind.
    pub(super) fn has(self, kind: Kind) -> bool {
        self == List::All || kind.is_kprobe()
    }
}

/// What is done to a hook, an ftrace_ops of the hook module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum HookChange {
    /// It is made, with its functions, and registered.
    Add {
        /// Whether it has the flag IPMODIFY.
        ipmodify: bool,
    },
    /// It is unregistered and removed.
    Remove,
    /// Its functions are added to its filter.
    Widen,
    /// Its functions are removed from its filter.
    Narrow,
    /// It is registered again.
    Enable,
    /// It is unregistered.
    Disable,
}

/// A tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Tracer {
    /// `nop`
    Nop,
    /// `function`
    Function,
}

impl Tracer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Tracer::Nop => "nop",
            Tracer::Function => "function",
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    /// Defines an event, or adds a probe to one.
    Define(Event, Probe),
    /// Removes an event with all of its probes.
    Remove(List, Event),
    /// Removes the probes of an event that are at this function.
    RemoveAt(Event, Function),
    /// Removes everything that a file lists.
    Truncate(List),
    /// Enables or disables an event.
    Enable(Place, Event, bool),
    /// Enables or disables all events of a sequence.
    EnableGroup(Place, u16, bool),
    /// Sets an event's filter.
    Filter(Place, Event, Filter),
    /// Adds or removes a histogram of an event.
    Histogram(Place, Event, bool),
    /// Makes a tracing instance.
    MakeInstance(Named),
    /// Removes a tracing instance.
    RemoveInstance(Named),
    /// Turns the recording of an instance on or off.
    Record(Named, bool),
    /// Clears the buffer of an instance.
    Clear(Named),
    /// Changes a hook.
    Hook(Named, HookChange, Vec<Function>),
    /// Adds a function to `set_ftrace_filter`, or removes it.
    FunctionFilter(Place, Function, bool),
    /// Selects the tracer.
    Tracer(Place, Tracer),
    /// Records only events of the agent, which calls none of the functions; or of all processes again.
    PidFilter(Place, bool),
    /// Arms or disarms all kprobes at once.
    ArmKprobes(bool),
    /// Turns ftrace on or off as a whole.
    Ftrace(bool),
    /// Runs the workload.
    Work,
    /// Compares all that the kernel shows with the model.
    Look,
}
