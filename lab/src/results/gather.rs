//! Finds the runs below directories, and writes their merged report.

use super::{
    BOOT_COVERAGE, EMPTY_COVERAGE, MergeInput, Merged, PendingDirectory, Results, RunDirectory,
    place::partial, point_latest, stored_results, write_json,
};
use crate::host::beneath::{directory_beneath, open_beneath};
use anyhow::{Result, bail};
use fs_err::{self as fs, File};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The file that marks a directory as that of a run.
const RESULTS: &str = "results.json";

/// The maximum depth of a run below a given directory, as in `ARTIFACT/results/RUN`.
const DEPTH: usize = 4;

/// Writes the other forms of `results.json` into a directory, which will have the name of the second one.
pub type Forms<'a> = &'a dyn Fn(&Results, &Path, &Path) -> Result<()>;

/// Returns the runs at and below `paths`, sorted by name below each. Does not follow links, so that
/// `latest` is not a second run.
pub fn runs_below(paths: &[PathBuf]) -> Result<Vec<MergeInput>> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        search(path, DEPTH, &mut found)?;
        if found.len() == before {
            bail!("no run in `{}`: there is no `{RESULTS}`", path.display());
        }
    }
    let part = |directory: PathBuf| Ok(MergeInput { results: stored_results(&directory)?, directory });
    found.into_iter().map(part).collect()
}

fn search(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if directory.join(RESULTS).is_file() {
        found.push(directory.to_owned());
        return Ok(());
    }
    let mut inside = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && depth > 0 {
            inside.push(entry.path());
        }
    }
    inside.sort();
    inside.iter().try_for_each(|path| search(path, depth - 1, found))
}

/// Writes a merged report to `into`, which must be empty or not exist: the files of its scenarios,
/// `results.json` and its other forms. Files are hard links if the filesystem supports them, else copies.
/// If `into` is the report `last`, it is replaced.
///
/// The report is written next to `into` and gets that name when it is complete. Until then, and if that
/// fails, `into` is unchanged.
pub fn put(
    merged: &Merged,
    parts: &[MergeInput],
    into: &Path,
    last: Option<&Path>,
    forms: Forms<'_>,
) -> Result<()> {
    refuse_overlap(parts, into)?;
    fs::create_dir_all(into)?;
    let into = fs::canonicalize(into)?;
    let is_into = |last: &Path| fs::canonicalize(last).is_ok_and(|last| last == into);
    let replaces = last.is_some_and(is_into) && into.join(RESULTS).is_file();
    if !replaces && fs::read_dir(&into)?.next().is_some() {
        bail!("`{}` is not empty; the report needs an empty or a new directory", into.display());
    }
    let pending = PendingDirectory::next_to(&into)?;
    fill(merged, parts, pending.path())?;
    forms(&merged.results, pending.path(), &into)?;
    if replaces { pending.replace() } else { pending.put() }
}

/// Refuses parts inside `into`, which would be removed with the old report, and parts that contain it.
fn refuse_overlap(parts: &[MergeInput], into: &Path) -> Result<()> {
    let whole = std::path::absolute(into)?;
    // It need not exist, but one of the directories above it does.
    let real = whole.ancestors().find_map(|above| {
        Some(fs::canonicalize(above).ok()?.join(whole.strip_prefix(above).unwrap_or(Path::new(""))))
    });
    let real = real.unwrap_or(whole);
    for part in parts {
        let (at, directory) = (fs::canonicalize(&part.directory)?, part.directory.display());
        if at.starts_with(&real) {
            bail!(
                "cannot merge `{directory}` into `{}`: the part is inside; move it elsewhere",
                into.display()
            );
        }
        if real.starts_with(&at) {
            bail!(
                "cannot merge `{directory}` into `{}`, which is inside; choose another one",
                into.display()
            );
        }
    }
    Ok(())
}

/// Like [`put`], but in a new directory of `results`, which is returned and becomes `latest`.
pub fn put_new(merged: &Merged, parts: &[MergeInput], results: &Path, forms: Forms<'_>) -> Result<PathBuf> {
    let kernels: Vec<String> = merged.results.kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let directory = RunDirectory::create(results, &kernels)?;
    fill_new(merged, parts, directory.path(), forms).inspect_err(|_| {
        // Without `results.json` it is not a run, only in the way.
        let _ = fs::remove_dir_all(directory.path());
    })?;
    point_latest(results, directory.path())?;
    Ok(directory.path().to_owned())
}

/// Fills a run's directory with files that are complete when they get their names.
fn fill_new(merged: &Merged, parts: &[MergeInput], run: &Path, forms: Forms<'_>) -> Result<()> {
    let pending = partial(run)?;
    fill(merged, parts, pending.path())?;
    forms(&merged.results, pending.path(), run)?;
    let mut made = fs::read_dir(pending.path())?.collect::<io::Result<Vec<_>>>()?;
    // The last file: a directory without it is not a run.
    made.sort_by_key(|entry| entry.file_name() == RESULTS);
    made.iter().try_for_each(|entry| Ok(fs::rename(entry.path(), run.join(entry.file_name()))?))
}

fn fill(merged: &Merged, parts: &[MergeInput], into: &Path) -> Result<()> {
    for (result, &origin) in merged.results.scenarios.iter().zip(&merged.origins) {
        let Some(part) = parts.get(origin).filter(|_| !result.directory.is_empty()) else { continue };
        match directory_beneath(&part.directory, &result.directory) {
            // Perhaps only the `results.json` of a run was kept.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            from => adopt(&from?, &into.join(&result.directory))?,
        }
    }
    parts.iter().try_for_each(|part| adopt_coverage(part, into))?;
    write_json(&merged.results, into)
}

/// Copies what the kernels of a part ran without a scenario, which is the same in all parts that measured it.
fn adopt_coverage(part: &MergeInput, into: &Path) -> Result<()> {
    for kernel in &part.results.kernels {
        for file in [BOOT_COVERAGE, EMPTY_COVERAGE] {
            // The name is foreign: only if it stays in the part, it stays in the report.
            let name = Path::new(&kernel.name).join(file);
            let Ok(mut from) = open_beneath(&part.directory, &name) else { continue };
            let to = into.join(&name);
            if to.exists() {
                continue;
            }
            fs::create_dir_all(into.join(&kernel.name))?;
            io::copy(&mut from, &mut File::create_new(&to)?)?;
        }
    }
    Ok(())
}

/// Links or copies the files below `from`. Skips anything but regular files and directories.
pub(crate) fn adopt(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        let target = to.join(entry.file_name().unwrap_or_default());
        if kind.is_dir() {
            adopt(&entry, &target)?;
        } else if kind.is_file() && fs::hard_link(&entry, &target).is_err() {
            // A file that exists may be a link to one that was read.
            io::copy(&mut File::open(&entry)?, &mut File::create_new(&target)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{
        KernelInfo, ScenarioResult, Status,
        fixture::{result, results},
        merge, scenarios,
    };
    use std::{
        collections::{BTreeMap, BTreeSet},
        os::unix::fs::symlink,
    };

    fn form(_: &Results, into: &Path, _: &Path) -> Result<()> {
        Ok(fs::write(into.join("form"), "")?)
    }

    fn run(directory: &Path, name: &str, of: &str) {
        fs::create_dir_all(directory.join("6.12").join(name)).unwrap();
        fs::write(directory.join("6.12").join(name).join("trace.dat"), name).unwrap();
        fs::write(directory.join("6.12").join(EMPTY_COVERAGE), name).unwrap();
        let found = ScenarioResult { directory: of.to_owned(), ..result(name, Status::Passed) };
        let mut found = results(vec![found]);
        found.kernels = ["../stolen", "6.12"].map(kernel).into();
        fs::write(directory.join(RESULTS), serde_json::to_vec(&found).unwrap()).unwrap();
    }

    fn kernel(name: &str) -> KernelInfo {
        KernelInfo { name: name.into(), source_version: "6.12.1".into(), config_hash: "h".into() }
    }

    #[test]
    fn runs_are_found_below_artifacts_and_their_files_come_along() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        run(&at("parts/one/20260101-6.12"), "a", "6.12/a");
        // Beside the run, not in it.
        fs::create_dir_all(at("parts/one/stolen")).unwrap();
        fs::write(at("parts/one/stolen").join(EMPTY_COVERAGE), "").unwrap();
        run(&at("parts/two/20260101-6.12"), "b", "6.12/b");
        symlink("20260101-6.12", at("parts/two/latest")).unwrap();
        let parts = runs_below(&[at("parts")]).unwrap();
        assert_eq!(parts.len(), 2);
        let merged = merge(&parts, &[]).unwrap();
        put(&merged, &parts, &at("report"), None, &form).unwrap();
        assert_eq!(fs::read_to_string(at("report/6.12/b/trace.dat")).unwrap(), "b");
        assert!(at("report/form").is_file());
        assert_eq!(fs::read_to_string(at("report/6.12").join(EMPTY_COVERAGE)).unwrap(), "a");
        assert!(!at("stolen").exists());
        assert_eq!(runs_below(&[at("report")]).unwrap()[0].results.scenarios.len(), 2);
        let error = put(&merged, &parts, &at("report"), Some(&at("parts")), &form).unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
        put(&merged, &parts, &at("report"), Some(&at("report")), &form).unwrap();
        let error = format!("{:#}", runs_below(&[at("report/6.12")]).unwrap_err());
        assert!(error.contains("no run in"), "{error}");
    }

    /// Returns the files below a directory with their contents.
    fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => files.extend(contents(&entry.path())),
                false => drop(files.insert(entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
        files
    }

    fn full_disk(_: &Results, into: &Path, _: &Path) -> Result<()> {
        fs::write(into.join("form"), "half")?;
        Err(io::Error::from(io::ErrorKind::StorageFull).into())
    }

    #[test]
    fn the_old_report_stays_until_the_new_one_is_complete() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let of = |name: &str| {
            let parts = runs_below(&[at(name)]).unwrap();
            (merge(&parts, &[]).unwrap(), parts)
        };
        run(&at("one"), "a", "6.12/a");
        run(&at("two"), "b", "6.12/b");
        let (merged, parts) = of("one");
        put(&merged, &parts, &at("report"), None, &form).unwrap();
        let before = contents(root.path());
        let (merged, parts) = of("two");
        let again =
            |into: &Path, last: &Path, forms: Forms<'_>| put(&merged, &parts, into, Some(last), forms);
        again(&at("report"), &at("report"), &full_disk).unwrap_err();
        assert_eq!(contents(root.path()), before);
        again(&at("new"), &at("report"), &full_disk).unwrap_err();
        assert_eq!(contents(root.path()), before);
        // The same directory under two names.
        symlink("report", at("latest")).unwrap();
        again(&at("latest"), &at("report"), &form).unwrap();
        assert!(at("latest").is_symlink() && at("report/6.12/b").is_dir() && !at("report/6.12/a").exists());
        let names = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(
            names.collect::<BTreeSet<_>>(),
            ["latest", "new", "one", "report", "two"].map(Into::into).into()
        );
    }

    #[test]
    fn a_new_report_that_fails_leaves_no_run() {
        let root = tempfile::tempdir().unwrap();
        run(&root.path().join("one"), "a", "6.12/a");
        let parts = runs_below(&[root.path().join("one")]).unwrap();
        let (merged, results) = (merge(&parts, &[]).unwrap(), root.path().join("results"));
        put_new(&merged, &parts, &results, &full_disk).unwrap_err();
        assert_eq!(fs::read_dir(&results).unwrap().count(), 0);
        let report = put_new(&merged, &parts, &results, &form).unwrap();
        assert!(report.join("6.12/a/trace.dat").is_file());
    }

    #[test]
    fn a_part_inside_of_the_report_or_around_it_is_refused_before_anything_is_written() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        run(&at("report"), "a", "6.12/a");
        run(&at("report/parts/two"), "b", "6.12/b");
        let before = contents(root.path());
        for (part, into, expect) in [
            ("report", "report", "the part is inside; move it elsewhere"),
            ("report/parts/two", "report", "report/parts/two` into `"),
            ("report/parts/two", "report/parts/two/6.12/b/new", "which is inside"),
        ] {
            let parts = runs_below(&[at(part)]).unwrap();
            let merged = merge(&parts, &[]).unwrap();
            let error = put(&merged, &parts, &at(into), Some(&at(into)), &form).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
        assert_eq!(contents(root.path()), before);
        assert!(!at("report/parts/two/6.12/b/new").exists());
    }

    #[test]
    fn links_in_results_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("home/.ssh")).unwrap();
        fs::write(at("home/.ssh/id"), "secret").unwrap();
        run(&at("part"), "a", "6.12/a");
        // A link among the files of a result is left out.
        symlink(at("home/.ssh/id"), at("part/6.12/a/kernel.log")).unwrap();
        symlink(at("home/.ssh"), at("part/6.12/a/steps")).unwrap();
        let parts = runs_below(&[at("part")]).unwrap();
        let merged = merge(&parts, &[]).unwrap();
        put(&merged, &parts, &at("report"), None, &form).unwrap();
        assert_eq!(fs::read_dir(at("report/6.12/a")).unwrap().count(), 1);
        // One in the path of a directory is refused.
        fs::remove_dir_all(at("part/6.12/a")).unwrap();
        symlink(at("home/.ssh"), at("part/6.12/a")).unwrap();
        let error = put(&merged, &parts, &at("new"), None, &form).unwrap_err().to_string();
        assert!(error.contains("part/6.12/a`: it is a link"), "{error}");
        let error = scenarios(&at("part")).unwrap_err().to_string();
        assert!(error.contains("part/6.12/a`: it is a link"), "{error}");
        fs::rename(at("part/results.json"), at("results.json")).unwrap();
        symlink("../results.json", at("part/results.json")).unwrap();
        let error = runs_below(&[at("part")]).unwrap_err().to_string();
        assert!(error.contains("part/results.json`: it is a link"), "{error}");
    }

    #[test]
    fn what_was_read_is_not_written() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        run(&at("own"), "a", "6.12/a");
        fs::create_dir_all(at("foreign/6.12/a")).unwrap();
        run(&at("foreign"), "b", "6.12/a");
        fs::write(at("foreign/6.12/a/trace.dat"), "overwritten").unwrap();
        let parts = runs_below(&[at("own"), at("foreign")]).unwrap();
        let before = contents(root.path());
        let error = merge(&parts, &[]).unwrap_err().to_string();
        let expect = ["own", "foreign"].map(|run| format!("`6.12/a` in `{}`", at(run).display()));
        assert!(error.contains(&expect.join(" and ")), "{error}");
        // Not even if two results share files.
        adopt(&at("own/6.12"), &at("report")).unwrap();
        adopt(&at("foreign/6.12"), &at("report")).unwrap_err();
        adopt(&at("own/6.12"), &at("report")).unwrap_err();
        fs::remove_dir_all(at("report")).unwrap();
        assert_eq!(contents(root.path()), before);
    }

    #[test]
    fn no_result_reaches_outside_of_its_run() {
        let root = tempfile::tempdir().unwrap();
        run(&root.path().join("part"), "a", "../other");
        let error = runs_below(&[root.path().join("part")]).unwrap_err().to_string();
        assert!(error.contains("name a directory outside of it: `../other`"), "{error}");
    }
}
