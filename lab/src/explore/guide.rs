//! What sequences reached, and those worth changing further: the corpus.

use super::{
    choose::body,
    corpus::{Corpus, OPERATIONS_MAX, SEQUENCES_MAX},
    facts::Facts,
    families::Operation,
    names::Sequence,
    seeds::seeds,
    state::Model,
};
use crate::{
    coverage::{Ran, Ranges, Source, SourceFiles},
    kernel::Kernel,
    run::Prepared,
    scenario::{Scenario, find},
};
use anyhow::{Context, Result};
use serde_json::Value;

/// Which lines and branches of the kernel's tracing code were reached, and by which sequences.
pub(super) struct Guide {
    source: Source,
    code: Ranges,
    reached: Reached,
    sequences: Vec<Vec<Operation>>,
    corpus: Corpus,
}

/// How much of the kernel's tracing code was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The number of lines.
    pub lines: usize,
    /// The number of ways of conditional branches: two for each.
    pub branches: usize,
}

impl Reached {
    fn by(source: &Source, code: &Ranges) -> Reached {
        let is_reached = |reached: &bool| *reached;
        let ways = source.branches.iter().flat_map(|branch| branch.ways(code));
        Reached {
            lines: source.lines_in(code).into_iter().filter(is_reached).count(),
            branches: ways.filter(is_reached).count(),
        }
    }
}

impl Guide {
    /// Reads the lines of a kernel and the sequences of the corpus, or the scenarios if it has none.
    ///
    /// # Errors
    /// It is a distribution kernel, whose lines are not known.
    pub(super) fn new(prepared: &Prepared, kernel: &Kernel, facts: Facts, corpus: Corpus) -> Result<Guide> {
        let vmlinux = kernel.vmlinux().filter(|_| !kernel.is_distribution()).with_context(|| {
            format!(
                "the lines of {} are not known, only those of kernels that the lab builds; leave out --guided",
                kernel.name
            )
        })?;
        let files = SourceFiles::of_tracing(&prepared.lab.root)?;
        let source = Source::of_vmlinux(&vmlinux, &kernel.roots(), &files)?;
        let mut sequences = corpus.sequences()?;
        if sequences.is_empty() {
            let files = find(&prepared.lab.root.join("scenarios"), &[])?;
            let scenarios = files.iter().map(|file| Scenario::load(&file.path));
            sequences = seeds(facts, &scenarios.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Guide { source, code: Ranges::default(), reached: Reached::default(), sequences, corpus })
    }

    /// Returns what was reached, and the number of sequences to change further.
    pub(super) fn numbers(&self) -> (Reached, usize) {
        (self.reached, self.sequences.len())
    }

    /// Adds what sequences ran together. If they reached lines or branches that none before them did, they are kept.
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

    /// Returns whether a run reached lines or branches that none before it did.
    pub(super) fn has_new(&self, ran: &Ran) -> bool {
        // Nothing is ever less.
        Reached::by(&self.source, &self.code.and(&ran.code)) != self.reached
    }

    /// Adds what a run reached.
    pub(super) fn reach(&mut self, ran: &Ran) {
        self.code = self.code.and(&ran.code);
        self.reached = Reached::by(&self.source, &self.code);
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
    use crate::{coverage::Branch, explore::choose::Chooser};
    use std::ops::Range;

    #[test]
    fn changed_sequences_are_known_and_have_the_names_of_theirs() {
        let facts = Facts { offsets: Some([1, 2]), ..Facts::default() };
        let mut chooser = Chooser::new(2, facts);
        let sequences =
            (0..20).map(|_| renumbered(body(&chooser.sequence(None)), Sequence(0)).unwrap()).collect();
        let guide = Guide {
            source: Source::default(),
            code: Ranges::default(),
            reached: Reached::default(),
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

    #[test]
    fn the_other_way_of_a_branch_is_new() {
        let mut source = Source::default();
        source.branches.push(Branch { line: 0, at: 8, target: 32 });
        let mut guide = Guide {
            source,
            code: Ranges::default(),
            reached: Reached::default(),
            sequences: Vec::new(),
            corpus: Corpus::default(),
        };
        let ran = |code: [Range<u64>; 2]| Ran {
            build_id: String::new(),
            code: code.into_iter().collect(),
            lost: 0,
            modules: Vec::new(),
        };
        let not_taken = ran([0..16, 48..64]);
        assert!(guide.has_new(&not_taken));
        guide.reach(&not_taken);
        assert_eq!(guide.reached, Reached { lines: 0, branches: 1 });
        assert!(!guide.has_new(&not_taken));
        assert!(guide.has_new(&ran([0..12, 32..36])));
    }
}
