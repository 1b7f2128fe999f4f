//! `bench userland`: measures the cost of a whole userland, and of inspecting a running kernel with
//! crash and with drgn.

use super::{Figures, median, stock};
use crate::{
    context::Lab,
    guest, kernel,
    machine::{Snapshots, boot_userland, machine_spec},
    results::Status,
    run::Attempt,
    scenario::{Scenario, ScenarioFile, UserlandSpec},
};
use anyhow::{Context, Error, Result, bail};
use std::{collections::BTreeMap, time::Instant};

/// The number of measurements; the median counts.
const ROUNDS: usize = 3;

/// The scenario, relative to the repository.
const SCENARIO: &str = "lab/src/bench/userland.yaml";

/// The userland, of `guest/userland/`.
const USERLAND: &str = "debian";

/// Measures the lab's boot of a userland against the stock one by vmtest, with the same kernel and
/// tree; attaching crash, one more crash command, and the same with drgn.
pub fn userland(lab: &Lab) -> Result<Figures> {
    let place = tempfile::tempdir_in(lab.cache.directory("bench")?)?;
    let directory = place.path();
    let kernel = kernel::build(lab, kernel::DEFAULT, None)?;
    let guest = guest::build(lab)?;
    let snapshots = Snapshots::new(lab)?;
    let wanted = UserlandSpec::named(USERLAND).map_err(Error::msg)?;
    let tree = guest.userlands.tree(&wanted)?.path;
    let path = lab.root.join(SCENARIO);
    let scenario = Scenario::load(&path)?;
    let found = ScenarioFile { name: "userland".to_owned(), path };
    let spec = machine_spec(&kernel, &guest)?;
    let task = lab.progress.task("measuring boots, and crash", Some(ROUNDS as u64));
    let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut add = |name, value| seconds.entry(name).or_default().push(value);
        let started = Instant::now();
        drop(boot_userland(&spec, &wanted, (&kernel, &guest), directory, |_| Ok(Vec::new()))?);
        add("userland_boot_seconds", started.elapsed().as_secs_f64());
        add("stock_vmtest_to_end_of_command_seconds", stock::boot(&kernel, &tree, directory)?.command);
        let run = directory.join(format!("run-{round}"));
        fs_err::create_dir(&run)?;
        let result = Attempt {
            kernel: &kernel,
            guest: &guest,
            found: &found,
            scenario: &scenario,
            repeat: None,
            run: &run,
        }
        .execute(&snapshots)?;
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
