//! The settings of the kernel that a text depends on.

use crate::CpuStats;
use std::collections::{BTreeMap, BTreeSet};

/// The settings that a text depends on, as they were when the kernel printed it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// The options that are on.
    on: BTreeSet<String>,
    /// The options that are off.
    off: BTreeSet<String>,
    /// The current tracer.
    pub tracer: String,
    /// Process IDs of thread IDs, from `saved_tgids`.
    tgids: BTreeMap<i32, i32>,
    /// `SYSTEM:NAME` of an event probe to `SYSTEM.NAME` of its event, from `dynamic_events`.
    eprobes: BTreeMap<String, String>,
    /// The number of CPUs that are online.
    pub online: u32,
    /// The name of the kernel's preemption model, as its headers print it.
    pub preemption: String,
    /// The counters of each CPU.
    pub stats: Vec<CpuStats>,
    /// The CPU whose text it is; `None` for the text of all.
    pub cpu: Option<u32>,
    /// For each CPU, the number of the trace's events that were no longer in the ring buffer.
    pub read_before: Vec<u64>,
    /// Whether the text was cut.
    pub cut: bool,
}

impl Setting {
    /// Takes the contents of `trace_options`, `saved_tgids` and `dynamic_events`.
    pub fn new(options: &str, tgids: &str, dynamic_events: &str) -> Setting {
        // Only an option that is off begins with `no`.
        let (off, on): (BTreeSet<&str>, BTreeSet<&str>) =
            options.split_whitespace().partition(|option| option.starts_with("no"));
        let tgid = |line: &str| {
            let (pid, tgid) = line.trim().split_once(' ')?;
            Some((pid.parse().ok()?, tgid.parse().ok()?))
        };
        Setting {
            on: on.into_iter().map(str::to_owned).collect(),
            off: off.into_iter().map(|option| option["no".len()..].to_owned()).collect(),
            tgids: tgids.lines().filter_map(tgid).collect(),
            eprobes: dynamic_events.lines().filter_map(eprobe).collect(),
            ..Setting::default()
        }
    }

    pub(super) fn is_on(&self, option: &str) -> bool {
        self.on.contains(option)
    }

    /// Returns whether the kernel has an option.
    pub(super) fn has(&self, option: &str) -> bool {
        self.on.contains(option) || self.off.contains(option)
    }

    pub(super) fn tgid(&self, pid: i32) -> Option<i32> {
        self.tgids.get(&pid).copied()
    }

    /// Returns the event of an event probe.
    pub(super) fn probed(&self, group: &str, name: &str) -> Option<&str> {
        self.eprobes.get(&format!("{group}:{name}")).map(String::as_str)
    }
}

/// Parses a line of `dynamic_events`: `e:eprobes/next sched.sched_switch pid=$next_pid`.
fn eprobe(line: &str) -> Option<(String, String)> {
    let mut words = line.strip_prefix("e:")?.split_whitespace();
    let (name, event) = (words.next()?, words.next()?);
    Some((name.replacen('/', ":", 1), event.replacen('/', ".", 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_parsed() {
        let events = "p:kprobes/x vfs_write\ne:eprobes/next sched.sched_switch pid=$next_pid\n";
        let setting = Setting::new("print-parent\nnosym-addr\nhash-ptr\n", "12 11\n 7 7\nodd\n", events);
        assert!(setting.is_on("print-parent") && !setting.is_on("sym-addr") && setting.has("sym-addr"));
        assert!(!setting.has("fields"));
        assert_eq!([12, 7, 1].map(|pid| setting.tgid(pid)), [Some(11), Some(7), None]);
        assert_eq!(setting.probed("eprobes", "next"), Some("sched.sched_switch"));
        assert_eq!(setting.probed("kprobes", "x"), None);
    }
}
