//! Scenarios × kernels → [`Results`]: who runs when, and what is stored.
//!
//! Each scenario gets a machine of its own. A result is stored the moment it is there, so a run
//! that is killed leaves everything it had found; `results.json` is replaced as a whole each time.

use crate::{
    cache::Cache,
    guest::{self, Guest},
    host::{interrupt, process::Tool},
    kernel::{self, Kernel},
    machine::{Accelerator, BOOT_DEADLINE, Death, Machine, MachineSpec, qemu},
    plan::unmet,
    progress::Progress,
    recording::{self, Recording},
    report::{self, Host, KernelInfo, Qemu, Results, Run, RunDirectory, SCHEMA, ScenarioResult},
    scenario::{Found, Scenario},
    stored::{self, SCENARIO},
    verdict::{self, Status, Verdict},
};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The repository.
    pub root: PathBuf,
    /// Names of `kernels/*.yaml`.
    pub kernels: Vec<String>,
    /// A local kernel tree that takes the place of the kernels' own source.
    pub kernel_tree: Option<PathBuf>,
    /// The scenarios, parsed.
    pub scenarios: Vec<(Found, Scenario)>,
    /// How many machines at once.
    pub jobs: usize,
    /// Where results go; each run makes a directory there.
    pub results: PathBuf,
    /// Start nothing more once a scenario has failed.
    pub fail_fast: bool,
}

/// Everything that is built before the first machine starts.
pub struct Prepared {
    /// The kernels, in the order asked for.
    pub kernels: Vec<Kernel>,
    /// What runs in the guest.
    pub guest: Guest,
}

/// Builds what is not built yet.
pub fn prepare(cache: &Cache, options: &Options, progress: &Progress) -> Result<Prepared> {
    let tree = options.kernel_tree.as_deref();
    let kernels =
        options.kernels.iter().map(|name| kernel::build(cache, &options.root, name, tree, progress));
    let kernels = kernels.collect::<Result<_>>()?;
    let guest = guest::build(cache, &options.root, progress)?;
    Ok(Prepared { kernels, guest })
}

/// Runs everything. `finished` sees each result in the order of the list, as soon as it and all
/// before it are there. Gives back the results and the directory they are in.
pub fn run(
    prepared: &Prepared,
    options: &Options,
    progress: &Progress,
    finished: impl FnMut(&ScenarioResult, &Path) + Send,
) -> Result<(Results, PathBuf)> {
    let started = Instant::now();
    let run_directory = RunDirectory::create(&options.results, &options.kernels)?;
    let directory = run_directory.path().to_owned();
    let work: Vec<_> = prepared
        .kernels
        .iter()
        .flat_map(|kernel| options.scenarios.iter().map(move |(found, scenario)| (kernel, found, scenario)))
        .collect();
    let store = Mutex::new(Store {
        results: empty_results(prepared)?,
        directory: directory.clone(),
        started,
        done: BTreeMap::new(),
        finished,
    });
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let task = progress.task("running scenarios", Some(work.len() as u64));
    let worker = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::SeqCst);
            if stop.load(Ordering::SeqCst) || interrupt::check().is_err() {
                return Ok(());
            }
            let Some((kernel, found, scenario)) = work.get(index) else { return Ok(()) };
            task.note(&found.name);
            let result = one(kernel, &prepared.guest, found, scenario, &directory);
            // Told to stop, the lab has no verdict; anything else that went wrong is one.
            interrupt::check()?;
            let result = result.unwrap_or_else(|error| lab_error(kernel, found, &error));
            if options.fail_fast && !result.status.is_good() {
                stop.store(true, Ordering::SeqCst);
            }
            let mut store = store.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
            store.done.insert(index, result);
            task.set(store.done.len() as u64 + store.results.scenarios.len() as u64);
            store.flush()?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..options.jobs.clamp(1, work.len().max(1))).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    drop(task);
    interrupt::check()?;
    let mut store = store.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
    store.finish()?;
    report::point_latest(&options.results, &directory)?;
    Ok((store.results, directory))
}

/// What is there so far.
struct Store<F> {
    results: Results,
    directory: PathBuf,
    started: Instant,
    /// Results that wait for an earlier one.
    done: BTreeMap<usize, ScenarioResult>,
    finished: F,
}

impl<F: FnMut(&ScenarioResult, &Path)> Store<F> {
    /// Takes over, in order, what no earlier result is missing for.
    fn flush(&mut self) -> Result<()> {
        while let Some(result) = self.done.remove(&self.results.scenarios.len()) {
            (self.finished)(&result, &self.directory);
            self.results.scenarios.push(result);
        }
        self.results.run.seconds = self.started.elapsed().as_secs_f64();
        report::write_json(&self.results, &self.directory)
    }

    fn finish(&mut self) -> Result<()> {
        // With --fail-fast there can be gaps; what came after them still counts.
        for (_, result) in std::mem::take(&mut self.done) {
            (self.finished)(&result, &self.directory);
            self.results.scenarios.push(result);
        }
        self.results.run.complete = true;
        self.results.run.seconds = self.started.elapsed().as_secs_f64();
        report::write_json(&self.results, &self.directory)?;
        report::write_junit(&self.results, &self.directory)
    }
}

fn empty_results(prepared: &Prepared) -> Result<Results> {
    let version = Tool::new(qemu::PROGRAM).arg("--version").run()?;
    let kernels = prepared.kernels.iter().map(|kernel| KernelInfo {
        name: kernel.name.clone(),
        source_version: kernel.source_version.clone(),
        config_hash: kernel.config_hash.clone(),
    });
    Ok(Results {
        schema: SCHEMA,
        run: Run {
            started: report::now(),
            seconds: 0.0,
            first_machine_micros: report::now_micros(),
            complete: false,
        },
        host: Host {
            architecture: std::env::consts::ARCH.to_owned(),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            accelerator: Accelerator::of_host().name().to_owned(),
        },
        qemu: Qemu { version: version.lines().next().unwrap_or_default().to_owned() },
        kernels: kernels.collect(),
        scenarios: Vec::new(),
    })
}

/// One scenario on one kernel, from power-on to verdict. An error is the lab's own; whatever the
/// guest does is a verdict.
pub fn one(
    kernel: &Kernel,
    guest: &Guest,
    found: &Found,
    scenario: &Scenario,
    run: &Path,
) -> Result<ScenarioResult> {
    let started = Instant::now();
    let relative = format!("{}/{}", kernel.name, found.name);
    let (verdict, recording) = match unmet(&scenario.requires, kernel) {
        Some(reason) => {
            (Verdict { status: Status::Unsupported, reason, expectations: Vec::new() }, Recording::default())
        }
        None => {
            let place = report::Place::new(run, &relative)?;
            fs::copy(&found.path, place.path().join(SCENARIO))
                .with_context(|| format!("cannot copy `{}`", found.path.display()))?;
            let recording = record(kernel, guest, scenario, place.path());
            let verdict = judge(scenario, &recording, place.path());
            place.put()?;
            (verdict, recording)
        }
    };
    Ok(ScenarioResult {
        name: found.name.clone(),
        kernel: kernel.name.clone(),
        status: verdict.status,
        reason: verdict.reason,
        seconds: started.elapsed().as_secs_f64(),
        directory: relative,
        steps: recording.steps,
        expectations: verdict.expectations,
        splats: recording.splats,
        stacks: recording.stacks,
        left_behind: recording.left.into_iter().map(|left| left.text).collect(),
        notes: recording.notes,
    })
}

/// The result of a scenario that the lab could not run.
fn lab_error(kernel: &Kernel, found: &Found, error: &anyhow::Error) -> ScenarioResult {
    ScenarioResult {
        name: found.name.clone(),
        kernel: kernel.name.clone(),
        status: Status::LabError,
        reason: format!("{error:#}"),
        seconds: 0.0,
        directory: String::new(),
        steps: Vec::new(),
        expectations: Vec::new(),
        splats: Vec::new(),
        stacks: Vec::new(),
        left_behind: Vec::new(),
        notes: Vec::new(),
    }
}

fn record(kernel: &Kernel, guest: &Guest, scenario: &Scenario, directory: &Path) -> Recording {
    let spec = machine_spec(kernel, guest);
    let modules = match guest.modules.of(scenario, kernel) {
        Ok(modules) => modules,
        Err(error) => {
            let death = Some((Death::Lab(error), "building its modules".into()));
            return Recording { death, ..Recording::default() };
        }
    };
    match Machine::boot(&spec, directory, BOOT_DEADLINE) {
        Ok(mut machine) => recording::record(scenario, kernel, &mut machine, guest, &modules, directory),
        Err(death) => Recording { death: Some((death, "booting".into())), ..Recording::default() },
    }
}

/// The machine a kernel's file asks for.
pub fn machine_spec(kernel: &Kernel, guest: &Guest) -> MachineSpec {
    let machine = &kernel.spec.machine;
    MachineSpec {
        image: kernel.image(),
        initramfs: guest.initramfs.clone(),
        machine: machine.machine.clone(),
        cpu: machine.cpu.clone(),
        cpus: machine.smp,
        memory: machine.memory.to_string(),
        cmdline: kernel.spec.cmdline.split_whitespace().map(str::to_owned).collect(),
    }
}

/// Only a whole recording whose expectations hold is a pass.
fn judge(scenario: &Scenario, recording: &Recording, directory: &Path) -> Verdict {
    let outcomes =
        if recording.trace { stored::judge_again(directory, Some(scenario)) } else { Ok(Vec::new()) };
    verdict::conclude(recording, outcomes)
}
