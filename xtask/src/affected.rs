//! `cargo xtask lab affected`

use crate::{
    Usage,
    coverage::{best_run, measured_on},
    exit, results, root,
};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::{
    cache::Cache,
    coverage::{
        Affected, Concerned, FileChange, Measured, SourceFiles, affected, changes_since, never_run,
        take_slow, text_at, top_of,
    },
    guest::{is_kernel_tree, source_name},
    kernel,
    results::Times,
    run::select::Selection,
    words::printable,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// List the scenarios that a change of the kernel or of a module concerns
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab affected --tree ~/linux --since v6.12    what changed since then\n  \
    cargo xtask lab affected --diff fix.patch                a patch, whether applied or not\n  \
    cargo xtask lab affected kernel/kprobes.c:1450-1460      these lines\n  \
    cargo xtask lab affected ../mine/mine.c:10-20            of a module\n  \
    cargo xtask lab affected --tree ../mine --since HEAD     what changed of a module\n\n\
    These are the scenarios that ran the functions that changed, the most concerned first, as\n\
    measured by `cargo xtask lab run --coverage`. `lab run --affected` runs them.")]
pub(crate) struct Show {
    /// Files of the kernel tree or of modules: PATH, PATH:LINE or PATH:FIRST-LAST
    #[arg(value_name = "PATH:LINES", required_unless_present_any = ["diff", "since"])]
    places: Vec<String>,
    /// A unified diff against the measured kernel; with --tree, against a module in that tree
    #[arg(long, value_name = "FILE", conflicts_with_all = ["places", "since"])]
    diff: Option<PathBuf>,
    /// What changed in --tree since this revision
    #[arg(long, value_name = "REV", requires = "tree", conflicts_with = "places")]
    since: Option<String>,
    /// A kernel tree under git, or any with the sources of modules
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
            _ => self.places.iter().map(|place| place_of(place)).collect(),
        };
        let changes = changes.map_err(|error| Usage(format!("{error:#}")))?;
        let is_now = !self.places.is_empty();
        let change = Change { is_now, ..Change::new(changes, self.tree.as_deref(), self.since)? };
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

/// Parses a place, relative to the current directory if there is such a file.
fn place_of(text: &str) -> Result<FileChange> {
    let change = FileChange::parse(text)?;
    Ok(FileChange { file: source_name(root(), &change.file), ..change })
}

/// A change, and the tree in which it was made.
pub(crate) struct Change {
    changes: Vec<FileChange>,
    tree: Option<Tree>,
    since: Option<String>,
    /// Whether its lines are those of the files as they are now.
    is_now: bool,
}

/// A tree under git.
struct Tree {
    top: PathBuf,
    /// The name that coverage has for it; empty for a kernel tree or the checkout.
    name: String,
    is_kernel: bool,
}

impl Change {
    /// A change of a kernel tree since a revision.
    pub(crate) fn of_kernel(changes: Vec<FileChange>, tree: &Path, since: &str) -> Change {
        let tree = Tree { top: tree.to_owned(), name: String::new(), is_kernel: true };
        Change { changes, tree: Some(tree), since: Some(since.to_owned()), is_now: false }
    }

    /// A change of files that are named relative to the top of `tree`, if there is one.
    fn new(mut changes: Vec<FileChange>, tree: Option<&Path>, since: Option<String>) -> Result<Change> {
        let tree = tree.map(Tree::of).transpose().map_err(|error| Usage(format!("{error:#}")))?;
        if let Some(Tree { name, .. }) = tree.as_ref().filter(|tree| !tree.name.is_empty()) {
            changes.iter_mut().for_each(|change| change.file = format!("{name}/{}", change.file));
        }
        Ok(Change { changes, tree, since, is_now: false })
    }

    /// Returns the scenarios that it concerns, by the coverage of a kernel in a run, and the times that they took.
    fn affected(&self, kernel: &str, run: &Path) -> Result<(Affected, Times)> {
        let (measured, times) = measured_on(kernel, run, &self.files())?;
        // Of a tree of modules, the other files are those of something else.
        let is_wanted =
            |file: &str| self.tree.as_ref().is_none_or(|tree| tree.is_kernel) || measured.is_of_module(file);
        let changes = self.changes.iter().filter(|change| is_wanted(&change.file)).cloned();
        let before = |file: &str| self.text_before(file, &measured);
        Ok((affected(&measured, &changes.collect::<Vec<_>>(), before), times))
    }

    /// Returns what a file was before the change, if that may not be what was measured.
    fn text_before(&self, file: &str, measured: &Measured) -> Option<String> {
        match (&self.tree, &self.since) {
            (Some(tree), Some(since)) => text_at(&tree.top, since, tree.path_of(file)),
            // Lines of a module are those of the file as it is now, which may not have been built.
            _ if self.is_now && measured.is_of_module(file) => fs::read_to_string(root().join(file)).ok(),
            _ => None,
        }
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

impl Tree {
    fn of(tree: &Path) -> Result<Tree> {
        let top = top_of(tree)?;
        Ok(Tree { name: source_name(root(), &top.to_string_lossy()), is_kernel: is_kernel_tree(&top), top })
    }

    /// Returns the path of a file in the tree, given the name that coverage has for it.
    fn path_of<'a>(&self, file: &'a str) -> &'a str {
        file.strip_prefix(&self.name).map_or(file, |rest| rest.trim_start_matches('/'))
    }
}
