//! `cargo xtask lab bisect`

use crate::{Usage, complete, exit, results, root, run::selected, setup::Setup, trust::Trust};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::{
    Lab,
    bisect::{
        Bisection, Builder, Candidate, CandidateRange, Commits, Conclusion, Criteria, Log, ReproTrial,
        ScenarioTrial, Trial, are_named, content_of,
        odds::{Confidence, Rate},
        try_on,
    },
    host::prerequisites::Need,
    kernel::{self, KernelSpec, SourceSpec, choose},
    reproducer::Reproducer,
    results::RunDirectory,
    run::default_jobs,
    scenario::{Scenario, ScenarioFile},
    words::printable,
};
use regex::Regex;
use std::path::{Path, PathBuf};

/// Find the first kernel, package version or commit on which a scenario fails
///
/// FILE is a scenario that good kernels pass, or a repro.yaml whose failure bad kernels reproduce.
///
/// GOOD and BAD are two kernels of kernels/*.yaml, or two versions of the Debian source package that
/// --kernel is built from, or with --kernel-tree two commits of that git repository. The search first checks
/// that BAD fails and GOOD passes. If GOOD is newer, it finds the first kernel that passes again.
///
/// BAD is run until its failure rate and the kinds of its failures are known. The rate determines how many
/// consecutive passes make another kernel good: a bad one would pass that often with a probability of at
/// most 1 - CONFIDENCE. One failure of the same kind makes a kernel bad. A kernel that cannot be built or
/// booted, is unsupported, or fails differently is skipped.
///
/// Commits are searched by `git bisect run`, in a repository in the cache that borrows the objects of
/// yours: your checkout, branches and bisections are not touched, and uncommitted changes are not seen.
/// Repeat the same command to resume an interrupted bisection.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab bisect bug.yaml --good 6.1 --bad 7.2                                       kernels of the matrix\n  \
    cargo xtask lab bisect bug.yaml --good 6.12.94-1 --bad 6.12.107-1                          versions of a package\n  \
    cargo xtask lab bisect bug.yaml --kernel 7.2 --good 7.2.12-1~bpo13+1 --bad 7.2.6-1~bpo13+1   the one that fixed it\n  \
    cargo xtask lab bisect bug.yaml --kernel-tree ~/linux --good v6.12 --bad HEAD              commits\n  \
    cargo xtask lab bisect repro.yaml --good 6.1 --bad 7.2                                     a failure from its repro.yaml\n  \
    cargo xtask lab bisect bug.yaml --good 6.1 --bad 7.2 --failure-rate 1                      once on each: it always fails\n\n\
    Results go to results/<time>-bisect/, with a directory per kernel and all verdicts in bisect.json.\n\n\
    Exit codes: 0 found, 1 narrowed down to several, since some were skipped, 2 usage error, or GOOD is not\n\
    good or BAD is not bad, 3 the lab itself failed.")]
pub(crate) struct Bisect {
    /// A scenario file, or a repro.yaml
    file: PathBuf,
    /// The kernel, version or commit on which it passes
    #[arg(long, value_name = "GOOD")]
    good: String,
    /// The kernel, version or commit on which it fails
    #[arg(long, value_name = "BAD")]
    bad: String,
    /// Build versions and commits as described in kernels/NAME.yaml [default: 6.12]; with kernels of the
    /// matrix, the candidates between GOOD and BAD (repeatable) [default: the plain ones]
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// Search the commits of this git repository of a kernel
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Also search versions of the package in this Debian suite (repeatable)
    #[arg(long = "suite", value_name = "SUITE", conflicts_with = "kernel_tree")]
    suites: Vec<String>,
    /// Select one scenario of a matrix by this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Required confidence that a kernel is good
    #[arg(long, value_name = "P", default_value = "0.99")]
    confidence: Confidence,
    /// Assume this failure rate on a bad kernel instead of measuring it: 0.1 is one run in ten
    #[arg(long, value_name = "P")]
    failure_rate: Option<Rate>,
    /// Maximum number of runs per kernel
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Any failure makes a kernel bad, not only one that BAD also has
    #[arg(long)]
    any_failure: bool,
    /// Start over instead of resuming an interrupted bisection
    #[arg(long)]
    restart: bool,
    /// The name of --restart up to format 1
    #[arg(long, hide = true)]
    anew: bool,
    /// Directory for results [default: results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    setup: Setup,
}

/// The test to run on each kernel.
enum What {
    Scenario(Box<(ScenarioFile, Scenario)>),
    Failure(Box<Reproducer>),
}

/// The candidates to search.
enum Over {
    CandidateRange(CandidateRange),
    Commits(Commits),
}

/// Everything that a search needs.
struct Means<'a> {
    lab: &'a Lab,
    over: &'a Over,
    /// The kernel whose description versions and commits are built with.
    kernel: &'a str,
    /// The directory for results.
    directory: &'a Path,
}

impl Bisect {
    pub(crate) fn run(self) -> Result<u8> {
        if self.anew {
            return Err(Usage("`--anew` is called `--restart`".into()).into());
        }
        let what = self.what()?;
        let known = choose(root(), &["all".to_owned()])?;
        let chosen = choose(root(), &self.kernels)?;
        let lab = self.setup.ensure(Need::Run)?;
        if matches!(what, What::Failure(_)) {
            self.trust.ensure(&self.file)?;
        }
        let (kernel, over) = self.over(&lab, &known, &chosen)?;
        let results = self.results.clone().unwrap_or_else(results);
        let directory = RunDirectory::create(&results, &["bisect".to_owned()])?;
        let mut trial = trial(&lab, what, directory.path())?;
        let means = Means { lab: &lab, over: &over, kernel: &kernel, directory: directory.path() };
        let log = self.log(&means, &*trial)?;
        if log.count() > 0 {
            let count = log.count();
            lab.progress.line(format!(
                "resuming with {count} verdicts of an earlier bisection; --restart starts over"
            ));
        }
        let conclusion = self.search(&means, &mut *trial, log);
        let conclusion = conclusion.inspect_err(|_| remove_empty(directory.path()))?;
        println!("{}", printable(&conclusion));
        if let (Over::Commits(commits), [Candidate::Commit(commit)]) = (&over, &conclusion.first[..]) {
            println!("\n{}", printable(commits.describe(commit)?.trim_end()));
        }
        println!("results: {}", directory.path().display());
        Ok(if conclusion.is_exact() { exit::SUCCESS } else { exit::FAILED })
    }

    fn search(&self, means: &Means<'_>, trial: &mut dyn Trial, log: Log) -> Result<Conclusion> {
        let Means { lab, over, kernel, directory } = *means;
        let sureness = self.sureness();
        let tree = match over {
            Over::CandidateRange(_) => None,
            Over::Commits(commits) => Some((kernel, commits.tree())),
        };
        let builder = Builder { lab, tree };
        let mut bisection = Bisection {
            sureness,
            log,
            try_one: Box::new(|candidate, known| {
                // Only for GOOD and BAD: git itself checks out the commits between them.
                if let (Over::Commits(commits), Candidate::Commit(commit)) = (over, candidate) {
                    commits.check_out(commit)?;
                }
                try_on(&builder, candidate, &mut *trial, &sureness, known)
            }),
            tell: Box::new(|line| lab.progress.line(line)),
            judged: Vec::new(),
        };
        let conclusion = match over {
            Over::CandidateRange(row) => bisection.over_row(row)?,
            Over::Commits(commits) => {
                let ends = (&commits.resolve(&self.good)?, &commits.resolve(&self.bad)?);
                let files = (&*directory.join("git-bisect-run.log"), &*directory.join("git-bisect.log"));
                bisection.over_commits(commits, ends, files)?
            }
        };
        // Before the log, which has the verdicts until then, is removed.
        conclusion.write(directory)?;
        bisection.log.finish()?;
        Ok(conclusion)
    }

    fn sureness(&self) -> Criteria {
        Criteria {
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
                    "`{}` has {count} scenarios; select one with --filter: {}{}",
                    self.file.display(),
                    names.join(", "),
                    if count > names.len() { ", …" } else { "" }
                );
                Err(Usage(message).into())
            }
        }
    }

    /// Returns the candidates, and the kernel whose description versions and commits are built with.
    fn over(&self, lab: &Lab, known: &[String], chosen: &[String]) -> Result<(String, Over)> {
        let (good, bad) = (&*self.good, &*self.bad);
        if self.kernel_tree.is_none() && are_named(known, good, bad) {
            return Ok((
                String::new(),
                Over::CandidateRange(CandidateRange::of_matrix(known, chosen, good, bad)?),
            ));
        }
        let kernel = match chosen {
            [] => kernel::DEFAULT.to_owned(),
            [one] => one.clone(),
            _ => return Err(Usage("versions and commits take only one --kernel".into()).into()),
        };
        if let Some(tree) = &self.kernel_tree {
            let waiting =
                || lab.progress.line("waiting for another process that is bisecting this repository");
            return Ok((kernel, Over::Commits(Commits::open(&lab.cache, tree, waiting)?)));
        }
        let builder = Builder { lab, tree: None };
        let row = CandidateRange::of_package(&builder, &kernel, &self.suites, good, bad)?;
        Ok((kernel, Over::CandidateRange(row)))
    }

    /// Opens the log of an earlier bisection with the same inputs, or a new one.
    fn log(&self, means: &Means<'_>, trial: &dyn Trial) -> Result<Log> {
        let what = match means.over {
            Over::CandidateRange(row) => row.candidates.iter().map(|one| identity(means, one)).collect(),
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
        Log::open(&means.lab.cache, &inputs, self.restart)
    }
}

fn trial(lab: &Lab, what: What, results: &Path) -> Result<Box<dyn Trial>> {
    let results = results.to_owned();
    Ok(match what {
        What::Scenario(scenario) => Box::new(ScenarioTrial::new(lab, *scenario, (results, default_jobs()))?),
        What::Failure(reproducer) => Box::new(ReproTrial::new(lab, *reproducer, results)?),
    })
}

/// Returns text that changes with the candidate: a suite may have a newer version of a kernel tomorrow.
fn identity(means: &Means<'_>, candidate: &Candidate) -> String {
    let of_build = || {
        let Candidate::Named(name) = candidate else { return None };
        // Other sources would need to be fetched for this.
        let SourceSpec::Debian { .. } = KernelSpec::load(root(), name).ok()?.source else { return None };
        Some(kernel::identify(means.lab, name).ok()?.key)
    };
    format!("{candidate} {:?}\n", of_build())
}

/// Removes a directory of results that holds nothing but its marker.
fn remove_empty(directory: &Path) {
    let only_marker = fs::read_dir(directory)
        .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == ".running"));
    if only_marker {
        let _ = fs::remove_dir_all(directory);
    }
}
