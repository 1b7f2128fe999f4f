//! What sequences reached, and those worth changing further: the corpus.
//!
//! The corpus is a directory of the cache with one file for each sequence, named by the SHA-256 of its content,
//! so that those of two machines are merged by copying files.

use super::{
    choose::body,
    families::Operation,
    names::Sequence,
    state::{Facts, Model},
};
use crate::{
    coverage::{Ran, Ranges, Source, SourceFiles},
    host::{beneath::read_beneath, whole::write_whole},
    kernel::{Kernel, find_builds},
    run::Prepared,
    words::hex,
};
use anyhow::{Context, Result};
use fs_err as fs;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The directory of the cache.
const CORPUS: &str = "explore";

/// The maximum number of sequences, and of the bytes of a file.
const SEQUENCES_MAX: usize = 4096;
const FILE_MAX: u64 = 64 << 10;

/// The maximum number of operations of a sequence that was put together.
const OPERATIONS_MAX: usize = 20;

/// Which lines of the kernel's tracing code were reached, and by which sequences.
pub(super) struct Guide {
    source: Source,
    reached: Ranges,
    lines: usize,
    corpus: Vec<Vec<Operation>>,
    directory: PathBuf,
}

impl Guide {
    /// Reads the lines of a kernel and the corpus.
    ///
    /// # Errors
    /// It is a distribution kernel, whose lines are not known.
    pub(super) fn new(prepared: &Prepared, kernel: &Kernel) -> Result<Guide> {
        let cache = &prepared.lab.cache;
        let build = find_builds(cache, &kernel.config_hash)?.into_iter().next().with_context(|| {
            format!(
                "the lines of {} are not known, only those of kernels that the lab built; leave out --guided",
                kernel.name
            )
        })?;
        let files = SourceFiles::of_tracing(&prepared.lab.root)?;
        let source = Source::of_vmlinux(&build.vmlinux(), &build.roots(), &files)?;
        let directory = cache.directory(CORPUS)?;
        let corpus = load(&directory)?;
        Ok(Guide { source, reached: Ranges::default(), lines: 0, corpus, directory })
    }

    /// Returns the numbers of lines that were reached, and of sequences in the corpus.
    pub(super) fn numbers(&self) -> (usize, usize) {
        (self.lines, self.corpus.len())
    }

    /// Adds what sequences ran together. If they reached lines that none before them did, they are kept.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn add(&mut self, ran: &Ran, sequences: &[Vec<Operation>]) -> Result<()> {
        let reached = self.reached.and(&ran.code);
        let lines = self.source.lines_in(&reached).into_iter().filter(|reached| *reached).count();
        let is_new = lines > self.lines;
        (self.reached, self.lines) = (reached, lines);
        for sequence in sequences.iter().filter(|_| is_new) {
            if self.corpus.len() < SEQUENCES_MAX {
                let sequence = renumbered(body(sequence), Sequence(0))?;
                store(&self.directory, &sequence)?;
                self.corpus.push(sequence);
            }
        }
        Ok(())
    }

    /// Returns a sequence of the corpus, changed: an operation inserted, dropped or exchanged with another one,
    /// or its end replaced by that of another sequence. `None` if the corpus is empty.
    pub(super) fn changed(
        &self,
        random: &mut fastrand::Rng,
        (facts, sequence): (Facts, Sequence),
        mut draw: impl FnMut(&mut fastrand::Rng, &Model) -> Operation,
    ) -> Option<Vec<Operation>> {
        let one = |random: &mut fastrand::Rng| random.choice(&self.corpus).cloned();
        let mut operations = renumbered(&one(random)?, sequence).ok()?;
        let other = renumbered(&one(random)?, sequence).ok()?;
        let at = random.usize(..=operations.len());
        match random.u8(..4) {
            0 => {
                let mut model = Model::new(facts);
                operations[..at].iter().for_each(|operation| _ = operation.apply(&mut model));
                operations.insert(at, draw(random, &model));
            }
            1 if at < operations.len() => _ = operations.remove(at),
            2 if at < operations.len() => {
                let with = random.usize(..operations.len());
                operations.swap(at, with);
            }
            _ => {
                operations.truncate(at);
                let from = random.usize(..=other.len());
                operations.extend_from_slice(&other[from..]);
            }
        }
        operations.truncate(OPERATIONS_MAX);
        Some(known(facts, operations))
    }
}

/// Leaves out what the model does not know after the change of what came before.
fn known(facts: Facts, operations: Vec<Operation>) -> Vec<Operation> {
    let mut model = Model::new(facts);
    let known = operations.into_iter().filter(|operation| {
        let known = operation.is_known(&model);
        if known {
            let _ = operation.apply(&mut model);
        }
        known
    });
    known.collect()
}

/// The same operations with the names of another sequence.
fn renumbered(operations: &[Operation], sequence: Sequence) -> Result<Vec<Operation>> {
    let mut value = serde_json::to_value(operations)?;
    renumber(&mut value, sequence);
    Ok(serde_json::from_value(value)?)
}

fn renumber(value: &mut Value, Sequence(number): Sequence) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| renumber(value, Sequence(number))),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Number(_) if name == "sequence" => *value = number.into(),
                    value => renumber(value, Sequence(number)),
                }
            }
        }
        _ => {}
    }
}

fn store(directory: &Path, sequence: &[Operation]) -> Result<()> {
    let text = serde_json::to_vec(sequence)?;
    write_whole(&directory.join(format!("{}.json", hex(&Sha256::digest(&text)))), text)
}

/// Reads the corpus. Leaves out files that are not what their name says, and sequences of other versions.
fn load(directory: &Path) -> Result<Vec<Vec<Operation>>> {
    let names = fs::read_dir(directory)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    names.sort();
    names.truncate(SEQUENCES_MAX);
    let sequence = |name: &String| {
        let text = read_beneath(directory, name, FILE_MAX).ok()?;
        let is_whole = format!("{}.json", hex(&Sha256::digest(&text))) == *name;
        let operations: Vec<Operation> = serde_json::from_slice(&text).ok().filter(|_| is_whole)?;
        (operations.len() <= OPERATIONS_MAX).then_some(operations)
    };
    Ok(names.iter().filter_map(sequence).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::choose::Chooser;

    #[test]
    fn a_corpus_is_its_whole_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut chooser = Chooser::new(1, Facts::default());
        let sequences: Vec<Vec<Operation>> =
            (0..3).map(|_| renumbered(body(&chooser.sequence(None)), Sequence(0)).unwrap()).collect();
        sequences.iter().for_each(|sequence| store(directory.path(), sequence).unwrap());
        let mut loaded = load(directory.path()).unwrap();
        loaded.sort();
        let mut expected = sequences.clone();
        expected.sort();
        assert_eq!(loaded, expected);
        // Another content than the name says.
        for entry in fs::read_dir(directory.path()).unwrap().take(1) {
            fs::write(entry.unwrap().path(), "[]").unwrap();
        }
        fs::write(directory.path().join("x.json"), "[]").unwrap();
        assert_eq!(load(directory.path()).unwrap().len(), 2);
    }

    #[test]
    fn changed_sequences_are_known_and_have_the_names_of_theirs() {
        let facts = Facts { offsets: Some([1, 2]), ..Facts::default() };
        let mut chooser = Chooser::new(2, facts);
        let corpus =
            (0..20).map(|_| renumbered(body(&chooser.sequence(None)), Sequence(0)).unwrap()).collect();
        let guide = Guide {
            source: Source::default(),
            reached: Ranges::default(),
            lines: 0,
            corpus,
            directory: PathBuf::new(),
        };
        let mut different = 0;
        for number in 100..300 {
            let sequence = chooser.sequence(Some(&guide));
            // A command without an event is removed without its name.
            let text = format!("{:?}", body(&sequence));
            assert!(!text.contains("Sequence(0)"), "{number}: {text}");
            let mut model = Model::new(facts);
            for operation in &sequence {
                assert!(operation.is_known(&model), "{operation:?}");
                let _ = operation.apply(&mut model);
            }
            different +=
                usize::from(!guide.corpus.contains(&renumbered(body(&sequence), Sequence(0)).unwrap()));
        }
        assert!(different > 150, "{different}");
    }
}
