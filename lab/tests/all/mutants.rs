//! The list of mutants can be used, and its page shows it.

use crate::built::root;
use lab::mutants::{load, page};
use std::{env, fs};

/// The share of the list that must be noticed, in percent.
const ENOUGH: usize = 90;

#[test]
fn the_list_is_well_formed_and_its_page_up_to_date() {
    let root = root();
    let mutants = load(root).unwrap();
    let noticed = mutants.iter().filter(|mutant| mutant.scenario.is_some()).count();
    assert!(mutants.len() >= 80, "{} mutants", mutants.len());
    assert!(100 * noticed >= ENOUGH * mutants.len(), "{noticed} of {} are noticed", mutants.len());
    let path = root.join("docs/mutants.md");
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, page(&mutants)).unwrap();
    }
    let stored = fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == page(&mutants),
        "docs/mutants.md is stale; refresh it with `UPDATE_EXPECT=1 cargo test -p lab --test all mutants`"
    );
}
