//! Steps that need a whole userland: its shell, and crash.

use super::{
    TextCheck,
    names::{Line, ProgramName},
    text::{FromText, from_text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Runs a script with the userland's shell to its end, as `sh -eu` in /tmp.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// The script. `${name}` is what an earlier step captured.
    pub sh: Script,
    /// Workloads that it calls: each is at `/workloads/NAME`.
    #[serde(default)]
    pub workloads: Vec<ProgramName>,
    /// Programs of `guest/programs` that it calls, each with the libraries that it is compiled against,
    /// as in `{ exec-open: [tracefs, traceevent] }`; their packages must be among the userland's. Each
    /// is at `${shared}/NAME`.
    #[serde(default)]
    pub programs: BTreeMap<ProgramName, Vec<ProgramName>>,
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
}

/// Has the crash utility look at the running kernel. All steps of this kind are one session.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crash {
    /// Its commands, in order.
    pub crash: Vec<CrashCommand>,
}

/// One command of crash.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashCommand {
    /// The command, as in `struct file.f_op ${file}`. `${name}` is what an earlier step captured.
    pub run: Line,
    /// What it must say, `${name}` again being what was captured, but not in `matches:`, whose named
    /// groups are captured for later commands and steps.
    #[serde(default)]
    pub output: Option<TextCheck>,
}

/// A shell's script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script(String);

/// The longest script: an argument of exec(2) may have 128 KiB.
const SCRIPT_MAX: usize = 64 << 10;

impl Script {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromText for Script {
    const EXPECTED: &'static str = "a shell script";

    fn from_text(text: &str) -> Result<Script, String> {
        if text.len() > SCRIPT_MAX || text.contains('\0') {
            return Err(format!("a script longer than {} KiB, or with a NUL in it", SCRIPT_MAX >> 10));
        }
        Ok(Script(text.to_owned()))
    }
}

from_text!(Script, { "type": "string" });
