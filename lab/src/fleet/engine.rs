//! The engines that a plan can be written for, one row each.

use super::{Plan, github, gitlab, kubernetes, slurm};
use anyhow::{Result, ensure};

/// Something that runs the jobs of a fleet.
pub struct Engine {
    /// Its name on the command line.
    pub name: &'static str,
    /// How its file is used, for `--help`.
    pub usage: &'static str,
    /// The maximum number of jobs, if the engine itself has one.
    jobs_max: Option<usize>,
    /// Whether it keeps the builds of kernels from one job to the next.
    pub keeps_builds: bool,
    text: fn(&Plan) -> Result<String>,
}

/// All engines.
pub static ENGINES: [Engine; 4] = [
    Engine {
        name: "github",
        usage: "jobs as JSON for `fromJSON` of a workflow; appends `jobs`, `builds` and `merge` to $GITHUB_OUTPUT",
        // Of a matrix.
        jobs_max: Some(256),
        keeps_builds: true,
        text: github::text,
    },
    Engine {
        name: "gitlab",
        usage: "a child pipeline: save it as fleet.yml in a job, and trigger it as its first lines say",
        jobs_max: None,
        keeps_builds: true,
        text: gitlab::text,
    },
    Engine {
        name: "slurm",
        usage: "a job array as a script: save it as FILE on a file system that all machines have, run \
                `sbatch --wait FILE` there, then merge `parts`",
        jobs_max: None,
        keeps_builds: false,
        text: slurm::text,
    },
    Engine {
        name: "kubernetes",
        usage: "an indexed Job of the image --image, a Job that merges, and their volume: `kubectl apply -f FILE`",
        jobs_max: None,
        keeps_builds: false,
        text: kubernetes::text,
    },
];

impl Engine {
    /// Returns the file that makes the engine run a plan.
    pub fn file(&self, plan: &Plan) -> Result<String> {
        let count = plan.jobs.len();
        let max = self.jobs_max.unwrap_or(usize::MAX);
        ensure!(count <= max, "{count} jobs, but {} allows at most {max}: raise --target-seconds", self.name);
        let arguments = plan.jobs.iter().map(|job| plan.arguments(job)).chain([plan.merge_arguments()]);
        for arguments in arguments {
            // A new line would end a comment, or an output.
            ensure!(!arguments.contains(char::is_control), "there is a control character in {arguments:?}");
        }
        (self.text)(plan)
    }
}
