//! `cargo xtask mutants`: puts small defects into the kernel's tracing code and runs the scenarios on each.

use crate::{Usage, complete, coverage::measured_on, exit, results, root, run::wanted, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    coverage::{Affected, FileChange, Measured, SourceFiles, affected},
    explore::{self, Search},
    host::prerequisites::Need,
    kernel,
    mutants::{Explored, Mutant, Outcome, Trials, load},
    run::default_jobs,
    words::printable,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

/// Put small defects into the kernel's tracing code, one at a time, and see whether a scenario notices each
///
/// kernels/mutants/ lists them, docs/mutants.md shows the list. Each is built into a copy of the kernel's source; then the scenario that should
/// notice it runs, and if that passes, all others. A defect is noticed if a scenario fails with it twice, and
/// passes without it.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask mutants                           all of them, about an hour\n  \
    cargo xtask mutants dentry-and-file-swapped   one\n  \
    cargo xtask mutants --tenth                   those of today\n  \
    cargo xtask mutants --explore 10 probes       whether `lab explore` finds those of probes in 10 min each\n\n\
    Exit codes: 0 scenarios notice every defect of which the list does not say that none does, 1 not so, \
    2 usage error or invalid list, 3 the lab itself failed.")]
pub(crate) struct Mutants {
    /// The defects to try, or areas of them [default: all]
    names: Vec<String>,
    /// Try a tenth of them, each day another one
    #[arg(long, conflicts_with = "names")]
    tenth: bool,
    /// The scenarios that may notice them: files, directories, or names
    /// [default: all but the kernel's own selftests]
    #[arg(long = "by", value_name = "PATH", add = complete::scenarios())]
    by: Vec<PathBuf>,
    /// Run only those scenarios on a defect that ran the lines it changes or, where these have no code of their
    /// own, its functions, as measured by this run with --coverage
    #[arg(long, value_name = "RUN")]
    affected: Option<PathBuf>,
    /// Explore each for at most this many minutes, instead of running scenarios
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["by", "affected"],
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    explore: Option<u64>,
    /// Explore with the sequences of this seed
    #[arg(long, value_name = "SEED", requires = "explore", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    setup: Setup,
}

impl Mutants {
    pub(crate) fn run(self) -> Result<u8> {
        let mutants = self.chosen(load(root())?)?;
        let (mut scenarios, _) = wanted(&self.by, None, false)?;
        if self.by.is_empty() {
            scenarios.retain(|(file, _)| !file.name.starts_with("selftests/"));
        }
        let measured = self.affected.as_ref().map(|run| measured(&mutants, run)).transpose()?;
        let lab = self.setup.ensure(Need::Run)?;
        let place = (results().join("mutants"), default_jobs());
        let mut trials = Trials::new(&lab, kernel::DEFAULT, scenarios, place)?;
        let mut tally = Tally::default();
        for mutant in &mutants {
            let started = Instant::now();
            let Some(minutes) = self.explore else {
                let outcome = trials.try_one(mutant, &concerned(mutant, measured.as_ref())?)?;
                lab.progress.suspend(|| println!("{}", line(mutant, &outcome, started.elapsed())));
                tally.add(mutant, &outcome);
                continue;
            };
            let time = Some(Duration::from_secs(60 * minutes));
            let (seed, jobs) = (self.seed, explore::default_jobs());
            let search = Search { seed, icount: None, time, sequences: None, first: true, jobs };
            let outcome = trials.explore(mutant, search)?;
            lab.progress.suspend(|| println!("{}", explored(mutant, &outcome, started.elapsed())));
            tally.add_explored(mutant, &outcome);
        }
        Ok(tally.end())
    }

    fn chosen(&self, mut all: Vec<Mutant>) -> Result<Vec<Mutant>> {
        let is = |mutant: &Mutant, name: &String| mutant.name == *name || mutant.area == *name;
        if let Some(unknown) = self.names.iter().find(|name| !all.iter().any(|mutant| is(mutant, name))) {
            return Err(Usage(format!("no defect and no area of `kernels/mutants` is `{unknown}`")).into());
        }
        if !self.names.is_empty() {
            all.retain(|mutant| self.names.iter().any(|name| is(mutant, name)));
        }
        if self.tenth {
            let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let tenth = (today.as_secs() / 86_400 % 10) as usize;
            // Neighbours in the list are alike.
            let mut number = 0..;
            all.retain(|_| number.next().is_some_and(|number: usize| number % 10 == tenth));
        }
        Ok(all)
    }
}

/// Returns the coverage of the files that `mutants` change.
fn measured(mutants: &[Mutant], run: &Path) -> Result<Measured> {
    let files: Vec<String> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
    Ok(measured_on(kernel::DEFAULT, run, &SourceFiles::named(&files))?.0)
}

/// Returns the scenarios that may notice a mutant: those that ran its lines.
fn concerned(mutant: &Mutant, measured: Option<&Measured>) -> Result<Affected> {
    let Some(measured) = measured else { return Ok(Affected::All("nothing was measured".to_owned())) };
    let lines = mutant.lines(&measured.text_of(&mutant.file)?).unwrap_or_default();
    let has_code = measured.has_code(&mutant.file, &lines);
    let change = FileChange { file: mutant.file.clone(), before: vec![lines], ..FileChange::default() };
    Ok(match affected(measured, &[change], |_| None) {
        Affected::Some(ran) if has_code => {
            Affected::Some(ran.into_iter().filter(|scenario| scenario.changed > 0).collect())
        }
        affected => affected,
    })
}

fn line(mutant: &Mutant, outcome: &Outcome, took: Duration) -> String {
    let what = match outcome {
        Outcome::Noticed { scenario, reason } => {
            let other = if mutant.scenario.as_ref() == Some(scenario) { "" } else { ", unlike in the list" };
            format!("noticed    {} by {scenario}{other}: {}", mutant.name, printable(reason))
        }
        Outcome::Unnoticed => match &mutant.unnoticed {
            Some(reason) => format!("unnoticed  {}, as listed: {reason}", mutant.name),
            None => format!("UNNOTICED  {}: {}", mutant.name, mutant.breaks),
        },
        Outcome::Stale => {
            format!(
                "STALE      {}: `{}` does not have `before` once; mend the list",
                mutant.name, mutant.file
            )
        }
        Outcome::NotBuilt { reason } => {
            format!("NOT BUILT  {}: {}", mutant.name, printable(reason))
        }
    };
    format!("{what} ({} s)", took.as_secs())
}

fn explored(mutant: &Mutant, outcome: &Outcome, took: Duration) -> String {
    let text = match outcome {
        Outcome::Noticed { reason, .. } => {
            let first = reason.lines().next().unwrap_or_default();
            format!("found      {}: {}", mutant.name, printable(first))
        }
        Outcome::Unnoticed => format!("missed     {}: {}", mutant.name, mutant.breaks),
        other => return line(mutant, other, took),
    };
    format!("{text} ({} s)", took.as_secs())
}

#[derive(Default)]
struct Tally {
    tried: usize,
    noticed: usize,
    /// Those that did not end as listed.
    wrong: usize,
}

impl Tally {
    fn add(&mut self, mutant: &Mutant, outcome: &Outcome) {
        self.tried += 1;
        match outcome {
            Outcome::Noticed { .. } => self.noticed += 1,
            Outcome::Unnoticed if mutant.unnoticed.is_some() => {}
            _ => self.wrong += 1,
        }
    }

    /// One that was not found is no failure, unless the list says that it is found.
    fn add_explored(&mut self, mutant: &Mutant, outcome: &Outcome) {
        self.tried += 1;
        match outcome {
            Outcome::Noticed { .. } => self.noticed += 1,
            Outcome::Unnoticed if mutant.explore != Some(Explored::Found) => {}
            _ => self.wrong += 1,
        }
    }

    /// Prints it and returns the exit code.
    fn end(&self) -> u8 {
        let percent = 100 * self.noticed / self.tried.max(1);
        println!("{} of {} defects noticed ({percent} %)", self.noticed, self.tried);
        if self.wrong > 0 { exit::FAILED } else { exit::SUCCESS }
    }
}
