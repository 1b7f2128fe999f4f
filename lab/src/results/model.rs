//! The results of a run, as stored in `results.json`. All other forms are made from them.

use crate::{
    kernel::Kernel,
    results::{Outcome, Status},
    selftest::Case,
    splat::Splat,
    words::shell_words,
};
use serde::{Deserialize, Serialize};

/// The version of `results.json`. Raised when a reader of the old format would misread the new one.
pub const SCHEMA: u32 = 1;

/// One run: `results.json`. `S` is one result, or a substitute for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results<S = ScenarioResult> {
    /// [`SCHEMA`] of the lab that wrote it.
    pub schema: u32,
    /// The run as a whole.
    pub run: Run,
    /// The computer it ran on.
    pub host: Host,
    /// The QEMU it ran under.
    pub qemu: Qemu,
    /// The kernels under test.
    pub kernels: Vec<KernelInfo>,
    /// One entry per scenario and kernel, in the order in which they were listed. With repeats, one per
    /// run: all first runs, then all second ones, and so on. A failure that was run again is followed by its
    /// further tries.
    pub scenarios: Vec<S>,
}

/// The run as a whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// When it started: RFC 3339, UTC.
    pub started: String,
    /// Its duration so far, in seconds.
    pub seconds: f64,
    /// When its first machine was started, in microseconds since 1970; 0 if none was started.
    pub first_machine_micros: u64,
    /// The number of machines that were restored ahead of their turns; set when the run ends.
    #[serde(default)]
    pub restored_ahead: usize,
    /// False while it runs, in the results of a killed run, and if `--fail-fast` left scenarios out.
    pub complete: bool,
    /// The seed of the order in which scenarios were started; absent if they were not shuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// The part of a larger run that it is, as in `2/5 of 4f2a91c0`; absent for a complete run. Parts belong
    /// together if the name of the split, after `of`, is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The number of cases (scenarios on kernels) of the larger run; absent for a complete run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<usize>,
    /// What the larger run selects; absent for a complete run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<PartOptions>,
}

/// The options of `lab run` by which a fleet is split: all parts of a kernel have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOptions {
    /// The names of the kernels.
    pub kernels: Vec<String>,
    /// The results whose times weigh the scenarios.
    #[serde(default)]
    pub times: Vec<String>,
    /// The regular expression that names of scenarios match, if not all do.
    #[serde(default)]
    pub filter: Option<String>,
    /// The scenario files, directories or names; empty for all.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Whether coverage is measured.
    #[serde(default)]
    pub coverage: bool,
    /// Whether scenarios soak on several machines.
    #[serde(default)]
    pub soak: bool,
}

impl PartOptions {
    /// Returns the arguments of `lab run` for a part.
    pub fn arguments(&self, shard: &str) -> String {
        let option = |name: &'static str| move |value| [name, value];
        let kernels = self.kernels.iter().map(String::as_str).flat_map(option("--kernel"));
        let times = self.times.iter().map(String::as_str).flat_map(option("--times"));
        let filter = self.filter.iter().map(String::as_str).flat_map(option("--filter"));
        let words = kernels.chain(["--shard", shard]).chain(times).chain(filter);
        let flags = [(self.coverage, "--coverage"), (self.soak, "--soak")];
        let flags = flags.into_iter().filter_map(|(given, flag)| given.then_some(flag));
        // They may come from another machine: what looks like an option is a path.
        let paths = (!self.paths.is_empty()).then_some("--");
        let paths = paths.into_iter().chain(self.paths.iter().map(String::as_str));
        shell_words(words.chain(flags).chain(paths))
    }
}

/// The computer that a run ran on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Rust's name of the architecture: `x86_64`.
    pub architecture: String,
    /// CPUs the lab could use.
    pub cpus: usize,
    /// `tcg` or `kvm`.
    pub accelerator: String,
}

/// The QEMU of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Qemu {
    /// The version that QEMU prints.
    pub version: String,
}

/// A kernel under test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Its file below `kernels/`.
    pub name: String,
    /// The version of the source it was built from.
    pub source_version: String,
    /// A digest of its final configuration.
    pub config_hash: String,
}

impl From<&Kernel> for KernelInfo {
    fn from(kernel: &Kernel) -> KernelInfo {
        KernelInfo {
            name: kernel.name.clone(),
            source_version: kernel.source_version.clone(),
            config_hash: kernel.config_hash.clone(),
        }
    }
}

/// The result of one scenario on one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Its path below `scenarios/`, without `.yaml`.
    pub name: String,
    /// The kernel's name.
    pub kernel: String,
    /// The number of this repeat of the scenario on the kernel, from 1; absent if there was only one run
    /// of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// The number of this try after a failure, from 1; absent for the first try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<u32>,
    /// The scenario's summary; empty in results of older labs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The verdict.
    pub status: Status,
    /// Why it did not pass, in a sentence; empty if it passed.
    pub reason: String,
    /// From power-on to verdict.
    pub seconds: f64,
    /// The directory of its files, relative to `results.json`: `KERNEL/` and its label.
    /// Empty if there are no files: a lab error, a scenario that did not run, or a pass that `--until-fail` discarded.
    pub directory: String,
    /// The file in that directory with the memory of a guest that panicked; absent if it did not panic,
    /// or if there is no dump, in which case a note says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmcore: Option<String>,
    /// The file in that directory with everything needed to reproduce a failure; absent if it is not a
    /// failure, or if there is no reproducer, in which case a note says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproducer: Option<String>,
    /// The results of its steps.
    pub steps: Vec<StepResult>,
    /// The results of its expectations.
    pub expectations: Vec<Outcome>,
    /// The kernel's splats, including the allowed ones.
    #[serde(default)]
    pub splats: Vec<Splat>,
    /// The backtraces of tasks when a deadline passed.
    #[serde(default)]
    pub stacks: Vec<Splat>,
    /// Probes, hooks, modules and the like that the steps left behind.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// What the lab could not determine, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The result of one step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepResult {
    /// The step as written.
    pub text: String,
    /// Whether all of its checks held.
    pub passed: bool,
    /// What was found instead if it failed; some kinds of steps also set it if they passed.
    pub detail: String,
    /// The files that hold its output, relative to the scenario's directory.
    pub output: Vec<String>,
    /// Its tests, if the step runs several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
    /// Its duration, in seconds of host time.
    #[serde(default)]
    pub seconds: f64,
}

impl ScenarioResult {
    /// Returns the result of a scenario of which only the verdict is known.
    pub(crate) fn bare(name: &str, kernel: &str, status: Status) -> ScenarioResult {
        ScenarioResult {
            name: name.to_owned(),
            kernel: kernel.to_owned(),
            repeat: None,
            retry: None,
            summary: String::new(),
            status,
            reason: String::new(),
            seconds: 0.0,
            directory: String::new(),
            vmcore: None,
            reproducer: None,
            steps: Vec::new(),
            expectations: Vec::new(),
            splats: Vec::new(),
            stacks: Vec::new(),
            left_behind: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the name with the number of the repeat or of the try: `probes/remove@3`, `probes/remove@retry1`.
    /// Scenario names contain no `@`.
    pub fn label(&self) -> String {
        label(&self.name, self.repeat, self.retry)
    }
}

/// Returns the label of a repeat or of a try of a scenario.
pub(crate) fn label(name: &str, repeat: Option<u32>, retry: Option<u32>) -> String {
    let repeat = repeat.map(|repeat| format!("@{repeat}")).unwrap_or_default();
    let retry = retry.map(|retry| format!("@retry{retry}")).unwrap_or_default();
    format!("{name}{repeat}{retry}")
}

impl Results {
    /// Returns the results without those of further tries after a failure.
    pub fn first_tries(&self) -> impl Iterator<Item = &ScenarioResult> {
        self.scenarios.iter().filter(|scenario| scenario.retry.is_none())
    }

    /// Counts the scenarios that ended so when they were first tried.
    pub fn count(&self, status: Status) -> usize {
        self.first_tries().filter(|scenario| scenario.status == status).count()
    }
}
