//! Small defects of the kernel's tracing code, put into it one at a time → whether a scenario notices each.
//!
//! A defect that no scenario notices shows what the scenarios do not check.

mod list;
mod page;
mod trial;

pub use list::{Explored, Mutant, load};
pub use page::page;
pub use trial::{Outcome, Trials};

use crate::yaml;
use std::path::PathBuf;

/// A file of the list that cannot be used, an error that the user can correct.
#[derive(Debug, thiserror::Error)]
pub enum MutantError {
    /// It is not a list of mutants.
    #[error("cannot read `{}` as a list of mutants", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        cause: yaml::Error,
    },
    /// A mutant of it is not well-formed.
    #[error("`{}`: the mutant `{name}` {wrong}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The mutant's name.
        name: String,
        /// What is wrong with it.
        wrong: String,
    },
}
