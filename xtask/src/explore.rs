//! `cargo xtask lab explore`

use crate::{complete, exit, results, root, setup::Setup};
use anyhow::Result;
use clap::{Args, builder::PossibleValuesParser};
use fs_err as fs;
use lab::{
    Lab,
    explore::{Corpus, Finding, Hunt, ONCE, Reached, Search, Told, Tried, areas, default_jobs, mail},
    host::{interrupt, prerequisites::Need},
    kernel::{DEFAULT, Kernel},
    results::{Rates, RunDirectory, ScenarioResult, now_micros},
    run::{
        Event, Options, Prepared, Reporter, kernels, prepare_on, run, schedule::Rounds, select::Selection,
    },
    scenario::{Scenario, ScenarioFile},
    words::printable,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The number of runs of each finding, on all kernels together.
const RUNS: u32 = 100;

/// The least number of them on each kernel.
const RUNS_EACH: u32 = 20;

/// The minutes that it explores unless told otherwise.
const MINUTES: u64 = 10;

/// The corpus, in the cache.
const CORPUS: &str = "explore";

/// Try random operations on tracing, and keep what contradicts a model of them
///
/// Makes sequences of operations that are legal or nearly so: probe events of all kinds with siblings, synthetic
/// events, filters, triggers and histograms, in tracing instances with snapshots; commands in set_ftrace_filter;
/// hooks, also by IPMODIFY and direct calls; a livepatch; the function and the graph tracer; static keys; modules and
/// CPUs that come and go. A model predicts the errno of each, and all that the kernel must show afterwards: what is listed,
/// counted and recorded, and the text of the probed functions. Twelve sequences share a machine; each removes what it
/// made, and must find everything as it was before.
///
/// What contradicts the model is minimized, and becomes a scenario in results/<time>-explore-<kernel>/found/,
/// with its reproducer beside the results of its runs.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab explore --minutes 10                        the default kernel\n  \
    cargo xtask lab explore --kernel-tree ~/linux --seed 7      your kernel tree, with the sequences of seed 7\n  \
    cargo xtask lab explore --kernel 7.2 --also 6.12 --also 5.10    what is found on 7.2 also runs on others\n  \
    cargo xtask lab explore --guided --minutes 60               prefer what reaches new code of the kernel\n  \
    cargo xtask lab explore --icount 5                          on one CPU, where interrupts come at other moments\n  \
    cargo xtask lab explore --area hooks --area livepatch       only hooks, a livepatch, probes and their events\n  \
    cargo xtask lab explore --minimize-corpus                   keep only the sequences that reach code of their own\n  \
    cargo xtask lab explore --again                             what was found before, too\n  \
    cargo xtask lab explore --triage found/explore-1f0c2b7a.yaml --kernel 7.2 --also 6.12    the text of a mail\n\n\
    Ctrl-C ends the search; what was found is kept.\n\n\
    Exit codes: 0 nothing was found, 1 something was, 2 usage error, 3 the lab itself failed.")]
pub(crate) struct Explore {
    /// The kernel, one of kernels/*.yaml
    #[arg(long, value_name = "NAME", default_value = DEFAULT, add = complete::kernels())]
    kernel: String,
    /// Build the kernel from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Run each finding on this kernel, too (repeatable)
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    also: Vec<String>,
    /// Make operations of this family only, besides those of probes and events, which all sequences have (repeatable)
    #[arg(long, value_name = "FAMILY", value_parser = PossibleValuesParser::new(areas()), conflicts_with = "triage")]
    area: Vec<String>,
    /// Stop after this many minutes [default: 10, without --sequences]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: Option<u64>,
    /// Stop after this many sequences
    #[arg(long, value_name = "N")]
    sequences: Option<u64>,
    /// Stop at the first finding, and do not run it again
    #[arg(long, conflicts_with = "also")]
    first: bool,
    /// Measure what runs, keep the sequences that reach new lines or branches in the corpus, and change these further
    #[arg(long)]
    guided: bool,
    /// Do not explore: drop the sequences of the corpus that reach no code that the others do not
    #[arg(long, conflicts_with_all = ["sequences", "first", "again", "triage", "seed", "area"])]
    minimize_corpus: bool,
    /// Exit with 0 even if something was found, for what judges the results later
    #[arg(long)]
    exit_zero: bool,
    /// Also run what earlier searches found on this kernel
    #[arg(long, conflicts_with = "first")]
    again: bool,
    /// Directory of the corpus: sequences that reached new code, and what was found [default: explore in the cache]
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// Explore on one CPU that counts time in instructions of 2^N ns each: interrupts come at other instructions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=10), conflicts_with = "triage")]
    icount: Option<u8>,
    /// Make the sequences of this seed [default: a new one, which is printed]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Do not explore: run this finding, and write a mail about it, with steps that need no lab
    #[arg(long, value_name = "FILE", conflicts_with_all = ["minutes", "sequences", "first", "seed", "exit_zero"])]
    triage: Option<PathBuf>,
    /// Number of machines to run at once [default: three per CPU]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Directory for results [default: FTRACE_LAB_RESULTS, or results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    #[command(flatten)]
    setup: Setup,
}

impl Explore {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure(Need::Run)?;
        let results = self.results.clone().unwrap_or_else(results);
        let prepared = self.prepare(&lab, &results)?;
        if let Some(file) = &self.triage {
            return self.write_mail(&lab, prepared, file, &results);
        }
        let directory = RunDirectory::create(&results, &[format!("explore-{}", self.kernel)])?;
        let seed = self.seed.unwrap_or_else(now_micros);
        let minutes = self.minutes.or(self.sequences.is_none().then_some(MINUTES));
        if !self.minimize_corpus {
            let time = minutes.map(|minutes| format!(" for {minutes} min")).unwrap_or_default();
            println!("exploring {}{time} with seed {seed}", self.kernel);
        }
        let search = Search {
            seed,
            icount: self.icount,
            time: minutes.map(|minutes| Duration::from_secs(minutes * 60)),
            sequences: self.sequences,
            first: self.first,
            jobs: self.jobs.map_or_else(default_jobs, usize::from),
        };
        let task = lab.progress.task("exploring", None);
        let started = std::time::Instant::now();
        let tell = |told: Told<'_>| match told {
            Told::Progress { sequences, pairs, reached, findings } => {
                task.set(sequences);
                let each = sequences as f64 / started.elapsed().as_secs_f64();
                let reached = reached.map_or_else(String::new, |(Reached { lines, branches }, corpus)| {
                    format!(", {lines} lines, {branches} branches, {corpus} sequences in the corpus")
                });
                task.note(format!(
                    "{each:.1} a second, {findings} found{reached}, {pairs} pairs of a state and an operation"
                ));
            }
            Told::Failed(reason) => {
                lab.progress.line(format!("failed, and is minimized: {}", printable(first(reason))));
            }
            Told::Found(finding) => lab.progress.suspend(|| print(finding)),
            Told::Gone(reason, run) => {
                let reason = printable(first(reason));
                lab.progress
                    .line(format!("did not recur on a pristine machine: {reason} ({})", run.display()));
            }
        };
        let corpus = self.corpus.clone().map_or_else(|| lab.cache.directory(CORPUS), Ok)?;
        let hunt = Hunt::new(&prepared, directory.path(), Some(Corpus::at(corpus)), search, tell)?;
        hunt.confine(&self.area);
        if self.minimize_corpus {
            let (before, after) = hunt.minimize_corpus()?;
            println!(
                "kept {after} of {before} sequences in the corpus: each of the others reached nothing new"
            );
            fs::remove_dir_all(directory.path())?;
            interrupt::check()?;
            return Ok(exit::SUCCESS);
        }
        let again = if self.again { hunt.again()? } else { Vec::new() };
        let (findings, sequences) = hunt.run()?;
        let each = sequences as f64 / started.elapsed().as_secs_f64();
        println!("{sequences} sequences, {each:.1} a second; {} found", findings.len());
        let is_new = !findings.is_empty();
        let files: Vec<_> = again.into_iter().chain(findings.into_iter().map(|found| found.file)).collect();
        if files.is_empty() {
            if !directory.path().join(ONCE).exists() {
                fs::remove_dir_all(directory.path())?;
            }
            interrupt::check()?;
            return Ok(exit::SUCCESS);
        }
        println!("scenarios: {}", directory.path().join("found").display());
        interrupt::check()?;
        let all_pass = !self.first && self.repeat(&lab, prepared, &files, directory.path())?;
        Ok(if (is_new || !all_pass) && !self.exit_zero { exit::FAILED } else { exit::SUCCESS })
    }

    fn options(&self, kernels: Vec<String>, files: &[ScenarioFile], results: &Path) -> Result<Options> {
        let load = |file: &ScenarioFile| Ok((file.clone(), Scenario::load(&file.path)?));
        let scenarios = files.iter().map(load).collect::<Result<Vec<_>>>()?;
        let rounds = Rounds::Count((RUNS / kernels.len().max(1) as u32).max(RUNS_EACH));
        let options = Options::new(root(), Selection::all(kernels, scenarios), results);
        Ok(Options {
            kernel_tree: self.kernel_tree.clone(),
            rounds,
            coverage: self.guided || self.minimize_corpus,
            ..options
        })
    }

    fn prepare(&self, lab: &Lab, results: &Path) -> Result<Prepared> {
        let options = self.options(vec![self.kernel.clone()], &[], results)?;
        let built = kernels(lab, &options.selection.kernels, self.kernel_tree.as_deref())?;
        prepare_built(lab, &options, built)
    }

    /// Runs what was found several times, on each kernel, and prints how often it fails there. Returns whether it
    /// never does.
    fn repeat(
        &self,
        lab: &Lab,
        prepared: Prepared,
        files: &[ScenarioFile],
        directory: &Path,
    ) -> Result<bool> {
        let (mut rates, mut all_pass) = (Rates::default(), true);
        let (_, place) = self.on_all(lab, prepared, files, directory, |result, directory| {
            rates.add(result, directory);
            all_pass &= result.status.is_good();
        })?;
        println!("{rates}results and reproducers: {}", place.display());
        Ok(all_pass)
    }

    /// Runs a finding several times, on each kernel, and prints a mail about it.
    fn write_mail(&self, lab: &Lab, prepared: Prepared, file: &Path, results: &Path) -> Result<u8> {
        let scenario = Scenario::load(file)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let files = [ScenarioFile { name, path: file.to_owned() }];
        let mut all = Vec::new();
        let (kernels, _) =
            self.on_all(lab, prepared, &files, results, |result, _| all.push(result.clone()))?;
        let tried = kernels.into_iter().map(|(name, version)| Tried {
            results: all.iter().filter(|result| result.kernel == name).cloned().collect(),
            kernel: format!("{name} ({version})"),
        });
        let tried: Vec<Tried> = tried.collect();
        match mail(&scenario, &tried) {
            Some(mail) => {
                print!("{mail}");
                Ok(exit::FAILED)
            }
            None => {
                println!("`{}` fails on none of the kernels", file.display());
                Ok(exit::SUCCESS)
            }
        }
    }

    /// Runs scenarios several times, on each kernel. Returns the kernels with their versions, and the directory.
    fn on_all(
        &self,
        lab: &Lab,
        prepared: Prepared,
        files: &[ScenarioFile],
        directory: &Path,
        mut each: impl FnMut(&ScenarioResult, &Path) + Send,
    ) -> Result<(Vec<(String, String)>, PathBuf)> {
        let also = kernels(lab, &self.also, None)?;
        let built = prepared.kernels.into_iter().chain(also).collect::<Vec<_>>();
        let versions: Vec<(String, String)> =
            built.iter().map(|kernel| (kernel.name.clone(), kernel.version.to_string())).collect();
        let names = built.iter().map(|kernel| kernel.name.clone()).collect();
        let options = self.options(names, files, directory)?;
        let prepared = prepare_built(lab, &options, built)?;
        let mut reporter = Reporter::new(&lab.progress);
        let (_, place) = run(&prepared, &options, |event| {
            reporter.draw(&event);
            if let Event::Result { result, directory } = event {
                each(result, directory);
            }
        })?;
        Ok((versions, place))
    }
}

/// Prepares machines whose failures are the kernel's own.
fn prepare_built(lab: &Lab, options: &Options, built: Vec<Kernel>) -> Result<Prepared> {
    let mut prepared = prepare_on(lab, options, built)?;
    prepared.miss_no_patches()?;
    Ok(prepared)
}

fn print(finding: &Finding) {
    let (before, after) = finding.operations;
    let reason = printable(&finding.reason);
    println!("found {}, {after} of {before} operations: {reason}", finding.file.path.display());
}

fn first(reason: &str) -> &str {
    reason.lines().next().unwrap_or_default()
}
