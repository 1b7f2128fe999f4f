//! Text functions for every layer: the nearest known name, paths that stay inside, excerpts, hexadecimal digits,
//! command lines, and how the lab is called.

mod called;
mod nearest;
mod path;
mod shell;
mod strings;

pub use called::{called, is_installed, set_installed};
pub(crate) use nearest::{nearest, nearest_is, unknown};
pub(crate) use path::stays_inside;
pub use shell::shell_words;
pub use strings::printable;
pub(crate) use strings::{both_ends, excerpt};

/// Returns bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
