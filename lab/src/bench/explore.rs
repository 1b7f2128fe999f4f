//! `bench explore`: measures how many sequences of operations run in a second.

use super::Figures;
use crate::{
    context::Lab,
    explore::{Hunt, OPERATIONS, Search, default_jobs},
    host::interrupt,
    kernel,
    run::{Options, prepare, select::Selection},
};
use anyhow::{Context, Result};
use std::{collections::BTreeMap, time::Instant};

/// The number of sequences.
const SEQUENCES: u64 = 400;

/// Explores the default kernel with a fixed seed.
pub fn explore(lab: &Lab) -> Result<Figures> {
    let place = tempfile::tempdir().context("cannot make a directory")?;
    let selection = Selection::all(vec![kernel::DEFAULT.to_owned()], Vec::new());
    let mut prepared = prepare(lab, &Options::new(&lab.root, selection, place.path()))?;
    prepared.miss_no_patches()?;
    let search = |seed, sequences| {
        let sequences = Some(sequences);
        Search { seed, icount: None, time: None, sequences, first: false, jobs: default_jobs() }
    };
    // Makes the snapshots.
    Hunt::new(&prepared, place.path(), None, search(1, 1), |_| {})?.run()?;
    let started = Instant::now();
    let (findings, sequences) =
        Hunt::new(&prepared, place.path(), None, search(2, SEQUENCES), |_| {})?.run()?;
    interrupt::check()?;
    let seconds = started.elapsed().as_secs_f64();
    let figures = [
        ("sequences_per_second", sequences as f64 / seconds),
        ("operations_per_sequence", OPERATIONS as f64),
        ("findings", findings.len() as f64),
    ];
    let figures: BTreeMap<_, _> = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Figures { bench: "explore".to_owned(), figures, table: String::new() })
}
