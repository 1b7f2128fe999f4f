//! What a scenario left behind: probes, hooks, filters, instances, modules, taint.
//!
//! Nothing of it reaches another scenario, whose kernel is pristine. But a module that goes and
//! leaves a hook is a bug. So the state of tracing is looked at when the trace is armed and again
//! after the last step; what is there only then was left by the steps.

use super::{CHUNK, Recorder, read};
use crate::{
    machine::Death,
    scenario::{HOOK_MODULE, Scenario},
};
use protocol::{Reply, Request};
use std::collections::BTreeSet;

/// Something that is there after the last step and was not before the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its kind and its line: `probe p:kprobes/x vfs_write`.
    pub text: String,
    /// Whether it is a bug that fails the scenario.
    pub fails: bool,
}

/// A kind of thing that can be left, and the file that lists it.
struct Listed {
    kind: &'static str,
    path: &'static str,
    /// A line of the file → what is left; `None` for a line that says there is nothing.
    entry: fn(&str) -> Option<String>,
    /// Whether a module that is gone must not leave it.
    of_module: bool,
}

const LISTED: &[Listed] = &[
    Listed { kind: PROBE, path: "dynamic_events", entry: whole, of_module: true },
    Listed { kind: "hook", path: "enabled_functions", entry: hook, of_module: true },
    Listed { kind: KPROBE, path: "/sys/kernel/debug/kprobes/list", entry: kprobe, of_module: true },
    Listed { kind: "tracer", path: "current_tracer", entry: tracer, of_module: true },
    Listed { kind: "filter", path: "set_ftrace_filter", entry: filter, of_module: false },
    Listed { kind: "notrace filter", path: "set_ftrace_notrace", entry: filter, of_module: false },
    Listed { kind: "graph filter", path: "set_graph_function", entry: filter, of_module: false },
    Listed { kind: "pid filter", path: "set_ftrace_pid", entry: pid, of_module: false },
    Listed { kind: "pid filter of events", path: "set_event_pid", entry: pid, of_module: false },
    Listed { kind: "event", path: "set_event", entry: whole, of_module: false },
    Listed { kind: MODULE, path: "/proc/modules", entry: first_word, of_module: false },
    Listed { kind: "taint", path: "/proc/sys/kernel/tainted", entry: taint, of_module: false },
];

const PROBE: &str = "probe";
const KPROBE: &str = "kprobe";
const MODULE: &str = "module";
const INSTANCE: &str = "instance";

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

/// The state of tracing at one moment, as `(kind, entry)`.
#[derive(Debug, Default)]
pub(super) struct State {
    entries: BTreeSet<(&'static str, String)>,
    /// Files too long to be read whole, which say nothing.
    cut: BTreeSet<&'static str>,
}

impl Recorder<'_> {
    /// The state of tracing now.
    pub(super) fn state(&mut self) -> Result<State, Death> {
        let mut requests: Vec<Request> = LISTED.iter().map(|listed| read(listed.path)).collect();
        requests.push(Request::ListDirectory { path: "instances".into() });
        let mut state = State::default();
        // A file that this kernel does not have lists nothing.
        for (index, reply) in self.call_all(&requests)?.into_iter().enumerate() {
            match (LISTED.get(index), reply) {
                (Some(listed), Reply::Data(data)) => state.take(listed, &data),
                (None, Reply::Names(names)) => {
                    let name = |name: String| (INSTANCE, name.trim_end_matches('/').to_owned());
                    state.entries.extend(names.into_iter().map(name));
                }
                _ => {}
            }
        }
        Ok(state)
    }
}

impl State {
    fn take(&mut self, listed: &Listed, data: &[u8]) {
        if data.len() >= CHUNK {
            self.cut.insert(listed.kind);
        }
        let text = String::from_utf8_lossy(data);
        let entries = text.lines().filter(|line| !line.trim().is_empty()).filter_map(listed.entry);
        self.entries.extend(entries.map(|entry| (listed.kind, entry)));
    }

    /// What is there `after` and was not before.
    pub(super) fn left(&self, after: &State, scenario: &Scenario) -> Vec<Left> {
        let is_new = |kind: &str, entry: &(&'static str, String)| {
            let cut = self.cut.contains(kind) || after.cut.contains(kind);
            !cut && !self.entries.contains(entry)
        };
        let all: Vec<_> = after.entries.iter().filter(|entry| is_new(entry.0, entry)).collect();
        let new = || all.iter().copied().filter(|entry| !is_of_probe(entry, &all));
        // As long as a module is in, what it hooks is its business.
        let hooks_gone = !after.entries.contains(&(MODULE, HOOK_MODULE.to_owned()));
        let modules_gone =
            hooks_gone && new().all(|(kind, _)| *kind != MODULE) && !scenario.modules().is_empty();
        let left = |(kind, entry): &(&'static str, String)| {
            let text = format!("{kind} {entry}");
            let declared = scenario.leaves.iter().any(|pattern| pattern.0.is_match(&text));
            let of_module =
                *kind == INSTANCE || LISTED.iter().any(|listed| listed.kind == *kind && listed.of_module);
            Left { fails: modules_gone && of_module && !declared, text }
        };
        new().map(left).collect()
    }
}

/// Whether this is the kprobe under a probe event, which is told of already.
fn is_of_probe((kind, entry): &(&'static str, String), all: &[&(&'static str, String)]) -> bool {
    let place = |entry: &str| Some(entry.split(' ').nth(1)?.trim_end_matches("+0x0").to_owned());
    *kind == KPROBE && all.iter().any(|(kind, probe)| *kind == PROBE && place(probe) == place(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn state(files: &[(&str, &str)]) -> State {
        let mut state = State::default();
        for (path, text) in files {
            let listed = LISTED.iter().find(|listed| listed.path == *path).unwrap();
            state.take(listed, text.as_bytes());
        }
        state
    }

    fn check(yaml: &str, before: &[(&str, &str)], after: &[(&str, &str)], expect: &[&str]) {
        let scenario = Scenario::parse(Path::new("x.yaml"), &format!("summary: x\n{yaml}")).unwrap();
        let left = state(before).left(&state(after), &scenario);
        let left: Vec<_> =
            left.iter().map(|left| format!("{}{}", if left.fails { "! " } else { "" }, left.text)).collect();
        assert_eq!(left, expect, "{yaml}");
    }

    const LOADED: &str = "steps: [ { load: m }, { unload: m } ]";

    #[test]
    fn what_was_armed_is_not_left_behind() {
        let armed = [
            ("dynamic_events", "p:kprobes/w vfs_write\n"),
            ("enabled_functions", "vfs_write (1)       O   \tops: global_ops+0x0/0xd8\n"),
            ("current_tracer", "function\n"),
            ("set_ftrace_filter", "vfs_write\n"),
        ];
        check(LOADED, &armed, &armed, &[]);
        let idle = [("current_tracer", "nop"), ("set_ftrace_filter", "#### all functions enabled ####")];
        check(LOADED, &[], &idle, &[]);
        check(LOADED, &armed, &[], &[]);
    }

    #[test]
    fn a_hook_fails_when_its_module_is_gone() {
        let hook = ("enabled_functions", "vfs_write (1) R I     tramp: 0xffff800 (f+0x0/0x1) ->g\n");
        check(LOADED, &[], &[hook], &["! hook vfs_write (1) R I"]);
        check(
            LOADED,
            &[],
            &[hook, ("/proc/modules", "m 16384 0 - Live 0xffff80007a")],
            &["hook vfs_write (1) R I", "module m"],
        );
        check("steps: [ { write: kprobe_events, text: x } ]", &[], &[hook], &["hook vfs_write (1) R I"]);
    }

    #[test]
    fn the_module_of_hooks_is_in_before_the_first_step() {
        let hook = ("enabled_functions", "vfs_write (1)       O   \tops: x\n");
        let module = ("/proc/modules", "ftracehook 28672 0 - Live 0xffff80007a");
        let steps = "steps: [ { hook: +w symbol=vfs_write }, { unload: ftracehook } ]";
        check(steps, &[module], &[module, hook], &["hook vfs_write (1) O"]);
        check(steps, &[module], &[hook], &["! hook vfs_write (1) O"]);
    }

    #[test]
    fn a_probe_event_is_told_of_once() {
        let list = |text| ("/sys/kernel/debug/kprobes/list", text);
        let probe = ("dynamic_events", "p:kprobes/x vfs_write");
        let kprobe = list("ffff8000801d5c20  k  vfs_write+0x0    [DISABLED]");
        check(LOADED, &[], &[probe, kprobe], &["! probe p:kprobes/x vfs_write"]);
        check(LOADED, &[], &[kprobe], &["! kprobe k vfs_write+0x0 [DISABLED]"]);
        let other = list("ffff8000801d5c30  k  vfs_write+0x10");
        check(LOADED, &[], &[probe, other], &["! kprobe k vfs_write+0x10", "! probe p:kprobes/x vfs_write"]);
    }

    #[test]
    fn what_is_declared_does_not_fail() {
        let probe = ("dynamic_events", "p:deaths/left vfs_write");
        check(
            &format!("{LOADED}\nleaves: ['^probe p:deaths/']"),
            &[],
            &[probe],
            &["probe p:deaths/left vfs_write"],
        );
        check(
            &format!("{LOADED}\nleaves: [hook]"),
            &[],
            &[probe, ("/proc/sys/kernel/tainted", "4608\n")],
            &["! probe p:deaths/left vfs_write", "taint WO"],
        );
    }
}
