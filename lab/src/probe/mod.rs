//! What a probe fetches, written as C would: paths through structs, resolved for the kernel at hand.

mod path;
mod resolve;
mod types;

pub use path::PathError;
pub use resolve::{Place, Resolved, Resolver, Step};
pub use types::Types;
