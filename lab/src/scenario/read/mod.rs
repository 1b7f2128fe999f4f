//! Reading a scenario file: scalars, maps and lists as types, each error with its line and column.

pub(super) mod error;
pub(super) mod keyed;
pub(super) mod locate;
pub(super) mod name_map;
pub(crate) mod scalar;
pub(super) mod shapes;

pub use error::ScenarioError;
pub(crate) use scalar::{FromText, from_text};
