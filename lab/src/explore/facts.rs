//! What sequences depend on: what a kernel has, and what it is known to do otherwise than it should.

use super::names::{Function, PROGRAM, USER_FUNCTIONS};
use crate::{
    guest::offset_of,
    kernel::{Kernel, KernelVersion},
    run::Prepared,
    scenario::{FromText, UserPlace},
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// Known differences between a kernel and what it should do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// A probe that is refused for its `$arg0` leaves memory behind (`bugs/arg0-leak`).
    pub(super) arg0_leak: bool,
    /// EINVAL instead of the error of registering an fprobe event (`bugs/fprobe-exists`).
    pub(super) fprobe_errno: bool,
    /// A probe that is added to an enabled fprobe event is not registered (`bugs/fprobe-append`).
    pub(super) fprobe_append: bool,
    /// Removing a command that enables or disables an fprobe event deadlocks (`bugs/fprobe-command`).
    pub(super) fprobe_command: bool,
    /// An fprobe at a return takes that of another function for its own (`bugs/fprobe-graph`).
    pub(super) fprobe_graph: bool,
    /// A graph tracer whose filter only waits for a module is put on all functions (`bugs/graph-mod-command`).
    pub(super) graph_mod: bool,
    /// A graph tracer records returns that only another one traces (`bugs/graph-returns`).
    pub(super) graph_returns: bool,
    /// A uprobe that is added to an enabled event is not registered (`bugs/uprobe-append`).
    pub(super) uprobe_append: bool,
    /// One that is removed from an enabled event stays registered (`bugs/uprobe-removed`).
    pub(super) uprobe_removed: bool,
    /// A tracing instance keeps functions that wait for a module (`bugs/mod-command-leak`).
    pub(super) mod_leak: bool,
    /// Commands are missing behind functions that wait for a module (`bugs/mod-command-listed`).
    pub(super) mod_listed: bool,
    /// A kprobe event that is enabled while all kprobes are disarmed stays so (`bugs/kprobe-disarmed`).
    pub(super) kprobe_disarmed: bool,
    /// A counted stacktrace command depends on `tracing_on` of the top level (`bugs/stacktrace-command`).
    pub(super) stack_command: bool,
    /// An offset in the file of a uprobe is added twice (`bugs/uprobe-file-offset`).
    pub(super) file_offset: bool,
    /// An event probe is attached in the first instance that enables it only (`bugs/eprobe-instance`).
    pub(super) eprobe_instance: bool,
    /// A function that an ftrace_ops leaves while ftrace is off keeps SAVE_REGS (`bugs/ftrace-off-filter`).
    pub(super) off_filter: bool,
    /// A histogram of a synthetic event holds it for ever once its instance is gone (`bugs/synthetic-instance`).
    pub(super) synthetic_instance: bool,
    /// An IPMODIFY ftrace_ops is extended to a function that has a direct call (`bugs/ipmodify-direct`).
    pub(super) ipmodify_direct: bool,
    /// One whose filters nobody has set makes the kernel dereference NULL (`bugs/ipmodify-unset`).
    pub(super) ipmodify_unset: bool,
    /// Of two who write to `set_ftrace_filter` at once, one may be undone (`bugs/filter-reverted`).
    pub(super) filter_reverted: bool,
    /// The kernel warns after it could not register what records the names of tasks (`bugs/names-unregistered`).
    pub(super) names_unregistered: bool,
    /// A filter of functions that there is no memory for is lost without an error (`bugs/filter-no-memory`).
    pub(super) filter_no_memory: bool,
    /// An event probe that there is no memory for the files of has none (`bugs/event-directory-no-memory`).
    pub(super) directory_no_memory: bool,
    /// A field has the name of a probe that may be removed before its event (`bugs/field-name`).
    pub(super) field_name: bool,
    /// An open file of its options does not keep an instance from being removed (`bugs/option-removed`).
    pub(super) option_removed: bool,
    /// A removed trigger still holds the event that it enabled or disabled for a while (`bugs/trigger-release`).
    pub(super) trigger_release: bool,
    /// A buffer that cannot be resized is ENOMEM, whatever the reason: before 6.12 at the latest.
    pub(super) resize_errno: bool,
    /// Triggers see the events that a pid filter excludes: before 5.16, which reserves no space for those.
    pub(super) triggers_ignore_pids: bool,
}

impl Known {
    /// Returns whether one of them is of the graph tracer.
    pub(super) fn is_of_graph(self) -> bool {
        self.fprobe_graph || self.graph_mod || self.graph_returns
    }
}

/// What sequences depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Whether the kernel has fprobe events.
    pub(super) fprobes: bool,
    /// Whether the kernel has event probes.
    pub(super) eprobes: bool,
    /// Whether the kernel has synthetic events.
    pub(super) synthetic: bool,
    /// Whether the kernel has user events.
    pub(super) user_events: bool,
    /// Whether the kernel has probes of tracepoints.
    pub(super) tprobes: bool,
    /// Whether the kernel has events for system calls that are recorded like others: since 5.16.
    pub(super) syscalls: bool,
    /// The offsets of `main` and `eventfd` in the file of the program, if the kernel has uprobe events.
    pub(super) offsets: Option<[u64; 2]>,
    /// The eight bytes at offset 4 of that file.
    pub(super) word: u64,
    /// Whether all files of an event fail with ENODEV once it is removed: since 6.11 (`bugs/format-removed`).
    pub(super) files_end: bool,
    /// Whether the kernel has direct calls.
    pub(super) direct: bool,
    /// Whether an ftrace_ops finds a function by its first instruction, not only by its patch site: since 5.19.
    pub(super) hooks_by_address: bool,
    /// Whether instances have the graph tracer: since 6.11.
    pub(super) graph_instances: bool,
    /// Whether the kernel lacks DYNAMIC_FTRACE_WITH_ARGS: an ftrace_ops with IPMODIFY needs SAVE_REGS, and a graph tracer
    /// does not see a call that a hook redirects.
    pub(super) lacks_args: bool,
    /// Whether the kernel has livepatches.
    pub(super) livepatch: bool,
    /// The `icount` of the scenarios, whose guests then have one CPU.
    pub(super) icount: Option<u8>,
    /// Whether buffers can be mapped: since 6.10.
    pub(super) maps: bool,
    /// Whether allocations can be made to fail.
    pub(super) faults: bool,
    /// Whether the kernel finds memory to which nothing refers.
    pub(super) leaks: bool,
    /// Whether ftrace cannot be turned off: since 7.3.
    pub(super) ftrace_stays: bool,
    /// Whether the kernel's text can be compared: with a vmlinux.
    pub(super) has_text: bool,
    /// Whether the kernel's text of the trace can be compared: since 6.1, unless steps after the last look clear it.
    pub(super) has_text_of_trace: bool,
    /// What the kernel is known to do otherwise.
    pub(super) known: Known,
}

impl Facts {
    /// Returns those of a kernel, `icount` being that of the scenarios.
    ///
    /// # Errors
    /// A file cannot be read, or the program is not as expected.
    pub(super) fn of(prepared: &Prepared, kernel: &Kernel, icount: Option<u8>) -> Result<Facts> {
        let config = kernel.config_text()?;
        let has = |symbol: &str| config.lines().any(|line| line == format!("CONFIG_{symbol}=y"));
        let syscalls = has("FTRACE_SYSCALLS") && is_since(kernel, "5.16");
        Ok(Facts {
            fprobes: has("FPROBE_EVENTS"),
            synthetic: has("SYNTH_EVENTS"),
            user_events: has("USER_EVENTS"),
            tprobes: has("FPROBE_EVENTS"),
            // Since 7.0 at the latest they have a symbol of their own.
            eprobes: syscalls && (has("EPROBE_EVENTS") || has("PROBE_EVENTS") && !is_since(kernel, "7.0")),
            syscalls,
            offsets: has("UPROBE_EVENTS").then(|| offsets(prepared)).transpose()?,
            word: word(prepared)?,
            files_end: is_since(kernel, "6.11"),
            direct: has("DYNAMIC_FTRACE_WITH_DIRECT_CALLS"),
            hooks_by_address: is_since(kernel, "5.19"),
            graph_instances: is_since(kernel, "6.11"),
            lacks_args: !has("DYNAMIC_FTRACE_WITH_ARGS"),
            livepatch: has("LIVEPATCH"),
            icount,
            maps: is_since(kernel, "6.10"),
            faults: has("FAILSLAB") && has("FAIL_PAGE_ALLOC"),
            leaks: has("DEBUG_KMEMLEAK"),
            ftrace_stays: is_since(kernel, "7.3"),
            has_text: kernel.vmlinux().is_some(),
            has_text_of_trace: is_since(kernel, "6.1") && !has("DEBUG_KMEMLEAK"),
            known: known(kernel),
        })
    }
}

/// Returns the file of the program.
fn program(prepared: &Prepared) -> Result<&Path> {
    prepared.guest.workloads.get(PROGRAM).map(PathBuf::as_path).context("the workload is not built")
}

/// Returns the eight bytes at offset 4 of the program's file.
fn word(prepared: &Prepared) -> Result<u64> {
    let bytes = fs::read(program(prepared)?)?;
    let word = bytes.get(4..12).and_then(|bytes| bytes.try_into().ok());
    word.map(u64::from_le_bytes).context("the workload is empty")
}

/// Returns the offsets of the program's functions in its file.
fn offsets(prepared: &Prepared) -> Result<[u64; 2]> {
    let program = program(prepared)?;
    let offset = |function: Function| {
        let place = UserPlace::from_text(&format!("{PROGRAM}:{}", function.symbol()));
        place.and_then(|place| offset_of(program, &place)).map_err(anyhow::Error::msg)
    };
    Ok([offset(USER_FUNCTIONS[0])?, offset(USER_FUNCTIONS[1])?])
}

/// Returns what a kernel does otherwise, by the bugs that it is known to have and by its version.
fn known(kernel: &Kernel) -> Known {
    let has = |bug: &str| kernel.spec.bugs.contains_key(bug);
    Known {
        arg0_leak: has("bugs/arg0-leak"),
        fprobe_errno: has("bugs/fprobe-exists"),
        fprobe_append: has("bugs/fprobe-append"),
        fprobe_command: has("bugs/fprobe-command"),
        fprobe_graph: has("bugs/fprobe-graph"),
        graph_mod: has("bugs/graph-mod-command"),
        graph_returns: has("bugs/graph-returns"),
        uprobe_append: has("bugs/uprobe-append"),
        uprobe_removed: has("bugs/uprobe-removed"),
        mod_leak: has("bugs/mod-command-leak"),
        mod_listed: has("bugs/mod-command-listed"),
        kprobe_disarmed: has("bugs/kprobe-disarmed"),
        stack_command: has("bugs/stacktrace-command"),
        file_offset: has("bugs/uprobe-file-offset"),
        eprobe_instance: has("bugs/eprobe-instance"),
        off_filter: has("bugs/ftrace-off-filter"),
        synthetic_instance: has("bugs/synthetic-instance"),
        ipmodify_direct: has("bugs/ipmodify-direct"),
        ipmodify_unset: has("bugs/ipmodify-unset"),
        filter_reverted: has("bugs/filter-reverted"),
        names_unregistered: has("bugs/names-unregistered"),
        filter_no_memory: has("bugs/filter-no-memory"),
        directory_no_memory: has("bugs/event-directory-no-memory"),
        field_name: has("bugs/field-name"),
        option_removed: has("bugs/option-removed"),
        trigger_release: has("bugs/trigger-release"),
        resize_errno: !is_since(kernel, "6.12"),
        triggers_ignore_pids: !is_since(kernel, "5.16"),
    }
}

fn is_since(kernel: &Kernel, version: &str) -> bool {
    version.parse().is_ok_and(|version: KernelVersion| kernel.version >= version)
}
