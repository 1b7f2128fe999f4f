//! GitLab: a child pipeline, one job per part.

use super::{Build, Job, Plan};
use crate::{kernel::REGISTRY_VARIABLE, words::called, yaml};
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

/// The cache of the lab, which GitLab can keep only below the checkout.
const CACHE: &str = ".cache/ftrace-lab";

/// The directory of the report, whose results are kept for the next pipeline.
const REPORT: &str = "report";

/// The key of its cache.
const REPORT_KEY: &str = "ftrace-lab-report";

/// The job of the parent pipeline that plans.
const PLAN: &str = "plan";

pub(super) fn text(plan: &Plan) -> Result<String> {
    let mut times = plan.options.times.iter();
    ensure!(
        times.all(|path| path.trim_end_matches('/') == REPORT),
        "a pipeline has no earlier results but those in `{REPORT}`: plan with --last {REPORT}"
    );
    let matrix = called("cargo xtask lab matrix");
    let header = format!(
        "# A fleet as a child pipeline, by `{matrix} --engine gitlab`. In .gitlab-ci.yml:\n\
         #\n\
         #   {PLAN}:\n\
         #     script: [{matrix} --engine gitlab --last {REPORT} > fleet.yml]\n\
         #     cache: {{ key: {REPORT_KEY}, paths: [{REPORT}/results.json], policy: pull }}\n\
         #     artifacts: {{ paths: [fleet.yml, {REPORT}/results.json] }}\n\
         #   fleet:\n\
         #     needs: [{PLAN}]\n\
         #     variables: {{ PARENT_PIPELINE_ID: $CI_PIPELINE_ID }}\n\
         #     trigger: {{ include: [{{ artifact: fleet.yml, job: {PLAN} }}], strategy: depend }}\n"
    );
    Ok(header + &yaml::to_string(&pipeline(plan))?)
}

fn pipeline(plan: &Plan) -> Value {
    let mut jobs = Map::new();
    jobs.insert("stages".into(), json!(["build", "run", "merge"]));
    let mut variables = json!({ "FTRACE_LAB_CACHE": format!("$CI_PROJECT_DIR/{CACHE}") });
    if let Some(registry) = &plan.registry {
        variables[REGISTRY_VARIABLE] = json!(registry);
    }
    jobs.insert("variables".into(), variables);
    if let Some(image) = &plan.image {
        jobs.insert("default".into(), json!({ "image": image }));
    }
    jobs.extend(plan.builds.iter().map(|build| (build_name(&build.kernel), build_job(build))));
    jobs.extend(plan.jobs.iter().map(|job| (format!("run {}", job.name), run_job(plan, job))));
    jobs.insert("merge".into(), merge_job(plan));
    Value::Object(jobs)
}

fn build_name(kernel: &str) -> String {
    format!("build {kernel}")
}

fn build_job(build: &Build) -> Value {
    let command = |verb: &str| format!("{} {}", called(&format!("cargo xtask lab {verb}")), build.kernel);
    json!({
        "stage": "build",
        "script": [command("build"), command("cache --keep")],
        "cache": [kernel_cache(build, "pull-push")],
    })
}

fn run_job(plan: &Plan, job: &Job) -> Value {
    let build = plan.builds.iter().find(|build| build.kernel == job.kernel);
    let mut needs = vec![json!(build_name(&job.kernel))];
    if !plan.options.times.is_empty() {
        // All parts are split by the same times, also if they run again after the next report.
        needs.push(json!({ "pipeline": "$PARENT_PIPELINE_ID", "job": PLAN }));
    }
    let (results, arguments) = (super::results_of(job), plan.arguments(job));
    json!({
        "stage": "run",
        "needs": needs,
        "script": [format!("{} {results} {arguments}", called("cargo xtask lab run"))],
        // The report decides whether the pipeline failed: it has the results of all parts.
        "allow_failure": { "exit_codes": 1 },
        // A runner that was lost.
        "retry": { "max": 2, "when": ["runner_system_failure", "stuck_or_timeout_failure"] },
        "cache": build.map(|build| kernel_cache(build, "pull")).into_iter().collect::<Vec<_>>(),
        "artifacts": { "when": "always", "paths": [format!("parts/{}", job.name)] },
    })
}

fn merge_job(plan: &Plan) -> Value {
    let (merge, arguments) = (called("cargo xtask lab merge"), plan.merge_arguments());
    json!({
        "stage": "merge",
        // A lost part does not keep the others from being reported.
        "when": "always",
        "script": [format!("{merge} parts --into {REPORT} {arguments}")],
        "cache": [{ "key": REPORT_KEY, "paths": [format!("{REPORT}/results.json")], "when": "always" }],
        "artifacts": { "when": "always", "paths": [REPORT] },
    })
}

fn kernel_cache(build: &Build, policy: &str) -> Value {
    json!({ "key": build.key, "paths": [CACHE], "policy": policy })
}
