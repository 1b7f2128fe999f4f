//! `cargo xtask lab affected`

use crate::{
    Usage,
    coverage::{best_run, measured_on},
    exit,
    json::{self, Json},
    results, root,
};
use anyhow::{Result, anyhow};
use clap::Args;
use fs_err as fs;
use lab::{
    Lab,
    cache::Cache,
    coverage::{
        Affected, Concerned, FileChange, Measured, SourceFiles, affected, changes_since, diff_since,
        never_run, take_slow, text_at, top_of,
    },
    guest::{is_kernel_tree, source_name},
    host::{interrupt, watch::Watch},
    kernel::{self, Kernel},
    progress::Progress,
    results::Times,
    run::{kernels, select::Selection},
    words::printable,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread,
};

/// Which scenarios to run after a change.
#[derive(Args)]
pub(crate) struct RunAffected {
    /// Run only the scenarios that the changes of --kernel-tree or --module-tree since REV concern, by the last
    /// coverage, and end with the changed lines that none of them ran [REV: HEAD]
    #[arg(long, value_name = "REV", num_args = 0..=1, default_missing_value = "HEAD", require_equals = true)]
    #[arg(conflicts_with_all = ["rerun_failed", "shard"])]
    affected: Option<String>,
    /// With --affected, a tree under git with the sources of modules that scenarios load
    #[arg(long, value_name = "PATH", requires = "affected", conflicts_with = "kernel_tree")]
    module_tree: Option<PathBuf>,
    /// With --affected, run again whenever a file of the tree is saved, until Ctrl-C
    #[arg(long, requires = "affected")]
    watch: bool,
}

impl RunAffected {
    /// Returns the tree whose changes count.
    fn tree<'a>(&'a self, kernel_tree: Option<&'a Path>) -> Option<&'a Path> {
        self.module_tree.as_deref().or(kernel_tree)
    }

    /// Returns what changed, for `--affected`, given the `--kernel-tree`.
    pub(crate) fn change(&self, kernel_tree: Option<&Path>) -> Result<Option<Change>> {
        let Some(since) = &self.affected else { return Ok(None) };
        let tree = self.tree(kernel_tree).ok_or_else(|| {
            Usage("--affected looks for changes in a tree: add --kernel-tree or --module-tree PATH".into())
        })?;
        let changes = changes_since(tree, since).map_err(|error| Usage(format!("{error:#}")))?;
        match self.module_tree {
            Some(_) => Change::new(changes, Some(tree), Some(since.clone())).map(Some),
            None => Ok(Some(Change::of_kernel(changes, tree, since))),
        }
    }

    /// Runs `once` again whenever what changed in the tree changes, with `--watch`. Returns only after an error.
    pub(crate) fn each_save(&self, kernel_tree: Option<&Path>, once: impl Fn() -> Result<u8>) -> Result<u8> {
        let (true, Some(since), Some(tree)) = (self.watch, &self.affected, self.tree(kernel_tree)) else {
            return once();
        };
        // What is saved during a run counts, too.
        let saves = Watch::on(tree)?;
        loop {
            let diff = diff_since(tree, since)?;
            if let Err(error) = once() {
                interrupt::check()?;
                // Most likely what was saved does not compile.
                println!("error: {}", printable(format!("{error:#}")));
            }
            println!("waiting for a change of `{}`; Ctrl-C ends", tree.display());
            while diff_since(tree, since)? == diff {
                saves.wait()?;
            }
        }
    }
}

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
    #[command(flatten)]
    pub(crate) json: Json,
}

/// The scenarios that a change concerns.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConcernedByChange {
    /// Why it may concern all scenarios, in which case none is listed.
    all: Option<String>,
    /// The most concerned first.
    scenarios: Vec<Concerned>,
    /// Slow ones whose lines those run, too.
    left_out: Vec<Concerned>,
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
            Affected::All(why) if !self.json.wanted => println!("all scenarios: {why}"),
            Affected::All(why) => {
                json::print(&ConcernedByChange {
                    all: Some(why),
                    scenarios: Vec::new(),
                    left_out: Vec::new(),
                })?;
            }
            Affected::Some(mut scenarios) => {
                let left_out = take_slow_ones(&mut scenarios, &self.kernel, &times);
                if self.json.wanted {
                    json::print(&ConcernedByChange { all: None, scenarios, left_out })?;
                } else if scenarios.is_empty() {
                    println!("no scenario ran what changed");
                } else {
                    print(&scenarios);
                    print!("{}", named_slow(&left_out, &self.kernel, &times));
                }
            }
        }
        Ok(exit::SUCCESS)
    }
}

/// Takes the slow scenarios out whose lines others ran.
fn take_slow_ones(concerned: &mut Vec<Concerned>, kernel: &str, times: &Times) -> Vec<Concerned> {
    take_slow(concerned, |scenario| times.get(kernel, scenario), times.median(kernel))
}

/// Returns a line that names them.
fn named_slow(slow: &[Concerned], kernel: &str, times: &Times) -> String {
    if slow.is_empty() {
        return String::new();
    }
    let seconds = |scenario: &str| times.get(kernel, scenario).unwrap_or_default();
    let slow = slow.iter().map(|slow| format!("{} ({:.0} s)", slow.scenario, seconds(&slow.scenario)));
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
    fn of_kernel(changes: Vec<FileChange>, tree: &Path, since: &str) -> Change {
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

    /// Keeps the cases of a selection that it concerns, as measured by the runs in `results`, while the kernels
    /// are built, from `kernel_tree` if there is one. Returns those that are needed.
    pub(crate) fn keep_affected(
        &self,
        selection: &mut Selection,
        results: &Path,
        lab: &Lab,
        kernel_tree: Option<&Path>,
    ) -> Result<Vec<Kernel>> {
        // Not after a build of minutes.
        let runs = selection.kernels.iter().map(|kernel| best_run(results, kernel));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let (kernels, wanted) = thread::scope(|scope| {
            let building = scope.spawn(|| kernels(lab, &selection.kernels, kernel_tree));
            let wanted = self.wanted(selection, &runs, &lab.progress);
            (building.join(), wanted)
        });
        let kernels = kernels.map_err(|_| anyhow!("the build of a kernel panicked"))??;
        // What was measured may be out of the selection.
        selection.keep(&wanted?);
        Ok(kernels.into_iter().filter(|kernel| selection.kernels.contains(&kernel.name)).collect())
    }

    /// Returns the cases that it concerns, given the run that measured each kernel, and says why others are kept.
    fn wanted(
        &self,
        selection: &Selection,
        runs: &[PathBuf],
        progress: &Progress,
    ) -> Result<BTreeSet<(String, String)>> {
        let mut wanted = BTreeSet::new();
        for (kernel, run) in selection.kernels.iter().zip(runs) {
            let all = selection.scenarios.iter().map(|(found, _)| found.name.clone());
            let (affected, times) = self.affected(kernel, run)?;
            let (said, names): (String, Vec<String>) = match affected {
                Affected::All(why) => (format!("all scenarios are run: {why}\n"), all.collect()),
                Affected::Some(mut concerned) => {
                    let said = format!("{} of {} scenarios ran what changed\n", concerned.len(), all.count());
                    let slow = take_slow_ones(&mut concerned, kernel, &times);
                    (
                        said + &named_slow(&slow, kernel, &times),
                        concerned.into_iter().map(|concerned| concerned.scenario).collect(),
                    )
                }
            };
            progress.suspend(|| print!("{said}"));
            wanted.extend(names.into_iter().map(|name| (kernel.clone(), name)));
        }
        Ok(wanted)
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
