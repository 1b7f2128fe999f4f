//! `bench isolation`: measures the cost of a pristine machine for each scenario, and how runs
//! scale.

use super::{Figures, growth, median, stock};
use crate::{
    context::Lab,
    guest::{self, Guest},
    kernel::{self, Kernel},
    machine::{BOOT_DEADLINE, Machine, Snapshots, Subject, machine_spec},
    recording,
    results::Status,
    run::Attempt,
    scenario::{Scenario, ScenarioFile, UserlandSpec},
};
use anyhow::{Context, Error, Result, bail};
use fs_err as fs;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// The number of restores; the median counts.
const RESTORES: usize = 25;

/// The number of measurements of slower operations; the median counts.
const ROUNDS: usize = 5;

/// The scenario whose copies make up a run.
const SCENARIO: &str = "probes/eventfd-write";

/// The runs of the scaling table: copies of the scenario, and machines at once.
const RUNS: [(usize, usize); 8] = [(1, 2), (10, 2), (50, 2), (100, 2), (200, 2), (50, 1), (50, 3), (50, 4)];

/// The scenario that panics, relative to the repository.
const PANIC: &str = "lab/src/bench/panic.yaml";

/// The userland that vmtest boots.
const USERLAND: &str = "base";

/// The number of boots by vmtest.
const STOCK_BOOTS: usize = 3;

/// Measures restoring a machine against booting it, by the lab and by vmtest; its memory; the time
/// from a panic to its verdict; the time that the lab adds to a scenario's own work; and runs of
/// many scenarios by `program`, an xtask.
pub fn isolation(lab: &Lab, program: &Path) -> Result<Figures> {
    let directory = tempfile::tempdir_in(lab.cache.directory("bench")?)?;
    let path = lab.root.join("scenarios").join(SCENARIO).with_extension("yaml");
    let bench = Bench {
        kernel: kernel::build(lab, kernel::DEFAULT, None)?,
        guest: guest::build(lab)?,
        snapshots: Snapshots::new(lab)?,
        scenario: Scenario::load(&path)?,
        found: ScenarioFile { name: SCENARIO.to_owned(), path },
        directory: directory.path().to_owned(),
    };
    let mut figures = BTreeMap::new();
    let load = load_average();
    let task = lab.progress.task("measuring machines", None);
    figures.extend(bench.machines()?);
    figures.extend(bench.overhead()?);
    figures.insert("panic_to_verdict_seconds".to_owned(), bench.panic(&lab.root.join(PANIC))?);
    drop(task);
    let wanted = UserlandSpec::named(USERLAND).map_err(Error::msg)?;
    let tree = bench.guest.userlands.tree(&wanted)?.path;
    let task = lab.progress.task("measuring stock boots by vmtest", None);
    figures.extend(bench.stock(&tree)?);
    let ratio = figures["stock_vmtest_seconds"] / figures["restore_to_first_answer_seconds"];
    figures.insert("stock_vmtest_over_restore_ratio".to_owned(), ratio);
    drop(task);
    let task = lab.progress.task("measuring runs", Some(RUNS.len() as u64));
    let mut runs = BTreeMap::new();
    for (done, (scenarios, jobs)) in RUNS.into_iter().enumerate() {
        let seconds = bench.run(program, scenarios, jobs)?;
        if (scenarios, jobs) == (100, 2) {
            figures.insert("hundred_copies_seconds".to_owned(), seconds);
        }
        runs.insert((scenarios, jobs), seconds);
        figures.insert(format!("run_of_{scenarios:03}_by_{jobs}_jobs_seconds"), seconds);
        task.set(done as u64 + 1);
    }
    // The host's load, because the work of other users affects all of these figures.
    figures.insert("load_average_before".to_owned(), load);
    figures.insert("load_average_after".to_owned(), load_average());
    Ok(Figures { bench: "isolation".to_owned(), figures, table: growth::table(&runs) })
}

struct Bench {
    kernel: Kernel,
    guest: Guest,
    snapshots: Snapshots,
    scenario: Scenario,
    found: ScenarioFile,
    directory: PathBuf,
}

impl Bench {
    /// Measures restored machines, one after the other, that do nothing; and booted ones.
    fn machines(&self) -> Result<Vec<(String, f64)>> {
        let spec = machine_spec(&self.kernel, &self.guest)?;
        // The first one makes the snapshot.
        drop(Machine::pristine(&spec, &self.snapshots, &self.directory)?);
        let (mut answers, mut lives, mut boots) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RESTORES {
            let start = Instant::now();
            let machine = Machine::pristine(&spec, &self.snapshots, &self.directory)?;
            answers.push(start.elapsed().as_secs_f64());
            drop(machine);
            lives.push(start.elapsed().as_secs_f64());
        }
        for _ in 0..ROUNDS {
            let start = Instant::now();
            Machine::boot(&spec, &self.directory, BOOT_DEADLINE)?;
            boots.push(start.elapsed().as_secs_f64());
        }
        Ok(vec![
            ("restore_to_first_answer_seconds".to_owned(), median(answers)),
            ("vm_life_seconds".to_owned(), median(lives)),
            ("cold_boot_seconds".to_owned(), median(boots)),
        ])
    }

    /// Measures a scenario from machine to verdict, minus its time on a machine that is already
    /// running.
    fn overhead(&self) -> Result<Vec<(String, f64)>> {
        let spec = machine_spec(&self.kernel, &self.guest)?;
        let (mut whole, mut own, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS * 2 {
            let mut machine = Machine::pristine(&spec, &self.snapshots, &self.directory)?;
            let start = Instant::now();
            let modules = self.guest.modules.of(&self.scenario, &self.kernel)?;
            let Bench { scenario, kernel, guest, .. } = self;
            let subject = Subject { scenario, kernel, guest, modules: &modules };
            let recording = recording::record(&subject, &mut machine, &self.directory);
            own.push(start.elapsed().as_secs_f64());
            if let Some(end) = recording.end {
                bail!("`{SCENARIO}` failed in {}: {}", end.during, end.text);
            }
            memory.push(private_megabytes(machine.pid())?);
            drop(machine);
            let run = self.directory.join(format!("overhead-{round}"));
            fs::create_dir(&run)?;
            let start = Instant::now();
            let result = self.attempt(&self.found, &self.scenario, &run).execute(&self.snapshots)?;
            whole.push(start.elapsed().as_secs_f64());
            if !result.status.is_good() {
                bail!("`{SCENARIO}` did not pass: {}", result.reason);
            }
        }
        let (whole, own) = (median(whole), median(own));
        Ok(vec![
            ("private_megabytes".to_owned(), median(memory)),
            ("per_scenario_seconds".to_owned(), whole),
            ("per_scenario_overhead_seconds".to_owned(), whole - own),
        ])
    }

    fn attempt<'a>(&'a self, found: &'a ScenarioFile, scenario: &'a Scenario, run: &'a Path) -> Attempt<'a> {
        Attempt { kernel: &self.kernel, guest: &self.guest, found, scenario, repeat: None, run }
    }

    /// Measures a scenario that panics, from the start of its machine to a verdict with the dumped
    /// memory, which includes more than the time from the panic on.
    fn panic(&self, path: &Path) -> Result<f64> {
        let found = ScenarioFile { name: "panic".to_owned(), path: path.to_owned() };
        let scenario = Scenario::load(path)?;
        let mut seconds = Vec::new();
        // The first round may have to build the module.
        for round in 0..=ROUNDS {
            let run = self.directory.join(format!("panic-{round}"));
            fs::create_dir(&run)?;
            let started = Instant::now();
            let result = self.attempt(&found, &scenario, &run).execute(&self.snapshots)?;
            seconds.push(started.elapsed().as_secs_f64());
            if result.status != Status::Panic || result.vmcore.is_none() {
                bail!("no panic with a dump: {} {}", result.reason, result.notes.join("; "));
            }
            fs::remove_dir_all(&run)?;
        }
        Ok(median(seconds.split_off(1)))
    }

    /// Measures boots of the same kernel by vmtest.
    fn stock(&self, tree: &Path) -> Result<Vec<(String, f64)>> {
        let (mut commands, mut wholes) = (Vec::new(), Vec::new());
        for _ in 0..STOCK_BOOTS {
            let times = stock::boot(&self.kernel, tree, &self.directory)?;
            commands.push(times.command);
            wholes.push(times.whole);
        }
        Ok(vec![
            ("stock_vmtest_to_end_of_command_seconds".to_owned(), median(commands)),
            ("stock_vmtest_seconds".to_owned(), median(wholes)),
        ])
    }

    /// Measures a run of this many copies of the scenario.
    fn run(&self, program: &Path, scenarios: usize, jobs: usize) -> Result<f64> {
        let place = tempfile::tempdir_in(&self.directory)?;
        let copies = place.path().join("copies");
        fs::create_dir(&copies)?;
        for number in 0..scenarios {
            fs::copy(&self.found.path, copies.join(format!("copy-{number:03}.yaml")))?;
        }
        let start = Instant::now();
        let output = Command::new(program)
            .args(["lab", "run", "--jobs", &jobs.to_string(), "--results"])
            .arg(place.path().join("results"))
            .arg(&copies)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .with_context(|| format!("cannot run `{}`", program.display()))?;
        let seconds = start.elapsed().as_secs_f64();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout);
            bail!(
                "a run of {scenarios} copies of `{SCENARIO}` did not pass: {}\n{}",
                output.status,
                crate::host::process::tail(&said, 12)
            );
        }
        Ok(seconds)
    }
}

/// Returns the private memory of a process, which are pages that it has written to. Pages of files
/// that it has only read are shared.
fn private_megabytes(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path)?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kilobytes.with_context(|| format!("`{path}` has no RssAnon"))? / 1024.0)
}

/// Returns the number of runnable tasks over the last minute; 0 if the host does not report it.
fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
