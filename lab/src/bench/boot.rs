//! `bench boot`: measures what the lab adds to a boot, and to a run with nothing to build.

use super::{Figures, median};
use crate::{
    context::Lab,
    guest, kernel,
    machine::{BOOT_DEADLINE, Death, Machine, MachineSpec, machine_spec},
    results::Results,
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

/// The number of measurements; the median counts.
const ROUNDS: usize = 5;

/// The scenario of an unchanged rerun.
const SCENARIO: &str = "probes/eventfd-write";

/// Measures a cold boot until the agent is ready against the same Image with an /init that only
/// powers off; and the time that `program`, an xtask, takes to its first machine if nothing must be
/// built.
pub fn boot(lab: &Lab, program: &Path) -> Result<Figures> {
    let kernel = kernel::build(lab, kernel::DEFAULT, None)?;
    let guest = guest::build(lab)?;
    let directory = tempfile::tempdir_in(lab.cache.directory("bench")?)?;
    let spec = machine_spec(&kernel, &guest)?;
    let bare = MachineSpec { initramfs: guest::bare(&lab.cache, &guest, "poweroff")?, ..spec.clone() };
    let task = lab.progress.task("measuring boots", Some(2 * ROUNDS as u64));
    let (mut ready, mut off) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        off.push(until_off(&bare, directory.path())?);
        ready.push(until_ready(&spec, directory.path())?);
        task.set(2 * (round as u64 + 1));
    }
    drop(task);
    let task = lab.progress.task("measuring reruns", Some(ROUNDS as u64));
    let mut rerun = Vec::new();
    for round in 0..ROUNDS {
        rerun.push(until_first_machine(program, directory.path())?);
        task.set(round as u64 + 1);
    }
    let (ready, off) = (median(ready), median(off));
    Ok(Figures {
        bench: "boot".to_owned(),
        figures: [
            ("agent_ready_seconds", ready),
            ("bare_init_seconds", off),
            ("ready_over_bare_ratio", ready / off),
            ("rerun_to_first_machine_seconds", median(rerun)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        table: String::new(),
    })
}

fn until_ready(spec: &MachineSpec, directory: &Path) -> Result<f64> {
    let start = Instant::now();
    Machine::boot(spec, directory, BOOT_DEADLINE)?;
    Ok(start.elapsed().as_secs_f64())
}

/// The bare /init has no agent, so waiting for its greeting ends when it powers off.
fn until_off(spec: &MachineSpec, directory: &Path) -> Result<f64> {
    let start = Instant::now();
    match Machine::boot(spec, directory, BOOT_DEADLINE) {
        Err(Death::PoweredOff { .. } | Death::QemuEnded { .. }) => Ok(start.elapsed().as_secs_f64()),
        Err(death) => Err(death.into()),
        Ok(_) => bail!("an /init that only powers off answered as an agent"),
    }
}

fn until_first_machine(program: &Path, directory: &Path) -> Result<f64> {
    let results = directory.join("results");
    let filter = format!("^{SCENARIO}$");
    let start = SystemTime::now();
    let status = Command::new(program)
        .args(["lab", "run", "--filter", &filter, "--results"])
        .arg(&results)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("cannot run `{}`", program.display()))?;
    if !status.success() {
        bail!("an unchanged rerun of `{SCENARIO}` did not pass: {status}");
    }
    let path = results.join("latest/results.json");
    let json = fs::read(&path)?;
    let run = serde_json::from_slice::<Results>(&json)?.run;
    let machine = SystemTime::UNIX_EPOCH + Duration::from_micros(run.first_machine_micros);
    Ok(machine.duration_since(start)?.as_secs_f64())
}
