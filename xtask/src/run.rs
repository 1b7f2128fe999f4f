//! `cargo xtask lab run`

use crate::{
    Usage,
    affected::RunAffected,
    complete,
    coverage::keep_fewest,
    exit,
    init::prepare_results,
    json::{self, Json, Ran},
    place::{default_kernels, project, selected_scenarios},
    results, root,
    setup::Setup,
};
use anyhow::Result;
use clap::{Args, builder::TypedValueParser};
use lab::{
    Lab,
    host::prerequisites::Need,
    kernel,
    progress::Progress,
    report::{Terminal, side_by_side, summary},
    results::{PartOptions, Rates, Results, ScenarioResult, TRACE, Times, now_micros},
    run::{
        Event, Options, Part, Reporter, default_jobs, kernels, prepare_on, run,
        schedule::{Case, Rounds},
        select::{Selection, failed, nested},
        shard::NamedShard,
    },
    scenario::{Scenario, ScenarioFile},
    words::{called, printable},
};
use regex::Regex;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use trace::{Trace, diff};

/// Build what is missing, boot each kernel and run scenarios on it
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab run --yes                          every scenario on the default kernel\n  \
    cargo xtask lab run scenarios/probes               one area\n  \
    cargo xtask lab run --filter eventfd --jobs 1 -v   by name, with every step and expectation\n  \
    cargo xtask lab run --kernel '>=6.1'               on every plain kernel since 6.1\n  \
    cargo xtask lab run --kernel-tree ~/linux          on your kernel tree\n  \
    cargo xtask lab run --kernel-tree ~/linux --affected      what your changes concern\n  \
    cargo xtask lab run --kernel-tree ~/linux --affected --watch    the same at each save\n  \
    cargo xtask lab run --module-tree ~/mine --affected       what your changes of a module concern\n  \
    cargo xtask lab run --smoke                        a few that run nearly all that all run\n  \
    cargo xtask lab run --rerun-failed                 the failures of the last run\n  \
    cargo xtask lab run probes/remove --repeat 50      50 times: how often does it pass?\n  \
    cargo xtask lab run probes/remove --until-fail     until it fails\n  \
    cargo xtask lab run --filter race --soak           races, in more rounds than usual\n  \
    cargo xtask lab run --retry 2                      failures once more, and once more: flaky or not?\n  \
    cargo xtask lab run --shard 2/5 --times nightly/   the second part of five, one per host\n\n\
    Results go to results/<time>-<kernel>/, and results/latest points to them.\n\n\
    Exit codes: 0 all passed (unsupported and known bugs allowed), 1 at least one scenario failed, 2 usage error or \
    invalid file, 3 the lab itself failed.")]
pub(crate) struct Run {
    /// Scenario files, directories, or names such as probes/paths [default: all of scenarios/]
    #[arg(add = complete::scenarios())]
    paths: Vec<PathBuf>,
    /// A kernel of kernels/*.yaml, `all`, or a version range of plain kernels such as '>=6.1'
    /// (repeatable) [default: those of ftrace-lab.yaml, or 6.12]
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    pub(crate) kernels: Vec<String>,
    /// Build the kernel from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    #[command(flatten)]
    affected: RunAffected,
    /// Run only the fewest scenarios that run 95 % of the lines that all run, by the last coverage
    #[arg(long, conflicts_with_all = ["affected", "rerun_failed", "shard"])]
    smoke: bool,
    /// Run only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Run only the failures of results/latest, on the kernels they failed on
    #[arg(long, conflicts_with = "shard")]
    rerun_failed: bool,
    /// Run part I of N, balanced by --times; every host computes the same split. With ' of NAME', only if that is
    /// the name of the split
    #[arg(long, value_name = "I/N")]
    shard: Option<NamedShard>,
    /// Results of an earlier run or of its shards, from which --shard takes the durations of scenarios
    /// (repeatable) [default: all scenarios count the same]
    #[arg(long, value_name = "RESULTS", requires = "shard")]
    times: Vec<PathBuf>,
    /// Number of machines to run at once [default: two per CPU; a scenario waits half the time]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Run everything N times and show the pass rate of each scenario
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: Option<u32>,
    /// Run each scenario with `soak: N` on N machines, to find rare races with a higher probability
    #[arg(long, conflicts_with_all = ["repeat", "until_fail", "rerun_failed"])]
    soak: bool,
    /// Run a failure again at once, up to N times, until it passes: a failure that passes is flaky, one that fails N times
    /// more is not. Each try is kept in the results
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    retry: u32,
    /// Repeat until a failure, or --repeat N times; keep the files of the first pass and of failures
    #[arg(long, conflicts_with = "retry")]
    until_fail: bool,
    /// Shuffle the scenarios by SEED: a number, or `random`, which prints the number it chose
    #[arg(long, value_name = "SEED", value_parser = clap::builder::NonEmptyStringValueParser::new().try_map(seed))]
    shuffle: Option<u64>,
    /// Measure which code of the kernel and of modules each scenario runs; `cargo xtask lab coverage` shows it
    #[arg(long)]
    coverage: bool,
    /// Directory for results [default: FTRACE_LAB_RESULTS, or results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Start no further scenarios after a failure
    #[arg(long)]
    fail_fast: bool,
    /// Also show steps and expectations that held
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    pub(crate) json: Json,
    #[command(flatten)]
    pub(crate) setup: Setup,
}

fn seed(text: String) -> Result<u64, std::num::ParseIntError> {
    if text == "random" { Ok(now_micros()) } else { text.parse() }
}

impl Run {
    pub(crate) fn run(self) -> Result<u8> {
        self.affected.each_save(self.kernel_tree.as_deref(), || Ok(self.run_once()?.0))
    }

    /// Returns the exit code, and the directory of the results unless there was nothing to run.
    pub(crate) fn run_once(&self) -> Result<(u8, Option<PathBuf>)> {
        let progress = Progress::new();
        // Before anything is built: a mistake in a scenario should not cost a kernel build.
        let (mut selection, part) = self.selection(&progress)?;
        let change = self.affected.change(self.kernel_tree.as_deref())?;
        if self.smoke {
            keep_fewest(&mut selection, &self.results())?;
        }
        if let Some(seed) = self.shuffle {
            println!("shuffled with --shuffle {seed}");
        }
        if let Some(part) = &part {
            println!("shard {}: {} to run", part.name, selection.cases.len());
        }
        project().map_or(Ok(()), |_| prepare_results(&self.results()))?;
        let lab = self.ensure(&selection)?;
        let tree = self.kernel_tree.as_deref();
        let kernels = match &change {
            Some(change) => change.keep_affected(&mut selection, &self.results(), &lab, tree)?,
            None => kernels(&lab, &selection.kernels, tree)?,
        };
        if selection.cases.is_empty() {
            println!("nothing to run");
            if self.json.wanted {
                json::print(&None::<Ran<'_>>)?;
            }
            return Ok((exit::SUCCESS, None));
        }
        let options = Options {
            kernel_tree: self.kernel_tree.clone(),
            jobs: self.jobs.map_or_else(default_jobs, usize::from),
            rounds: self.rounds(),
            retries: self.retry,
            fail_fast: self.fail_fast || self.until_fail,
            forget_passes: self.until_fail,
            coverage: self.coverage || change.is_some(),
            shuffle: self.shuffle,
            part,
            ..Options::new(root(), selection, &self.results())
        };
        let prepared = prepare_on(&lab, &options, kernels)?;
        let terminal = Terminal::new(self.verbose);
        let mut rates = Rates::default();
        let mut reporter = Reporter::new(&lab.progress);
        let ran = run(&prepared, &options, |event| {
            reporter.draw(&event);
            if let Event::Result { result, directory } = event {
                if result.repeat.is_some() {
                    rates.add(result, directory);
                }
                lab.progress.suspend(|| print!("{}", terminal.result(result, directory)));
            }
        });
        // Print the rates even if Ctrl-C ended the run: they are the result of an endless one.
        if !rates.is_empty() {
            print!("\n{rates}");
            show_flakes(&rates);
        }
        let (results, directory) = ran?;
        if let Some(change) = &change {
            change.print_never_run(&directory, &lab.cache)?;
        }
        if self.retry > 0 {
            tried_again(&results).iter().for_each(|line| println!("{}", printable(line)));
        }
        println!("{}\nresults: {}", summary(&results), directory.display());
        if prepared.guest.measures {
            let show = called("cargo xtask lab coverage");
            let run = directory.display();
            println!("coverage: `{show} {run}`; `lab report` adds pages of the source to report.html");
        }
        if self.json.wanted {
            json::print(&Ran::of(&results, &directory))?;
        }
        Ok((code(&results), Some(directory)))
    }

    fn ensure(&self, selection: &Selection) -> Result<Lab> {
        let crash = |case: &Case| selection.scenarios[case.scenario].1.attaches_crash();
        match selection.cases.iter().any(crash) {
            true => self.setup.ensure_for_crash(),
            false => self.setup.ensure(Need::Run),
        }
    }

    fn results(&self) -> PathBuf {
        self.results.clone().unwrap_or_else(results)
    }

    fn rounds(&self) -> Rounds {
        match (self.repeat, self.until_fail) {
            (Some(count), _) => Rounds::Count(count),
            (None, true) => Rounds::Endless,
            (None, false) => Rounds::One,
        }
    }

    /// Returns the cases to run, and with `--shard` the part that they are.
    fn selection(&self, progress: &Progress) -> Result<(Selection, Option<Part>)> {
        let (scenarios, left_out) = wanted(&self.paths, self.filter.as_ref(), self.rerun_failed)?;
        if left_out > 0 {
            progress
                .line(format!("{left_out} opt-in scenarios are not run unless named; `lab list` marks them"));
        }
        if let Some((outer, inner)) = nested(&scenarios) {
            let message =
                format!("cannot run both `{outer}` and `{inner}`: their directories overlap; rename one");
            return Err(Usage(message).into());
        }
        let failed = if self.rerun_failed { Some(failed(&self.results().join("latest"))?) } else { None };
        let mut kernels = kernel::choose(root(), &self.kernels)?;
        if let (true, Some(failed)) = (kernels.is_empty(), &failed) {
            let named: BTreeSet<_> = failed.iter().map(|(kernel, _)| kernel.clone()).collect();
            kernels = named.into_iter().collect();
        } else if kernels.is_empty() {
            kernels = default_kernels()?;
        }
        let mut selection = Selection::all(kernels, scenarios);
        if let Some(failed) = &failed {
            for (kernel, name) in selection.keep(failed) {
                progress.line(format!("{name} also failed on {kernel}, but is not selected"));
            }
            if selection.cases.is_empty() && !failed.is_empty() {
                return Err(Usage("none of the failed scenarios is selected".into()).into());
            }
        }
        if self.soak {
            selection.soak();
        }
        let Some(named) = &self.shard else { return Ok((selection, None)) };
        let (cases, kernels) = (selection.cases.len(), selection.kernels.clone());
        let split = selection.keep_shard(named.shard, &Times::of_results(&self.times)?);
        named.check(&split).map_err(Usage)?;
        let part =
            Part { name: format!("{} of {split}", named.shard), cases, options: self.part_options(kernels) };
        Ok((selection, Some(part)))
    }

    /// Returns what a part of these kernels' scenarios has in common with the other parts.
    fn part_options(&self, kernels: Vec<String>) -> PartOptions {
        let texts =
            |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        PartOptions {
            kernels,
            times: texts(&self.times),
            filter: self.filter.as_ref().map(|filter| filter.as_str().to_owned()),
            paths: texts(&self.paths),
            coverage: self.coverage,
            soak: self.soak,
        }
    }
}

/// Returns a line for each scenario that failed: whether it did again. What its history says of that, `lab history
/// night` shows.
fn tried_again(results: &Results) -> Vec<String> {
    let is_next = |a: &ScenarioResult, b: &ScenarioResult| {
        b.retry.is_some() && (&a.name, &a.kernel) == (&b.name, &b.kernel)
    };
    let line = |tries: &[ScenarioResult]| {
        let (first, last) = (tries.first()?, tries.last()?);
        let failed = tries.iter().filter(|tried| !tried.status.is_good()).count();
        let what = if last.status.is_good() { "flaky" } else { "fails repeatedly" };
        let count = tries.len();
        (failed > 0)
            .then(|| format!("{what}: {} on {} failed {failed} of {count} tries", first.name, first.kernel))
    };
    results.scenarios.chunk_by(is_next).filter_map(line).collect()
}

/// Shows where the traces of a pass and a failure diverge, for each scenario that did both.
fn show_flakes(rates: &Rates) {
    let compared = |passed: &Path, failed: &Path| {
        let (passed, failed) = (Trace::open(&passed.join(TRACE))?, Trace::open(&failed.join(TRACE))?);
        let wants: [fn(&trace::Event<'_>) -> bool; 2] = [|event| !diff::is_agents(event); 2];
        diff::compare([&passed, &failed], wants)
    };
    for flake in rates.flakes() {
        println!("\n{} on {}: A passed, B failed", flake.name, flake.kernel);
        match compared(&flake.passed, &flake.failed) {
            Ok(comparison) => print!("{}", side_by_side(&comparison)),
            // The rates remain valid.
            Err(error) => println!("cannot compare their traces: {error:#}"),
        }
        let compare = called("cargo xtask lab trace diff");
        println!("compare: {compare} {} {}", flake.passed.display(), flake.failed.display());
    }
}

/// Returns the scenarios that these arguments select, and the number of opt-in scenarios left out
/// because they are not named; with `all`, none are left out.
pub(crate) fn wanted(
    paths: &[PathBuf],
    filter: Option<&Regex>,
    all: bool,
) -> Result<(Vec<(ScenarioFile, Scenario)>, usize)> {
    let mut scenarios = selected(paths, filter)?;
    let found = scenarios.len();
    if paths.is_empty() && filter.is_none() && !all {
        scenarios.retain(|(_, scenario)| !scenario.opt_in);
    }
    let left_out = found - scenarios.len();
    Ok((scenarios, left_out))
}

/// Parses the scenarios below `paths` that match. No match is an error: nothing would be tested.
pub(crate) fn selected(paths: &[PathBuf], filter: Option<&Regex>) -> Result<Vec<(ScenarioFile, Scenario)>> {
    let mut scenarios = selected_scenarios(paths)?;
    scenarios.retain(|(found, _)| filter.is_none_or(|filter| filter.is_match(&found.name)));
    if scenarios.is_empty() {
        return Err(Usage("no scenario matches; `cargo xtask lab list` shows all scenarios".into()).into());
    }
    Ok(scenarios)
}

pub(crate) fn code(results: &Results) -> u8 {
    let statuses = || results.scenarios.iter().map(|scenario| scenario.status);
    if statuses().any(|status| status == lab::results::Status::LabError) {
        exit::LAB
    } else if !statuses().all(lab::results::Status::is_good) {
        exit::FAILED
    } else {
        exit::SUCCESS
    }
}
