//! What runs in every scenario: the boot, and the lab's own part.

use super::{Attempt, Prepared, attempt::HostShare};
use crate::{
    cache::{KeyBuilder, stamp},
    coverage,
    kernel::Kernel,
    machine::{BOOT_DEADLINE, Machine, MachineSpec, machine_spec},
    results::{BOOT_COVERAGE, COVERAGE, EMPTY_COVERAGE, partial},
    scenario::{Scenario, ScenarioFile},
};
use anyhow::{Result, bail};
use fs_err as fs;
use std::{env, path::Path};

/// A scenario that does nothing.
const NOTHING: &str = include_str!("empty.yaml");

/// Boots each kernel and runs an empty scenario on it, once per kernel and lab; the directory `run` gets a copy
/// of their coverage. Does nothing if coverage is not measured. Scenarios may run at the same time.
pub(super) fn measure(prepared: &Prepared, run: &Path) -> Result<()> {
    let Some(plugin) = prepared.guest.plugin.as_ref().filter(|_| prepared.guest.measures) else {
        return Ok(());
    };
    for kernel in &prepared.kernels {
        let spec = machine_spec(kernel, &prepared.guest)?;
        let key = KeyBuilder::default()
            .input("machine", prepared.snapshots.key(&spec)?.as_str())
            .input("plugin", plugin.as_os_str().as_encoded_bytes())
            .input("lab", stamp(&env::current_exe()?)?)
            .finish(&kernel.name);
        let waiting =
            || prepared.lab.progress.line("waiting for another process that measures an empty scenario");
        let entry = prepared.lab.cache.entry("coverage", &key, waiting, |entry| {
            // First, since it makes the snapshot that scenarios wait for.
            empty(prepared, kernel, &entry.join(EMPTY_COVERAGE))?;
            boot(kernel, &spec, &entry.join(BOOT_COVERAGE))
        })?;
        let directory = run.join(&kernel.name);
        fs::create_dir_all(&directory)?;
        for name in [BOOT_COVERAGE, EMPTY_COVERAGE] {
            fs::copy(entry.join(name), directory.join(name))?;
        }
    }
    Ok(())
}

fn boot(kernel: &Kernel, spec: &MachineSpec, to: &Path) -> Result<()> {
    let place = partial(to.parent().unwrap_or(to))?;
    let _share = HostShare::wait(false);
    drop(Machine::boot(spec, place.path(), BOOT_DEADLINE)?);
    coverage::keep(kernel, place.path(), &[], Some(to))
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
