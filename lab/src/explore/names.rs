//! What operations name: events, instances, hooks, and the functions that the workload calls.

use crate::scenario::{Hook, MakeDirectory, Write};
use serde::{Deserialize, Serialize};
use std::{
    fmt::{self, Display, Formatter},
    hash::{Hash, Hasher},
};

/// The workload. It calls `main`, which calls `eventfd`, `eventfd_write` for each number, and `eventfd_read`.
pub(super) const WORKLOAD: &str = "counter 1 2 4";

/// The program of the workload.
pub(super) const PROGRAM: &str = "counter";

/// The program that reads and changes tracing at the same time.
pub(super) const LANE: &str = "churn";

/// What a step that makes calls begins with.
const CALLS: &str = "workload: calls, stdin: ";

/// The file of the module that hooks functions.
const HOOKS: &str = "/sys/kernel/debug/ftracehook/control";

/// The values that the workload writes.
pub(super) const WRITTEN: [u64; 3] = [1, 2, 4];

/// A function that the workload calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Function {
    /// `eventfd_write`.
    Write,
    /// `eventfd_read`.
    Read,
    /// `main` of the program.
    Main,
    /// `eventfd` of its C library.
    Open,
    /// `keys_show` of the module [`MODULE`], which comes and goes, and whose file calls it.
    Show,
    /// The tracepoint `module_load`, which is hit when that module is loaded.
    Load,
}

/// The module that is loaded and unloaded.
pub(super) const MODULE: &str = "statickeys";

/// Those of the kernel.
pub(super) const FUNCTIONS: [Function; 2] = [Function::Write, Function::Read];

/// Those of the program.
pub(super) const USER_FUNCTIONS: [Function; 2] = [Function::Main, Function::Open];

impl Function {
    /// The symbol.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Function::Write => "eventfd_write",
            Function::Read => "eventfd_read",
            Function::Main => "main",
            Function::Open => "eventfd",
            Function::Show => "keys_show",
            Function::Load => "module_load",
        }
    }

    /// Returns whether it is one of the program.
    pub(super) fn is_user(self) -> bool {
        USER_FUNCTIONS.contains(&self)
    }

    /// Returns how lists of functions show it.
    pub(super) fn listed(self) -> String {
        let module = if self == Function::Show { format!(" [{MODULE}]") } else { String::new() };
        format!("{}{module}", self.symbol())
    }

    /// Returns its place as that of a kprobe, which may wait for the module.
    pub(super) fn place(self) -> String {
        let module = if self == Function::Show { format!("{MODULE}:") } else { String::new() };
        format!("{module}{}", self.symbol())
    }
}

/// The number of a sequence. It only keeps names apart in one scenario, so it does not distinguish states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Numbered", into = "Numbered")]
pub(super) struct Sequence(pub(super) u16);

/// A [`Sequence`] in a file.
#[derive(Serialize, Deserialize)]
struct Numbered {
    sequence: u16,
}

impl From<Numbered> for Sequence {
    fn from(Numbered { sequence }: Numbered) -> Sequence {
        Sequence(sequence)
    }
}

impl From<Sequence> for Numbered {
    fn from(Sequence(sequence): Sequence) -> Numbered {
        Numbered { sequence }
    }
}

impl Hash for Sequence {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Event {
    /// One of probes, with its number: those of sequence 3 are `x3/e0`, `x3/e1` and so on.
    Probes(Sequence, u8),
    /// A synthetic one, with its number: those of sequence 3 are `synthetic/x3s0` and so on.
    Synthetic(Sequence, u8),
    /// One of user events, which nobody records, with its number: those of sequence 3 are `user_events/x3u0` and so on.
    User(Sequence, u8),
    /// The system call that `eventfd` makes, an event that the kernel has by itself.
    Syscall,
}

impl Event {
    /// The name without the group.
    pub(super) fn name(self) -> String {
        match self {
            Event::Probes(_, number) => format!("e{number}"),
            Event::Synthetic(sequence, number) => format!("x{}s{number}", sequence.0),
            Event::User(sequence, number) => format!("x{}u{number}", sequence.0),
            Event::Syscall => "sys_enter_eventfd2".to_owned(),
        }
    }
}

impl Display for Event {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::Probes(sequence, _) => write!(out, "x{}/{}", sequence.0, self.name()),
            Event::Synthetic(..) => write!(out, "synthetic/{}", self.name()),
            Event::User(..) => write!(out, "user_events/{}", self.name()),
            Event::Syscall => write!(out, "syscalls/{}", self.name()),
        }
    }
}

/// Something with a name of its own: a tracing instance or a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Named {
    /// Its sequence.
    pub(super) sequence: Sequence,
    /// Its number in the sequence.
    pub(super) number: u8,
}

impl Display for Named {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "x{}_{}", self.sequence.0, self.number)
    }
}

/// Where something is set: in a tracing instance, or at the top level.
pub(super) type Place = Option<Named>;

/// Returns the path of a file of tracefs.
pub(super) fn path(place: Place, file: &str) -> String {
    place.map_or_else(|| file.to_owned(), |instance| format!("instances/{instance}/{file}"))
}

/// Returns the path of an event's file.
pub(super) fn event_path(place: Place, event: Event, file: &str) -> String {
    path(place, &format!("events/{event}/{file}"))
}

/// A step that writes. `append` like `>>`.
pub(super) fn write(file: &str, text: &str, append: bool) -> String {
    let append = if append { ", append: true" } else { "" };
    format!("write: {file:?}, text: {text:?}{append}")
}

/// A step that makes calls, each a line for the workload `calls`.
pub(super) fn calls(lines: &str) -> String {
    format!("{CALLS}{lines:?}")
}

/// Returns the line for the workload `calls` that does what a step does; `None` if no single one does.
pub(super) fn call(step: &str) -> Option<String> {
    if let Some(line) = step.strip_prefix(CALLS) {
        let line: String = serde_yaml::from_str(line).ok()?;
        return (!line.contains('\n')).then_some(line);
    }
    let step = format!("{{ {step} }}");
    if let Ok(Write { write, text, append, .. }) = serde_yaml::from_str(&step) {
        let call = if append { "append" } else { "echo" };
        return Some(format!("{call} {} {text}", write.as_str()));
    }
    if let Ok(MakeDirectory { mkdir, .. }) = serde_yaml::from_str(&step) {
        return Some(format!("mkdir {}", mkdir.as_str()));
    }
    let Hook { hook, .. } = serde_yaml::from_str(&step).ok()?;
    Some(format!("append {HOOKS} {hook}"))
}

/// `1` or `0`.
pub(super) fn switch(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// A step that reads a file which must have these lines, in any order.
pub(super) fn read_any_order(file: &str, lines: &[String]) -> String {
    let escaped: Vec<String> = lines.iter().map(|line| regex::escape(line)).collect();
    read_lines(file, &[format!("(?:(?:{})\n){{{}}}", escaped.join("|"), lines.len())])
}

/// A step that reads a file whose whole text must match, of which `lines` are regular expressions.
pub(super) fn read_lines(file: &str, lines: &[String]) -> String {
    let pattern = format!(r"\A{}\z", lines.concat());
    format!("read: {file:?}, text: {{ matches: {pattern:?} }}")
}
