//! Stored verdicts, so that an interrupted bisection does not test kernels again.
//!
//! The log is a file in the cache. Its name depends on all inputs of the verdicts that the user may have
//! changed: the scenario, the kernels' descriptions, the arguments. Each line is a verdict, appended as
//! soon as it is known. The log is removed at the end of the bisection.

use super::judge::Verdict;
use crate::cache::{Cache, KeyBuilder};
use anyhow::Result;
use fs_err::{self as fs, File};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

/// Verdicts by the names of kernels.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    verdicts: BTreeMap<String, Verdict>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    kernel: String,
    verdict: Verdict,
}

impl Log {
    /// Opens the log of a bisection with these inputs; an empty one if `restart`.
    pub fn open(cache: &Cache, inputs: &[(&str, Vec<u8>)], restart: bool) -> Result<Log> {
        let key = inputs.iter().fold(KeyBuilder::default(), |key, (name, bytes)| key.input(name, bytes));
        let path = cache.directory("bisect")?.join(format!("{}.log", key.finish("verdicts").as_str()));
        if restart {
            remove(&path)?;
        }
        // The last line may be truncated if the lab was killed.
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let verdicts = lines.map(|line| (line.kernel, line.verdict)).collect();
        Ok(Log { path, verdicts })
    }

    /// Returns the number of verdicts.
    pub fn count(&self) -> usize {
        self.verdicts.len()
    }

    /// Returns the verdict on a kernel, if there is one.
    pub fn get(&self, kernel: &str) -> Option<&Verdict> {
        self.verdicts.get(kernel)
    }

    /// Stores a verdict.
    pub fn add(&mut self, kernel: &str, verdict: &Verdict) -> Result<()> {
        let line = Line { kernel: kernel.to_owned(), verdict: verdict.clone() };
        // The leading newline ends a truncated line.
        let text = format!("\n{}\n", serde_json::to_string(&line)?);
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        file.write_all(text.as_bytes())?;
        self.verdicts.insert(line.kernel, line.verdict);
        Ok(())
    }

    /// Removes the log at the end of the bisection.
    pub fn finish(&self) -> Result<()> {
        remove(&self.path)
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The names and contents of the files of a directory, to be an input.
pub fn content_of(directory: &Path) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut content = Vec::new();
    for path in files {
        content.extend_from_slice(path.as_os_str().as_encoded_bytes());
        content.push(0);
        content.extend(fs::read(&path)?);
        content.push(0);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_outlive_the_lab_until_it_is_done_with_them() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let open = |scenario: &str, restart| Log::open(&cache, &[("s", scenario.into())], restart).unwrap();
        let good = Verdict::Good { passes: 3, wrong: 0.0089 };
        let skipped = Verdict::Skipped { reason: "it does not build".into() };
        let mut log = open("a", false);
        log.add("6.1", &good).unwrap();
        let mut cut = File::options().append(true).open(&log.path).unwrap();
        cut.write_all(b"{\"kernel\":\"6.12\",\"verd").unwrap();
        open("a", false).add("7.2", &skipped).unwrap();
        let again = open("a", false);
        assert_eq!((again.count(), again.get("6.1"), again.get("7.2")), (2, Some(&good), Some(&skipped)));
        assert_eq!(open("b", false).count(), 0);
        again.finish().unwrap();
        assert_eq!(open("a", false).count(), 0);
        log.add("6.1", &good).unwrap();
        assert_eq!(open("a", true).count(), 0);
    }
}
