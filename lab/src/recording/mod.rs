//! Scenario on a [`Machine`] → [`Recording`]: the results of steps, the raw trace, the kernel log.
//!
//! The recording checks steps, because that needs the answers of the guest. It judges nothing else:
//! `verdict` does, from the facts that are noted down here. If the machine ends early, all facts up to
//! then are kept.

mod arm;
mod blocked;
mod captures;
mod checks;
mod clearing;
mod crash;
mod drain_cost;
mod enabled;
mod evidence;
mod executed;
mod facts;
mod files;
mod formats;
mod hooks;
mod inspect;
mod install;
mod kernel_text;
mod ledger;
mod leftovers;
mod link;
mod modules;
mod notes;
mod patched;
mod processes;
mod programs;
mod refusal;
mod rejects;
mod selftests;
mod steps;
mod storage;
mod symbols;
mod tape;

pub use facts::{Backtrace, End, EndKind, Recording};
pub use install::{GuestFiles, Loaded, install};
pub use leftovers::{Leftover, LeftoverKind};
pub use storage::{StepStdout, outputs, texts};

use crate::{
    machine::{Death, Machine, Subject},
    results::StepResult,
    scenario::Scenario,
    splat::{Binaries, step_mark},
};
use blocked::{blocked_by_console, blocked_tasks};
use captures::Captures;
use crash::Crash;
use executed::executed_calls;
use files::Files;
use inspect::backtrace;
use leftovers::{Origins, State};
use link::Link;
use modules::Modules;
use programs::Programs;
use refusal::mark_log;
use std::{
    collections::BTreeMap,
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};
use tape::Traced;

pub(crate) use {
    drain_cost::{DrainCost, drain_cost},
    evidence::{KPROBE_PROFILE, hist_path},
    executed::ExecutedCalls,
    kernel_text::stored_text,
    link::LOG_LIMIT,
};

/// The time limit for collecting the trace and everything else after the last step, on the reference machine.
const COLLECT_DEADLINE: Duration = Duration::from_secs(30);

/// The time limit for the requests to a guest that hangs, on the reference machine.
const HANG_DEADLINE: Duration = Duration::from_millis(1500);

/// Runs a scenario on a machine that has just booted. Writes the trace, the facts and the output of steps to
/// `directory`.
pub fn record(subject: &Subject<'_>, machine: &mut Machine, directory: &Path) -> Recording {
    let Subject { scenario, kernel, guest, modules } = *subject;
    let mut recording = Recording::default();
    let mut stage = String::from("arming the trace");
    let mut recorder = Recorder {
        directory,
        keeps_output: guest.keeps_output,
        traced: Traced::new(Link::new(machine, scenario.timeout)),
        files: Files::new(guest),
        modules: Modules::new(kernel, modules.clone()),
        programs: Programs::default(),
        crash: Crash::new(&kernel.version),
        captures: Captures::new(),
        origins: Origins::default(),
    };
    if let Err(death) = recorder.run(scenario, &mut recording, &mut stage) {
        recording.die(&death, &stage);
        if recording.kernel_log.is_empty() {
            recording.kernel_log = recorder.traced.link.machine.console();
        }
        let wanted = scenario.expect_panic.as_ref().is_some_and(|dies| !dies.backtrace.is_empty());
        if wanted && matches!(death, Death::Panic { .. }) {
            recording.backtrace = Some(backtrace(&recorder.modules, directory, &death).into());
        }
    }
    recording.loads = recorder.modules.loads;
    recording.stored(directory)
}

/// The files that describe the code which a guest ran, for decoding its call traces.
pub fn binaries(subject: &Subject<'_>) -> Binaries {
    let Subject { kernel, modules, .. } = *subject;
    Binaries {
        vmlinux: kernel.vmlinux(),
        modules: modules.values().map(|module| (module.name.clone(), module.debug.clone())).collect(),
        roots: kernel.roots(),
    }
}

/// A scenario in progress: its parts. Each step gets those that it needs.
struct Recorder<'a> {
    directory: &'a Path,
    /// Whether the output of steps is stored.
    keeps_output: bool,
    traced: Traced<'a>,
    files: Files<'a>,
    modules: Modules<'a>,
    programs: Programs,
    crash: Crash<'a>,
    /// Values that steps have captured.
    captures: Captures,
    origins: Origins,
}

impl Recorder<'_> {
    fn run(
        &mut self,
        scenario: &Scenario,
        recording: &mut Recording,
        stage: &mut String,
    ) -> Result<(), Death> {
        recording.unarmed = self.arm(scenario)?;
        if recording.unarmed.is_some() {
            recording.kernel_log = self.traced.link.kernel_log()?;
            return Ok(());
        }
        let before = State::read(&mut self.traced.link)?;
        self.traced.start(&scenario.trace, self.directory)?;
        let began = self.traced.link.machine.noted();
        let mut ended = self.steps(scenario, recording, stage);
        let executed = began..self.traced.link.machine.noted();
        if scenario.dump && matches!(ended, Ok(()) | Err(Death::Deadline { .. })) {
            self.traced.link.machine.keep_memory()?;
        }
        if ended.is_ok() {
            let Recorder { traced, captures, programs, .. } = self;
            ended = programs.end_background(traced, self.directory, captures, &mut recording.steps);
        }
        // A guest that still answers has more to report than a passed deadline.
        match &ended {
            Ok(()) => {}
            Err(Death::Deadline { .. }) => {
                if let Err(death) = self.examine_hang(recording) {
                    recording.stacks = blocked_by_console(self.traced.link.machine).unwrap_or_default();
                    if recording.stacks.is_empty() {
                        recording.notes.push(format!("cannot read the stacks of blocked tasks: {death}"));
                    }
                    return ended;
                }
            }
            Err(_) => return ended,
        }
        let during = if ended.is_ok() { "collecting the trace" } else { stage.as_str() }.to_owned();
        self.traced.link.limit(COLLECT_DEADLINE);
        let collected = self.collect(scenario, &before, executed, recording);
        *stage = during;
        ended.and(collected)
    }

    /// Arms the trace. Returns why the kernel refused to.
    fn arm(&mut self, scenario: &Scenario) -> Result<Option<String>, Death> {
        let Recorder { traced, files, modules, .. } = self;
        let mut refused = arm::refused_boot(&mut traced.link, scenario)?;
        files.push_workloads(&mut traced.link, scenario)?;
        modules.push_ahead(&mut traced.link, files, scenario)?;
        modules.open_text(&mut traced.link, scenario)?;
        if refused.is_none() {
            refused = modules.load_hooks(traced, files, scenario)?;
        }
        modules.remember_text(&mut traced.link)?;
        if refused.is_none() {
            refused = arm::arm(&mut traced.link, files, modules.kernel, scenario)?;
        }
        Ok(refused)
    }

    fn steps(
        &mut self,
        scenario: &Scenario,
        recording: &mut Recording,
        stage: &mut String,
    ) -> Result<(), Death> {
        for (number, step) in (1..).zip(&scenario.steps) {
            *stage = format!("step {number} (`{}`)", step.text);
            mark(&mut self.traced.link, number);
            self.traced.keep(scenario, number);
            recording.notes.extend(self.traced.before_step(&step.value)?);
            let watched = Origins::watches(&step.value);
            if watched {
                self.origins.before(&State::read(&mut self.traced.link)?);
            }
            let started = Instant::now();
            let (result, ended) = self.step(number, &step.value);
            let seconds = started.elapsed().as_secs_f64();
            recording.steps.push(StepResult { text: step.text.clone(), seconds, ..result });
            ended?;
            if watched {
                self.origins.after(number, &State::read(&mut self.traced.link)?);
            }
            self.traced.after_step(&step.value);
        }
        Ok(())
    }

    /// Stores what the step that hangs has printed so far, and the stacks of tasks.
    ///
    /// # Errors
    /// The agent does not answer any more.
    fn examine_hang(&mut self, recording: &mut Recording) -> Result<(), Death> {
        let Recorder { traced: Traced { link, .. }, captures, programs, .. } = self;
        link.limit(HANG_DEADLINE);
        programs.keep_output_so_far(link, self.directory, captures, &mut recording.steps)?;
        recording.stacks = blocked_tasks(link)?;
        Ok(())
    }

    fn collect(
        &mut self,
        scenario: &Scenario,
        before: &State,
        executed: Range<u64>,
        recording: &mut Recording,
    ) -> Result<(), Death> {
        let mut texts = BTreeMap::new();
        if scenario.compares_kernel_text() {
            self.traced.pause()?;
            texts = kernel_text::kernel_texts(&mut self.traced, scenario, self.modules.kernel)?;
            // The text has only those that the kernel knows.
            self.traced.link.processes.forget_names();
        }
        recording.notes.extend(self.traced.stop(&self.modules.symbols)?);
        recording.trace = true;
        let link = &mut self.traced.link;
        recording.files = texts;
        let files = link.files(&expanded(&scenario.evidence_files(), link.cpus()))?;
        recording.files.extend(files);
        let after = State::read(link)?;
        if scenario.compares_executed() {
            recording.files.extend(executed_calls(link, self.modules.kernel, executed)?);
        }
        let leftovers = before.leftovers(&after).into_iter();
        recording.leftovers = leftovers.map(|leftover| self.origins.find(leftover)).collect();
        recording.modules = after.modules();
        // Last, so that a splat counts that any of the above has caused. Nothing is removed from the guest
        // after this, and it runs no further request.
        recording.kernel_log = link.kernel_log()?;
        Ok(())
    }
}

/// Marks the beginning of a step in the kernel log and in the console's file.
fn mark(link: &mut Link<'_>, step: usize) {
    let mark = step_mark(step);
    link.machine.mark_console(&mark);
    mark_log(link, &mark);
}

/// Returns the paths, each one with `cpu*` once per CPU.
fn expanded(paths: &[String], cpus: u32) -> Vec<String> {
    let each = |path: &String| match path.contains("cpu*") {
        true => (0..cpus).map(|cpu| path.replace("cpu*", &format!("cpu{cpu}"))).collect(),
        false => vec![path.clone()],
    };
    paths.iter().flat_map(each).collect()
}
