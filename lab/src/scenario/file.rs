//! Scenario files on disk: finding, naming and reading them.

use super::ScenarioError;
use crate::words::stays_inside;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// A scenario file and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioFile {
    /// The path below `scenarios/` without `.yaml`, as in `probes/eventfd-write`; for any other file,
    /// its file name without `.yaml`.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
}

/// Maximum size of a scenario file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 16;

/// Reads a scenario file, which must be a regular file.
pub(super) fn read(path: &Path) -> Result<String, ScenarioError> {
    let failed = |message: String| ScenarioError::of_file(path, message);
    // Checked before opening: opening a FIFO would block until it has a writer.
    let metadata =
        fs::metadata(path).map_err(|error| failed(format!("cannot open the scenario: {error}")))?;
    if !metadata.is_file() {
        return Err(failed("not a regular file, expected a scenario".to_owned()));
    }
    let file = File::open(path).map_err(|error| failed(format!("cannot open the scenario: {error}")))?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(format!("cannot read the scenario: {error}")))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(failed(format!("{} bytes, expected a scenario of at most 1 MiB", metadata.len())));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        failed(format!("line {} is not UTF-8", line + 1))
    })
}

/// Returns the scenarios that `paths` name, sorted by name: files, directories, or names such as
/// `probes/eventfd-write`. Without paths, returns all scenarios below `root`, the `scenarios`
/// directory.
///
/// # Errors
/// Fails for a path that does not exist or contains no scenario, for a name with invalid characters,
/// and for two files with the same name.
pub fn find(root: &Path, paths: &[PathBuf]) -> Result<Vec<ScenarioFile>, ScenarioError> {
    let mut found = BTreeMap::new();
    let all = [root.to_owned()];
    for path in if paths.is_empty() { &all[..] } else { paths } {
        let path = existing(root, path)?;
        let mut files = Vec::new();
        if path.is_dir() {
            walk(&path, DEPTH_MAX, &mut files)?;
            if files.is_empty() {
                return Err(ScenarioError::of_file(&path, "no scenario (*.yaml) below this directory"));
            }
        } else {
            files.push(path);
        }
        for path in files {
            let name = name(root, &path)?;
            let before = found.insert(name.clone(), path.clone());
            if let Some(before) = before.filter(|before| !same_file(before, &path)) {
                let message = format!("its name `{name}` is also that of `{}`", before.display());
                return Err(ScenarioError::of_file(&path, message));
            }
        }
    }
    Ok(found.into_iter().map(|(name, path)| ScenarioFile { name, path }).collect())
}

/// Returns `path` itself, or the scenario or directory of that name below `root`.
fn existing(root: &Path, path: &Path) -> Result<PathBuf, ScenarioError> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    if stays_inside(path) {
        let directory = root.join(path);
        let mut file = directory.clone().into_os_string();
        file.push(".yaml");
        // A directory of the same name has what the scenario uses.
        if let Some(found) = [file.into(), directory].into_iter().find(|path| path.exists()) {
            return Ok(found);
        }
    }
    Err(ScenarioError::of_file(path, "no such file or directory, expected a scenario or a directory of them"))
}

/// Collects `*.yaml` below a directory, without following links to directories.
fn walk(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ScenarioError> {
    let failed = |error| ScenarioError::of_file(directory, format!("cannot read the directory: {error}"));
    if depth == 0 {
        return Err(ScenarioError::of_file(directory, format!("more than {DEPTH_MAX} directories deep")));
    }
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if kind.is_dir() {
            walk(&path, depth - 1, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Returns whether an untrusted string can be the name of a scenario.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 400 && text.split('/').count() <= DEPTH_MAX && text.split('/').all(is_part)
}

fn is_part(part: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !part.is_empty() && !part.starts_with('.') && !part.contains("..") && part.chars().all(good)
}

/// Returns a scenario's name, which becomes part of paths, test names and reports.
fn name(root: &Path, path: &Path) -> Result<String, ScenarioError> {
    let below = match (root.canonicalize(), path.canonicalize()) {
        (Ok(root), Ok(path)) => path.strip_prefix(root).ok().map(Path::to_owned),
        _ => path.strip_prefix(root).ok().map(Path::to_owned),
    };
    let below = below.unwrap_or_else(|| path.file_name().map(PathBuf::from).unwrap_or_default());
    let below = below.with_extension("");
    let parts: Option<Vec<&str>> =
        below.iter().map(|part| part.to_str().filter(|part| is_part(part))).collect();
    match parts {
        Some(parts) if !parts.is_empty() => Ok(parts.join("/")),
        _ => {
            let message =
                "bad character in the name, expected letters, digits, `-`, `_` and `.`, and none hidden";
            Err(ScenarioError::of_file(path, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "summary: x\n").unwrap();
        }
        directory
    }

    #[test]
    fn scenarios_are_found_by_directory_file_and_name() {
        let root =
            directory(&["a/one.yaml", "a/two.yaml", "a/two/module.c", "b/deep/three.yaml", "schema.json"]);
        let check = |paths: &[PathBuf], expect: &[&str]| {
            let found = find(root.path(), paths).unwrap();
            let names: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
            assert_eq!(names, expect);
        };
        check(&[], &["a/one", "a/two", "b/deep/three"]);
        check(&[root.path().join("a")], &["a/one", "a/two"]);
        check(&[root.path().join("a/two.yaml"), root.path().join("a/two.yaml")], &["a/two"]);
        check(&["a/two".into(), "b".into()], &["a/two", "b/deep/three"]);
    }

    #[test]
    fn what_cannot_be_found_or_named_is_refused() {
        let root = directory(&["a/one.yaml", "bad/x y.yaml", "odd/a..b.yaml", "empty/readme"]);
        let elsewhere = directory(&["p/one.yaml", "q/one.yaml"]);
        let check = |paths: &[PathBuf], expect: &str| {
            let error = find(root.path(), paths).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(&["nothing".into()], "nothing: no such file or directory");
        check(&["../x".into()], "no such file or directory");
        check(&[root.path().join("bad")], "bad character in the name");
        check(&[root.path().join("odd")], "bad character in the name");
        check(&[root.path().join("empty")], "no scenario (*.yaml)");
        check(&[elsewhere.path().to_owned()], "its name `one` is also that of");
    }

    #[test]
    fn large_and_binary_files_are_refused() {
        let root = directory(&["a.yaml"]);
        let path = root.path().join("a.yaml");
        fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .contains("1048577 bytes, expected a scenario of at most 1 MiB")
        );
        fs::write(&path, b"a: b\nc: \xff\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 2 is not UTF-8"));
        assert!(read(root.path()).unwrap_err().to_string().contains("not a regular file"));
    }
}
