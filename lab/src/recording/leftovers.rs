//! Leftovers of a scenario: probes, hooks, filters, instances, modules, taint.
//!
//! Nothing of it reaches another scenario, whose kernel is pristine. But a module that is unloaded and
//! leaves a hook behind is a bug. The recording therefore reads the state of tracing when the trace is armed
//! and again after the last step. Only steps can have left what is new.

use super::link::{CHUNK, Link, read};
use crate::{machine::Death, scenario::Step};
use protocol::{Reply, Request};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Something that is there after the last step and was not before the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Leftover {
    /// Its kind.
    pub kind: LeftoverKind,
    /// Its line: `p:kprobes/x vfs_write`.
    pub entry: String,
    /// The step that left it, from 1, if that ran the code of a module, a script or a selftest. Other steps,
    /// such as a write to tracefs, do it on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
}

/// The kinds of things that can be left, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverKind {
    /// An enabled event.
    Event,
    /// A function in `set_ftrace_filter`.
    Filter,
    /// A function in `set_graph_function`.
    GraphFilter,
    /// A function that an ftrace_ops is attached to.
    Hook,
    /// A tracing instance.
    Instance,
    /// A kprobe, of a module or under a probe event.
    Kprobe,
    /// A loaded module.
    Module,
    /// A function in `set_ftrace_notrace`.
    NotraceFilter,
    /// A PID in `set_ftrace_pid`.
    PidFilter,
    /// A PID in `set_event_pid`.
    EventPidFilter,
    /// A probe event.
    Probe,
    /// Taint flags.
    Taint,
    /// A tracer.
    Tracer,
}

/// The kind and the line: `probe p:kprobes/x vfs_write`.
impl fmt::Display for Leftover {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            LeftoverKind::Event => "event",
            LeftoverKind::Filter => "filter",
            LeftoverKind::GraphFilter => "graph filter",
            LeftoverKind::Hook => "hook",
            LeftoverKind::Instance => "instance",
            LeftoverKind::Kprobe => "kprobe",
            LeftoverKind::Module => "module",
            LeftoverKind::NotraceFilter => "notrace filter",
            LeftoverKind::PidFilter => "pid filter",
            LeftoverKind::EventPidFilter => "pid filter of events",
            LeftoverKind::Probe => "probe",
            LeftoverKind::Taint => "taint",
            LeftoverKind::Tracer => "tracer",
        };
        write!(out, "{kind} {}", self.entry)
    }
}

/// A kind of thing that can be left, and the file that lists it.
struct Listed {
    kind: LeftoverKind,
    path: &'static str,
    /// Parses a line; `None` if the line says that there is nothing.
    entry: fn(&str) -> Option<String>,
}

const LISTED: &[Listed] = &[
    Listed { kind: LeftoverKind::Probe, path: "dynamic_events", entry: whole },
    Listed { kind: LeftoverKind::Hook, path: "enabled_functions", entry: hook },
    Listed { kind: LeftoverKind::Kprobe, path: "/sys/kernel/debug/kprobes/list", entry: kprobe },
    Listed { kind: LeftoverKind::Tracer, path: "current_tracer", entry: tracer },
    Listed { kind: LeftoverKind::Filter, path: "set_ftrace_filter", entry: filter },
    Listed { kind: LeftoverKind::NotraceFilter, path: "set_ftrace_notrace", entry: filter },
    Listed { kind: LeftoverKind::GraphFilter, path: "set_graph_function", entry: filter },
    Listed { kind: LeftoverKind::PidFilter, path: "set_ftrace_pid", entry: pid },
    Listed { kind: LeftoverKind::EventPidFilter, path: "set_event_pid", entry: pid },
    Listed { kind: LeftoverKind::Event, path: "set_event", entry: whole },
    Listed { kind: LeftoverKind::Module, path: "/proc/modules", entry: first_word },
    Listed { kind: LeftoverKind::Taint, path: "/proc/sys/kernel/tainted", entry: taint },
];

fn whole(line: &str) -> Option<String> {
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn first_word(line: &str) -> Option<String> {
    line.split_whitespace().next().map(str::to_owned)
}

/// `vfs_write (1) R I  tramp: 0xffff… (x) ->y`: without the trampoline, whose address says nothing.
fn hook(line: &str) -> Option<String> {
    let line = line.split(['\t']).next().unwrap_or(line);
    whole(line.split(" tramp:").next().unwrap_or(line))
}

/// `ffff800080010000  k  vfs_write+0x0`: without the address.
fn kprobe(line: &str) -> Option<String> {
    whole(line.split_once(' ').map_or(line, |(_, rest)| rest))
}

fn tracer(line: &str) -> Option<String> {
    (line != "nop").then(|| line.to_owned())
}

fn filter(line: &str) -> Option<String> {
    if line.starts_with('#') { None } else { whole(line) }
}

fn pid(line: &str) -> Option<String> {
    if line == "no pid" { None } else { whole(line) }
}

/// Documentation/admin-guide/tainted-kernels.rst: bit 0 is P, and so on.
const TAINTS: &str = "PFSRMBUDAWCIOELKXTNJ";

fn taint(line: &str) -> Option<String> {
    let bits: u64 = line.trim().parse().ok()?;
    let set: String =
        TAINTS.chars().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, c)| c).collect();
    (!set.is_empty()).then_some(set)
}

/// The state of tracing at one moment.
#[derive(Debug, Default)]
pub(super) struct State {
    entries: BTreeSet<Leftover>,
    /// Kinds whose files are too long to be read completely, and therefore show nothing.
    truncated: BTreeSet<LeftoverKind>,
}

impl State {
    /// Reads the state of tracing.
    pub(super) fn read(link: &mut Link<'_>) -> Result<State, Death> {
        let mut requests: Vec<Request> = LISTED.iter().map(|listed| read(listed.path)).collect();
        requests.push(Request::ListDirectory { path: "instances".into() });
        let mut state = State::default();
        // A file that this kernel does not have lists nothing.
        for (index, reply) in link.call_all(&requests)?.into_iter().enumerate() {
            match (LISTED.get(index), reply) {
                (Some(listed), Reply::Data(data)) => state.take(listed, &data),
                (None, Reply::Names(names)) => {
                    let instance = |name: String| Leftover {
                        kind: LeftoverKind::Instance,
                        entry: name.trim_end_matches('/').to_owned(),
                        step: None,
                    };
                    state.entries.extend(names.into_iter().map(instance));
                }
                _ => {}
            }
        }
        Ok(state)
    }

    fn take(&mut self, listed: &Listed, data: &[u8]) {
        if data.len() >= CHUNK {
            self.truncated.insert(listed.kind);
        }
        let text = String::from_utf8_lossy(data);
        let entries = text.lines().filter(|line| !line.trim().is_empty()).filter_map(listed.entry);
        self.entries.extend(entries.map(|entry| Leftover { kind: listed.kind, entry, step: None }));
    }

    /// Returns what is there `after` and was not before, each thing once.
    pub(super) fn leftovers(&self, after: &State) -> Vec<Leftover> {
        let is_new = |leftover: &&Leftover| {
            let truncated =
                self.truncated.contains(&leftover.kind) || after.truncated.contains(&leftover.kind);
            !truncated && !self.entries.contains(leftover)
        };
        let new: Vec<_> = after.entries.iter().filter(is_new).collect();
        new.iter().copied().filter(|leftover| !is_of_probe(leftover, &new)).cloned().collect()
    }

    /// Returns the names of the loaded modules.
    pub(super) fn modules(&self) -> BTreeSet<String> {
        let modules = self.entries.iter().filter(|entry| entry.kind == LeftoverKind::Module);
        modules.map(|module| module.entry.clone()).collect()
    }
}

/// The steps in which things appeared that are still there.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// For each user of a hooked function the step in which it came; anything else is there once.
    steps: BTreeMap<(LeftoverKind, String), Vec<Option<usize>>>,
}

/// Users of a function beyond this number are not told apart.
const USERS_MAX: usize = 64;

impl Origins {
    /// Returns whether a step runs the code of a module, a script or a selftest.
    pub(super) fn watches(step: &Step) -> bool {
        matches!(
            step,
            Step::Load(_) | Step::LoadModule(_) | Step::Unload(_) | Step::Shell(_) | Step::Kselftest(_)
        )
    }

    /// Takes the state before a step.
    pub(super) fn before(&mut self, state: &State) {
        self.follow(state, None);
    }

    /// Takes the state after the step `number`.
    pub(super) fn after(&mut self, number: usize, state: &State) {
        self.follow(state, Some(number));
    }

    fn follow(&mut self, state: &State, step: Option<usize>) {
        // Two functions may have one name.
        let mut now = BTreeMap::<_, usize>::new();
        for entry in &state.entries {
            let (name, users) = users(entry);
            *now.entry((entry.kind, name)).or_default() += users;
        }
        let mut earlier = std::mem::take(&mut self.steps);
        for (key, users) in now {
            let mut steps = earlier.remove(&key).unwrap_or_default();
            while steps.len() > users {
                // Who leaves is not told: in such a step most likely who came in one, otherwise somebody else.
                let other = steps.iter().position(Option::is_none).filter(|_| step.is_none());
                steps.remove(other.unwrap_or(steps.len() - 1));
            }
            steps.resize(users, step);
            self.steps.insert(key, steps);
        }
    }

    /// Adds the step that left it.
    pub(super) fn find(&self, leftover: Leftover) -> Leftover {
        let steps = self.steps.get(&(leftover.kind, users(&leftover).0));
        let step = steps.and_then(|steps| steps.iter().flatten().next().copied());
        Leftover { step, ..leftover }
    }
}

/// Returns the name of a thing, and how many users it has. `vfs_write (2) I`: when the second one leaves the function,
/// the flags may change, to ` O M` for example, but nothing new is there. Nor is there if a module is loaded that a
/// kretprobe waited for, `r:`, which then is `r10:`.
fn users(entry: &Leftover) -> (String, usize) {
    let kretprobe = (entry.kind == LeftoverKind::Probe).then(|| entry.entry.strip_prefix('r')).flatten();
    if let Some(rest) = kretprobe {
        return (format!("r{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())), 1);
    }
    let function = (entry.kind == LeftoverKind::Hook).then(|| entry.entry.split_once(" (")).flatten();
    let Some((name, rest)) = function else { return (entry.entry.clone(), 1) };
    let users = rest.split(')').next().and_then(|users| users.parse().ok());
    (name.to_owned(), users.unwrap_or(1).min(USERS_MAX))
}

/// Returns whether this is the kprobe of a probe event, which is reported already.
fn is_of_probe(leftover: &Leftover, all: &[&Leftover]) -> bool {
    let place = |entry: &str| Some(entry.split(' ').nth(1)?.trim_end_matches("+0x0").to_owned());
    leftover.kind == LeftoverKind::Kprobe
        && all
            .iter()
            .any(|other| other.kind == LeftoverKind::Probe && place(&other.entry) == place(&leftover.entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(files: &[(&str, &str)]) -> State {
        let mut state = State::default();
        for (path, text) in files {
            let listed = LISTED.iter().find(|listed| listed.path == *path).unwrap();
            state.take(listed, text.as_bytes());
        }
        state
    }

    #[test]
    fn a_kretprobe_that_waited_for_a_module_is_not_left_by_it() {
        let states = ["", "r:x/e module:function\n", "r10:x/e module:function\n"];
        let [none, waits, there] = states.map(|text| state(&[("dynamic_events", text)]));
        let step = |before: &State| {
            let mut origins = Origins::default();
            origins.before(before);
            origins.after(2, &there);
            none.leftovers(&there).into_iter().map(|left| origins.find(left).step).collect::<Vec<_>>()
        };
        assert_eq!((step(&waits), step(&none)), (vec![None], vec![Some(2)]));
    }

    fn check(before: &[(&str, &str)], after: &[(&str, &str)], expect: &[&str]) {
        let leftovers = state(before).leftovers(&state(after));
        let leftovers: Vec<_> = leftovers.iter().map(Leftover::to_string).collect();
        assert_eq!(leftovers, expect);
    }

    #[test]
    fn what_was_armed_is_not_left_behind() {
        let armed = [
            ("dynamic_events", "p:kprobes/w vfs_write\n"),
            ("enabled_functions", "vfs_write (1)       O   \tops: global_ops+0x0/0xd8\n"),
            ("current_tracer", "function\n"),
            ("set_ftrace_filter", "vfs_write\n"),
        ];
        check(&armed, &armed, &[]);
        let idle = [("current_tracer", "nop"), ("set_ftrace_filter", "#### all functions enabled ####")];
        check(&[], &idle, &[]);
        check(&armed, &[], &[]);
    }

    #[test]
    fn a_line_is_reported_without_addresses() {
        let hook = ("enabled_functions", "vfs_write (1) R I     tramp: 0xffff800 (f+0x0/0x1) ->g\n");
        check(&[], &[hook], &["hook vfs_write (1) R I"]);
        let hook = ("enabled_functions", "vfs_write (1)       O   \tops: x\n");
        let module = ("/proc/modules", "ftracehook 28672 0 - Live 0xffff80007a");
        check(&[], &[hook, module], &["hook vfs_write (1) O", "module ftracehook"]);
        check(&[module], &[module, hook], &["hook vfs_write (1) O"]);
        check(&[], &[("/proc/sys/kernel/tainted", "4608\n")], &["taint WO"]);
        assert_eq!(state(&[module, hook]).modules(), BTreeSet::from(["ftracehook".to_owned()]));
    }

    #[test]
    fn what_appears_in_a_step_is_of_that_step_until_it_is_gone() {
        let module = ("/proc/modules", "m 28672 0 - Live 0x0");
        let hook = ("enabled_functions", "f (1)");
        let check = |origins: &Origins, expect: [Option<usize>; 2]| {
            let found = [(LeftoverKind::Module, "m"), (LeftoverKind::Hook, "f (1)")]
                .map(|(kind, entry)| origins.find(Leftover { kind, entry: entry.into(), step: None }).step);
            assert_eq!(found, expect);
        };
        let mut origins = Origins::default();
        origins.before(&state(&[]));
        origins.after(2, &state(&[module, hook]));
        check(&origins, [Some(2), Some(2)]);
        // Unloaded, and loaded again.
        origins.before(&state(&[module, hook]));
        origins.after(3, &state(&[hook]));
        check(&origins, [None, Some(2)]);
        origins.before(&state(&[hook]));
        origins.after(4, &state(&[module, hook]));
        check(&origins, [Some(4), Some(2)]);
        // A write in between removed the hook, and another one made it again.
        origins.before(&state(&[module]));
        origins.after(6, &state(&[module]));
        check(&origins, [Some(4), None]);
    }

    #[test]
    fn users_of_a_function_come_and_go() {
        let functions = |text| state(&[("enabled_functions", text)]);
        let check = |origins: &Origins, entry: &str, expect| {
            let leftover = Leftover { kind: LeftoverKind::Hook, entry: entry.into(), step: None };
            assert_eq!(origins.find(leftover).step, expect, "{entry}");
        };
        let mut origins = Origins::default();
        origins.before(&functions("f (1) O\n"));
        origins.after(2, &functions("f (2) I\n"));
        check(&origins, "f (2) I", Some(2));
        // The one of step 2 leaves in another such step, and its mark stays.
        origins.after(3, &functions("f (1) O M\n"));
        check(&origins, "f (1) O M", None);
        // It stays, and the one of a write leaves.
        origins.after(4, &functions("f (2)\n"));
        origins.before(&functions("f (1)\n"));
        check(&origins, "f (1)", Some(4));
        // Two of one name.
        origins.before(&functions("f (1)\nf (2)\n"));
        origins.after(5, &functions("f (1)\nf (2)\n"));
        check(&origins, "f (2)", Some(4));
        // What the guest says is not believed.
        origins.after(6, &functions("f (99999999999) g (\n"));
        check(&origins, "f (1)", Some(4));
    }

    #[test]
    fn a_probe_event_is_reported_once() {
        let list = |text| ("/sys/kernel/debug/kprobes/list", text);
        let probe = ("dynamic_events", "p:kprobes/x vfs_write");
        let kprobe = list("ffff8000801d5c20  k  vfs_write+0x0    [DISABLED]");
        check(&[], &[probe, kprobe], &["probe p:kprobes/x vfs_write"]);
        check(&[], &[kprobe], &["kprobe k vfs_write+0x0 [DISABLED]"]);
        let other = list("ffff8000801d5c30  k  vfs_write+0x10");
        check(&[], &[probe, other], &["kprobe k vfs_write+0x10", "probe p:kprobes/x vfs_write"]);
    }

    #[test]
    fn a_file_that_is_too_long_shows_nothing() {
        let long = "vfs_write\n".repeat(CHUNK / 10 + 1);
        check(&[], &[("set_ftrace_filter", &long), ("set_event", "a:b")], &["event a:b"]);
    }

    #[test]
    fn kinds_are_in_the_order_of_their_names() {
        let kinds: BTreeSet<_> = LISTED.iter().map(|listed| listed.kind).collect();
        let shown: Vec<_> = kinds
            .into_iter()
            .map(|kind| Leftover { kind, entry: String::new(), step: None }.to_string())
            .collect();
        assert!(shown.is_sorted(), "{shown:?}");
    }
}
