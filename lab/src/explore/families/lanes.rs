//! Another process that reads and changes tracing all the time, up to the end of the scenario.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::LANE,
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};

/// Starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Lane;

impl Family for Lane {
    const WEIGHT: usize = 1;

    fn draw(_: &mut Draw<'_>) -> Lane {
        Lane
    }

    fn knows(&self, model: &Model) -> bool {
        !*model.has_lane
    }

    /// Nothing else depends on it: it has an instance of its own, and only reads what others have made.
    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        *model.has_lane = true;
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        format!("workload: {LANE} x, until: begun")
    }
}
