//! Random sequences of operations, guided towards what was not tried yet.

use super::{
    draw::Draw,
    facts::Facts,
    families::{Cpus, Events, KeyChange, Operation, ROWS, Row, Workload, tear_down},
    guide::Guide,
    names::{Event, Sequence},
    state::Model,
};
use fastrand::Rng;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    iter,
};

/// The number of operations of a sequence, without looks and the removal at its end.
pub const OPERATIONS: usize = 10;

/// The number of operations to choose from at each point: the one least often tried in such a state is taken.
const CANDIDATES: usize = 6;

/// The number of sequences that share a machine. Each removes at its end what it has made, and looks.
pub(super) const BATCH: usize = 12;

/// How often a look is drawn, in relation to the weights of the families.
const LOOKS: usize = 1;

/// How often one of the families of a sequence is drawn beside its weight.
const MOST: usize = 15;

/// One in so many batches keeps what its last sequence has made, see [`kept`].
const KEPT: u8 = 4;

/// Returns the names of the families of operations that a search can be confined to.
pub fn areas() -> impl Iterator<Item = String> {
    ROWS.iter().filter(|row| !row.always).map(|row| row.name.to_lowercase())
}

/// Makes sequences.
pub(super) struct Chooser {
    random: Rng,
    facts: Facts,
    /// The families that all sequences draw from; if there are none, each draws from some.
    areas: Vec<String>,
    /// How often an operation was chosen in a state, by the hash of both.
    tried: HashMap<u64, u32>,
    sequences: u16,
}

impl Chooser {
    /// `seed` determines all sequences.
    pub(super) fn new(seed: u64, facts: Facts) -> Chooser {
        let random = Rng::with_seed(seed);
        Chooser { random, facts, areas: Vec::new(), tried: HashMap::new(), sequences: 0 }
    }

    /// New sequences draw from these of [`areas`] only, if there are any.
    pub(super) fn confine(&mut self, areas: &[String]) {
        self.areas = areas.to_vec();
    }

    /// Returns the number of different pairs of a state and an operation so far.
    pub(super) fn pairs(&self) -> usize {
        self.tried.len()
    }

    /// Returns the next sequence: a new one or, half of the time, a changed one of the corpus. It removes at its
    /// end what it has made.
    pub(super) fn sequence(&mut self, guide: Option<&Guide>) -> Vec<Operation> {
        // Their events need different names only within a scenario.
        let number = Sequence(self.sequences);
        self.sequences = self.sequences.wrapping_add(1);
        let families = self.families();
        let changed = guide.filter(|_| self.random.bool()).and_then(|guide| {
            let mut random = self.random.fork();
            guide.changed(&mut random, (self.facts, number), |random, model| {
                candidate(random, number, model, &families)
            })
        });
        if let Some(operations) = changed {
            return finished(self.facts, operations);
        }
        let mut model = Model::new(self.facts);
        let mut chosen = Vec::new();
        let mut left = 4 * OPERATIONS;
        while chosen.len() < OPERATIONS && left > 0 {
            left -= 1;
            let candidates: Vec<Operation> =
                (0..CANDIDATES).map(|_| candidate(&mut self.random, number, &model, &families)).collect();
            let known = candidates.into_iter().filter(|operation| operation.is_known(&model));
            let least = known.min_by_key(|operation| self.tried.get(&pair(&model, operation)).copied());
            let Some(operation) = least else { continue };
            *self.tried.entry(pair(&model, &operation)).or_default() += 1;
            // The errno is asked for again when the sequence becomes a scenario.
            let _ = operation.apply(&mut model);
            chosen.push(operation);
        }
        finish(&mut model, &mut chosen);
        chosen
    }

    /// Returns the sequences that share the next machine, and whether the last one keeps what it has made. There is no
    /// livepatch among them then: what is there when its module is unloaded, and at the end, counts as left behind.
    pub(super) fn batch(&mut self, guide: Option<&Guide>) -> (Vec<Vec<Operation>>, bool) {
        let mut sequences: Vec<_> = (0..BATCH).map(|_| self.sequence(guide)).collect();
        let keeps = self.facts.has_text_of_trace && self.random.u8(..KEPT) == 0;
        if keeps {
            sequences.retain(|sequence| !has_livepatch(sequence));
        }
        (sequences, keeps)
    }

    /// The families that a sequence draws from, each as often as its weight; `None` is a look. Unless it is confined,
    /// some are left out, others in each sequence, so that the rest meet more often; and one comes so often that what
    /// takes several operations of it happens, too.
    fn families(&mut self) -> Vec<Option<&'static Row>> {
        let mut families: Vec<_> = iter::repeat_n(None, LOOKS).collect();
        let mut drawn = Vec::new();
        for row in ROWS {
            let is_drawn = match &self.areas[..] {
                [] => self.random.u8(..5) < 2,
                areas => areas.iter().any(|area| area.eq_ignore_ascii_case(row.name)),
            };
            if row.always || is_drawn {
                families.extend(iter::repeat_n(Some(row), row.weight));
            }
            if is_drawn {
                drawn.push(row);
            }
        }
        let most = self.random.choice(drawn);
        families.extend(most.into_iter().flat_map(|row| iter::repeat_n(Some(row), MOST)));
        families
    }
}

fn candidate(
    random: &mut Rng,
    sequence: Sequence,
    model: &Model,
    families: &[Option<&'static Row>],
) -> Operation {
    Draw { random, sequence, model, families }.operation()
}

/// Returns a sequence without its end, which begins with the last but one look and the workload before it.
pub(super) fn body(operations: &[Operation]) -> &[Operation] {
    let mut looks =
        operations.iter().enumerate().rev().filter(|(_, operation)| **operation == Operation::Look);
    let end = looks.nth(1).map_or(operations.len(), |(index, _)| index);
    let body = &operations[..end];
    body.strip_suffix(&[Operation::Workload(Workload)]).unwrap_or(body)
}

/// Returns a sequence with what ends it.
pub(super) fn finished(facts: Facts, mut operations: Vec<Operation>) -> Vec<Operation> {
    let mut model = Model::new(facts);
    operations.iter().for_each(|operation| _ = operation.apply(&mut model));
    finish(&mut model, &mut operations);
    operations
}

/// Adds what ends a sequence: the workload, a look, the removal of what there is, and another look.
fn finish(model: &mut Model, operations: &mut Vec<Operation>) {
    let work = Operation::Workload(Workload);
    let mut end = Vec::from_iter(work.is_known(model).then_some(work));
    end.push(Operation::Look);
    end.iter().for_each(|operation| _ = operation.apply(model));
    end.extend(tear_down(model));
    end.push(Operation::Look);
    operations.extend(end);
}

fn has_livepatch(sequence: &[Operation]) -> bool {
    sequence.iter().flat_map(Operation::parts).any(|part| matches!(part, Operation::Livepatch(_)))
}

/// Returns a sequence that keeps what it has made, with all events enabled at the top level, so that the kernel's text
/// of what the workload causes can be compared. `None` if the model does not know what the workload causes.
pub(super) fn kept(facts: Facts, operations: &[Operation]) -> Option<Vec<Operation>> {
    let mut model = Model::new(facts);
    let mut kept = body(operations).to_vec();
    kept.iter().for_each(|operation| _ = operation.apply(&mut model));
    let events: Vec<Event> = model.events(None).collect();
    let enable = events.into_iter().map(|event| Operation::Events(Events::Enable(None, event, true)));
    // Without the module, what is there would count as left behind by it.
    let load = (!model.keys.is_loaded()).then_some(Operation::Keys(KeyChange::Load(true)));
    // A CPU that is off keeps its part of a buffer that is cleared.
    let online = model.cpu_off.then_some(Operation::Cpus(Cpus(true)));
    for last in online.into_iter().chain(enable).chain(load).chain(SHOWN) {
        if last.apply_known(&mut model) {
            kept.push(last);
        } else if !matches!(last, Operation::Events(_)) {
            return None;
        }
    }
    Some(kept)
}

/// What ends a sequence that keeps what it has made.
pub(super) const SHOWN: [Operation; 2] = [Operation::Workload(Workload), Operation::Look];

/// The hash of a state and an operation in it.
fn pair(model: &Model, operation: &Operation) -> u64 {
    let mut hasher = DefaultHasher::new();
    model.hash(&mut hasher);
    operation.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_all_sequences() {
        let all = |seed| {
            let mut chooser = Chooser::new(seed, Facts { fprobes: true, ..Facts::default() });
            (0..20).map(|_| chooser.sequence(None)).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn a_confined_search_has_no_operation_of_another_family() {
        let mut chooser = Chooser::new(5, Facts::default());
        chooser.confine(&["hooks".to_owned(), "together".to_owned()]);
        let sequences: Vec<_> = (0..50).flat_map(|_| chooser.sequence(None)).collect();
        let is_allowed = |operation: &Operation| {
            matches!(
                operation,
                Operation::Hooks(_)
                    | Operation::Probes(_)
                    | Operation::Events(_)
                    | Operation::Workload(_)
                    | Operation::Look
            )
        };
        let parts = || sequences.iter().flat_map(Operation::parts);
        assert!(parts().all(is_allowed), "{:?}", parts().find(|operation| !is_allowed(operation)));
        let has = |is: fn(&Operation) -> bool| sequences.iter().any(is);
        assert!(has(|operation| matches!(operation, Operation::Hooks(_))));
        assert!(has(|operation| matches!(operation, Operation::Together(_))));
    }

    #[test]
    fn what_is_kept_has_both_cpus() {
        let facts = Facts { has_text_of_trace: true, ..Facts::default() };
        let kept = kept(facts, &finished(facts, vec![Operation::Cpus(Cpus(false))])).unwrap();
        let mut model = Model::new(facts);
        kept.iter().for_each(|operation| _ = operation.apply(&mut model));
        assert!(kept.contains(&Operation::Cpus(Cpus(false))) && !model.cpu_off, "{kept:?}");
    }

    #[test]
    fn nothing_is_kept_after_a_livepatch() {
        let facts = Facts { has_text_of_trace: true, livepatch: true, ..Facts::default() };
        let mut chooser = Chooser::new(1, facts);
        let batches: Vec<_> = (0..20).map(|_| chooser.batch(None)).collect();
        let with = |keeps| {
            let sequences = batches.iter().filter(move |batch| batch.1 == keeps).flat_map(|batch| &batch.0);
            (sequences.clone().count(), sequences.filter(|sequence| has_livepatch(sequence)).count())
        };
        assert!(with(true).0 > BATCH && with(true).1 == 0, "{:?}", with(true));
        assert!(with(false).1 > 0);
    }

    #[test]
    fn sequences_leave_nothing_and_reach_much() {
        let facts = Facts {
            offsets: Some([1, 2]),
            syscalls: true,
            eprobes: true,
            synthetic: true,
            ..Facts::default()
        };
        let state = |model: &Model| pair(model, &Operation::Look);
        let mut chooser = Chooser::new(3, facts);
        for _ in 0..500 {
            let mut model = Model::new(facts);
            let operations = chooser.sequence(None);
            for operation in &operations {
                assert!(operation.is_known(&model), "{operation:?}");
                let _ = operation.apply(&mut model);
            }
            assert_eq!(state(&model), state(&Model::new(facts)), "{operations:#?}\n{model:#?}");
        }
        // Guidance avoids repetitions: most choices are new.
        assert!(chooser.pairs() > 3000, "{}", chooser.pairs());
    }
}
