//! A probe: its kind, its place, what it records, and how it is written.

use super::{
    facts::Facts,
    names::{Event, Function, PROGRAM},
};
use serde::{Deserialize, Serialize};

/// A kind of probe event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Kind {
    /// `p:`
    Kprobe,
    /// `r:`
    Kretprobe,
    /// `f:`, at the entry.
    Fprobe,
    /// `f:`, at the return.
    Fexit,
    /// `p:` in a program.
    Uprobe,
    /// `r:` in a program.
    Uretprobe,
    /// `e:`, attached to the event of the system call.
    Eprobe,
    /// `s:`, no probe: an event that triggers of others record.
    Synthetic,
    /// `u:`, no probe: an event that programs record.
    User,
    /// `t:`, at a tracepoint.
    Tprobe,
}

impl Kind {
    /// Returns whether a BRK in the function's text serves it.
    pub(super) fn is_kprobe(self) -> bool {
        matches!(self, Kind::Kprobe | Kind::Kretprobe)
    }

    /// Returns whether it uses ftrace.
    pub(super) fn is_fprobe(self) -> bool {
        matches!(self, Kind::Fprobe | Kind::Fexit | Kind::Tprobe)
    }

    /// Returns whether it is at no place of the kernel or a program.
    pub(super) fn is_placeless(self) -> bool {
        matches!(self, Kind::Synthetic | Kind::User)
    }

    /// Returns whether it is in a program.
    pub(super) fn is_user(self) -> bool {
        matches!(self, Kind::Uprobe | Kind::Uretprobe)
    }

    /// Returns whether it is hit when the function returns.
    pub(super) fn is_return(self) -> bool {
        matches!(self, Kind::Kretprobe | Kind::Fexit | Kind::Uretprobe)
    }

    pub(super) fn letter(self) -> char {
        match self {
            Kind::Kprobe | Kind::Uprobe => 'p',
            Kind::Kretprobe | Kind::Uretprobe => 'r',
            Kind::Fprobe | Kind::Fexit => 'f',
            Kind::Eprobe => 'e',
            Kind::Synthetic => 's',
            Kind::User => 'u',
            Kind::Tprobe => 't',
        }
    }
}

/// The fetch arguments of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Arguments {
    /// None.
    None,
    /// `value`, something that the call has.
    Own,
    /// `value`, a number.
    Immediate,
    /// `value`, something in the probed file: [`Facts::word`].
    File,
    /// The argument before the first one, which there is not.
    Zeroth,
}

/// A probe: what one line of `dynamic_events` defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Probe {
    /// Its kind.
    pub(super) kind: Kind,
    /// The probed function.
    pub(super) function: Function,
    /// What it records.
    pub(super) arguments: Arguments,
}

impl Probe {
    /// What stands for the definition of an event that is at no function.
    pub(super) fn placeless(kind: Kind) -> Probe {
        Probe { kind, function: Function::Main, arguments: Arguments::Own }
    }

    /// Returns whether its records have a `value`.
    pub(super) fn has_value(self) -> bool {
        self.arguments != Arguments::None
    }

    /// The fetch argument as written; empty if there is none.
    pub(super) fn fetched(self) -> &'static str {
        match (self.arguments, self.kind.is_return(), self.function) {
            (Arguments::None, ..) => "",
            (Arguments::Immediate, ..) => " value=\\3:u64",
            (Arguments::File, ..) => " value=@+4:u64",
            (Arguments::Zeroth, ..) => " $arg0",
            (Arguments::Own, ..) if self.kind == Kind::Eprobe => " value=$flags:u64",
            // They return nothing.
            (Arguments::Own, _, Function::Show | Function::Load) => " value=\\5:u64",
            (Arguments::Own, true, _) => " value=$retval:u64",
            (Arguments::Own, false, Function::Write) => " value=+u0($arg2):u64",
            // Its arguments are a kiocb and an iov_iter.
            (Arguments::Own, false, Function::Read) => " value=\\9:u64",
            (Arguments::Own, false, Function::Main) => " value=%x0:u64",
            (Arguments::Own, false, Function::Open) => " value=%x1:u64",
        }
    }

    /// Returns the value that it records when the workload calls its function; without `value`, zero.
    pub(super) fn value(self, written: u64, facts: &Facts) -> u64 {
        match (self.arguments, self.kind.is_return(), self.function) {
            (Arguments::None | Arguments::Zeroth, ..) => 0,
            (Arguments::Immediate, ..) => 3,
            (Arguments::File, ..) => facts.word,
            (Arguments::Own, false, Function::Write) => written,
            (Arguments::Own, false, Function::Read) => 9,
            (Arguments::Own, _, Function::Show | Function::Load) => 5,
            // Both transfer eight bytes.
            (Arguments::Own, true, Function::Write | Function::Read) => 8,
            // Its arguments are its name and three numbers; it returns EXIT_SUCCESS.
            (Arguments::Own, is_return, Function::Main) => {
                if is_return {
                    0
                } else {
                    4
                }
            }
            // EFD_NONBLOCK, and the first file descriptor that is free.
            (Arguments::Own, is_return, Function::Open) => {
                if is_return {
                    3
                } else {
                    0x800
                }
            }
        }
    }

    /// Returns the name of its event, as written and as listed.
    pub(super) fn name(self, event: Event) -> String {
        // All user events have the same group.
        if self.kind == Kind::User { event.name() } else { event.to_string() }
    }

    /// Returns its place, as written and as listed.
    pub(super) fn at(self, facts: &Facts) -> String {
        if self.kind == Kind::Eprobe {
            return Event::Syscall.to_string().replace('/', ".");
        }
        if !self.kind.is_user() {
            let exit = if self.kind == Kind::Fexit { "%return" } else { "" };
            // An fprobe's place has no module.
            let place =
                if self.kind.is_kprobe() { self.function.place() } else { self.function.symbol().to_owned() };
            return format!("{place}{exit}");
        }
        let [main, open] = facts.offsets.unwrap_or_default();
        let offset = if self.function == Function::Main { main } else { open };
        format!("/workloads/{PROGRAM}:0x{offset:016x}")
    }

    /// Returns its place and arguments, as written and as listed.
    pub(super) fn text(self, facts: &Facts) -> String {
        if self.kind.is_placeless() {
            return "u64 value".to_owned();
        }
        format!("{}{}", self.at(facts), self.fetched())
    }
}
