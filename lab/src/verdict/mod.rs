//! `Scenario` × `Recording` → `Verdict`: what a trace says of the expectations.

mod condition;

pub use condition::Condition;
