//! YAML → [`Scenario`]: a claim about a kernel, and how to check it.
//!
//! Every value is parsed while YAML is read, so that an error carries file, line and column. Checks
//! that need the whole file, such as an expectation on an event that nothing defines, run next and take
//! their location from the item's path. A [`Scenario`] that exists is well-formed.

mod describe;
mod events;
mod expand;
mod expect;
mod file;
mod matrix;
mod project;
mod read;
mod reference;
mod semantic;
mod steps;
mod template;
mod values;
mod whole;

pub use describe::Describe;
pub(crate) use describe::requirements;
pub use events::{
    Args, Clock, DEFAULT_BUFFER_KB, Definition, Eprobe, EventSpec, Feed, FetchArg, Fexit, Fields, Fprobe,
    Function, Kprobe, Kretprobe, PathError, Probe, ProbeKind, Prototype, StaticEvent, Switch, Synthetic,
    Tprobe, TraceSetup, Uprobe, Uretprobe, UserEvent, UserPlace, UserPlaces,
};
pub(crate) use events::{WORKLOADS, fetch};
pub(crate) use expand::means_the_same;
pub use expand::stand_alone;
pub use expect::{
    Bind, Condition, Count, EventMatch, Executed, Expectation, Graph, GraphCall, Hist, HistEntry, KernelLog,
    KernelText, Latency, LinePattern, MatchesOutput, Never, Pairs, Same, Sequence, SequenceStep, Set, Stack,
    Stats, Values,
};
pub(crate) use expect::{comparison, condition};
pub(crate) use file::is_name;
pub use file::{ScenarioFile, find};
pub use matrix::{Matrix, Orders, Part, Refusal, load_all, select};
pub use project::{PROJECT_FILE, Project, project_schema};
pub use read::ScenarioError;
pub(crate) use read::{FromText, from_text};
pub use reference::reference;
pub(crate) use steps::FLAGS;
pub use steps::{
    CallOps, Crash, CrashCommand, Dkms, EnabledFunctions, Errors, ExpectedValue, Flags, FtraceSiteOf,
    HOOK_MODULE, Hits, Hook, HookCommand, HookName, Inspect, InspectItem, InspectTasks, InspectValue,
    Instructions, KeySites, KprobeAt, KprobeSlot, Kselftest, Load, LoadModule, MakeDirectory, ModuleRef,
    ModuleSource, PatchedText, PointedAt, Program, ProgramSource, Read, Rejects, SampleModule, SamplePath,
    Script, SelftestPath, Shell, SourceModule, SourcePath, SourceProgram, Step, SymbolName, TextPlace,
    TracedFunction, Unload, ValuePath, Workload, Write,
};
pub use template::Template;
pub use values::{
    Amount, ArgName, CommandLine, ConfigRequirement, Errno, EventName, EventRef, FilePath, GroupName,
    InstanceName, InstructionPattern, InstructionPatterns, Line, Literal, ModuleName, OptionName, Pattern,
    ProbePoint, ProgramName, RustPoint, StaticName, TextCheck, Timespan,
};
pub use whole::{
    Allowed, Boot, Bootconfig, Cmdline, ExpectPanic, KernelParameter, PackageName, UserlandName, UserlandSpec,
};

use crate::{kernel::VersionReq, yaml};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

/// One scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Directory of the file; paths to a module's sources are relative to it.
    pub directory: PathBuf,
    /// The claim about the kernel, in one sentence.
    pub summary: String,
    /// Requirements on the kernel; if they are not met, the verdict is unsupported.
    pub requires: Requires,
    /// Whether it runs only if it is named.
    pub opt_in: bool,
    /// Whether no other machine may run at the same time.
    pub exclusive: bool,
    /// The number of machines on which it runs with `--soak`.
    pub soak: u16,
    /// Time limit for all steps in total, on the reference machine.
    pub timeout: Duration,
    /// Origin of its machine.
    pub boot: Boot,
    /// The time that an instruction takes, as a power of two in nanoseconds; the machine then has one CPU, and boots
    /// for this scenario alone.
    pub icount: Option<u8>,
    /// Kernel parameters; the machine boots for this scenario alone.
    pub cmdline: Cmdline,
    /// Bootconfig, which the kernel reads from the end of its initramfs.
    pub bootconfig: Option<Bootconfig>,
    /// Debian userland of the guest; without one, the guest contains the agent and the files that the
    /// lab copies.
    pub userland: Option<UserlandSpec>,
    /// Matrix from which [`load_all`] makes several scenarios.
    pub matrix: Option<Matrix>,
    /// What to arm before the first step.
    pub trace: TraceSetup,
    /// Steps, in order.
    pub steps: Vec<Written<Step>>,
    /// Expected splats.
    pub allow: Vec<Allowed>,
    /// Probes, hooks and modules that may be left behind at the end.
    pub may_leave: Vec<Pattern>,
    /// Whether to keep the guest's memory after the last step.
    pub dump: bool,
    /// Expected panic of the kernel.
    pub expect_panic: Option<ExpectPanic>,
    /// Expectations on the whole trace.
    pub expect: Vec<Written<Expectation>>,
}

/// Time limit of the steps unless the scenario sets one.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// An item of a scenario, with its YAML text and its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    /// As written, joined into one line.
    pub text: String,
    /// The line of the file on which it begins, from 1.
    pub line: usize,
    /// The parsed item.
    pub value: T,
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Requirements on the kernel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Requires {
    /// Kernel versions, as in `">=6.1"` or `">=5.10, <7.2"`.
    pub kernel: Option<VersionReq>,
    /// Configuration symbols that must be `y` or `m` or, with a `!` before them, neither.
    pub config: Vec<ConfigRequirement>,
}

impl Requires {
    /// Requires what either of them requires.
    fn and(&self, other: &Requires) -> Requires {
        let kernel = match (&self.kernel, &other.kernel) {
            (Some(one), Some(two)) => Some(one.and(two)),
            (one, two) => one.as_ref().or(two.as_ref()).cloned(),
        };
        Requires { kernel, config: [self.config.as_slice(), &other.config].concat() }
    }
}

/// A scenario: a claim about a kernel, and how to check it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ftrace-lab scenario, format 2")]
struct Document {
    /// The claim about the kernel, in one sentence.
    summary: Line,
    /// Requirements on the kernel; if they are not met, the verdict is unsupported.
    #[serde(default)]
    requires: Requires,
    /// Excludes the scenario from a run of all scenarios, because it takes minutes. Naming it or its
    /// directory, or a `--filter`, runs it.
    #[serde(default)]
    opt_in: bool,
    /// Runs the scenario while no other machine of the run is running. For guests whose CPUs wait for
    /// each other all the time (`stop_machine`): they take ten times as long if the host is busy with
    /// something else.
    #[serde(default)]
    exclusive: bool,
    /// The number of machines, one after the other, on which `lab run --soak` runs the scenario. For
    /// races, which more rounds find with a higher probability. Default 1, at most 1000.
    #[serde(default = "once")]
    #[schemars(range(min = 1, max = 1000))]
    soak: u16,
    /// Time limit for all steps in total, on the reference machine. Default 30s.
    #[serde(default)]
    timeout: Option<Timespan>,
    /// Where the machine comes from: `boot` boots it for this scenario alone instead of restoring a
    /// snapshot taken after boot.
    #[serde(default)]
    boot: Option<Boot>,
    /// Runs on one CPU, and counts time in instructions of 2^N ns each, as QEMU's `-icount` does: 0 to 10. A race
    /// during boot then happens at each boot or at none; with another N, other things happen first. The machine
    /// boots for this scenario alone.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10))]
    icount: Option<u8>,
    /// Kernel parameters, as a list or in one string. The machine boots for this scenario alone. Events
    /// that they trace during boot stay in the trace.
    #[serde(default)]
    cmdline: Cmdline,
    /// A bootconfig, for example for boot-time tracing. The machine boots for this scenario alone.
    /// Events that it traces during boot stay in the trace. Any error that the kernel logs for it fails
    /// the scenario.
    #[serde(default)]
    bootconfig: Option<Bootconfig>,
    /// Gives the guest a complete Debian userland: `debian`, or with more packages `{ debian:
    /// [bpftrace] }`. The machine boots for this scenario alone, which takes seconds.
    #[serde(default)]
    userland: Option<UserlandSpec>,
    /// Makes several scenarios of this file.
    #[serde(default)]
    matrix: Option<Matrix>,
    /// Sets up tracing before the first step.
    #[serde(default)]
    trace: TraceSetup,
    /// The steps, run in order. The first key of each step selects its kind.
    #[serde(default)]
    steps: Vec<Step>,
    /// Expected splats: fingerprints, or regular expressions for their titles. Each must occur, and any
    /// other splat fails the scenario.
    #[serde(default)]
    allow: Vec<Allowed>,
    /// Allows probes, hooks and modules to be left behind at the end: regular expressions for the lines
    /// that name them in a result, `probe p:kprobes/x vfs_write`, `hook vfs_write`, `module deaths`. Each
    /// must match something that is left.
    #[serde(default)]
    may_leave: Vec<Pattern>,
    /// Saves the guest's memory after the last step as `vmcore` next to the trace, for `cargo xtask lab
    /// crash`. A kernel that panics always leaves a `vmcore`.
    #[serde(default)]
    dump: bool,
    /// Requires the kernel to panic in the last step, in this way.
    #[serde(default)]
    expect_panic: Option<ExpectPanic>,
    /// Checks the whole trace after the last step. Each item has one key, which selects its kind.
    #[serde(default)]
    expect: Vec<Expectation>,
}

fn once() -> u16 {
    1
}

/// Returns items with the text and the line with which they are written elsewhere.
fn as_written<T>(written: Vec<Written<T>>, items: Vec<Written<T>>) -> Vec<Written<T>> {
    let both = written.into_iter().zip(items);
    both.map(|(written, item)| Written { value: item.value, ..written }).collect()
}

impl Scenario {
    /// Returns whether kernel parameters or a bootconfig may trace the boot.
    pub fn traces_boot(&self) -> bool {
        !self.cmdline.0.is_empty() || self.bootconfig.is_some()
    }

    /// Reads and parses a scenario file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is larger than 1 MiB, or is not a well-formed scenario.
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        let source = file::read(path)?;
        let scenario = Scenario::parse(path, &source)?;
        let Some((project, text)) = project::complete(path, &source)? else { return Ok(scenario) };
        let complete = Scenario::parse(path, &text)?;
        let expect = [&scenario.expect, project.expectations()].concat();
        Ok(Scenario {
            steps: as_written(scenario.steps, complete.steps),
            expect: as_written(expect, complete.expect),
            ..complete
        })
    }

    /// Parses `source` as the file at `path`, which need not exist.
    ///
    /// # Errors
    /// Fails if it is not a well-formed scenario; the error carries line and column.
    pub fn parse(path: &Path, source: &str) -> Result<Scenario, ScenarioError> {
        let yaml_error = |error| ScenarioError::from_yaml(path, source, &error);
        yaml::within_budget(source).map_err(yaml_error)?;
        let document: Document = yaml::from_str(source).map_err(yaml_error)?;
        if let Err(problem) = semantic::check(&document) {
            return Err(problem.locate(path, source));
        }
        Ok(Scenario {
            directory: path.parent().map(Path::to_owned).unwrap_or_default(),
            summary: document.summary.to_string(),
            requires: document.requires,
            opt_in: document.opt_in,
            exclusive: document.exclusive,
            soak: document.soak,
            timeout: document.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
            boot: match document.boot {
                None if document.icount.is_some()
                    || !document.cmdline.0.is_empty()
                    || document.bootconfig.is_some()
                    || document.userland.is_some() =>
                {
                    Boot::Fresh
                }
                boot => boot.unwrap_or_default(),
            },
            icount: document.icount,
            cmdline: document.cmdline,
            bootconfig: document.bootconfig,
            userland: document.userland,
            matrix: document.matrix,
            trace: document.trace,
            steps: read::locate::written(source, "steps", document.steps),
            allow: document.allow,
            may_leave: document.may_leave,
            dump: document.dump,
            expect_panic: document.expect_panic,
            expect: read::locate::written(source, "expect", document.expect),
        })
    }

    /// Returns whether its machine is restored from a snapshot instead of booted.
    pub fn is_restored(&self) -> bool {
        self.boot == Boot::Snapshot && self.userland.is_none()
    }

    /// Returns whether it needs the hook module.
    pub fn hooks(&self) -> bool {
        let hooks = |step: &Written<Step>| matches!(step.value, Step::Hook(_) | Step::Hits(_));
        self.steps.iter().any(hooks) || self.trace.events.iter().any(|event| event.group() == HOOK_MODULE)
    }

    /// Returns whether an expectation compares the kernel's own text of the trace.
    pub fn compares_kernel_text(&self) -> bool {
        self.expect.iter().any(|item| matches!(item.value, Expectation::KernelText(_)))
    }

    /// Returns whether an expectation compares the trace with what QEMU executed.
    pub fn compares_executed(&self) -> bool {
        self.expect.iter().any(|item| matches!(item.value, Expectation::Executed(_)))
    }

    /// Returns whether crash is attached to the running guest.
    pub fn attaches_crash(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.value, Step::Crash(_)))
    }

    /// Returns the selftest collections that it uses.
    pub fn selftests(&self) -> BTreeSet<&str> {
        fn collection(step: &Written<Step>) -> Option<&str> {
            match &step.value {
                Step::Kselftest(step) => Some(step.kselftest.collection()),
                _ => None,
            }
        }
        self.steps.iter().filter_map(collection).collect()
    }

    /// Returns whether a step reads kernel text.
    pub fn reads_text(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.value, Step::PatchedText(_)))
    }

    /// Returns whether the lab reads the guest's memory.
    pub fn reads_memory(&self) -> bool {
        let inspects = |step: &Written<Step>| matches!(step.value, Step::Inspect(_));
        self.steps.iter().any(inspects)
            || self.expect_panic.as_ref().is_some_and(|dies| !dies.backtrace.is_empty())
    }

    /// Returns the programs to build for its userland, each with its libraries.
    pub fn programs(&self) -> impl Iterator<Item = (&ProgramName, &Vec<ProgramName>)> {
        self.shells().flat_map(|step| &step.programs)
    }

    /// Returns the steps that run a script.
    pub(crate) fn shells(&self) -> impl Iterator<Item = &Shell> {
        self.steps.iter().filter_map(|step| match &step.value {
            Step::Shell(step) => Some(step),
            _ => None,
        })
    }

    /// Returns what the workloads that it brings are built from, by their names.
    pub fn own_workloads(&self) -> BTreeMap<&str, &ProgramSource> {
        self.steps
            .iter()
            .filter_map(|step| step.own_workload())
            .map(|source| (source.name(), source))
            .collect()
    }

    /// Returns whether its scripts are run by busybox, because it has no userland.
    pub fn needs_busybox(&self) -> bool {
        self.userland.is_none() && self.shells().next().is_some()
    }

    /// Returns the modules to build for it.
    pub fn modules(&self) -> BTreeSet<ModuleRef> {
        let hook_module = self.hooks().then(|| ModuleRef::Named(HOOK_MODULE.to_owned()));
        hook_module.into_iter().chain(self.steps.iter().filter_map(|step| step.module())).collect()
    }
}

/// Returns the JSON Schema of scenario files, the content of `scenarios/schema.json`.
pub fn schema() -> String {
    schema_of::<Document>()
}

fn schema_of<T: JsonSchema>() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
