//! Kernels × scenarios → the jobs of a fleet, and the files of the engines that run them.
//!
//! An engine only starts `lab run --shard` for each job, on a machine of its own, and keeps what the jobs leave
//! for `lab merge`. Its file is generated from a [`Plan`], and holds no other logic.

mod engine;
mod github;
mod gitlab;
mod kubernetes;
mod slurm;
mod split;

pub use engine::{ENGINES, Engine};
pub use github::outputs as github_outputs;
pub use split::{Job, Split, jobs};

use crate::{results::PartOptions, words::shell_words};
use std::path::PathBuf;

/// The jobs of a fleet and what they share.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The jobs, those of each kernel in a row.
    pub jobs: Vec<Job>,
    /// The builds of the kernels; empty for engines that do not keep them.
    pub builds: Vec<Build>,
    /// The kernels whose coverage is measured.
    pub measured: Vec<String>,
    /// The last report, to compare with.
    pub last: Option<String>,
    /// What the jobs select, and the names of all kernels.
    pub options: PartOptions,
    /// The image of containers in which the jobs run.
    pub image: Option<String>,
    /// The registry of kernels, as in FTRACE_LAB_REGISTRY.
    pub registry: Option<String>,
    /// The CPUs of each machine for which the split was made.
    pub cpus: usize,
}

/// What is kept of a kernel's build from one job to the next.
#[derive(Clone, Debug)]
pub struct Build {
    /// The kernel's name.
    pub kernel: String,
    /// The name under which it is kept, which changes with all inputs of the build.
    pub key: String,
    /// What is kept.
    pub paths: Vec<PathBuf>,
    /// Whether its lines are known: it is not a distribution kernel.
    pub has_lines: bool,
}

impl Plan {
    /// Returns the arguments of `lab run` for a job.
    pub fn arguments(&self, job: &Job) -> String {
        let (kernels, coverage) = (vec![job.kernel.clone()], self.measured.contains(&job.kernel));
        PartOptions { kernels, coverage, ..self.options.clone() }.arguments(&job.shard)
    }

    /// Returns the arguments of `lab merge`, without those that say where parts and report are.
    pub fn merge_arguments(&self) -> String {
        let kernels = self.options.kernels.iter().flat_map(|kernel| ["--kernel", kernel]);
        let last = self.last.iter().flat_map(|last| ["--last", last]);
        shell_words(kernels.chain(last))
    }
}

/// Returns the branches of a shell's `case` that sets the arguments of `lab run` for each number of a job.
fn cases(plan: &Plan) -> String {
    let case = |(number, job): (usize, &Job)| {
        format!("{number}) set -- {} {} ;; # {} s\n", results_of(job), plan.arguments(job), job.seconds)
    };
    let cases: String = plan.jobs.iter().enumerate().map(case).collect();
    cases + "*) echo 'this is no part of the fleet' >&2; exit 1 ;;\n"
}

/// Returns the arguments of `lab run` that say where a job leaves its results.
fn results_of(job: &Job) -> String {
    shell_words(["--results", &format!("parts/{}", job.name)])
}
