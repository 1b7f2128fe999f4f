//! `bench userland`: what a whole userland costs, and what it costs to look at a running kernel with
//! crash and with drgn.

use super::{Figures, median, stock};
use crate::{
    cache::Cache,
    guest, kernel,
    machine::Snapshots,
    progress::Progress,
    run::{self, boot_userland, machine_spec},
    scenario::{Found, Scenario, WantedUserland},
    verdict::Status,
};
use anyhow::{Context, Error, Result, bail};
use std::{collections::BTreeMap, path::Path, time::Instant};

/// How often each is measured; the median counts.
const ROUNDS: usize = 3;

/// The scenario, below the repository.
const SCENARIO: &str = "lab/src/bench/userland.yaml";

/// The userland, of `guest/userland/`.
const USERLAND: &str = "debian";

/// The lab's boot of a userland beside the stock one by vmtest, of the same kernel and tree; crash's
/// attach, one more question to it, and the same by drgn.
pub fn userland(cache: &Cache, root: &Path, progress: &Progress) -> Result<Figures> {
    let place = tempfile::tempdir_in(cache.directory("bench")?)?;
    let directory = place.path();
    let kernel = kernel::build(cache, root, kernel::DEFAULT, None, progress)?;
    let guest = guest::build(cache, root, progress)?;
    let snapshots = Snapshots::new(cache, progress)?;
    let wanted = WantedUserland::named(USERLAND).map_err(Error::msg)?;
    let tree = guest.userlands.tree(&wanted)?.path;
    let path = root.join(SCENARIO);
    let scenario = Scenario::load(&path)?;
    let found = Found { name: "userland".to_owned(), path };
    let spec = machine_spec(&kernel, &guest)?;
    let task = progress.task("measuring boots, and crash", Some(ROUNDS as u64));
    let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut add = |name, value| seconds.entry(name).or_default().push(value);
        let started = Instant::now();
        drop(boot_userland(&spec, &wanted, &guest, directory, |_| Ok(Vec::new()))?);
        add("userland_boot_seconds", started.elapsed().as_secs_f64());
        add("stock_vmtest_to_end_of_command_seconds", stock::boot(&kernel, &tree, directory)?.command);
        let run = directory.join(format!("run-{round}"));
        std::fs::create_dir(&run)?;
        let result = run::one(&kernel, &guest, &snapshots, &found, &scenario, &run)?;
        if result.status != Status::Passed {
            bail!("`{SCENARIO}` did not pass: {}", result.reason);
        }
        let step =
            |index: usize| result.steps.get(index).map(|step| step.seconds).context("a step is missing");
        add("crash_attach_seconds", step(0)? - step(1)?);
        add("crash_command_seconds", step(1)?);
        add("inspect_seconds", step(2)?);
        task.set(round as u64 + 1);
    }
    let mut figures: BTreeMap<String, f64> =
        seconds.into_iter().map(|(name, values)| (name.to_owned(), median(values))).collect();
    for (name, over, under) in [
        ("userland_boot_over_stock_ratio", "userland_boot_seconds", "stock_vmtest_to_end_of_command_seconds"),
        ("crash_attach_over_inspect_ratio", "crash_attach_seconds", "inspect_seconds"),
    ] {
        let ratio = figures[over] / figures[under];
        figures.insert(name.to_owned(), ratio);
    }
    Ok(Figures { bench: "userland".to_owned(), figures, table: String::new() })
}
