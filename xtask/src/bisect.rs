//! `cargo xtask lab bisect`

use crate::{Usage, complete, exit, results, root, run::selected, setup::Setup};
use anyhow::{Context, Result};
use clap::Args;
use lab::{
    bisect::{
        Bisection, Builder, Candidate, Commits, Conclusion, Log, ReproTrial, Row, ScenarioTrial, Sureness,
        Trial, are_named, content_of,
        odds::{Confidence, Rate},
        try_on,
    },
    cache::Cache,
    host::prerequisites::Need,
    kernel::{self, KernelSpec, SourceSpec, choose},
    progress::Progress,
    report::RunDirectory,
    repro::Reproducer,
    run::default_jobs,
    scenario::{Found, Scenario},
};
use regex::Regex;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Find the first kernel, package version or commit on which a scenario fails
///
/// FILE is a scenario, which a good kernel passes, or a repro.yaml, whose failure is seen again on a bad one.
///
/// GOOD and BAD are two kernels of kernels/*.yaml, or two versions of the Debian source package that
/// --kernel is built from, or with --kernel-tree two commits of that git repository. That BAD fails and GOOD
/// does not is checked first. Where GOOD is the newer one, the first that passes again is found.
///
/// BAD is run until it is known how often it fails there, and in which way. From that follows how many
/// passes in a row another kernel needs to be called good: a bad one would have passed as often with a
/// probability of at most 1 - CONFIDENCE. One failure of the same kind makes a kernel bad; one that cannot
/// be built or booted, is unsupported or fails in another way is skipped.
///
/// Commits are searched by `git bisect run`, in a repository in the cache that borrows the objects of
/// yours: your checkout, branches and bisections are not touched, and changes that are not committed are not
/// seen. A bisection that was cut off goes on where it stopped when the same command is given again.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab bisect bug.yaml --good 6.1 --bad 7.2                                       kernels of the matrix\n  \
    cargo xtask lab bisect bug.yaml --good 6.12.94-1 --bad 6.12.107-1                          versions of a package\n  \
    cargo xtask lab bisect bug.yaml --kernel 7.2 --good 7.2.12-1~bpo13+1 --bad 7.2.6-1~bpo13+1   the one that mended it\n  \
    cargo xtask lab bisect bug.yaml --kernel-tree ~/linux --good v6.12 --bad HEAD              commits\n  \
    cargo xtask lab bisect repro.yaml --good 6.1 --bad 7.2                                     a failure from its file\n  \
    cargo xtask lab bisect bug.yaml --good 6.1 --bad 7.2 --failure-rate 1                      once on each: it never flakes\n\n\
    Results go to results/<time>-bisect/, a directory for each kernel, with all verdicts in bisect.json.\n\n\
    Exit codes: 0 found, 1 among several, since some were skipped, 2 usage, or GOOD or BAD is not what it\n\
    is said to be, 3 the lab itself could not do its work.")]
pub(crate) struct Bisect {
    /// A scenario file, or a repro.yaml
    file: PathBuf,
    /// Where it passes
    #[arg(long, value_name = "GOOD")]
    good: String,
    /// Where it fails
    #[arg(long, value_name = "BAD")]
    bad: String,
    /// The kernel of kernels/*.yaml by whose description versions and commits are built [default: 6.12]; of
    /// kernels of the matrix, those to look at beside GOOD and BAD, several times [default: the plain ones]
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// A git repository with a kernel, whose commits are looked at
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Another Debian suite with versions of the package; may be given several times
    #[arg(long = "suite", value_name = "SUITE", conflicts_with = "kernel_tree")]
    suites: Vec<String>,
    /// Which scenario of a file with a matrix: a regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// How sure it has to be that a kernel is good
    #[arg(long, value_name = "P", default_value = "0.99")]
    confidence: Confidence,
    /// How often it fails on a bad kernel, instead of measuring it: 0.1 is every tenth time
    #[arg(long, value_name = "P")]
    failure_rate: Option<Rate>,
    /// The most runs on one kernel
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Any failure makes a kernel bad, not only one of those that BAD has
    #[arg(long)]
    any_failure: bool,
    /// Forget what a bisection that was cut off had found
    #[arg(long)]
    anew: bool,
    /// Where results go [default: results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    #[command(flatten)]
    setup: Setup,
}

/// What is run on each kernel.
enum What {
    Scenario(Box<(Found, Scenario)>),
    Failure(Box<Reproducer>),
}

/// What is searched.
enum Over {
    Row(Row),
    Commits(Commits),
}

/// What a search works with.
struct Means<'a> {
    cache: &'a Cache,
    progress: &'a Progress,
    over: &'a Over,
    /// By whose description a kernel is built that has none of its own.
    kernel: &'a str,
    /// Where results go.
    directory: &'a Path,
}

impl Bisect {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let what = self.what()?;
        let known = choose(root(), &["all".to_owned()])?;
        let chosen = choose(root(), &self.kernels)?;
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let (kernel, over) = self.over(&cache, &known, &chosen, &progress)?;
        let results = self.results.clone().unwrap_or_else(results);
        let directory = RunDirectory::create(&results, &["bisect".to_owned()])?;
        let mut trial = trial(&cache, what, directory.path(), &progress)?;
        let means = Means {
            cache: &cache,
            progress: &progress,
            over: &over,
            kernel: &kernel,
            directory: directory.path(),
        };
        let log = self.log(&means, &*trial)?;
        if log.count() > 0 {
            let count = log.count();
            progress
                .line(format!("going on with {count} verdicts of an earlier bisection; --anew forgets them"));
        }
        let conclusion = self.search(&means, &mut *trial, log);
        let conclusion = conclusion.inspect_err(|_| remove_empty(directory.path()))?;
        println!("{conclusion}");
        if let (Over::Commits(commits), [Candidate::Commit(commit)]) = (&over, &conclusion.first[..]) {
            println!("\n{}", commits.describe(commit)?.trim_end());
        }
        let path = directory.path().join("bisect.json");
        fs::write(&path, serde_json::to_string_pretty(&conclusion)? + "\n")
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        println!("results: {}", directory.path().display());
        Ok(if conclusion.is_exact() { exit::SUCCESS } else { exit::FAILED })
    }

    fn search(&self, means: &Means<'_>, trial: &mut dyn Trial, log: Log) -> Result<Conclusion> {
        let Means { cache, progress, over, kernel, directory } = *means;
        let sureness = self.sureness();
        let tree = match over {
            Over::Row(_) => None,
            Over::Commits(commits) => Some((kernel, commits.tree())),
        };
        let builder = Builder { cache, root: root(), tree, progress };
        let mut bisection = Bisection {
            sureness,
            log,
            try_one: Box::new(|candidate, known| {
                // The ends; what lies between git has checked out itself.
                if let (Over::Commits(commits), Candidate::Commit(commit)) = (over, candidate) {
                    commits.check_out(commit)?;
                }
                try_on(&builder, candidate, &mut *trial, &sureness, known)
            }),
            tell: Box::new(|line| progress.line(line)),
            judged: Vec::new(),
        };
        let conclusion = match over {
            Over::Row(row) => bisection.over_row(row)?,
            Over::Commits(commits) => {
                let ends = (&commits.resolve(&self.good)?, &commits.resolve(&self.bad)?);
                let files = (&*directory.join("git-bisect-run.log"), &*directory.join("git-bisect.log"));
                bisection.over_commits(commits, ends, files)?
            }
        };
        bisection.log.finish()?;
        Ok(conclusion)
    }

    fn sureness(&self) -> Sureness {
        Sureness {
            confidence: self.confidence,
            assumed: self.failure_rate,
            runs_max: self.runs,
            any_failure: self.any_failure,
        }
    }

    fn what(&self) -> Result<What> {
        if Reproducer::is_meant(&self.file) {
            return Ok(What::Failure(Box::new(Reproducer::read(&self.file)?)));
        }
        let mut scenarios = selected(std::slice::from_ref(&self.file), self.filter.as_ref())?;
        match scenarios.len() {
            1 => Ok(What::Scenario(Box::new(scenarios.remove(0)))),
            count => {
                let names: Vec<_> =
                    scenarios.iter().take(5).map(|(found, _)| format!("`{}`", found.name)).collect();
                let message = format!(
                    "`{}` has {count} scenarios, and one is bisected: name it by --filter; {}{}",
                    self.file.display(),
                    names.join(", "),
                    if count > names.len() { ", …" } else { "" }
                );
                Err(Usage(message).into())
            }
        }
    }

    /// What is searched, and the kernel by whose description what has none of its own is built.
    fn over(
        &self,
        cache: &Cache,
        known: &[String],
        chosen: &[String],
        progress: &Progress,
    ) -> Result<(String, Over)> {
        let (good, bad) = (&*self.good, &*self.bad);
        if self.kernel_tree.is_none() && are_named(known, good, bad) {
            return Ok((String::new(), Over::Row(Row::of_matrix(known, chosen, good, bad)?)));
        }
        let kernel = match chosen {
            [] => kernel::DEFAULT.to_owned(),
            [one] => one.clone(),
            _ => return Err(Usage("versions and commits are built by one --kernel".into()).into()),
        };
        if let Some(tree) = &self.kernel_tree {
            let waiting = || progress.line("another lab is bisecting this repository; waiting");
            return Ok((kernel, Over::Commits(Commits::open(cache, tree, waiting)?)));
        }
        let builder = Builder { cache, root: root(), tree: None, progress };
        let row = Row::of_package(&builder, &kernel, &self.suites, good, bad)?;
        Ok((kernel, Over::Row(row)))
    }

    /// What an earlier bisection of the same left.
    fn log(&self, means: &Means<'_>, trial: &dyn Trial) -> Result<Log> {
        let what = match means.over {
            Over::Row(row) => row.candidates.iter().map(|one| identity(means, one)).collect(),
            Over::Commits(commits) => commits.tree().display().to_string(),
        };
        let ends = format!("{:?} {:?}", self.good, self.bad);
        let sureness = format!("{:?}", self.sureness());
        let inputs = [
            ("scenario", trial.digest().as_bytes().to_vec()),
            ("kernels", content_of(&root().join("kernels"))?),
            ("kernel", means.kernel.as_bytes().to_vec()),
            ("over", what.into_bytes()),
            ("ends", ends.into_bytes()),
            ("sureness", sureness.into_bytes()),
        ];
        Log::open(means.cache, &inputs, self.anew)
    }
}

fn trial(cache: &Cache, what: What, results: &Path, progress: &Progress) -> Result<Box<dyn Trial>> {
    let results = results.to_owned();
    Ok(match what {
        What::Scenario(scenario) => {
            Box::new(ScenarioTrial::new(cache, root(), *scenario, (results, default_jobs()), progress)?)
        }
        What::Failure(reproducer) => {
            Box::new(ReproTrial::new(cache, root(), *reproducer, results, progress)?)
        }
    })
}

/// What changes when a candidate does: a suite may have another version of a kernel tomorrow.
fn identity(means: &Means<'_>, candidate: &Candidate) -> String {
    let of_build = || {
        let Candidate::Named(name) = candidate else { return None };
        // Other sources would have to be fetched for this.
        let SourceSpec::Debian { .. } = KernelSpec::load(root(), name).ok()?.source else { return None };
        Some(kernel::identify(means.cache, root(), name, means.progress).ok()?.key)
    };
    format!("{candidate} {:?}\n", of_build())
}

/// A directory in which nothing was left is of no use to anybody.
fn remove_empty(directory: &Path) {
    let only_marker = fs::read_dir(directory)
        .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == ".running"));
    if only_marker {
        let _ = fs::remove_dir_all(directory);
    }
}
