//! `bench edit`: measures the time from an edit of the kernel to the verdicts of the scenarios that it concerns.

use super::Figures;
use crate::{
    context::Lab,
    host::git::git,
    kernel::{self, WorkingCopy},
    mutants::{self, Mutant},
    results::stored_results,
};
use anyhow::{Context, Result, ensure};
use fs_err as fs;
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// The edit, one of `kernels/mutants`, whose file about twenty scenarios concern.
const EDIT: &str = "anonymous-member-offset";

/// Exit code of a run in which a scenario failed.
const FAILED: i32 = 1;

/// Puts a defect into a kernel tree and runs the scenarios that it concerns by `program`, an xtask. `results`
/// has a run that measured all scenarios.
pub fn edit(lab: &Lab, program: &Path, results: &Path) -> Result<Figures> {
    let defects = mutants::load(&lab.root)?;
    let defect = defects.iter().find(|defect| defect.name == EDIT);
    let defect = defect.with_context(|| format!("`kernels/mutants` has no `{EDIT}`"))?;
    let kernel = kernel::build(lab, kernel::DEFAULT, None)?;
    let copy = WorkingCopy::of(lab, &kernel)?;
    kernel::build(lab, kernel::DEFAULT, Some(copy.directory()))?;
    let _repository = Repository::of(copy.directory(), &defect.file)?;

    let started = Instant::now();
    put(defect, &copy)?;
    kernel::build(lab, kernel::DEFAULT, Some(copy.directory()))?;
    let build = started.elapsed().as_secs_f64();

    copy.restore()?;
    kernel::build(lab, kernel::DEFAULT, Some(copy.directory()))?;
    let started = Instant::now();
    put(defect, &copy)?;
    let task = lab.progress.task("building an edited kernel and running what it concerns", None);
    let run = Command::new(program)
        .args(["lab", "run", "--affected", "--kernel-tree"])
        .arg(copy.directory())
        .arg("--results")
        .arg(results)
        .current_dir(&lab.root)
        .output()?;
    let whole = started.elapsed().as_secs_f64();
    drop(task);
    copy.restore()?;

    let said = String::from_utf8_lossy(&run.stdout);
    let complaint = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.code() == Some(FAILED), "no scenario found the defect `{EDIT}`: {said}{complaint}");
    let verdicts = stored_results(&results.join("latest"))?.scenarios.len();
    let figures = [
        ("edit_to_verdicts_seconds", whole),
        ("build_seconds", build),
        ("edit_to_verdicts_by_build_ratio", whole / build),
        ("verdicts", verdicts as f64),
    ];
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Figures { bench: "edit".to_owned(), figures, table: String::new() })
}

fn put(defect: &Mutant, copy: &WorkingCopy) -> Result<()> {
    let text = defect.put_into(&copy.original(&defect.file)?);
    copy.change(&defect.file, &text.with_context(|| format!("`{}` is stale", defect.name))?)
}

/// A git repository in a tree that has none, with one file. Dropping it removes the repository.
struct Repository(PathBuf);

impl Repository {
    fn of(tree: &Path, file: &str) -> Result<Repository> {
        let place = tree.join(".git");
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        git(tree).args(["init", "--quiet"]).run()?;
        let repository = Repository(place);
        git(tree).args(["add", "--force", file]).run()?;
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        git(tree).args(identity).args(["commit", "--quiet", "--message=unchanged"]).run()?;
        Ok(repository)
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // The next bench removes what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}
