//! `bench isolation`: what a pristine machine for each scenario costs, and how a run grows.

use super::{Figures, growth, median, stock};
use crate::{
    cache::Cache,
    guest::{self, Guest},
    kernel::{self, Kernel},
    machine::{BOOT_DEADLINE, Machine, Snapshots},
    progress::Progress,
    recording,
    run::{self, machine_spec},
    scenario::{Found, Scenario, WantedUserland},
    verdict::Status,
};
use anyhow::{Context, Error, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// How often a machine is restored; the median counts.
const RESTORES: usize = 25;

/// How often each slower thing is measured; the median counts.
const ROUNDS: usize = 5;

/// What scenarios of a run are copies of.
const SCENARIO: &str = "probes/eventfd-write";

/// The runs of the table of growth: copies of the scenario, and machines at once.
const RUNS: [(usize, usize); 8] = [(1, 2), (10, 2), (50, 2), (100, 2), (200, 2), (50, 1), (50, 3), (50, 4)];

/// What panics, below the repository.
const PANIC: &str = "lab/src/bench/panic.yaml";

/// The userland that vmtest boots.
const USERLAND: &str = "base";

/// How often vmtest boots.
const STOCK_BOOTS: usize = 3;

/// Restoring a machine beside booting it, by the lab and by vmtest, its memory, how long a panic takes to
/// its verdict, what the lab adds to a scenario's own work,
/// and runs of many scenarios by `program`, an xtask.
pub fn isolation(cache: &Cache, root: &Path, program: &Path, progress: &Progress) -> Result<Figures> {
    let directory = tempfile::tempdir_in(cache.directory("bench")?)?;
    let path = root.join("scenarios").join(SCENARIO).with_extension("yaml");
    let bench = Bench {
        kernel: kernel::build(cache, root, kernel::DEFAULT, None, progress)?,
        guest: guest::build(cache, root, progress)?,
        snapshots: Snapshots::new(cache, progress)?,
        scenario: Scenario::load(&path)?,
        found: Found { name: SCENARIO.to_owned(), path },
        directory: directory.path().to_owned(),
    };
    let mut figures = BTreeMap::new();
    let load = load_average();
    let task = progress.task("measuring machines", None);
    figures.extend(bench.machines()?);
    figures.extend(bench.overhead()?);
    figures.insert("panic_to_verdict_seconds".to_owned(), bench.panic(&root.join(PANIC))?);
    drop(task);
    let wanted = WantedUserland::named(USERLAND).map_err(Error::msg)?;
    let tree = bench.guest.userlands.tree(&wanted)?.path;
    let task = progress.task("measuring stock boots by vmtest", None);
    figures.extend(bench.stock(&tree)?);
    let ratio = figures["stock_vmtest_seconds"] / figures["restore_to_first_answer_seconds"];
    figures.insert("stock_vmtest_over_restore_ratio".to_owned(), ratio);
    drop(task);
    let task = progress.task("measuring runs", Some(RUNS.len() as u64));
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
    // What else the host did: other people's work is in all of these figures.
    figures.insert("load_average_before".to_owned(), load);
    figures.insert("load_average_after".to_owned(), load_average());
    Ok(Figures { bench: "isolation".to_owned(), figures, table: growth::table(&runs) })
}

struct Bench {
    kernel: Kernel,
    guest: Guest,
    snapshots: Snapshots,
    scenario: Scenario,
    found: Found,
    directory: PathBuf,
}

impl Bench {
    /// One restored machine after the other, that does nothing; the same, booted.
    fn machines(&self) -> Result<Vec<(String, f64)>> {
        let spec = machine_spec(&self.kernel, &self.guest)?;
        // The first makes the snapshot.
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

    /// A scenario from machine to verdict, less what it takes on a machine that is there.
    fn overhead(&self) -> Result<Vec<(String, f64)>> {
        let spec = machine_spec(&self.kernel, &self.guest)?;
        let (mut whole, mut own, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS * 2 {
            let mut machine = Machine::pristine(&spec, &self.snapshots, &self.directory)?;
            let start = Instant::now();
            let modules = self.guest.modules.of(&self.scenario, &self.kernel)?;
            let recording = recording::record(
                &self.scenario,
                &self.kernel,
                &mut machine,
                &self.guest,
                &modules,
                &self.directory,
            );
            own.push(start.elapsed().as_secs_f64());
            if let Some((death, stage)) = recording.death {
                bail!("`{SCENARIO}` did not get through {stage}: {death}");
            }
            memory.push(private_megabytes(machine.pid())?);
            drop(machine);
            let run = self.directory.join(format!("overhead-{round}"));
            fs::create_dir(&run)?;
            let start = Instant::now();
            let result =
                run::one(&self.kernel, &self.guest, &self.snapshots, &self.found, &self.scenario, &run)?;
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

    /// A scenario that panics, from its machine's start to a verdict with the dumped memory: more than
    /// from the panic on.
    fn panic(&self, path: &Path) -> Result<f64> {
        let found = Found { name: "panic".to_owned(), path: path.to_owned() };
        let scenario = Scenario::load(path)?;
        let mut seconds = Vec::new();
        // The first may have to build the module.
        for round in 0..=ROUNDS {
            let run = self.directory.join(format!("panic-{round}"));
            fs::create_dir(&run)?;
            let started = Instant::now();
            let result = run::one(&self.kernel, &self.guest, &self.snapshots, &found, &scenario, &run)?;
            seconds.push(started.elapsed().as_secs_f64());
            if result.status != Status::Panic || result.vmcore.is_none() {
                bail!("no panic with a dump: {} {}", result.reason, result.notes.join("; "));
            }
            fs::remove_dir_all(&run)?;
        }
        Ok(median(seconds.split_off(1)))
    }

    /// The same kernel by vmtest.
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

    /// How long a run of so many copies of the scenario takes.
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

/// Memory of a process that it shares with nobody: pages it has written to. Those of files that it
/// has only read are everybody's.
fn private_megabytes(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kilobytes.with_context(|| format!("`{path}` has no RssAnon"))? / 1024.0)
}

/// Runnable tasks over the last minute; 0 where the host does not tell.
fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
