//! The runs below some directories, and the one place that their merged report is put in.

use super::{Merged, Part, RunDirectory, write_forms, write_json};
use crate::run::times::stored_results;
use anyhow::{Context, Result, bail};
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// What makes a directory a run's.
const RESULTS: &str = "results.json";

/// How deep a run may lie below a directory that is named: that of an artifact, and `results/`.
const DEPTH: usize = 4;

/// The runs that `paths` are or hold, in the order of their names. Links are not followed, so that
/// `latest` is no second run.
pub fn runs_below(paths: &[PathBuf]) -> Result<Vec<Part>> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        search(path, DEPTH, &mut found)?;
        if found.len() == before {
            bail!("no run in `{}`: there is no `{RESULTS}`", path.display());
        }
    }
    let part = |directory: PathBuf| Ok(Part { results: stored_results(&directory)?, directory });
    found.into_iter().map(part).collect()
}

fn search(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if directory.join(RESULTS).is_file() {
        found.push(directory.to_owned());
        return Ok(());
    }
    let listed = || format!("cannot list `{}`", directory.display());
    let mut inside = Vec::new();
    for entry in fs::read_dir(directory).with_context(listed)? {
        let entry = entry.with_context(listed)?;
        if entry.file_type().with_context(listed)?.is_dir() && depth > 0 {
            inside.push(entry.path());
        }
    }
    inside.sort();
    inside.iter().try_for_each(|path| search(path, depth - 1, found))
}

/// Puts a merged report in `into`, which has to be empty or not there yet: the files of its scenarios,
/// `results.json` and its other forms. Files are linked, not copied, where the file system can. `last` is a
/// report that may go: where it is `into` itself, it is replaced.
pub fn put(merged: &Merged, parts: &[Part], into: &Path, last: Option<&Path>) -> Result<()> {
    if last.is_some_and(|last| last == into) && into.join(RESULTS).is_file() {
        fs::remove_dir_all(into).with_context(|| format!("cannot replace `{}`", into.display()))?;
    }
    fs::create_dir_all(into).with_context(|| format!("cannot make `{}`", into.display()))?;
    if fs::read_dir(into).with_context(|| format!("cannot list `{}`", into.display()))?.next().is_some() {
        bail!("`{}` is not empty; the report needs a directory of its own", into.display());
    }
    fill(merged, parts, into)
}

/// The same, in a new directory of `results`. Gives back which.
pub fn put_new(merged: &Merged, parts: &[Part], results: &Path) -> Result<PathBuf> {
    let kernels: Vec<String> = merged.results.kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let directory = RunDirectory::create(results, &kernels)?;
    fill(merged, parts, directory.path())?;
    Ok(directory.path().to_owned())
}

fn fill(merged: &Merged, parts: &[Part], into: &Path) -> Result<()> {
    for (result, &origin) in merged.results.scenarios.iter().zip(&merged.origins) {
        let Some(part) = parts.get(origin).filter(|_| !result.directory.is_empty()) else { continue };
        let relative = Path::new(&result.directory);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            bail!(
                "`{}` names a directory outside of its own: `{}`",
                part.directory.display(),
                result.directory
            );
        }
        let from = part.directory.join(relative);
        adopt(&from, &into.join(relative))
            .with_context(|| format!("cannot take over `{}`", from.display()))?;
    }
    write_json(&merged.results, into)?;
    write_forms(&merged.results, into)
}

/// Links or copies the files below `from`. What is no file and no directory is left out; a directory
/// that is not there has nothing, as where only the `results.json` of a run was kept.
pub(crate) fn adopt(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let (entry, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        let target = to.join(entry.file_name().unwrap_or_default());
        if kind.is_dir() {
            adopt(&entry, &target)?;
        } else if kind.is_file() && fs::hard_link(&entry, &target).is_err() {
            fs::copy(&entry, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{
            ScenarioResult,
            fixture::{result, results},
            merge,
        },
        verdict::Status,
    };
    use std::os::unix::fs::symlink;

    fn run(directory: &Path, name: &str, of: &str) {
        fs::create_dir_all(directory.join("6.12").join(name)).unwrap();
        fs::write(directory.join("6.12").join(name).join("trace.dat"), name).unwrap();
        let found = ScenarioResult { directory: of.to_owned(), ..result(name, Status::Passed) };
        fs::write(directory.join(RESULTS), serde_json::to_vec(&results(vec![found])).unwrap()).unwrap();
    }

    #[test]
    fn runs_are_found_below_artifacts_and_their_files_come_along() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        run(&at("parts/one/20260101-6.12"), "a", "6.12/a");
        run(&at("parts/two/20260101-6.12"), "b", "6.12/b");
        symlink("20260101-6.12", at("parts/two/latest")).unwrap();
        let parts = runs_below(&[at("parts")]).unwrap();
        assert_eq!(parts.len(), 2);
        let merged = merge(&parts, &[]).unwrap();
        put(&merged, &parts, &at("report"), None).unwrap();
        assert_eq!(fs::read_to_string(at("report/6.12/b/trace.dat")).unwrap(), "b");
        for form in ["junit.xml", "results.ktap", "report.html"] {
            assert!(at("report").join(form).is_file(), "{form}");
        }
        assert_eq!(runs_below(&[at("report")]).unwrap()[0].results.scenarios.len(), 2);
        let error = put(&merged, &parts, &at("report"), Some(&at("parts"))).unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
        put(&merged, &parts, &at("report"), Some(&at("report"))).unwrap();
        let error = format!("{:#}", runs_below(&[at("report/6.12")]).unwrap_err());
        assert!(error.contains("no run in"), "{error}");
    }

    #[test]
    fn no_result_reaches_outside_of_its_run() {
        let root = tempfile::tempdir().unwrap();
        for outside in ["../other", "/etc", "6.12/../../x"] {
            let (part, into) = (root.path().join("part"), root.path().join("report"));
            run(&part, "a", outside);
            let parts = runs_below(&[part]).unwrap();
            let error = put(&merge(&parts, &[]).unwrap(), &parts, &into, None).unwrap_err().to_string();
            assert!(error.contains("outside of its own"), "{error}");
        }
    }
}
