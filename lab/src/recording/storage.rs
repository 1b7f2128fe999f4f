//! Recordings in files, so that they can be judged again: `recording.json`, `kernel.log`, `files.json`,
//! and the stdout of steps.

use super::{Recording, notes::stored_name, processes::is_whole};
use crate::{host::beneath::read_beneath, machine::Death, results::RECORDING};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The version of `recording.json`. Raised when a reader of the old form would misread the new one.
const SCHEMA: u32 = 1;

/// The kernel log, next to `trace.dat`.
const KERNEL_LOG: &str = "kernel.log";

/// tracefs files that expectations need: path to content.
const FILES: &str = "files.json";

/// The maximum size of each file that is read, in bytes.
const FILE_MAX: u64 = 64 << 20;

/// The content of `recording.json`.
#[derive(Serialize, Deserialize)]
struct Stored<R> {
    schema: u32,
    recording: R,
}

/// The part of `recording.json` that each version has.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// The stdout of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepStdout {
    /// The text.
    pub text: String,
    /// Whether it is complete.
    pub whole: bool,
}

impl Recording {
    /// Stores the facts in a scenario's `directory` and returns them. If that fails, the run ended in an
    /// error of the lab, unless it ended earlier.
    pub fn stored(mut self, directory: &Path) -> Recording {
        if let Err(error) = self.store(directory)
            && self.end.is_none()
        {
            self.die(&Death::Lab(error), "storing the recording");
        }
        self
    }

    fn store(&self, directory: &Path) -> Result<()> {
        let write = |name: &str, data: &[u8]| fs::write(directory.join(name), data);
        write(KERNEL_LOG, self.kernel_log.as_bytes())?;
        write(FILES, &serde_json::to_vec_pretty(&self.files)?)?;
        write(RECORDING, &serde_json::to_vec_pretty(&Stored { schema: SCHEMA, recording: self })?)?;
        Ok(())
    }

    /// Loads the facts that are stored in a scenario's `directory`. Returns `None` if an older version of
    /// the lab stored it, without facts.
    pub fn load(directory: &Path) -> Result<Option<Recording>> {
        let path = directory.join(RECORDING);
        if !path.is_file() {
            return Ok(None);
        }
        let Version { schema } = json(directory, RECORDING)?;
        if schema != SCHEMA {
            bail!("`{}` has schema {schema}, expected {SCHEMA}", path.display());
        }
        let Stored { recording, .. } = json::<Stored<Recording>>(directory, RECORDING)?;
        let (kernel_log, files) = texts(directory)?;
        Ok(Some(Recording { kernel_log, files, ..recording }))
    }
}

/// Reads the stored kernel log and the tracefs files.
pub fn texts(directory: &Path) -> Result<(String, BTreeMap<String, String>)> {
    let log = read_beneath(directory, KERNEL_LOG, FILE_MAX)?;
    Ok((String::from_utf8_lossy(&log).into_owned(), json(directory, FILES)?))
}

/// Returns the stored stdout of these steps, of those that have one.
pub fn outputs(directory: &Path, steps: &BTreeSet<usize>) -> BTreeMap<usize, StepStdout> {
    let stdout = |step: &usize| {
        let bytes = read_beneath(directory, stored_name(*step, "stdout"), FILE_MAX).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = is_whole(&text);
        Some((*step, StepStdout { text, whole }))
    };
    steps.iter().filter_map(stdout).collect()
}

fn json<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<T> {
    let bytes = read_beneath(directory, name, FILE_MAX)?;
    serde_json::from_slice(&bytes).with_context(|| format!("`{}` is corrupt", directory.join(name).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_has_a_clear_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(RECORDING);
        let error = || format!("{:#}", Recording::load(directory.path()).unwrap_err());
        assert!(Recording::load(directory.path()).unwrap().is_none());
        for (json, expect) in [
            ("{ \"schema\": 1, \"recording\": { \"steps\": [ 1", "recording.json` is corrupt: "),
            ("{ \"schema\": 1, \"recording\": { \"steps\": 1 } }", "recording.json` is corrupt: "),
            ("{ \"schema\": 1 }", "missing field `recording`"),
            ("{ \"schema\": 2, \"recording\": [] }", "has schema 2, expected 1"),
        ] {
            fs::write(&path, json).unwrap();
            assert!(error().contains(expect), "{}", error());
        }
        fs::File::create(&path).unwrap().set_len(FILE_MAX + 1).unwrap();
        assert!(error().contains("larger than 64 MiB"), "{}", error());
        Recording::default().store(directory.path()).unwrap();
        fs::remove_file(directory.path().join(KERNEL_LOG)).unwrap();
        assert!(error().contains("kernel.log"), "{}", error());
    }
}
