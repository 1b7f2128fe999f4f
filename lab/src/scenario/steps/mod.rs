//! `steps:`, the actions in the guest, in order.

pub(super) mod hook;
pub(super) mod inspect;
pub(super) mod kselftest;
pub(super) mod module;
pub(super) mod patched_text;
pub(super) mod program;
pub(super) mod rejects;
pub(super) mod shell;
mod value_path;

pub(crate) use hook::FLAGS;
pub use hook::{EnabledFunctions, Flags, Hits, Hook, HookCommand, HookName};
pub use inspect::{ExpectedValue, Inspect, InspectItem, InspectTasks, InspectValue, SymbolName};
pub use kselftest::{Kselftest, SelftestPath};
pub use module::{HOOK_MODULE, ModuleRef, ModuleSource, SampleModule, SamplePath, SourceModule, SourcePath};
pub use patched_text::{
    CallOps, FtraceSiteOf, Instructions, KeySites, KprobeAt, KprobeSlot, PatchedText, TextPlace,
    TracedFunction,
};
pub use program::{Program, ProgramSource, SourceProgram};
pub use rejects::{Errors, PointedAt, Rejects};
pub use shell::{Crash, CrashCommand, Dkms, Script, Shell};
pub use value_path::ValuePath;

use super::{
    TextCheck,
    read::keyed::verb_keyed,
    values::{
        errno::Errno,
        names::{FilePath, Line, ModuleName},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

verb_keyed! {
    /// One step. The first key of the YAML map selects its kind.
    pub enum Step is "step" {
        /// `{ workload: eventfd --sleep 0 1 2 4, stdout: Parent read 7 (0x7) from efd }`
        "workload" => Workload,
        /// `{ write: kprobe_events, text: "p:mine vfs_write", append: true }`
        "write" => Write,
        /// `{ rejects: kprobe_events, errors: { "p ^nope": Invalid probed address or symbol } }`
        "rejects" => Rejects,
        /// `{ read: kprobe_events, text: "p:kprobes/mine vfs_write" }`
        "read" => Read,
        /// `{ mkdir: instances/mine }`
        "mkdir" => MakeDirectory,
        /// `{ load: kprobe_example, parameters: symbol=vfs_write }`
        "load" => Load,
        /// `{ unload: kprobe_example }`
        "unload" => Unload,
        /// `{ module: { sample: kprobes/kprobe_example } }`
        "module" => LoadModule,
        /// `{ hook: "+w symbol=vfs_write flags=ipmodify", errno: EBUSY }`
        "hook" => Hook,
        /// `{ hits: w, count: 5 }`
        "hits" => Hits,
        /// `{ enabled_functions: vfs_write, count: 1, flags: I }`
        "enabled_functions" => EnabledFunctions,
        /// `{ text: { at: vfs_write }, is: unchanged }`
        "text" => PatchedText,
        /// `{ inspect: [ { value: show_count, is: 5 } ] }`
        "inspect" => Inspect,
        /// `{ sh: strace -o trace /workloads/eventfd 1 2, workloads: [eventfd] }`
        "sh" => Shell,
        /// `{ crash: [ { run: sym vfs_write, output: vfs_write } ] }`
        "crash" => Crash,
        /// `{ kselftest: ftrace/test.d/kprobe, deadline: 120s }`
        "kselftest" => Kselftest,
    }
}

impl Step {
    /// Returns its kind, or the field, if it needs a complete userland.
    pub(super) fn needs_userland(&self) -> Option<&'static str> {
        match self {
            Step::Shell(step) => (!step.programs.is_empty()).then_some("programs"),
            Step::Crash(_) => Some("crash"),
            Step::Kselftest(step) => step.needs_userland().then_some("kselftest"),
            _ => None,
        }
    }

    /// Returns the workloads that this step runs.
    pub fn workloads(&self) -> Vec<&str> {
        match self {
            Step::Workload(step) => vec![step.workload.program()],
            Step::Shell(step) => step.workloads.iter().map(|name| name.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns what the workload is built from that this step brings and runs.
    pub fn own_workload(&self) -> Option<&ProgramSource> {
        match self {
            Step::Workload(step) => step.workload.source(),
            _ => None,
        }
    }

    /// Returns the module that this step loads.
    pub fn module(&self) -> Option<ModuleRef> {
        match self {
            Step::Load(step) => Some(step.into()),
            Step::LoadModule(step) => Some(step.into()),
            _ => None,
        }
    }
}

/// Runs a program of the guest to completion or, with `until`, in parallel with the later steps.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The program's name and arguments, split into words like a shell command; or a C file beside the
    /// scenario: `{ source: mine.c, arguments: one two }`.
    pub workload: Program,
    /// Data for its stdin. Default: none.
    #[serde(default)]
    pub stdin: String,
    /// Environment variables, in addition to those of the guest.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Expected exit status. Default 0.
    #[serde(default)]
    pub exit: i32,
    /// Checks its stdout. Named groups of `matches:` are captured for later steps.
    #[serde(default)]
    pub stdout: Option<TextCheck>,
    /// Checks its stderr.
    #[serde(default)]
    pub stderr: Option<TextCheck>,
    /// Starts the next step as soon as the stdout contains this string. The program continues in
    /// parallel and must still be running after the last step; it is then killed, and `exit:` does not
    /// apply.
    #[serde(default)]
    pub until: Option<Line>,
}

/// Writes to a file, all at once like `echo` in a shell, but with writev(2): a hook on `vfs_write` does not
/// see it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The file, absolute or below tracefs.
    pub write: FilePath,
    /// The string to write, followed by one newline. `${name}` stands for a value captured by an
    /// earlier step.
    pub text: String,
    /// Appends, like `>>` instead of `>`. Without it, writing to `kprobe_events` clears it first.
    #[serde(default)]
    pub append: bool,
    /// The errno that the write must fail with, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
    /// Checks the entry of this write in tracefs' `error_log`.
    #[serde(default)]
    pub error_log: Option<TextCheck>,
    /// Checks the lines that this write added to the kernel log, without levels and timestamps. If
    /// `error_log` has no entry, the reason for an error is found here.
    #[serde(default)]
    pub kernel_log: Option<TextCheck>,
}

/// Reads a file and checks it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The file, absolute or below tracefs.
    pub read: FilePath,
    /// The errno that opening or reading it must fail with, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
    /// Checks the content.
    #[serde(default)]
    pub text: Option<TextCheck>,
}

/// Creates a directory; one below `instances/` becomes a tracing instance.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    /// The directory, absolute or below tracefs.
    pub mkdir: FilePath,
    /// The errno that mkdir(2) must fail with, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}

/// Loads a kernel module, built for the kernel under test.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The module: one of `guest/modules`, else one of the kernel's own samples and tests.
    pub load: ModuleName,
    /// Module parameters, as for insmod: `symbol=vfs_write flags=3`.
    #[serde(default)]
    pub parameters: Option<Line>,
    /// The errno that loading must fail with, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}

/// Loads a kernel module that is not part of the lab, built for the kernel under test.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadModule {
    /// The origin of the module: `source:` names a directory, `sample:` one of the kernel's samples.
    pub module: ModuleSource,
    /// Module parameters, as for insmod: `symbol=vfs_write flags=3`.
    #[serde(default)]
    pub parameters: Option<Line>,
    /// The errno that loading must fail with, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}

impl From<&Load> for ModuleRef {
    fn from(step: &Load) -> ModuleRef {
        ModuleRef::Named(step.load.to_string())
    }
}

impl From<&LoadModule> for ModuleRef {
    fn from(step: &LoadModule) -> ModuleRef {
        ModuleRef::from(&step.module)
    }
}

/// Unloads a kernel module.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unload {
    /// The module's name.
    pub unload: ModuleName,
    /// The errno that unloading must fail with, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}
