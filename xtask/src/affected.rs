//! `cargo xtask lab affected`

use crate::{
    Usage,
    coverage::{best_run, measured_on},
    exit, results,
};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::{
    cache::Cache,
    coverage::{
        Affected, Concerned, FileChange, Measured, SourceFiles, affected, changes_since, never_run,
        take_slow, text_at,
    },
    kernel,
    results::Times,
    run::select::Selection,
    words::printable,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// List the scenarios that a change of the kernel concerns
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab affected --tree ~/linux --since v6.12    what changed since then\n  \
    cargo xtask lab affected --diff fix.patch                a patch, whether applied or not\n  \
    cargo xtask lab affected kernel/kprobes.c:1450-1460      these lines\n\n\
    These are the scenarios that ran the functions that changed, the most concerned first, as\n\
    measured by `cargo xtask lab run --coverage`. `lab run --affected` runs them.")]
pub(crate) struct Show {
    /// Files of the kernel tree: PATH, PATH:LINE or PATH:FIRST-LAST
    #[arg(value_name = "PATH:LINES", required_unless_present_any = ["diff", "since"])]
    places: Vec<String>,
    /// A unified diff against the measured kernel
    #[arg(long, value_name = "FILE", conflicts_with_all = ["places", "since"])]
    diff: Option<PathBuf>,
    /// What changed in --tree since this revision
    #[arg(long, value_name = "REV", requires = "tree", conflicts_with = "places")]
    since: Option<String>,
    /// A kernel tree under git
    #[arg(long, value_name = "PATH")]
    tree: Option<PathBuf>,
    /// The kernel whose coverage is used
    #[arg(long, value_name = "NAME", default_value = kernel::DEFAULT)]
    kernel: String,
    /// Directory of the run with the coverage [default: the one that measured most scenarios]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

impl Show {
    pub(crate) fn run(self) -> Result<u8> {
        let changes = match (&self.diff, &self.since, &self.tree) {
            (Some(path), ..) => FileChange::parse_diff(&fs::read_to_string(path)?),
            (None, Some(since), Some(tree)) => changes_since(tree, since),
            _ => self.places.iter().map(|place| FileChange::parse(place)).collect(),
        };
        let changes = changes.map_err(|error| Usage(format!("{error:#}")))?;
        let change = Change { changes, tree: self.tree, since: self.since };
        let run = match self.results {
            Some(run) => run,
            None => best_run(&results(), &self.kernel)?,
        };
        let (affected, times) = change.affected(&self.kernel, &run)?;
        match affected {
            Affected::All(why) => println!("all scenarios: {why}"),
            Affected::Some(concerned) if concerned.is_empty() => println!("no scenario ran what changed"),
            Affected::Some(mut concerned) => {
                let slow = slow(&mut concerned, &self.kernel, &times);
                print(&concerned);
                print!("{slow}");
            }
        }
        Ok(exit::SUCCESS)
    }
}

/// Takes the slow scenarios out whose lines others ran, and returns a line that names them.
fn slow(concerned: &mut Vec<Concerned>, kernel: &str, times: &Times) -> String {
    let seconds = |scenario: &str| times.get(kernel, scenario);
    let slow = take_slow(concerned, seconds, times.median(kernel));
    if slow.is_empty() {
        return String::new();
    }
    let slow = slow
        .iter()
        .map(|slow| format!("{} ({:.0} s)", slow.scenario, seconds(&slow.scenario).unwrap_or_default()));
    let slow = slow.collect::<Vec<_>>().join(", ");
    format!("left out, since quicker ones run the same lines: {slow}\n")
}

fn print(concerned: &[Concerned]) {
    let widest = concerned.iter().map(|concerned| concerned.scenario.len()).max().unwrap_or_default();
    for Concerned { scenario, changed, around, .. } in concerned {
        println!("{scenario:widest$}  {changed:>4} changed lines, {around:>4} lines of their functions");
    }
}

/// A change, and the tree in which it was made.
pub(crate) struct Change {
    pub(crate) changes: Vec<FileChange>,
    pub(crate) tree: Option<PathBuf>,
    pub(crate) since: Option<String>,
}

impl Change {
    /// Returns the scenarios that it concerns, by the coverage of a kernel in a run, and the times that they took.
    fn affected(&self, kernel: &str, run: &Path) -> Result<(Affected, Times)> {
        let (measured, times) = measured_on(kernel, run, &self.files())?;
        let before = |file: &str| text_at(self.tree.as_deref()?, self.since.as_deref()?, file);
        Ok((affected(&measured, &self.changes, before), times))
    }

    /// Keeps the cases of a selection that it concerns, as measured by the runs in `results`, and says why
    /// others are kept.
    pub(crate) fn keep_affected(&self, selection: &mut Selection, results: &Path) -> Result<()> {
        let mut wanted = BTreeSet::new();
        for kernel in &selection.kernels {
            let all = selection.scenarios.iter().map(|(found, _)| found.name.clone());
            let (affected, times) = self.affected(kernel, &best_run(results, kernel)?)?;
            let names: Vec<String> = match affected {
                Affected::All(why) => {
                    println!("all scenarios are run: {why}");
                    all.collect()
                }
                Affected::Some(mut concerned) => {
                    println!("{} scenarios of {} ran what changed", concerned.len(), all.count());
                    print!("{}", slow(&mut concerned, kernel, &times));
                    concerned.into_iter().map(|concerned| concerned.scenario).collect()
                }
            };
            wanted.extend(names.into_iter().map(|name| (kernel.clone(), name)));
        }
        // What was measured may be out of the selection.
        selection.keep(&wanted);
        Ok(())
    }

    /// Prints the changed lines that no scenario of a run ran.
    pub(crate) fn print_never_run(&self, run: &Path, cache: &Cache) -> Result<()> {
        for measured in Measured::load(run, cache, &self.files())? {
            let name = &measured.kernel.name;
            let never = never_run(&measured, &self.changes);
            if never.is_empty() {
                println!("the scenarios ran every changed line that has code in {name}");
            }
            for (file, numbers) in never {
                println!("no scenario ran these changed lines of {file} in {name}:");
                let text = measured.text_of(file)?;
                let lines = text.lines().zip(1_u32..).filter(|(_, number)| numbers.contains(number));
                lines.for_each(|(line, number)| println!("{number:>6}  {}", printable(line)));
            }
        }
        Ok(())
    }

    fn files(&self) -> SourceFiles {
        SourceFiles::named(&self.changes.iter().map(|change| change.file.clone()).collect::<Vec<_>>())
    }
}
