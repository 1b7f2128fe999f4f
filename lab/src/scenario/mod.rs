//! YAML → [`Scenario`]: what a kernel should do, in words a kernel developer writes.
//!
//! Everything is parsed while YAML is read, so that an error has its file, line and column; what
//! only the whole can tell (an expectation about an event that nothing defines) is checked right
//! after and gets its location from the item's path. A [`Scenario`] that exists is well-formed.

mod agrees;
mod allowed;
mod amount;
mod bind;
mod boot;
mod bound;
mod budget;
mod check;
mod command;
mod defined;
mod dies;
mod errno;
mod error;
mod event_ref;
mod events;
mod expect;
mod fetch;
mod file;
mod graph;
mod hook;
mod inspect;
mod keyed;
mod kselftest;
mod literal;
mod locate;
mod matrix;
mod module;
mod named;
mod names;
mod nearest;
mod patched;
mod path;
mod reference;
mod refuses;
mod semantic;
mod sequence;
mod shell;
mod span;
mod starter;
mod step;
pub(crate) mod text;
mod told;
mod userland;

pub use agrees::{Agrees, LinePattern};
pub use allowed::Allowed;
pub use amount::Amount;
pub use bind::{Bind, Same};
pub use boot::{Bootconfig, Cmdline, Fresh, KernelParameter};
pub use bound::bound;
pub use check::{Pattern, TextCheck};
pub use command::CommandLine;
pub use dies::Dies;
pub use errno::Errno;
pub use error::ScenarioError;
pub use event_ref::{EventRef, StaticName};
pub use events::{
    Args, Clock, DEFAULT_BUFFER_KB, Definition, Eprobe, EventSpec, Feed, Fexit, Fields, Fprobe, Function,
    Kprobe, Kretprobe, Probe, ProbeKind, StaticEvent, Switch, Synthetic, TraceSetup, Uprobe, Uretprobe,
    UserEvent, UserPlace, UserPlaces,
};
pub use expect::{
    Count, EventMatch, Expectation, Hist, HistEntry, KernelLog, Latency, Never, Pairs, Set, Stack, Stats,
    Values,
};
pub use fetch::FetchArg;
pub use file::{Found, find};
pub use graph::{Graph, GraphCall};
pub use hook::{EnabledFunctions, Flags, Hits, Hook, HookCommand, HookName};
pub use inspect::{Inspect, InspectItem, InspectTasks, InspectValue, SymbolName, WantedValue};
pub use kselftest::{Kselftest, SelftestPath};
pub use literal::Literal;
pub use matrix::{Matrix, Orders, Part, Refused, load_all, select};
pub use module::{HOOK_MODULE, ModuleSource, SampleModule, SamplePath, SourceModule, SourcePath, Wanted};
pub use names::{
    ArgName, ConfigSymbol, EventName, FilePath, GroupName, InstanceName, Line, ModuleName, OptionName,
    ProbePoint, ProgramName,
};
pub use patched::{
    CallOps, FtraceSiteOf, Instructions, KeySites, KprobeAt, KprobeSlot, Text, TextPlace, Word, Words,
};
pub use path::ValuePath;
pub use reference::reference;
pub use refuses::{Errors, PointedAt, Refuses};
pub use sequence::{Sequence, SequenceStep};
pub use shell::{Crash, CrashCommand, Script, Shell};
pub use span::Span;
pub use starter::Starter;
pub use step::{Insert, Load, MakeDirectory, Read, Step, Unload, Workload, Write};
pub use told::Told;
pub(crate) use told::asked;
pub use userland::{PackageName, UserlandName, WantedUserland};

pub(crate) use bound::means_the_same;
pub(crate) use budget::check as within_budget;
pub(crate) use events::WORKLOADS;
pub(crate) use file::is_name;
pub(crate) use hook::FLAGS;
pub(crate) use nearest::nearest;
pub(crate) use text::{FromText, excerpt, from_text};

use crate::kernel::VersionReq;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

/// One scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Where its file is: paths to a module's sources are from here.
    pub directory: PathBuf,
    /// The claim this scenario makes about a kernel, in one sentence.
    pub summary: String,
    /// What a kernel must have for the claim to make sense; without it the verdict is unsupported.
    pub requires: Requires,
    /// Whether it runs only where it is named.
    pub opt_in: bool,
    /// Whether no other machine may run meanwhile.
    pub alone: bool,
    /// How long the steps may take together, in the time of the reference machine.
    pub timeout: Duration,
    /// Where its machine comes from.
    pub fresh: Fresh,
    /// Kernel parameters of a machine that boots for it.
    pub cmdline: Cmdline,
    /// What the kernel reads behind its initramfs when it boots.
    pub bootconfig: Option<Bootconfig>,
    /// The whole userland its guest has; without one there are the agent and what is brought to it.
    pub userland: Option<WantedUserland>,
    /// What it is many scenarios of; [`load_all`] makes them.
    pub matrix: Option<Matrix>,
    /// What is armed before the first step.
    pub trace: TraceSetup,
    /// What happens, in order.
    pub steps: Vec<Written<Step>>,
    /// Splats that are meant to be.
    pub allow: Vec<Allowed>,
    /// What is meant to be left behind when all is over: probes, hooks, modules.
    pub leaves: Vec<Pattern>,
    /// Whether the guest's memory is kept after the last step.
    pub dump: bool,
    /// How its kernel is to die.
    pub dies: Option<Dies>,
    /// What the whole trace must look like afterwards.
    pub expect: Vec<Written<Expectation>>,
}

/// How long the steps may take where a scenario does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A part of a scenario together with how and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    /// As written, on one line.
    pub text: String,
    /// The line of the file it begins in, from 1.
    pub line: usize,
    /// What it means.
    pub value: T,
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// What a kernel must have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Requires {
    /// Versions, as in `">=6.1"` or `">=5.10, <7.2"`.
    pub kernel: Option<VersionReq>,
    /// Configuration symbols that are `y` or `m`.
    pub config: Vec<ConfigSymbol>,
}

impl Requires {
    /// Both together.
    fn and(&self, other: &Requires) -> Requires {
        let kernel = match (&self.kernel, &other.kernel) {
            (Some(one), Some(two)) => Some(one.and(two)),
            (one, two) => one.as_ref().or(two.as_ref()).cloned(),
        };
        Requires { kernel, config: [self.config.as_slice(), &other.config].concat() }
    }
}

/// A scenario as YAML has it: what a kernel should do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ftrace-lab scenario")]
struct Document {
    /// The claim this scenario makes about a kernel, in one sentence.
    summary: Line,
    /// What a kernel must have for the claim to make sense; without it the verdict is unsupported.
    #[serde(default)]
    requires: Requires,
    /// It takes minutes, and is left out of a run of all scenarios: naming it, its directory, or a
    /// `--filter` runs it.
    #[serde(default)]
    opt_in: bool,
    /// No other machine of the run runs meanwhile. For guests whose CPUs wait for each other all the
    /// time (`stop_machine`), which takes ten times as long where the host has something else to do.
    #[serde(default)]
    alone: bool,
    /// How long the steps may take together, in the time of the reference machine. Default 30s.
    #[serde(default)]
    timeout: Option<Span>,
    /// `boot` asks for a machine that boots for this scenario alone instead of one that is restored
    /// as it was after boot.
    #[serde(default)]
    fresh: Option<Fresh>,
    /// Kernel parameters, as a list or in one string; the machine boots for this scenario alone.
    /// What they trace from boot on stays in the trace.
    #[serde(default)]
    cmdline: Cmdline,
    /// A bootconfig, such as one for boot-time tracing; the machine boots for this scenario alone.
    /// What it traces from boot on stays in the trace. Whatever the kernel refuses of it fails the
    /// scenario.
    #[serde(default)]
    bootconfig: Option<Bootconfig>,
    /// A whole Debian userland in the guest: `debian`, or with more packages `{ debian: [bpftrace] }`.
    /// The machine boots for this scenario alone, which takes seconds.
    #[serde(default)]
    userland: Option<WantedUserland>,
    /// Makes this file many scenarios.
    #[serde(default)]
    matrix: Option<Matrix>,
    /// What is armed before the first step.
    #[serde(default)]
    trace: TraceSetup,
    /// What happens, in order. The first key of each step says its kind.
    #[serde(default)]
    steps: Vec<Step>,
    /// Splats that are meant to be: fingerprints, or regular expressions for their titles. Any other
    /// splat ends a scenario badly.
    #[serde(default)]
    allow: Vec<Allowed>,
    /// What is meant to be left behind when all is over, as regular expressions for the lines in
    /// which a result names it: `probe p:kprobes/x vfs_write`, `hook vfs_write`, `module deaths`.
    #[serde(default)]
    leaves: Vec<Pattern>,
    /// Keeps the guest's memory as it is after the last step, as `vmcore` beside the trace, for
    /// `cargo xtask lab crash`. A kernel that panics leaves it in any case.
    #[serde(default)]
    dump: bool,
    /// The kernel must panic in the last step, in this way.
    #[serde(default)]
    dies: Option<Dies>,
    /// What the whole trace must look like afterwards. Each item has one key, its kind.
    #[serde(default)]
    expect: Vec<Expectation>,
}

impl Scenario {
    /// Whether its machine's boot is given something that may trace it.
    pub fn traces_boot(&self) -> bool {
        !self.cmdline.0.is_empty() || self.bootconfig.is_some()
    }

    /// Reads and parses a scenario file.
    ///
    /// # Errors
    /// A file that cannot be read, is larger than 1 MiB, or is no well-formed scenario.
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        Scenario::parse(path, &file::read(path)?)
    }

    /// Parses `source` as the file at `path`, which need not be there.
    ///
    /// # Errors
    /// What is no well-formed scenario, with its line and column.
    pub fn parse(path: &Path, source: &str) -> Result<Scenario, ScenarioError> {
        let yaml_error = |error| ScenarioError::from_yaml(path, source, &error);
        budget::check(source).map_err(yaml_error)?;
        let document: Document = serde_yaml::from_str(source).map_err(yaml_error)?;
        if let Err(problem) = semantic::check(&document) {
            return Err(problem.locate(path, source));
        }
        Ok(Scenario {
            directory: path.parent().map(Path::to_owned).unwrap_or_default(),
            summary: document.summary.to_string(),
            requires: document.requires,
            opt_in: document.opt_in,
            alone: document.alone,
            timeout: document.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
            fresh: match document.fresh {
                None if !document.cmdline.0.is_empty()
                    || document.bootconfig.is_some()
                    || document.userland.is_some() =>
                {
                    Fresh::Boot
                }
                fresh => fresh.unwrap_or_default(),
            },
            cmdline: document.cmdline,
            bootconfig: document.bootconfig,
            userland: document.userland,
            matrix: document.matrix,
            trace: document.trace,
            steps: locate::written(source, "steps", document.steps),
            allow: document.allow,
            leaves: document.leaves,
            dump: document.dump,
            dies: document.dies,
            expect: locate::written(source, "expect", document.expect),
        })
    }

    /// Whether its machine is restored as it was after boot, not booted for it.
    pub fn is_restored(&self) -> bool {
        self.fresh == Fresh::Snapshot && self.userland.is_none()
    }

    /// Whether it has to do with the module that hooks functions.
    pub fn hooks(&self) -> bool {
        let hooks = |step: &Written<Step>| matches!(step.value, Step::Hook(_) | Step::Hits(_));
        self.steps.iter().any(hooks) || self.trace.events.iter().any(|event| event.group() == HOOK_MODULE)
    }

    /// Whether crash is to look at the guest while it runs.
    pub fn attaches_crash(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.value, Step::Crash(_)))
    }

    /// The collections of selftests that it runs some of.
    pub fn selftests(&self) -> BTreeSet<&str> {
        fn collection(step: &Written<Step>) -> Option<&str> {
            match &step.value {
                Step::Kselftest(step) => Some(step.kselftest.collection()),
                _ => None,
            }
        }
        self.steps.iter().filter_map(collection).collect()
    }

    /// Whether it looks at instructions of the kernel.
    pub fn reads_text(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.value, Step::Text(_)))
    }

    /// Whether the lab reads in its guest's memory.
    pub fn reads_memory(&self) -> bool {
        let inspects = |step: &Written<Step>| matches!(step.value, Step::Inspect(_));
        self.steps.iter().any(inspects) || self.dies.as_ref().is_some_and(|dies| !dies.backtrace.is_empty())
    }

    /// The programs that have to be built for its userland, each with its libraries.
    pub fn programs(&self) -> impl Iterator<Item = (&ProgramName, &Vec<ProgramName>)> {
        self.steps.iter().flat_map(|step| match &step.value {
            Step::Shell(step) => step.programs.iter().collect(),
            _ => Vec::new(),
        })
    }

    /// The modules that have to be built for it.
    pub fn modules(&self) -> BTreeSet<Wanted> {
        let hook_module = self.hooks().then(|| Wanted::Named(HOOK_MODULE.to_owned()));
        hook_module.into_iter().chain(self.steps.iter().filter_map(|step| step.module())).collect()
    }
}

/// The JSON Schema of scenario files, as `scenarios/schema.json` holds it.
pub fn schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Document>();
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
