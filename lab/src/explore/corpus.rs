//! [`Corpus`]: the sequences of operations that are kept from one search to the next, in a directory.
//!
//! Those that reached new code are files named by the SHA-256 of their content, so that the corpora of two machines
//! are merged by copying files. What was found is in `found/KERNEL/`, named by what is the same each time it happens.

use super::families::Operation;
use crate::{
    host::{beneath::read_beneath, whole::write_whole},
    words::hex,
};
use anyhow::Result;
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The directory of findings, and how their names begin.
const FOUND: &str = "found";
const PREFIX: &str = "explore-";

/// The maximum number of sequences, and of the bytes of a file.
pub(super) const SEQUENCES_MAX: usize = 4096;
const FILE_MAX: u64 = 64 << 10;

/// The maximum number of operations of a sequence that was put together.
pub(super) const OPERATIONS_MAX: usize = 20;

/// The maximum number of operations of a finding: a whole batch.
const FOUND_MAX: usize = 256;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    directory: PathBuf,
}

impl Corpus {
    /// The corpus in a directory, which is created for the first sequence.
    pub fn at(directory: PathBuf) -> Corpus {
        Corpus { directory }
    }

    /// Returns its sequences, without those of other versions of the lab and files that are not what their name says.
    pub(super) fn sequences(&self) -> Result<Vec<Vec<Operation>>> {
        let sequences = files(&self.directory)?
            .into_iter()
            .filter(|file| file.name == digest(&file.text) && file.operations.len() <= OPERATIONS_MAX);
        Ok(sequences.map(|file| file.operations).collect())
    }

    /// Keeps a sequence.
    pub(super) fn add(&self, sequence: &[Operation]) -> Result<()> {
        let text = serde_json::to_vec(sequence)?;
        write(&self.directory, &digest(&text), text)
    }

    /// Drops a sequence.
    pub(super) fn remove(&self, sequence: &[Operation]) -> Result<()> {
        let text = serde_json::to_vec(sequence)?;
        Ok(fs::remove_file(self.directory.join(format!("{}.json", digest(&text))))?)
    }

    /// Returns the names and operations of what was found on a kernel.
    pub(super) fn found(&self, kernel: &str) -> Result<Vec<(String, Vec<Operation>)>> {
        let found = files(&self.directory.join(FOUND).join(kernel))?.into_iter();
        let found = found.filter(|file| is_name(&file.name) && file.operations.len() <= FOUND_MAX);
        Ok(found.map(|file| (file.name, file.operations)).collect())
    }

    /// Keeps what was found on a kernel.
    pub(super) fn add_found(&self, kernel: &str, name: &str, operations: &[Operation]) -> Result<()> {
        write(&self.directory.join(FOUND).join(kernel), name, serde_json::to_vec(operations)?)
    }
}

/// A file of a corpus.
struct Stored {
    /// Its name, without `.json`.
    name: String,
    text: Vec<u8>,
    operations: Vec<Operation>,
}

/// Returns the name of a finding with this signature, the same in each search.
pub(super) fn named(signature: &str) -> String {
    format!("{PREFIX}{}", &digest(signature.as_bytes())[..8])
}

fn is_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn digest(text: &[u8]) -> String {
    hex(&Sha256::digest(text))
}

fn write(directory: &Path, name: &str, text: Vec<u8>) -> Result<()> {
    fs::create_dir_all(directory)?;
    write_whole(&directory.join(format!("{name}.json")), text)
}

/// Returns the files of a directory, if there is one.
fn files(directory: &Path) -> Result<Vec<Stored>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let names = fs::read_dir(directory)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
    names.sort();
    names.truncate(SEQUENCES_MAX);
    let file = |name: String| {
        let text = read_beneath(directory, format!("{name}.json"), FILE_MAX).ok()?;
        let operations = serde_json::from_slice(&text).ok()?;
        Some(Stored { name, text, operations })
    };
    Ok(names.into_iter().filter_map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{
        choose::{Chooser, body},
        facts::Facts,
    };

    #[test]
    fn a_corpus_is_its_whole_files_and_what_was_found() {
        let directory = tempfile::tempdir().unwrap();
        let corpus = Corpus::at(directory.path().join("corpus"));
        assert_eq!(corpus.sequences().unwrap(), Vec::<Vec<Operation>>::new());
        let mut chooser = Chooser::new(1, Facts::default());
        let mut sequences: Vec<Vec<Operation>> =
            (0..3).map(|_| body(&chooser.sequence(None)).to_vec()).collect();
        sequences.iter().for_each(|sequence| corpus.add(sequence).unwrap());
        let name = named("splat use-after-free");
        corpus.add_found("6.12", &name, &sequences[0]).unwrap();
        corpus.add_found("6.12", "another\nname", &sequences[0]).unwrap();
        assert_eq!(corpus.found("6.12").unwrap(), [(name, sequences[0].clone())]);
        assert_eq!(corpus.found("7.2").unwrap(), []);
        let mut loaded = corpus.sequences().unwrap();
        loaded.sort();
        sequences.sort();
        assert_eq!(loaded, sequences);
        // Another content than the name says.
        let files = fs::read_dir(&corpus.directory).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.is_file()).take(1) {
            fs::write(file, "[]").unwrap();
        }
        fs::write(corpus.directory.join("x.json"), "[]").unwrap();
        assert_eq!(corpus.sequences().unwrap().len(), 2);
    }
}
