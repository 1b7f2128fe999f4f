//! Fewer operations that still contradict the model in the same way.

use super::{facts::Facts, families::Operation, state::Model};
use anyhow::Result;

/// Drops operations, halves first, then smaller parts, while `same` holds. Predictions are made anew for what
/// is left, so dropping an operation changes what the later ones must do.
pub(super) fn shrink(
    facts: Facts,
    operations: Vec<Operation>,
    mut same: impl FnMut(&[Operation]) -> Result<bool>,
) -> Result<Vec<Operation>> {
    let mut left = operations;
    let mut size = left.len().div_ceil(2);
    while size > 0 {
        // From the end: later operations depend on earlier ones.
        let mut end = left.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let rest = [&left[..start], &left[end..]].concat();
            if !rest.is_empty() && is_known(facts, &rest) && same(&rest)? {
                left = rest;
            }
            end = start.min(left.len());
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    for at in (0..left.len()).rev() {
        let [one, other] = left[at].parts() else { continue };
        // One of two at once, or one after the other.
        for instead in [vec![one.clone()], vec![other.clone()], vec![one.clone(), other.clone()]] {
            let rest = [&left[..at], &instead, &left[at + 1..]].concat();
            if is_known(facts, &rest) && same(&rest)? {
                left = rest;
                break;
            }
        }
    }
    Ok(left)
}

/// Returns whether the model knows what each operation does.
fn is_known(facts: Facts, operations: &[Operation]) -> bool {
    let mut model = Model::new(facts);
    operations.iter().all(|operation| operation.apply_known(&mut model))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{
        choose::Chooser,
        families::{KeyChange, Switches, Together, Workload},
    };

    const WORK: Operation = Operation::Workload(Workload);

    #[test]
    fn what_does_not_matter_goes() {
        let mut chooser = Chooser::new(5, Facts::default());
        let operations: Vec<Operation> = (0..4).flat_map(|_| chooser.sequence(None)).collect();
        let works =
            |operations: &[Operation]| operations.iter().filter(|operation| **operation == WORK).count();
        assert!(works(&operations) > 2);
        let left = shrink(Facts::default(), operations, |rest| Ok(works(rest) >= 2)).unwrap();
        assert_eq!(left, [WORK, WORK]);
        let two = [Switches::Kprobes(false), Switches::Ftrace(false)].map(Operation::Switches);
        let both = Operation::Together(Together(Box::new(two.clone())));
        let has = |operations: &[Operation]| {
            operations.iter().flat_map(Operation::parts).any(|part| *part == two[1])
        };
        let left = shrink(Facts::default(), vec![both.clone(), WORK], |rest| Ok(has(rest))).unwrap();
        assert_eq!(left, two[1..]);
        let at_once = |operations: &[Operation]| operations.contains(&both);
        let left = shrink(Facts::default(), vec![both.clone(), WORK], |rest| Ok(at_once(rest))).unwrap();
        assert_eq!(left, [both]);
    }

    #[test]
    fn what_others_need_stays() {
        let keys = [KeyChange::Load(true), KeyChange::Count(true), KeyChange::Count(false)];
        let keys = keys.map(Operation::Keys);
        let left = shrink(Facts::default(), keys.to_vec(), |rest| Ok(rest.contains(&keys[2]))).unwrap();
        assert_eq!(left, keys);
    }
}
