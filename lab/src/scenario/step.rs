//! `steps:`, what happens in the guest, in order.

use super::{
    TextCheck,
    command::CommandLine,
    errno::Errno,
    hook::{EnabledFunctions, Hits, Hook},
    inspect::Inspect,
    keyed::verb_keyed,
    kselftest::Kselftest,
    module::{ModuleSource, Wanted},
    names::{FilePath, Line, ModuleName},
    patched::Text,
    refuses::Refuses,
    shell::{Crash, Shell},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

verb_keyed! {
    /// One step. The first key of the YAML map says its kind.
    pub enum Step is "step" {
        /// `{ workload: eventfd --sleep 0 1 2 4, stdout: Parent read 7 (0x7) from efd }`
        "workload" => Workload,
        /// `{ write: kprobe_events, text: "p:mine vfs_write", append: true }`
        "write" => Write,
        /// `{ refuses: kprobe_events, errors: { "p ^nope": Invalid probed address or symbol } }`
        "refuses" => Refuses,
        /// `{ read: kprobe_events, text: "p:kprobes/mine vfs_write" }`
        "read" => Read,
        /// `{ mkdir: instances/mine }`
        "mkdir" => MakeDirectory,
        /// `{ load: kprobe_example, parameters: symbol=vfs_write }`
        "load" => Load,
        /// `{ unload: kprobe_example }`
        "unload" => Unload,
        /// `{ module: { sample: kprobes/kprobe_example } }`
        "module" => Insert,
        /// `{ hook: "+w symbol=vfs_write flags=ipmodify", errno: EBUSY }`
        "hook" => Hook,
        /// `{ hits: w, count: 5 }`
        "hits" => Hits,
        /// `{ enabled_functions: vfs_write, count: 1, flags: I }`
        "enabled_functions" => EnabledFunctions,
        /// `{ text: { at: vfs_write }, is: unchanged }`
        "text" => Text,
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
    /// Its kind, if it can only be done in a whole userland.
    pub(super) fn needs_userland(&self) -> Option<&'static str> {
        match self {
            Step::Shell(_) => Some("sh"),
            Step::Crash(_) => Some("crash"),
            Step::Kselftest(step) => step.needs_userland().then_some("kselftest"),
            _ => None,
        }
    }

    /// The module that this step loads.
    pub fn module(&self) -> Option<Wanted> {
        match self {
            Step::Load(step) => Some(step.into()),
            Step::Insert(step) => Some(step.into()),
            _ => None,
        }
    }
}

/// Runs a program of the guest to its end, or, with `until`, beside the steps behind it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The program's name and arguments, split as a shell splits words.
    pub workload: CommandLine,
    /// What it reads from stdin. Default: nothing.
    #[serde(default)]
    pub stdin: String,
    /// Its environment beside the guest's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The exit status it must have. Default 0.
    #[serde(default)]
    pub exit: i32,
    /// What its stdout must be. Named groups of `matches:` are captured for later steps.
    #[serde(default)]
    pub stdout: Option<TextCheck>,
    /// What its stderr must be.
    #[serde(default)]
    pub stderr: Option<TextCheck>,
    /// The next step begins as soon as its stdout has this text. It runs on beside the other steps and
    /// must still do so when they are over; then it is killed, which is its end in place of `exit:`.
    #[serde(default)]
    pub until: Option<Line>,
}

/// Writes to a file with one write(2), as a shell's `echo` does.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The file, absolute or below tracefs.
    pub write: FilePath,
    /// What is written, with one newline behind it. `${name}` is what an earlier step captured.
    pub text: String,
    /// `>>` instead of `>`. Without it, writing to kprobe_events clears it first.
    #[serde(default)]
    pub append: bool,
    /// The errno the write must give, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
    /// What tracefs' `error_log` must say of this write.
    #[serde(default)]
    pub error_log: Option<TextCheck>,
    /// What the kernel log must have got by this write, without levels and times: where `error_log`
    /// says nothing, the reason of a refusal is there.
    #[serde(default)]
    pub kernel_log: Option<TextCheck>,
}

/// Reads a file and checks it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The file, absolute or below tracefs.
    pub read: FilePath,
    /// The errno that opening or reading it must give, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
    /// What it must hold.
    #[serde(default)]
    pub text: Option<TextCheck>,
}

/// Makes a directory, as one below `instances/` that becomes a tracing instance.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    /// The directory, absolute or below tracefs.
    pub mkdir: FilePath,
    /// The errno that this must give, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}

/// Loads a kernel module, built for the kernel under test.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// One of `guest/modules`, else one of the kernel's own samples and tests.
    pub load: ModuleName,
    /// Parameters as insmod takes them: `symbol=vfs_write flags=3`.
    #[serde(default)]
    pub parameters: Option<Line>,
    /// The errno that loading it must give, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}

/// Loads a kernel module that is not the lab's own, built for the kernel under test.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Insert {
    /// Where it comes from: `source:`, a directory, or `sample:`, one of the kernel's.
    pub module: ModuleSource,
    /// Parameters as insmod takes them: `symbol=vfs_write flags=3`.
    #[serde(default)]
    pub parameters: Option<Line>,
    /// The errno that loading it must give, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}

impl From<&Load> for Wanted {
    fn from(step: &Load) -> Wanted {
        Wanted::Named(step.load.to_string())
    }
}

impl From<&Insert> for Wanted {
    fn from(step: &Insert) -> Wanted {
        Wanted::from(&step.module)
    }
}

/// Unloads a kernel module.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unload {
    /// The module's name.
    pub unload: ModuleName,
    /// The errno that unloading it must give, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}
