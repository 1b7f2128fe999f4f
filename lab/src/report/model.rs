//! What a run found, as it is stored in `results.json` and shown in every other form.

use crate::{
    kernel::Kernel,
    selftest::Case,
    verdict::{Outcome, Splat, Status},
};
use serde::{Deserialize, Serialize};

/// The version of `results.json`. Raised when a reader of the old form would misread the new one.
pub const SCHEMA: u32 = 1;

/// One run: `results.json`. `S` is one result, or what stands for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results<S = ScenarioResult> {
    /// [`SCHEMA`] of the lab that wrote it.
    pub schema: u32,
    /// The run as a whole.
    pub run: Run,
    /// The machine it ran on.
    pub host: Host,
    /// The QEMU it ran under.
    pub qemu: Qemu,
    /// The kernels under test.
    pub kernels: Vec<KernelInfo>,
    /// One entry for each scenario and kernel, in the order in which they were listed. With repeats,
    /// one for each run of each: first all first runs, then all second ones, and so on.
    pub scenarios: Vec<S>,
}

/// The run as a whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// When it started: RFC 3339, UTC.
    pub started: String,
    /// How long it took so far, in seconds.
    pub seconds: f64,
    /// When its first machine was started, in microseconds since 1970; 0 if none was.
    pub first_machine_micros: u64,
    /// How many of its machines were restored ahead of their turns; told when it is over.
    #[serde(default)]
    pub restored_ahead: usize,
    /// False while it runs, and in what a killed run left behind.
    pub complete: bool,
    /// The seed of the order in which scenarios were started; absent if they were not shuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// Which part of a larger run it is, as in `2/5 of 4f2a91c0`; absent if it is the whole. The parts
    /// make up a whole if what stands behind `of`, the name of the split, is the same in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// How many cases, scenarios on kernels, the larger run has of which it is a part; absent if it is
    /// the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<usize>,
}

/// The machine a run ran on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// As Rust names it: `x86_64`.
    pub architecture: String,
    /// CPUs the lab could use.
    pub cpus: usize,
    /// `tcg` or `kvm`.
    pub accelerator: String,
}

/// The QEMU of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Qemu {
    /// As it prints it itself.
    pub version: String,
}

/// A kernel under test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Its file below `kernels/`.
    pub name: String,
    /// Of the source it was built from.
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

/// What one scenario came to on one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Its path below `scenarios/`, without `.yaml`.
    pub name: String,
    /// The kernel's name.
    pub kernel: String,
    /// Which of the repeats of this scenario on this kernel it is, from 1; absent if there was only
    /// one run of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// What it claims; empty where a lab did not store it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The verdict.
    pub status: Status,
    /// What happened, in a sentence; empty when it passed.
    pub reason: String,
    /// From power-on to verdict.
    pub seconds: f64,
    /// Where its files are, relative to `results.json`: `KERNEL/NAME`, with `@REPEAT` behind it where
    /// there are repeats. Empty if it left none: a lab error, or a pass that `--until-fail` went past.
    pub directory: String,
    /// The memory of a guest that panicked, as a file in that directory; absent if it did not panic,
    /// or, with a note that says why, if there is no dump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmcore: Option<String>,
    /// All that is needed to see a failure again, as a file in that directory; absent if it is no
    /// failure, or, with a note that says why, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproducer: Option<String>,
    /// What its steps came to.
    pub steps: Vec<StepResult>,
    /// What its expectations came to.
    pub expectations: Vec<Outcome>,
    /// What the kernel complained of, those that are allowed too.
    #[serde(default)]
    pub splats: Vec<Splat>,
    /// Where tasks were when a deadline passed.
    #[serde(default)]
    pub stacks: Vec<Splat>,
    /// Probes, hooks, modules and the like that the steps left behind.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// What the lab could not find out, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What one step came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepResult {
    /// The step as written.
    pub text: String,
    /// Whether all that it checks held.
    pub passed: bool,
    /// What was found where it did not, and with some kinds of step also where it did.
    pub detail: String,
    /// The files that hold its output, relative to the scenario's directory.
    pub output: Vec<String>,
    /// Its tests, where it is one of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
    /// How long it took, in seconds of the host's.
    #[serde(default)]
    pub seconds: f64,
}

impl ScenarioResult {
    /// That of a scenario of which nothing but its verdict is known.
    pub(crate) fn bare(name: &str, kernel: &str, status: Status) -> ScenarioResult {
        ScenarioResult {
            name: name.to_owned(),
            kernel: kernel.to_owned(),
            repeat: None,
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

    /// Its name, told apart from its repeats: `probes/remove@3`. No scenario's name has an `@`.
    pub fn label(&self) -> String {
        self.repeat.map_or_else(|| self.name.clone(), |repeat| format!("{}@{repeat}", self.name))
    }
}

impl Results {
    /// How many scenarios have this status.
    pub fn count(&self, status: Status) -> usize {
        self.scenarios.iter().filter(|scenario| scenario.status == status).count()
    }
}
