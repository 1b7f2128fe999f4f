//! How the first lines of splats read, in arm64's words.

use crate::verdict::Status;

/// What a line says of a splat that begins with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The beginning of the line, behind its time.
    begins: &'static str,
    /// What is somewhere behind the beginning.
    holds: &'static str,
    pub(super) status: Status,
    pub(super) name: &'static str,
    /// Whether it goes on with an oops that has begun, instead of beginning one.
    pub(super) continues: bool,
}

const fn kind(begins: &'static str, holds: &'static str, status: Status, name: &'static str) -> Kind {
    Kind { begins, holds, status, name, continues: false }
}

impl Kind {
    /// The head of a task's stack, which is no splat but reads like one.
    pub(super) const fn of_stack(begins: &'static str, name: &'static str) -> Kind {
        kind(begins, "", Status::Hang, name)
    }

    /// Whether `line`, without its time, is such a first line.
    pub(super) fn begins(&self, line: &str) -> bool {
        line.strip_prefix(self.begins).is_some_and(|rest| rest.contains(self.holds))
    }
}

/// The first that matches counts: special ones come before general ones.
const KINDS: &[Kind] = &[
    kind("Kernel panic - not syncing: ", "stack is corrupted", Status::Panic, "stack corruption"),
    kind("Kernel panic - not syncing", "", Status::Panic, "panic"),
    kind("Unable to handle kernel ", "", Status::Oops, "oops"),
    kind("kernel BUG at ", "", Status::Oops, "BUG"),
    // Behind one of the two above it is the same oops; alone it is an undefined instruction or the like.
    Kind { begins: "Internal error: ", holds: "", status: Status::Oops, name: "oops", continues: true },
    kind("Insufficient stack space to handle exception", "", Status::Oops, "stack overflow"),
    kind("BUG: KASAN: ", "", Status::Splat, "KASAN"),
    kind("BUG: KFENCE: ", "", Status::Splat, "KFENCE"),
    kind("BUG: KCSAN: ", "", Status::Splat, "KCSAN"),
    kind("UBSAN: ", "", Status::Splat, "UBSAN"),
    kind("BUG: scheduling while atomic", "", Status::Splat, "scheduling while atomic"),
    kind("BUG: sleeping function called", "", Status::Splat, "sleep in atomic context"),
    kind("watchdog: BUG: soft lockup", "", Status::Splat, "soft lockup"),
    // Without the watchdog's prefix up to 4.x, and in some backports.
    kind("BUG: soft lockup", "", Status::Splat, "soft lockup"),
    kind("watchdog: Watchdog detected hard LOCKUP", "", Status::Splat, "hard lockup"),
    kind("Watchdog detected hard LOCKUP", "", Status::Splat, "hard lockup"),
    // From 7.2 on the CPU that noticed stands between.
    kind("watchdog: CPU", "Watchdog detected hard LOCKUP", Status::Splat, "hard lockup"),
    kind("rcu: INFO: ", "stall", Status::Splat, "RCU stall"),
    kind("INFO: rcu_", "stall", Status::Splat, "RCU stall"),
    // `blocked for` or, from 7.2 on, `blocked in I/O wait for`.
    kind("INFO: task ", "for more than", Status::Splat, "hung task"),
    kind("------------[ ftrace bug ]------------", "", Status::Splat, "ftrace bug"),
    kind("WARNING: possible ", "", Status::Splat, "lockdep"),
    kind("WARNING: bad unlock balance", "", Status::Splat, "lockdep"),
    kind("WARNING: held lock freed", "", Status::Splat, "lockdep"),
    kind("WARNING: lock held when returning to user space", "", Status::Splat, "lockdep"),
    kind("WARNING: inconsistent lock state", "", Status::Splat, "lockdep"),
    kind("WARNING: suspicious RCU usage", "", Status::Splat, "lockdep"),
    kind("WARNING: Nested lock was not taken", "", Status::Splat, "lockdep"),
    kind("WARNING: bad contention detected", "", Status::Splat, "lockdep"),
    kind("WARNING: chain_key collision", "", Status::Splat, "lockdep"),
    kind("WARNING: ", "-unsafe lock order detected", Status::Splat, "lockdep"),
    kind("WARNING: ", "still has locks held!", Status::Splat, "lockdep"),
    kind("INFO: trying to register non-static key", "", Status::Splat, "lockdep"),
    kind("[ BUG: ", "", Status::Splat, "lockdep"),
    kind("WARNING: ", "", Status::Splat, "warning"),
    kind("BUG: ", "", Status::Splat, "BUG"),
    kind("Out of memory: Killed process", "", Status::Splat, "out of memory"),
];

/// The kind of splat that `line`, without its time, begins, if it begins one.
pub(super) fn of(line: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.begins(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<(Status, &str)>) {
        assert_eq!(of(line).map(|kind| (kind.status, kind.name)), expect, "{line}");
    }

    /// Lines of kernels 5.10 to 7.3, as their sources print them.
    #[test]
    fn first_lines_have_a_kind() {
        use Status::{Oops, Panic, Splat};
        for (line, status, name) in [
            ("Kernel panic - not syncing: Attempted to kill init! exitcode=0x0", Panic, "panic"),
            (
                "Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: f+0x1/0x2",
                Panic,
                "stack corruption",
            ),
            ("Unable to handle kernel paging request at virtual address dead000000000100", Oops, "oops"),
            ("kernel BUG at lib/list_debug.c:47!", Oops, "BUG"),
            ("Internal error: Oops - Undefined instruction: 0000000002000000 [#1] PREEMPT SMP", Oops, "oops"),
            ("BUG: KASAN: slab-out-of-bounds in f+0x1/0x2 [m]", Splat, "KASAN"),
            ("BUG: KCSAN: data-race in a / b", Splat, "KCSAN"),
            ("UBSAN: array-index-out-of-bounds in lib/x.c:3:4", Splat, "UBSAN"),
            ("BUG: scheduling while atomic: insmod/33/0x00000002", Splat, "scheduling while atomic"),
            (
                "BUG: sleeping function called from invalid context at mm/slab.h:1",
                Splat,
                "sleep in atomic context",
            ),
            ("watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [init:1]", Splat, "soft lockup"),
            ("watchdog: Watchdog detected hard LOCKUP on cpu 1", Splat, "hard lockup"),
            ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", Splat, "RCU stall"),
            ("watchdog: CPU0: Watchdog detected hard LOCKUP on cpu 1", Splat, "hard lockup"),
            ("INFO: task init:33 blocked for more than 120 seconds.", Splat, "hung task"),
            ("INFO: task init:33 blocked in I/O wait for more than 120 seconds.", Splat, "hung task"),
            ("------------[ ftrace bug ]------------", Splat, "ftrace bug"),
            ("WARNING: possible circular locking dependency detected", Splat, "lockdep"),
            ("WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected", Splat, "lockdep"),
            ("WARNING: insmod/33 still has locks held!", Splat, "lockdep"),
            ("WARNING: kernel/trace/ftrace.c:2100 at ftrace_bug+0x1/0x2, CPU#1: a/44", Splat, "warning"),
            ("WARNING: CPU: 1 PID: 44 at kernel/trace/ftrace.c:2100 ftrace_bug", Splat, "warning"),
            ("BUG: Bad page state in process init  pfn:4a", Splat, "BUG"),
            ("BUG: workqueue lockup - pool cpus=0", Splat, "BUG"),
        ] {
            check(line, Some((status, name)));
        }
    }

    #[test]
    fn other_lines_have_none() {
        for line in [
            "Booting Linux on physical CPU 0x0",
            "rcu: INFO: expedited grace period",
            "module: loading WARNING: x",
            "INFO: task scheduler ready",
            "INFO: task a:33 is blocked on a mutex likely owned by task b:44.",
            "watchdog: CPU0: 250 Hz",
            "---[ end Kernel panic - not syncing: x ]---",
            "",
        ] {
            check(line, None);
        }
    }
}
