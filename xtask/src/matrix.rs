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
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use fs_err::{self as fs, File};
use lab::{
    fleet::{self, Build, ENGINES, Engine, Plan, Split},
    host::prerequisites::Need,
    kernel::{self, REGISTRY_VARIABLE, prune},
    results::{PartOptions, Times},
    run::default_jobs,
    words::called,
};
use regex::Regex;
use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Plan a fleet: split each kernel's scenarios into parts, one per host
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab matrix --times results/latest                a table, by the times of the last run\n  \
    cargo xtask lab matrix --kernel '>=6.1' --target-seconds 120 fewer kernels, shorter parts\n  \
    cargo xtask lab matrix --engine github --last report         for a workflow, with the last report\n  \
    cargo xtask lab matrix --engine slurm > fleet.sh             a job array of Slurm's\n  \
    cargo xtask lab matrix --engine kubernetes --image registry.example/ftrace-lab > fleet.yaml\n\n\
    docs/fleet.md describes each engine.")]
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
    /// Measure the coverage of this kernel (repeatable), for the history
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    coverage: Vec<String>,
    /// Print the file of an engine that runs the jobs, instead of a table
    #[arg(long, value_name = "ENGINE", value_parser = engine_parser())]
    engine: Option<&'static Engine>,
    /// The image of containers in which the jobs of `gitlab` and `kubernetes` run; Containerfile builds one
    #[arg(long, value_name = "IMAGE", requires = "engine")]
    image: Option<String>,
    /// The same as `--engine github`
    #[arg(long, hide = true, conflicts_with = "engine")]
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
        let last = last.map(|last| resolved(&last));
        let times: Vec<PathBuf> = last.iter().cloned().chain(self.times.as_deref().map(resolved)).collect();
        let split = Split {
            shards: self.shards.map(usize::from),
            target: Duration::from_secs(self.target_seconds),
            guests: default_jobs(),
        };
        let known = Times::of_results(&times)?;
        let jobs: Vec<_> =
            kernels.iter().flat_map(|kernel| fleet::jobs(kernel, &names, &known, split)).collect();
        let engine = if self.github { engine_of("github") } else { self.engine };
        let builds = match engine {
            Some(engine) if !engine.keeps_builds => Vec::new(),
            _ => self.builds(&kernels)?,
        };
        let plan = Plan {
            jobs,
            builds,
            measured: kernel::choose(root(), &self.coverage)?,
            last: last.as_deref().map(text),
            image: self.image.clone(),
            registry: env::var(REGISTRY_VARIABLE).ok().filter(|registry| !registry.is_empty()),
            options: PartOptions {
                kernels,
                times: times.iter().map(|path| text(path)).collect(),
                filter: self.filter.as_ref().map(|filter| filter.as_str().to_owned()),
                paths: self.paths.iter().map(|path| text(path)).collect(),
                ..PartOptions::default()
            },
            cpus: thread::available_parallelism().map_or(1, usize::from),
        };
        match engine {
            None => print_for_people(&plan),
            Some(engine) => {
                print!("{}", engine.file(&plan).map_err(|error| Usage(format!("{error:#}")))?);
                if engine.name == "github" {
                    github_outputs(&fleet::github_outputs(&plan))?;
                }
            }
        }
        Ok(exit::SUCCESS)
    }

    /// Returns what is kept of the builds of kernels; looks up the versions of their sources.
    fn builds(&self, kernels: &[String]) -> Result<Vec<Build>> {
        let lab = self.setup.ensure(Need::Run)?;
        let build = |name: &String| {
            let identity = kernel::identify(&lab, name)?;
            let paths = prune::paths(&lab.cache, &identity);
            let has_lines = identity.source.is_some();
            Ok(Build { kernel: identity.name, key: identity.key, paths, has_lines })
        };
        kernels.iter().map(build).collect()
    }
}

/// Returns where a link such as `results/latest` leads: a part that runs again, after the next report, must have the
/// same times.
fn resolved(path: &Path) -> PathBuf {
    match fs::read_link(path) {
        Ok(target) => path.parent().unwrap_or(Path::new("")).join(target),
        Err(_) => path.to_owned(),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn engine_of(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.name == name)
}

fn engine_parser() -> impl TypedValueParser<Value = &'static Engine> {
    let values = ENGINES.iter().map(|engine| PossibleValue::new(engine.name).help(engine.usage));
    PossibleValuesParser::new(values)
        .try_map(|name| engine_of(&name).ok_or_else(|| format!("unknown engine `{name}`")))
}

fn print_for_people(plan: &Plan) {
    for job in &plan.jobs {
        println!("{:>5} s  {} {}", job.seconds, called("cargo xtask lab run"), plan.arguments(job));
    }
    for build in &plan.builds {
        println!("\n{}, with the cache key {}:", build.kernel, build.key);
        build.paths.iter().for_each(|path| println!("  {}", path.display()));
    }
}

/// Appends lines to the file $GITHUB_OUTPUT, if a workflow runs this.
pub(crate) fn github_outputs(lines: &str) -> Result<()> {
    let Some(path) = env::var_os("GITHUB_OUTPUT").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = File::options().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(lines.as_bytes())).context("cannot write the outputs")
}
