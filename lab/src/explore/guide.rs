//! What sequences reached, and those worth changing further: the corpus.

use super::{
    choose::body,
    corpus::{Corpus, OPERATIONS_MAX, SEQUENCES_MAX},
    facts::Facts,
    families::Operation,
    names::Sequence,
    state::Model,
};
use crate::{
    coverage::{Ran, Ranges, Source, SourceFiles},
    kernel::Kernel,
    run::Prepared,
};
use anyhow::{Context, Result};
use serde_json::Value;

/// Which lines of the kernel's tracing code were reached, and by which sequences.
pub(super) struct Guide {
    source: Source,
    reached: Ranges,
    lines: usize,
    sequences: Vec<Vec<Operation>>,
    corpus: Corpus,
}

impl Guide {
    /// Reads the lines of a kernel and the sequences of the corpus.
    ///
    /// # Errors
    /// It is a distribution kernel, whose lines are not known.
    pub(super) fn new(prepared: &Prepared, kernel: &Kernel, corpus: Corpus) -> Result<Guide> {
        let vmlinux = kernel.vmlinux().filter(|_| !kernel.is_distribution()).with_context(|| {
            format!(
                "the lines of {} are not known, only those of kernels that the lab builds; leave out --guided",
                kernel.name
            )
        })?;
        let files = SourceFiles::of_tracing(&prepared.lab.root)?;
        let source = Source::of_vmlinux(&vmlinux, &kernel.roots(), &files)?;
        let sequences = corpus.sequences()?;
        Ok(Guide { source, reached: Ranges::default(), lines: 0, sequences, corpus })
    }

    /// Returns the numbers of lines that were reached, and of sequences in the corpus.
    pub(super) fn numbers(&self) -> (usize, usize) {
        (self.lines, self.sequences.len())
    }

    /// Adds what sequences ran together. If they reached lines that none before them did, they are kept.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn add(&mut self, ran: &Ran, sequences: &[Vec<Operation>]) -> Result<()> {
        let is_new = self.has_new(ran);
        self.reach(ran);
        for sequence in sequences.iter().filter(|_| is_new) {
            if self.sequences.len() < SEQUENCES_MAX {
                let sequence = renumbered(body(sequence), Sequence(0))?;
                self.corpus.add(&sequence)?;
                self.sequences.push(sequence);
            }
        }
        Ok(())
    }

    /// Returns whether a run reached lines that none before it did.
    pub(super) fn has_new(&self, ran: &Ran) -> bool {
        self.lines_with(ran).1 > self.lines
    }

    /// Adds what a run reached.
    pub(super) fn reach(&mut self, ran: &Ran) {
        (self.reached, self.lines) = self.lines_with(ran);
    }

    fn lines_with(&self, ran: &Ran) -> (Ranges, usize) {
        let reached = self.reached.and(&ran.code);
        let lines = self.source.lines_in(&reached).into_iter().filter(|reached| *reached).count();
        (reached, lines)
    }

    /// Returns a sequence of the corpus, changed: an operation inserted, dropped or exchanged with another one,
    /// or its end replaced by that of another sequence. `None` if the corpus is empty.
    pub(super) fn changed(
        &self,
        random: &mut fastrand::Rng,
        (facts, sequence): (Facts, Sequence),
        mut draw: impl FnMut(&mut fastrand::Rng, &Model) -> Operation,
    ) -> Option<Vec<Operation>> {
        let one = |random: &mut fastrand::Rng| random.choice(&self.sequences).cloned();
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
        Some(without_unknown(facts, operations))
    }
}

/// Leaves out what the model does not know after the change of what came before.
pub(super) fn without_unknown(facts: Facts, operations: Vec<Operation>) -> Vec<Operation> {
    let mut model = Model::new(facts);
    operations.into_iter().filter(|operation| operation.apply_known(&mut model)).collect()
}

/// The same operations with the names of another sequence.
pub(super) fn renumbered(operations: &[Operation], sequence: Sequence) -> Result<Vec<Operation>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::choose::Chooser;

    #[test]
    fn changed_sequences_are_known_and_have_the_names_of_theirs() {
        let facts = Facts { offsets: Some([1, 2]), ..Facts::default() };
        let mut chooser = Chooser::new(2, facts);
        let sequences =
            (0..20).map(|_| renumbered(body(&chooser.sequence(None)), Sequence(0)).unwrap()).collect();
        let guide = Guide {
            source: Source::default(),
            reached: Ranges::default(),
            lines: 0,
            sequences,
            corpus: Corpus::default(),
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
                usize::from(!guide.sequences.contains(&renumbered(body(&sequence), Sequence(0)).unwrap()));
        }
        assert!(different > 150, "{different}");
    }
}
