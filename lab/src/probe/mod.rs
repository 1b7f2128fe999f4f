//! What a probe fetches, written as C would: paths through structs, resolved for the kernel at hand;
//! and whether that kernel lets its functions be probed at all.

mod cursor;
mod path;
mod preflight;
mod prototype;
mod raw;
mod resolve;
mod setup;
mod types;

pub use path::PathError;
pub use preflight::{Functions, Obstacle, Want};
pub use prototype::Prototype;
pub(crate) use raw::{check_path, is_raw};
use resolve::KnownParameter;
pub use resolve::{Place, Resolved, Resolver, Step};
pub use setup::{Unfit, fit};
pub use types::Types;
