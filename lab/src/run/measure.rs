//! What runs in every scenario: the boot, and the lab's own part.

use super::{Attempt, Prepared};
use crate::{
    cache::KeyBuilder,
    coverage,
    kernel::Kernel,
    machine::{BOOT_DEADLINE, Machine, machine_spec},
    results::{BOOT_COVERAGE, COVERAGE, EMPTY_COVERAGE, partial},
    scenario::{Scenario, ScenarioFile},
};
use anyhow::{Result, bail};
use fs_err as fs;
use std::path::Path;

/// A scenario that does nothing.
const NOTHING: &str = include_str!("empty.yaml");

/// Boots each kernel and runs an empty scenario on it; their coverage goes to the directory `run`. Does
/// nothing if coverage is not measured.
pub(super) fn measure(prepared: &Prepared, run: &Path) -> Result<()> {
    if prepared.guest.plugin.is_none() {
        return Ok(());
    }
    prepared.kernels.iter().try_for_each(|kernel| {
        let directory = run.join(&kernel.name);
        fs::create_dir_all(&directory)?;
        boot(prepared, kernel, &directory.join(BOOT_COVERAGE))?;
        empty(prepared, kernel, &directory.join(EMPTY_COVERAGE))
    })
}

/// Boots a kernel once; its later runs have a copy.
fn boot(prepared: &Prepared, kernel: &Kernel, to: &Path) -> Result<()> {
    let spec = machine_spec(kernel, &prepared.guest)?;
    let plugin = prepared.guest.plugin.as_deref().unwrap_or(Path::new(""));
    let key = KeyBuilder::default()
        .input("machine", prepared.snapshots.key(&spec)?.as_str())
        .input("plugin", plugin.as_os_str().as_encoded_bytes())
        .finish(&kernel.name);
    let entry = prepared.lab.cache.entry(
        "coverage",
        &key,
        || {},
        |entry| {
            let place = partial(to.parent().unwrap_or(to))?;
            drop(Machine::boot(&spec, place.path(), BOOT_DEADLINE)?);
            coverage::keep(kernel, place.path(), &[], &entry.join(BOOT_COVERAGE))
        },
    )?;
    fs::copy(entry.join(BOOT_COVERAGE), to)?;
    Ok(())
}

fn empty(prepared: &Prepared, kernel: &Kernel, to: &Path) -> Result<()> {
    let place = partial(to.parent().unwrap_or(to))?;
    let path = place.path().join("empty.yaml");
    fs::write(&path, NOTHING)?;
    let scenario = Scenario::parse(&path, NOTHING)?;
    let found = ScenarioFile { name: "empty".into(), path };
    let attempt = Attempt {
        kernel,
        guest: &prepared.guest,
        found: &found,
        scenario: &scenario,
        repeat: None,
        run: place.path(),
    };
    let result = attempt.execute(&prepared.snapshots)?;
    if !result.status.is_good() {
        bail!("an empty scenario on {} ended with: {} {}", kernel.name, result.status, result.reason);
    }
    Ok(fs::rename(place.path().join(&result.directory).join(COVERAGE), to)?)
}
