//! Runs the installed command as a user would, where there is no checkout. One program has all of these tests.

mod bad_input;
mod common;
mod installed;
mod pods;
mod your_patch;
