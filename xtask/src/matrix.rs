//! `cargo xtask lab matrix`

use crate::{
    Usage, complete, exit,
    merge::is_report,
    place::{default_kernels, project},
    root,
    run::wanted,
    setup::Setup,
};
use anyhow::{Context, Result};
use clap::Args;
use fs_err::File;
use lab::{
    cache::Cache,
    host::prerequisites::Need,
    kernel::{self, Identity, prune},
    results::Times,
    run::{
        default_jobs,
        fleet::{self, Job, Split, shell_words},
    },
    words::called,
};
use regex::Regex;
use serde_json::{Value, json};
use std::{io::Write, path::PathBuf, time::Duration};

/// The maximum number of jobs in a GitHub matrix.
const GITHUB_JOBS_MAX: usize = 256;

/// Plan a fleet: split each kernel's scenarios into parts, one per host
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab matrix --times results/latest                a table, by the times of the last run\n  \
    cargo xtask lab matrix --kernel '>=6.1' --target-seconds 120 fewer kernels, shorter parts\n  \
    cargo xtask lab matrix --github --last report                for a workflow, with the last report")]
pub(crate) struct Matrix {
    /// Scenario files or directories [default: all of scenarios/]
    paths: Vec<PathBuf>,
    /// A kernel of kernels/*.yaml, `all`, or a version range of plain kernels such as '>=6.1'
    /// (repeatable) [default: those of ftrace-lab.yaml, or all]
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// Plan only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Results of an earlier run, for the durations of scenarios; also passed to `lab run --shard`
    #[arg(long, value_name = "RESULTS")]
    times: Option<PathBuf>,
    /// The last report, for --times and `lab merge`; it need not exist yet
    #[arg(long, value_name = "RESULT", conflicts_with = "times")]
    last: Option<PathBuf>,
    /// Seconds that the scenarios of one job should take
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    target_seconds: u64,
    /// Number of jobs per kernel, however long they take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    shards: Option<u16>,
    /// Print the jobs as JSON for `fromJSON`, and write `jobs`, `builds` and `merge` to $GITHUB_OUTPUT
    #[arg(long)]
    github: bool,
    #[command(flatten)]
    setup: Setup,
}

impl Matrix {
    pub(crate) fn run(self) -> Result<u8> {
        let all = ["all".to_owned()];
        let kernels = match (self.kernels.as_slice(), project()) {
            ([], None) => kernel::choose(root(), &all)?,
            ([], Some(_)) => default_kernels()?,
            (named, _) => kernel::choose(root(), named)?,
        };
        let (scenarios, _) = wanted(&self.paths, self.filter.as_ref(), false)?;
        let names: Vec<&str> = scenarios.iter().map(|(found, _)| found.name.as_str()).collect();
        let last = self.last.clone().filter(|last| is_report(last));
        let times: Vec<PathBuf> = last.iter().chain(&self.times).cloned().collect();
        let split = Split {
            shards: self.shards.map(usize::from),
            target: Duration::from_secs(self.target_seconds),
            guests: default_jobs(),
        };
        let known = Times::of_results(&times)?;
        let jobs: Vec<_> =
            kernels.iter().flat_map(|kernel| fleet::jobs(kernel, &names, &known, split)).collect();
        if self.github && jobs.len() > GITHUB_JOBS_MAX {
            let count = jobs.len();
            return Err(Usage(format!(
                "{count} jobs, but GitHub allows at most {GITHUB_JOBS_MAX}: raise --target-seconds"
            ))
            .into());
        }
        let lab = self.setup.ensure(Need::Run)?;
        let identities = kernels.iter().map(|name| kernel::identify(&lab, name));
        let plan = Plan {
            identities: identities.collect::<Result<_>>()?,
            times,
            last,
            cache: lab.cache.clone(),
            jobs,
            filter: self.filter.as_ref().map(Regex::as_str),
            paths: &self.paths,
        };
        match self.github {
            true => plan.for_github()?,
            false => plan.for_people(),
        }
        Ok(exit::SUCCESS)
    }
}

/// Appends lines to the file $GITHUB_OUTPUT, if a workflow runs this.
pub(crate) fn github_outputs(lines: &str) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_OUTPUT").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = File::options().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(lines.as_bytes())).context("cannot write the outputs")
}

/// The jobs and what they need.
struct Plan<'a> {
    cache: Cache,
    identities: Vec<Identity>,
    jobs: Vec<Job>,
    times: Vec<PathBuf>,
    last: Option<PathBuf>,
    filter: Option<&'a str>,
    paths: &'a [PathBuf],
}

impl Plan<'_> {
    fn for_people(&self) {
        for job in &self.jobs {
            println!("{:>5} s  {} {}", job.seconds, called("cargo xtask lab run"), self.arguments(job));
        }
        for identity in &self.identities {
            println!("\n{}, with the cache key {}:", identity.name, identity.key);
            prune::paths(&self.cache, identity).iter().for_each(|path| println!("  {}", path.display()));
        }
    }

    fn for_github(&self) -> Result<()> {
        let jobs = json!({ "include": self.jobs.iter().map(|job| self.entry(job)).collect::<Vec<_>>() });
        println!("{jobs}");
        let builds =
            json!({ "include": self.identities.iter().map(|kernel| self.build(kernel)).collect::<Vec<_>>() });
        let kernels = self.identities.iter().flat_map(|identity| ["--kernel", &identity.name]);
        let last = self.last.iter().flat_map(|last| ["--last", last.to_str().unwrap_or_default()]);
        let merge = shell_words(kernels.chain(last));
        github_outputs(&format!("jobs={jobs}\nbuilds={builds}\nmerge={merge}\n"))
    }

    /// Returns the arguments of `lab run` for a job.
    fn arguments(&self, job: &Job) -> String {
        let mut words = vec!["--kernel", &job.kernel, "--shard", &job.shard];
        self.times.iter().for_each(|times| words.extend(["--times", times.to_str().unwrap_or_default()]));
        self.filter.iter().for_each(|filter| words.extend(["--filter", filter]));
        words.extend(self.paths.iter().map(|path| path.to_str().unwrap_or_default()));
        shell_words(words)
    }

    fn entry(&self, job: &Job) -> Value {
        let build =
            self.identities.iter().find(|kernel| kernel.name == job.kernel).map(|kernel| self.build(kernel));
        let mut entry = build.unwrap_or_else(|| json!({}));
        entry["shard"] = json!(job.shard);
        entry["name"] = json!(job.name);
        entry["arguments"] = json!(self.arguments(job));
        entry
    }

    /// Returns the key under which a build is cached between jobs, and its paths.
    fn build(&self, kernel: &Identity) -> Value {
        let paths = prune::paths(&self.cache, kernel);
        let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        json!({ "kernel": kernel.name, "key": kernel.key, "paths": paths.join("\n") })
    }
}
