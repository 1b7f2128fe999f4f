//! The first lines of splats, as worded on arm64.

use super::Severity;

/// A pattern for the first line of a splat, and the kind of splat.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplatKind {
    /// The beginning of the line, after its timestamp.
    begins: &'static str,
    /// Text anywhere after the beginning.
    holds: &'static str,
    pub(super) severity: Severity,
    pub(super) name: &'static str,
    /// Whether it continues an oops that has begun, instead of beginning one.
    pub(super) continues: bool,
    /// Whether it is a single line, which no call trace follows.
    pub(super) single: bool,
}

const fn kind(
    begins: &'static str,
    holds: &'static str,
    severity: Severity,
    name: &'static str,
) -> SplatKind {
    SplatKind { begins, holds, severity, name, continues: false, single: false }
}

/// Returns the pattern for a splat without a call trace.
const fn single(begins: &'static str, holds: &'static str, name: &'static str) -> SplatKind {
    SplatKind { single: true, ..kind(begins, holds, Severity::Splat, name) }
}

impl SplatKind {
    /// Returns the pattern for the head of a task's stack, which is not a splat but is read like one.
    pub(super) const fn of_stack(begins: &'static str, name: &'static str) -> SplatKind {
        kind(begins, "", Severity::Hang, name)
    }

    /// Returns the pattern for the call trace of dump_stack(), which has no line of its own before it.
    pub(super) const fn of_dump() -> SplatKind {
        kind("", "", Severity::Splat, "stack dump")
    }

    /// Returns whether `line`, without its timestamp, matches.
    pub(super) fn begins(&self, line: &str) -> bool {
        line.strip_prefix(self.begins).is_some_and(|rest| rest.contains(self.holds))
    }
}

/// The first match counts: special patterns precede general ones.
const KINDS: &[SplatKind] = &[
    kind("Kernel panic - not syncing: ", "stack is corrupted", Severity::Panic, "stack corruption"),
    kind("Kernel panic - not syncing", "", Severity::Panic, "panic"),
    kind("Unable to handle kernel ", "", Severity::Oops, "oops"),
    kind("kernel BUG at ", "", Severity::Oops, "BUG"),
    // After one of the two above it is the same oops; alone it is for example an undefined instruction.
    SplatKind { continues: true, ..kind("Internal error: ", "", Severity::Oops, "oops") },
    kind("Insufficient stack space to handle exception", "", Severity::Oops, "stack overflow"),
    // The oops that follows belongs to it.
    kind("CFI failure at ", "", Severity::Oops, "CFI failure"),
    kind("BUG: KASAN: ", "", Severity::Splat, "KASAN"),
    kind("BUG: KFENCE: ", "", Severity::Splat, "KFENCE"),
    kind("BUG: KCSAN: ", "", Severity::Splat, "KCSAN"),
    kind("UBSAN: ", "", Severity::Splat, "UBSAN"),
    kind("BUG: scheduling while atomic", "", Severity::Splat, "scheduling while atomic"),
    kind("BUG: sleeping function called", "", Severity::Splat, "sleep in atomic context"),
    kind("watchdog: BUG: soft lockup", "", Severity::Splat, "soft lockup"),
    // Without the watchdog's prefix in 4.x and earlier, and in some backports.
    kind("BUG: soft lockup", "", Severity::Splat, "soft lockup"),
    kind("watchdog: Watchdog detected hard LOCKUP", "", Severity::Splat, "hard lockup"),
    kind("Watchdog detected hard LOCKUP", "", Severity::Splat, "hard lockup"),
    // Since 7.2, the CPU that detected it is in between.
    kind("watchdog: CPU", "Watchdog detected hard LOCKUP", Severity::Splat, "hard lockup"),
    kind("rcu: INFO: ", "stall", Severity::Splat, "RCU stall"),
    kind("INFO: rcu_", "stall", Severity::Splat, "RCU stall"),
    // `blocked for` or, since 7.2, `blocked in I/O wait for`.
    kind("INFO: task ", "for more than", Severity::Splat, "hung task"),
    kind("------------[ ftrace bug ]------------", "", Severity::Splat, "ftrace bug"),
    kind("WARNING: possible ", "", Severity::Splat, "lockdep"),
    kind("WARNING: bad unlock balance", "", Severity::Splat, "lockdep"),
    kind("WARNING: held lock freed", "", Severity::Splat, "lockdep"),
    kind("WARNING: lock held when returning to user space", "", Severity::Splat, "lockdep"),
    kind("WARNING: inconsistent lock state", "", Severity::Splat, "lockdep"),
    kind("WARNING: suspicious RCU usage", "", Severity::Splat, "lockdep"),
    kind("WARNING: Nested lock was not taken", "", Severity::Splat, "lockdep"),
    kind("WARNING: bad contention detected", "", Severity::Splat, "lockdep"),
    kind("WARNING: chain_key collision", "", Severity::Splat, "lockdep"),
    kind("WARNING: ", "-unsafe lock order detected", Severity::Splat, "lockdep"),
    kind("WARNING: ", "still has locks held!", Severity::Splat, "lockdep"),
    kind("INFO: trying to register non-static key", "", Severity::Splat, "lockdep"),
    kind("[ BUG: ", "", Severity::Splat, "lockdep"),
    kind("WARNING: ", "", Severity::Splat, "warning"),
    kind("BUG: ", "", Severity::Splat, "BUG"),
    // `BUG kmalloc-64 (Not tainted): …`, of mm/slub.c with slab_debug.
    kind("BUG ", "ainted", Severity::Splat, "SLUB"),
    single("kmemleak: ", "new suspected memory leak", "kmemleak"),
    // The warnings of mm/kmemleak.c, each with a call trace.
    kind("kmemleak: ", "unknown object", Severity::Splat, "kmemleak"),
    kind("kmemleak: ", "overlaps existing", Severity::Splat, "kmemleak"),
    kind("kmemleak: ", "larger than object", Severity::Splat, "kmemleak"),
    kind("kmemleak: ", "Found object by alias", Severity::Splat, "kmemleak"),
    // Of a module, which stays loaded.
    kind("do_init_module: '", "'->init suspiciously returned ", Severity::Splat, "positive init"),
    single("Out of memory: Killed process", "", "out of memory"),
];

/// Returns the kind of splat that `line`, without its timestamp, begins, if any.
pub(super) fn of(line: &str) -> Option<&'static SplatKind> {
    KINDS.iter().find(|kind| kind.begins(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<(Severity, &str)>) {
        assert_eq!(of(line).map(|kind| (kind.severity, kind.name)), expect, "{line}");
    }

    /// Lines of kernels 5.10 to 7.3, as their sources print them.
    #[test]
    fn first_lines_have_a_kind() {
        use Severity::{Oops, Panic, Splat};
        for (line, severity, name) in [
            ("Kernel panic - not syncing: Attempted to kill init! exitcode=0x0", Panic, "panic"),
            (
                "Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: f+0x1/0x2",
                Panic,
                "stack corruption",
            ),
            ("Unable to handle kernel paging request at virtual address dead000000000100", Oops, "oops"),
            ("kernel BUG at lib/list_debug.c:47!", Oops, "BUG"),
            (
                "CFI failure at work+0x44/0x60 [m] (target: wrong+0x0/0x20 [m]; expected type: 0x1b2c3d4e)",
                Oops,
                "CFI failure",
            ),
            ("Internal error: Oops - Undefined instruction: 0000000002000000 [#1] PREEMPT SMP", Oops, "oops"),
            ("BUG: KASAN: slab-out-of-bounds in f+0x1/0x2 [m]", Splat, "KASAN"),
            ("BUG: KCSAN: data-race in a / b", Splat, "KCSAN"),
            (
                "do_init_module: 'm'->init suspiciously returned 2, it should follow 0/-E convention",
                Splat,
                "positive init",
            ),
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
            ("BUG kmalloc-64 (Not tainted): Right Redzone overwritten", Splat, "SLUB"),
            ("BUG task_struct (Tainted: G    B      OE     ): Object corrupt", Splat, "SLUB"),
            ("kmemleak: 2 new suspected memory leaks (see /sys/kernel/debug/kmemleak)", Splat, "kmemleak"),
            ("kmemleak: Freeing unknown object at 0xffff000003b61c48", Splat, "kmemleak"),
            (
                "kmemleak: Cannot insert 0xffff000003b61c48 into the object search tree (overlaps existing)",
                Splat,
                "kmemleak",
            ),
        ] {
            check(line, Some((severity, name)));
        }
    }

    #[test]
    fn other_lines_have_none() {
        for line in [
            "Booting Linux on physical CPU 0x0",
            "rcu: INFO: expedited grace period",
            "module: loading WARNING: x",
            "BUG_ON is not tainted",
            "kmemleak: Kernel memory leak detector initialized (mem pool available: 15804)",
            "kmemleak: Automatic memory scanning thread started",
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
