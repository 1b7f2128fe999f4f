//! GitHub Actions: the matrices of a workflow, as JSON.

use super::{Build, Job, Plan};
use anyhow::Result;
use serde_json::{Value, json};

/// Returns the matrix of jobs.
pub(super) fn text(plan: &Plan) -> Result<String> {
    Ok(format!("{}\n", jobs(plan)))
}

/// Returns the outputs of the step that plans: the matrices of jobs, of builds and of those builds whose coverage is
/// measured, and the arguments of `lab merge`.
pub fn outputs(plan: &Plan) -> String {
    let builds = matrix(plan.builds.iter().map(build));
    let measured = plan.builds.iter().filter(|kept| plan.measured.contains(&kept.kernel));
    let measured = matrix(measured.map(build));
    format!("jobs={}\nbuilds={builds}\nmeasured={measured}\nmerge={}\n", jobs(plan), plan.merge_arguments())
}

fn matrix(entries: impl Iterator<Item = Value>) -> Value {
    json!({ "include": entries.collect::<Vec<_>>() })
}

fn jobs(plan: &Plan) -> Value {
    matrix(plan.jobs.iter().map(|job| entry(plan, job)))
}

fn entry(plan: &Plan, job: &Job) -> Value {
    let build = plan.builds.iter().find(|kept| kept.kernel == job.kernel).map(build);
    let mut entry = build.unwrap_or_else(|| json!({}));
    entry["shard"] = json!(job.shard);
    entry["name"] = json!(job.name);
    entry["arguments"] = json!(plan.arguments(job));
    entry
}

/// Returns the key under which a build is cached between jobs, its paths, and the arguments of `lab explore`.
fn build(build: &Build) -> Value {
    let paths: Vec<_> = build.paths.iter().map(|path| path.to_string_lossy()).collect();
    let guided = if build.has_lines { " --guided" } else { "" };
    let explore = format!("--kernel {}{guided}", build.kernel);
    json!({ "kernel": build.kernel, "key": build.key, "paths": paths.join("\n"), "explore": explore })
}
