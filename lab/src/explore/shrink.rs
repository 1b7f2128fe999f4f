//! Fewer operations that still contradict the model in the same way.

use super::{
    families::Operation,
    state::{Facts, Model},
};
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
    Ok(left)
}

/// Returns whether the model knows what each operation does.
fn is_known(facts: Facts, operations: &[Operation]) -> bool {
    let mut model = Model::new(facts);
    operations.iter().all(|operation| {
        let known = operation.is_known(&model);
        let _ = operation.apply(&mut model);
        known
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{choose::Chooser, families::Workload};

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
    }
}
