//! Slurm: a job array, one task per job, as a script for `sbatch`.

use super::Plan;
use crate::words::called;
use anyhow::{Result, ensure};
use std::fmt::Write as _;

pub(super) fn text(plan: &Plan) -> Result<String> {
    ensure!(!plan.jobs.is_empty(), "there is nothing to run");
    let (matrix, run) = (called("cargo xtask lab matrix"), called("cargo xtask lab run"));
    let (merge, arguments) = (called("cargo xtask lab merge"), plan.merge_arguments());
    let (last, cpus) = (plan.jobs.len() - 1, plan.cpus);
    let mut text = format!(
        "#!/bin/sh\n\
         # A fleet as a job array, by `{matrix} --engine slurm`. With FILE for this script, on a file system that\n\
         # all machines have:\n\
         #\n\
         #   sbatch --wait FILE              run all parts; each leaves its results below parts/\n\
         #   sbatch --wait --array=0 FILE    run part 0 again, such as one whose machine was lost\n\
         #   {merge} parts {arguments}\n\
         #\n\
         # Exit code 1 of a part means that scenarios failed: the report says which.\n\
         #SBATCH --job-name=ftrace-lab\n\
         #SBATCH --array=0-{last}\n\
         #SBATCH --nodes=1\n\
         #SBATCH --cpus-per-task={cpus}\n\
         #SBATCH --requeue\n\
         set -eu\n\
         case $SLURM_ARRAY_TASK_ID in\n"
    );
    text.push_str(&super::cases(plan));
    writeln!(text, "esac\nexec {run} \"$@\"")?;
    Ok(text)
}
