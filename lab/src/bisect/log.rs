//! Verdicts that are there already: what a bisection that was cut off had found is not run again.
//!
//! The log is a file in the cache, named by all that the verdicts depend on and that a person may have
//! changed meanwhile: the scenario, the kernels' descriptions, what is asked. A line is a verdict, written
//! the moment it is there. With the end of the bisection the log goes.

use super::judge::Verdict;
use crate::cache::{Cache, KeyBuilder};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

/// Verdicts by what their kernels are called.
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
    /// What is in the cache of a bisection with these inputs; nothing, if `anew`.
    pub fn open(cache: &Cache, inputs: &[(&str, Vec<u8>)], anew: bool) -> Result<Log> {
        let key = inputs.iter().fold(KeyBuilder::default(), |key, (name, bytes)| key.input(name, bytes));
        let path = cache.directory("bisect")?.join(format!("{}.log", key.finish("verdicts").as_str()));
        if anew {
            remove(&path)?;
        }
        // The last line may be cut off, as the lab was.
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let verdicts = lines.map(|line| (line.kernel, line.verdict)).collect();
        Ok(Log { path, verdicts })
    }

    /// How many verdicts there are.
    pub fn count(&self) -> usize {
        self.verdicts.len()
    }

    /// The verdict on a kernel, if there is one.
    pub fn get(&self, kernel: &str) -> Option<&Verdict> {
        self.verdicts.get(kernel)
    }

    /// Keeps a verdict.
    pub fn add(&mut self, kernel: &str, verdict: &Verdict) -> Result<()> {
        let line = Line { kernel: kernel.to_owned(), verdict: verdict.clone() };
        // The newline in front ends one that was cut off.
        let text = format!("\n{}\n", serde_json::to_string(&line)?);
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write `{}`", self.path.display()))?;
        self.verdicts.insert(line.kernel, line.verdict);
        Ok(())
    }

    /// Is done with.
    pub fn finish(&self) -> Result<()> {
        remove(&self.path)
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// The names and contents of the files of a directory, to be an input.
pub fn content_of(directory: &Path) -> Result<Vec<u8>> {
    let read = || format!("cannot read `{}`", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(read)? {
        let path = entry.with_context(read)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut content = Vec::new();
    for path in files {
        content.extend_from_slice(path.as_os_str().as_encoded_bytes());
        content.push(0);
        content.extend(fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?);
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
        let open = |scenario: &str, anew| Log::open(&cache, &[("s", scenario.into())], anew).unwrap();
        let good = Verdict::Good { passes: 3, wrong: 0.0089 };
        let skipped = Verdict::Skipped { reason: "it does not build".into() };
        let mut log = open("a", false);
        log.add("6.1", &good).unwrap();
        let mut cut = OpenOptions::new().append(true).open(&log.path).unwrap();
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
