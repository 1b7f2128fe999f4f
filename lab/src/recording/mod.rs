//! Scenario on a [`Machine`] → [`Recording`]: what each step did, the raw trace, the kernel log.
//!
//! The recording judges steps, whose checks need the guest's answers; the trace is judged later
//! from what is stored here. Whatever ends the machine early, all that came before is kept.

mod arm;
mod blocked;
mod captures;
mod crash;
mod drain_cost;
mod enabled;
mod end;
mod furnish;
mod hooks;
mod inspect;
mod left;
mod modules;
mod patched;
mod processes;
mod refusal;
mod refuses;
mod selftests;
mod steps;
mod tape;

pub use furnish::{Furniture, Loaded, furnish};
pub use left::Left;

pub(crate) use crash::{CrashMark, VMLINUX, crash_command};
pub(crate) use patched::{LISTING_SUFFIX, TextListing, TextWord};
pub(crate) use processes::ENVIRONMENT;

use crate::{
    guest::{Guest, Module},
    kernel::Kernel,
    machine::{Death, Machine, time_scale},
    report::StepResult,
    scenario::{Scenario, Step, Wanted},
    selftest::Case,
    verdict::{Binaries, Said, Splat, decode, find_splats, step_mark},
};
use anyhow::{Context, Result};
use protocol::{Reply, Request};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tape::Tape;

pub(crate) use drain_cost::{DrainCost, drain_cost};

/// The most bytes that one request to the agent may carry or bring back.
const CHUNK: usize = 512 << 10;

/// How long the lab may take to collect what a run left behind, once its steps are over.
const COLLECT_DEADLINE: Duration = Duration::from_secs(30);

/// The kernel log, beside `trace.dat`.
const KERNEL_LOG: &str = "kernel.log";

/// tracefs files that expectations ask for: path to content.
const FILES: &str = "files.json";

/// What happened when a scenario ran on a machine.
#[derive(Debug, Default)]
pub struct Recording {
    /// What the steps came to, as far as they got.
    pub steps: Vec<StepResult>,
    /// Why the trace could not be armed, in the kernel's own words.
    pub unarmed: Option<String>,
    /// Whether `trace.dat` is there and whole.
    pub trace: bool,
    /// The kernel log at the end, or the console where the guest died.
    pub kernel_log: String,
    /// tracefs files that expectations ask for, as they were after the last step.
    pub files: BTreeMap<String, String>,
    /// How the machine ended before its work was done, and during what.
    pub death: Option<(Death, String)>,
    /// What came of a death that the scenario wanted; absent where it wanted none or got another.
    pub end: Option<Result<(), String>>,
    /// The splats of the kernel log, decoded.
    pub splats: Vec<Splat>,
    /// Where tasks were when a deadline passed, as far as the guest still told.
    pub stacks: Vec<Splat>,
    /// What the steps left behind.
    pub left: Vec<Left>,
    /// What the lab could not find out, and why.
    pub notes: Vec<String>,
}

impl Recording {
    /// The recording of a machine that died during `stage`, before there was anything to record.
    pub fn of_death(death: Death, stage: &str) -> Recording {
        let mut recording = Recording::default();
        recording.die(death, stage);
        recording
    }

    fn die(&mut self, death: Death, stage: &str) {
        self.notes.extend(death.note());
        self.death = Some((death, stage.to_owned()));
    }

    /// Writes what a later look at the trace needs beside it.
    fn store(&self, directory: &Path) -> Result<()> {
        fs::write(directory.join(KERNEL_LOG), &self.kernel_log).context("cannot write `kernel.log`")?;
        let files = serde_json::to_vec_pretty(&self.files)?;
        fs::write(directory.join(FILES), files).context("cannot write `files.json`")
    }
}

impl Recording {
    /// Reads the splats of the kernel log, and decodes them and the stacks of tasks.
    fn find_splats(&mut self, scenario: &Scenario, kernel: &Kernel, modules: &BTreeMap<Wanted, Module>) {
        self.splats = find_splats(&self.kernel_log);
        let binaries = Binaries {
            vmlinux: kernel.vmlinux(),
            modules: modules.values().map(|module| (module.name.clone(), module.debug.clone())).collect(),
            roots: vec![kernel.directory.clone(), kernel.source.clone()],
        };
        for splats in [&mut self.splats, &mut self.stacks] {
            if let Err(error) = decode(splats, &binaries) {
                self.notes.push(format!("call traces have no files and lines: {error:#}"));
            }
        }
        for splat in &mut self.splats {
            let texts = [splat.title.as_str(), splat.message.as_str()];
            splat.allowed = scenario.allow.iter().any(|allowed| allowed.matches(&splat.fingerprint, &texts));
        }
    }
}

/// The kernel log and the tracefs files of a stored recording.
pub fn stored(directory: &Path) -> Result<(String, BTreeMap<String, String>)> {
    let bytes = |name: &str| {
        let path = directory.join(name);
        fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))
    };
    let files = serde_json::from_slice(&bytes(FILES)?).with_context(|| format!("`{FILES}` is damaged"))?;
    Ok((String::from_utf8_lossy(&bytes(KERNEL_LOG)?).into_owned(), files))
}

/// What [`record`] kept of the stdout of these steps, as far as they had any.
pub fn outputs(directory: &Path, steps: &BTreeSet<usize>) -> BTreeMap<usize, Said> {
    let said = |step: &usize| {
        let bytes = fs::read(directory.join(steps::kept_name(*step, "stdout"))).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = processes::is_whole(&text);
        Some((*step, Said { text, whole }))
    };
    steps.iter().filter_map(said).collect()
}

/// Runs a scenario on a machine that has just booted. `directory` gets `trace.dat`, `kernel.log`
/// and `steps/`.
pub fn record(
    scenario: &Scenario,
    kernel: &Kernel,
    machine: &mut Machine,
    guest: &Guest,
    modules: &BTreeMap<Wanted, Module>,
    directory: &Path,
) -> Recording {
    let mut recording = Recording::default();
    let mut stage = String::from("arming the trace");
    let mut recorder = Recorder::new(kernel, machine, guest, directory, scenario.timeout);
    recorder.modules = modules.clone();
    if let Err(death) = recorder.run(scenario, &mut recording, &mut stage) {
        recording.die(death, &stage);
        if recording.kernel_log.is_empty() {
            recording.kernel_log = recorder.machine.console();
        }
    }
    recording.find_splats(scenario, kernel, modules);
    if let Some(dies) = &scenario.dies {
        recorder.judge_end(scenario, dies, &mut recording);
    }
    if let Err(error) = recording.store(directory)
        && recording.death.is_none()
    {
        recording.die(Death::Lab(error), &stage);
    }
    recording
}

/// A scenario in progress.
struct Recorder<'a> {
    machine: &'a mut Machine,
    guest: &'a Guest,
    modules: BTreeMap<Wanted, Module>,
    directory: &'a Path,
    kernel: &'a Kernel,
    /// The time for what goes on now, on the reference machine, and when it is over here.
    time: Duration,
    until: Instant,
    /// The step and the number of a workload that has not ended yet.
    running: Option<(usize, u32)>,
    /// Workloads that run beside the steps.
    background: Vec<processes::Background>,
    /// Values that steps have found.
    captures: captures::Captures,
    /// The crash that looks at the guest, once it was asked for.
    crash: Option<crash::Session>,
    /// By how much this guest is slower than the reference machine, at least 1.
    scale: f64,
    /// Files that are in the guest already.
    pushed: BTreeSet<String>,
    /// Where the functions of modules that were loaded are, as /proc/kallsyms has them.
    module_symbols: String,
    /// One for each tracing instance, while they are recorded.
    tapes: Vec<Tape>,
    /// What the tests of a selftest step came to so far, and the one that runs.
    cases: Vec<Case>,
    testing: Option<String>,
    /// What is known of the kernel's code, if the scenario looks at it.
    patched: Option<patched::Patched>,
}

impl<'a> Recorder<'a> {
    fn new(
        kernel: &'a Kernel,
        machine: &'a mut Machine,
        guest: &'a Guest,
        directory: &'a Path,
        time: Duration,
    ) -> Recorder<'a> {
        let scale = time_scale(machine.hello());
        Recorder {
            scale,
            machine,
            guest,
            modules: BTreeMap::new(),
            directory,
            kernel,
            time,
            until: Instant::now() + time.mul_f64(scale),
            running: None,
            background: Vec::new(),
            captures: captures::Captures::new(),
            crash: None,
            pushed: BTreeSet::new(),
            module_symbols: String::new(),
            tapes: Vec::new(),
            cases: Vec::new(),
            testing: None,
            patched: None,
        }
    }

    fn run(
        &mut self,
        scenario: &Scenario,
        recording: &mut Recording,
        stage: &mut String,
    ) -> Result<(), Death> {
        recording.unarmed = self.unbooted(scenario)?;
        self.open_text(scenario)?;
        if recording.unarmed.is_none() {
            recording.unarmed = self.load_hooks(scenario)?;
        }
        self.remember_text()?;
        if recording.unarmed.is_none() {
            recording.unarmed = self.arm(scenario)?;
        }
        if recording.unarmed.is_some() {
            recording.kernel_log = self.kernel_log()?;
            return Ok(());
        }
        let before = self.state()?;
        self.start_trace(&scenario.trace)?;
        let ended = self.steps(scenario, recording, stage);
        if scenario.dump && matches!(ended, Ok(()) | Err(Death::Deadline { .. })) {
            self.machine.keep_memory()?;
        }
        let ended = ended.and_then(|()| self.end_background(recording));
        // A guest that still answers has more to tell than that time was up.
        match &ended {
            Ok(()) => {}
            Err(Death::Deadline { .. }) => {
                if let Err(death) = self.look_at_hang(recording) {
                    recording.notes.push(format!("the stacks of blocked tasks are not known: {death}"));
                    return ended;
                }
            }
            Err(_) => return ended,
        }
        let during = if ended.is_ok() { "collecting the trace" } else { stage.as_str() }.to_owned();
        self.give(COLLECT_DEADLINE);
        let collected = self.collect(scenario, &before, recording);
        *stage = during;
        ended.and(collected)
    }

    fn steps(
        &mut self,
        scenario: &Scenario,
        recording: &mut Recording,
        stage: &mut String,
    ) -> Result<(), Death> {
        for (index, step) in scenario.steps.iter().enumerate() {
            *stage = format!("step {} (`{}`)", index + 1, step.text);
            self.mark(index + 1)?;
            // A tracer that is changed and a probe event that is removed clear the ring buffer; a script
            // may do either.
            if matches!(step.value, Step::Write(_) | Step::Unload(_) | Step::Shell(_)) {
                self.drain(false)?;
            }
            let started = Instant::now();
            let result = self.step(index + 1, step);
            let seconds = started.elapsed().as_secs_f64();
            let ended = result.as_ref().err().map(|_| StepResult {
                text: step.text.clone(),
                detail: match self.testing.take() {
                    Some(test) => format!("`{test}` did not end"),
                    None => "it did not end".into(),
                },
                cases: std::mem::take(&mut self.cases),
                seconds,
                ..StepResult::default()
            });
            recording.steps.extend(ended);
            recording.steps.push(StepResult { seconds, ..result? });
            if matches!(step.value, Step::Write(_) | Step::Load(_) | Step::Insert(_)) {
                self.learn_formats()?;
            }
        }
        Ok(())
    }

    /// Writes where a step begins into the kernel log and into the console's file.
    fn mark(&mut self, step: usize) -> Result<(), Death> {
        let mark = step_mark(step);
        self.machine.mark_console(&mark);
        self.mark_log(&mark)
    }

    fn collect(
        &mut self,
        scenario: &Scenario,
        before: &left::State,
        recording: &mut Recording,
    ) -> Result<(), Death> {
        self.stop_trace()?;
        recording.trace = true;
        let cpus = self.machine.hello().cpus;
        recording.files = self.files(&expanded(&scenario.evidence_files(), cpus))?;
        recording.left = before.left(&self.state()?, scenario);
        recording.kernel_log = self.kernel_log()?;
        Ok(())
    }

    /// From now on there is so much time, on the reference machine.
    fn give(&mut self, time: Duration) {
        self.time = time;
        self.until = Instant::now() + time.mul_f64(self.scale);
    }

    /// Asks one thing within what is left of the time.
    fn call(&mut self, request: &Request) -> Result<Reply, Death> {
        let within = self.until.saturating_duration_since(Instant::now());
        self.machine.call(request, within).map_err(|death| self.in_whole(death))
    }

    fn call_all(&mut self, requests: &[Request]) -> Result<Vec<Reply>, Death> {
        let within = self.until.saturating_duration_since(Instant::now());
        self.machine.call_all(requests, within).map_err(|death| self.in_whole(death))
    }

    /// What was left of the time for its last request says nothing.
    fn in_whole(&self, death: Death) -> Death {
        match death {
            Death::Deadline { request, .. } => {
                Death::Deadline { after: self.time, scale: self.scale, request }
            }
            death => death,
        }
    }

    /// Reads several files at once; one that cannot be read is left out.
    fn files(&mut self, paths: &[String]) -> Result<BTreeMap<String, String>, Death> {
        let requests: Vec<_> = paths.iter().map(|path| read(path)).collect();
        let replies = self.call_all(&requests)?;
        let texts = paths.iter().zip(replies).filter_map(|(path, reply)| match reply {
            Reply::Data(data) => Some((path.clone(), String::from_utf8_lossy(&data).into_owned())),
            _ => None,
        });
        Ok(texts.collect())
    }

    fn kernel_log(&mut self) -> Result<String, Death> {
        match self.call(&Request::KernelLog { max: CHUNK as u32 })? {
            Reply::Data(data) => Ok(String::from_utf8_lossy(&data).into_owned()),
            other => Err(unexpected("the kernel log", &other)),
        }
    }
}

/// The same paths, those with `cpu*` once for each CPU.
fn expanded(paths: &[String], cpus: u32) -> Vec<String> {
    let each = |path: &String| match path.contains("cpu*") {
        true => (0..cpus).map(|cpu| path.replace("cpu*", &format!("cpu{cpu}"))).collect(),
        false => vec![path.clone()],
    };
    paths.iter().flat_map(each).collect()
}

fn read(path: &str) -> Request {
    Request::ReadFile { path: path.into(), max: CHUNK as u32 }
}

/// A reply that makes no sense: the agent is not what it should be.
fn unexpected(asked: &str, reply: &Reply) -> Death {
    Death::AgentLost(match reply {
        Reply::Errno { what, errno } => format!("asked for {asked}, it failed: {what}: errno {errno}"),
        other => {
            let mut text = format!("{other:?}");
            text.truncate(text.floor_char_boundary(80));
            format!("asked for {asked}, it answered {text}")
        }
    })
}
