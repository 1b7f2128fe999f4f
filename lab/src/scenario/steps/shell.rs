//! Scripts of a shell, and crash.

use crate::scenario::{
    TextCheck,
    read::scalar::{FromText, from_text},
    values::names::{ConfigSymbol, EventName, Line, ModuleName, ProgramName},
    whole::PackageName,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Runs a script with the userland's shell to completion, as `sh -eu` in /tmp. Without a userland, it is
/// busybox's shell, with busybox's tools.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// The script. `${name}` stands for a value captured by an earlier step.
    pub sh: Script,
    /// Workloads that the script calls, as `/workloads/NAME`.
    #[serde(default)]
    pub workloads: Vec<ProgramName>,
    /// Programs of `guest/programs` that the script calls, as `${shared}/NAME`, each with the libraries
    /// that it is linked with, as in `{ exec-open: [tracefs, traceevent] }`. The packages of the
    /// libraries must be part of the userland.
    #[serde(default)]
    pub programs: BTreeMap<ProgramName, Vec<ProgramName>>,
    /// Debian packages of module sources, as for dkms(8), whose modules the script loads as
    /// `${shared}/MODULE.ko`. The version is that of the userland's suite. If one of its files does not
    /// compile for a kernel, the scenario is unsupported there.
    #[serde(default)]
    pub dkms: BTreeMap<PackageName, Dkms>,
    /// SystemTap scripts by module name, compiled for the kernel by the `stap` of the userland's suite.
    /// The script runs one as `staprun ${shared}/MODULE.ko`. If the generated C does not compile for a
    /// kernel, the scenario is unsupported there.
    #[serde(default)]
    pub systemtap: BTreeMap<ModuleName, Script>,
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
}

/// How the modules of a package are built.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dkms {
    /// Configuration symbols that make is called with, each as `m`: those in the `MAKE` of its dkms.conf.
    #[serde(default)]
    pub config: Vec<ConfigSymbol>,
    /// Macros that the compiler defines, empty, for sources that do not build in some configuration.
    #[serde(default)]
    pub define: Vec<EventName>,
    /// Modules not to build, which its makefiles name as `MODULE.o`.
    #[serde(default)]
    pub without: Vec<ModuleName>,
}

/// Runs commands of the crash utility on the running kernel. All steps of this kind share one session.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crash {
    /// The commands, in order.
    pub crash: Vec<CrashCommand>,
}

/// One command of crash.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashCommand {
    /// The command, as in `struct file.f_op ${file}`. `${name}` stands for a value captured by an
    /// earlier step.
    pub run: Line,
    /// Checks its output. `${name}` stands for a captured value, except in `matches:`, whose named
    /// groups are captured for later commands and steps.
    #[serde(default)]
    pub output: Option<TextCheck>,
}

/// A shell's script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script(String);

/// Maximum length of a script: an argument of exec(2) is limited to 128 KiB.
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

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use std::path::Path;

    #[test]
    fn a_script_without_a_userland_needs_busybox_and_no_libraries() {
        let parse = |rest: &str| {
            let source = format!("summary: x\n{rest}\n");
            Scenario::parse(Path::new("x.yaml"), &source).map_err(|error| error.message)
        };
        assert!(parse("steps: [ { sh: ls } ]").unwrap().needs_busybox());
        assert!(!parse("userland: debian\nsteps: [ { sh: ls } ]").unwrap().needs_busybox());
        assert!(!parse("steps: [ { read: trace } ]").unwrap().needs_busybox());
        let linked = parse("steps: [ { sh: ls, programs: { exec-open: [tracefs] } } ]").unwrap_err();
        assert_eq!(linked, "steps[0]: `programs` without a userland, expected `userland: debian` as well");
    }
}
