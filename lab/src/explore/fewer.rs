//! Fewer sequences of a corpus that reach the same lines.

use super::{
    choose::{BATCH, finished},
    facts::Facts,
    families::Operation,
    guide::{renumbered, without_unknown},
    hunt::{Hunt, Told, lock},
    names::Sequence,
};
use anyhow::{Context, Result};
use std::{iter, sync::Mutex};

/// Sequences that ran on one machine, or will.
type Group = Vec<Vec<Operation>>;

impl<F: FnMut(Told<'_>) + Send> Hunt<'_, F> {
    /// Drops the sequences of the corpus that reach no code that others do not. What was not tried when a limit is
    /// reached, or the lab is interrupted, stays. Returns the numbers of sequences before and after.
    ///
    /// # Errors
    /// There is no corpus, or coverage is not measured.
    pub fn minimize_corpus(&self) -> Result<(usize, usize)> {
        let guide = self.guide.as_ref().context("the lines that run are not measured")?;
        let corpus = self.corpus.as_ref().context("there is no corpus")?;
        let sequences = corpus.sequences()?;
        let groups: Mutex<Vec<Group>> =
            Mutex::new(sequences.chunks(BATCH).rev().map(<[_]>::to_vec).collect());
        let dropped = Mutex::new(0);
        let try_one = || -> Result<()> {
            let next = || lock(&groups).pop();
            for mut group in iter::from_fn(next).take_while(|_| !self.is_over()) {
                let ran = self.once(&whole(self.facts, &group)?)?;
                self.count(group.len());
                // A machine that died reports none.
                let Some(code) = ran.code else { continue };
                let mut guide = lock(guide);
                if !guide.has_new(&code) {
                    group.iter().try_for_each(|sequence| corpus.remove(sequence))?;
                    *lock(&dropped) += group.len();
                } else if group.len() == 1 {
                    guide.reach(&code);
                } else {
                    let rest = group.split_off(group.len() / 2);
                    lock(&groups).extend([rest, group]);
                }
            }
            Ok(())
        };
        self.on_all_machines(try_one)?;
        let dropped = *lock(&dropped);
        Ok((sequences.len(), sequences.len() - dropped))
    }
}

/// Makes sequences of the corpus whole again, each with names of its own.
fn whole(facts: Facts, group: &Group) -> Result<Vec<Operation>> {
    let whole = group.iter().zip(0..).map(|(sequence, number)| {
        let known = without_unknown(facts, renumbered(sequence, Sequence(number))?);
        Ok(finished(facts, known))
    });
    Ok(whole.collect::<Result<Vec<_>>>()?.concat())
}
