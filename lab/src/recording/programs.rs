//! Steps that run a program: workloads, to their end or alongside later steps, and scripts of
//! a userland's shell.

use super::{
    captures::Captures,
    checks::check_text,
    files::Files,
    link::Link,
    notes::StepNotes,
    processes::{Launch, OUTPUT_MAX, SIGKILL, WAIT_MILLIS, keep_output, output_so_far, spawn, start, wait},
    tape::{Drain, Traced},
};
use crate::{
    guest::BUSYBOX,
    host::process::tail,
    machine::{Death, ENVIRONMENT},
    results::StepResult,
    scenario::{Shell, TextCheck, WORKLOADS, Workload},
};
use protocol::{ChildState, Output, Reply, Request, Stdin};
use std::path::Path;

/// The number of lines of output that are shown of a workload that did not end.
const SHOWN: usize = 12;

/// The programs of a scenario that are running.
#[derive(Default)]
pub(super) struct Programs {
    /// The program that a step waits for.
    foreground: Option<Program>,
    /// Workloads that run alongside later steps.
    background: Vec<Background>,
}

/// A running program.
#[derive(Clone, Copy)]
struct Program {
    /// The number of the step that started it, from 1.
    step: usize,
    child: u32,
}

/// A workload that runs alongside later steps, and the checks of its output.
struct Background {
    program: Program,
    stdout: Option<TextCheck>,
    stderr: Option<TextCheck>,
}

/// The expected end and output of a program.
struct Expected<'a> {
    end: String,
    stdout: Option<&'a TextCheck>,
    stderr: Option<&'a TextCheck>,
}

impl<'a> Expected<'a> {
    fn exit(status: i32, stdout: Option<&'a TextCheck>, stderr: Option<&'a TextCheck>) -> Expected<'a> {
        Expected { end: format!("exit status {status}"), stdout, stderr }
    }
}

impl Programs {
    /// Runs a workload.
    pub(super) fn workload(
        &mut self,
        traced: &mut Traced<'_>,
        files: &mut Files<'_>,
        notes: &mut StepNotes<'_>,
        step: &Workload,
    ) -> Result<Vec<String>, Death> {
        let launch = Launch {
            program: step.workload.program(),
            arguments: step.workload.arguments(),
            env: step.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            stdin: step.stdin.as_bytes(),
        };
        let child = match start(&mut traced.link, files, launch)? {
            Ok(child) => child,
            Err(reason) => return Ok(vec![reason]),
        };
        if let Some(until) = &step.until {
            let program = Program { step: notes.number, child };
            let (stdout, stderr) = (step.stdout.clone(), step.stderr.clone());
            return self.run_alongside(traced, notes, Background { program, stdout, stderr }, until);
        }
        let expected = Expected::exit(step.exit, step.stdout.as_ref(), step.stderr.as_ref());
        self.run_to_end(traced, notes, child, &expected)
    }

    /// Runs a script with the userland's shell.
    pub(super) fn shell(
        &mut self,
        traced: &mut Traced<'_>,
        files: &mut Files<'_>,
        notes: &mut StepNotes<'_>,
        step: &Shell,
    ) -> Result<Vec<String>, Death> {
        let script = match notes.captures.expand(step.sh.as_str()) {
            Ok(script) => script,
            Err(reason) => return Ok(vec![reason]),
        };
        for program in &step.workloads {
            if let Err(reason) = files.push_workload(&mut traced.link, program)? {
                return Ok(vec![reason]);
            }
        }
        let mut env: Vec<String> = ENVIRONMENT.map(str::to_owned).into();
        env.extend(step.env.iter().map(|(name, value)| format!("{name}={value}")));
        let script = format!("cd /tmp\n{script}");
        let busybox = format!("{WORKLOADS}/{BUSYBOX}");
        let shell = match files.guest.workloads.contains_key(BUSYBOX) {
            true => vec![busybox.as_str(), "sh"],
            false => vec!["/bin/sh"],
        };
        let argv = shell.into_iter().chain(["-eu", "-c", &script]).map(str::to_owned).collect();
        let child = match spawn(&mut traced.link, argv, env, Stdin::Bytes(Vec::new()))? {
            Ok(child) => child,
            Err(reason) => return Ok(vec![reason]),
        };
        let expected = Expected::exit(step.exit, step.stdout.as_ref(), step.stderr.as_ref());
        self.run_to_end(traced, notes, child, &expected)
    }

    fn run_to_end(
        &mut self,
        traced: &mut Traced<'_>,
        notes: &mut StepNotes<'_>,
        child: u32,
        expected: &Expected<'_>,
    ) -> Result<Vec<String>, Death> {
        self.foreground = Some(Program { step: notes.number, child });
        let (ended, output) = wait(traced, child)?;
        self.foreground = None;
        keep_output(notes, &output)?;
        Ok(compare(&ended, &output, expected, notes.captures))
    }

    /// Waits until the stdout of a workload that has just started contains `until`.
    fn run_alongside(
        &mut self,
        traced: &mut Traced<'_>,
        notes: &mut StepNotes<'_>,
        background: Background,
        until: &str,
    ) -> Result<Vec<String>, Death> {
        let child = background.program.child;
        self.foreground = Some(background.program);
        while !has_printed(&mut traced.link, child, until)? {
            let state = traced.link.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })?;
            if let Reply::Child(ChildState::Exited(_, output) | ChildState::Signaled(_, output)) = &state {
                self.foreground = None;
                keep_output(notes, output)?;
                return Ok(vec![format!("it ended before its stdout contained \"{until}\"; see its output")]);
            }
            traced.drain(Drain::Some)?;
        }
        self.foreground = None;
        self.background.push(background);
        Ok(Vec::new())
    }

    /// Kills the workloads that run alongside the steps, after the last one, and adds their output and
    /// failures to the results of their steps.
    pub(super) fn end_background(
        &mut self,
        traced: &mut Traced<'_>,
        directory: &Path,
        captures: &mut Captures,
        results: &mut [StepResult],
    ) -> Result<(), Death> {
        for Background { program, stdout, stderr } in std::mem::take(&mut self.background) {
            let Program { step, child } = program;
            traced.link.call(&Request::Kill { child, signal: SIGKILL })?;
            let (ended, output) = wait(traced, child)?;
            let mut notes = StepNotes::new(directory, step, captures);
            keep_output(&mut notes, &output)?;
            let end = format!("signal {SIGKILL}");
            let expected = Expected { end, stdout: stdout.as_ref(), stderr: stderr.as_ref() };
            let failures = compare(&ended, &output, &expected, notes.captures);
            if let Some(result) = results.get_mut(step - 1) {
                result.output.extend(notes.output);
                if !failures.is_empty() {
                    result.passed = false;
                    result.detail = failures.join("\n");
                }
            }
        }
        Ok(())
    }

    /// Stores what the program of a step that did not end has printed so far, and shows the end of it in
    /// the step's result.
    pub(super) fn keep_output_so_far(
        &mut self,
        link: &mut Link<'_>,
        directory: &Path,
        captures: &mut Captures,
        results: &mut [StepResult],
    ) -> Result<(), Death> {
        let Some(Program { step, child }) = self.foreground.take() else { return Ok(()) };
        // It may have ended when the time was up.
        let Some(output) = output_so_far(link, child)? else { return Ok(()) };
        let mut notes = StepNotes::new(directory, step, captures);
        keep_output(&mut notes, &output)?;
        let Some(result) = results.last_mut() else { return Ok(()) };
        result.output.extend(notes.output);
        for (what, text) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !text.is_empty() {
                result.detail +=
                    &format!("; its {what} so far:\n{}", tail(&String::from_utf8_lossy(text), SHOWN));
            }
        }
        Ok(())
    }
}

/// Returns whether the stdout of a running child contains a text.
fn has_printed(link: &mut Link<'_>, child: u32, text: &str) -> Result<bool, Death> {
    let output = output_so_far(link, child)?;
    let output = output.ok_or_else(|| Death::AgentLost("a running process has no output".into()))?;
    Ok(String::from_utf8_lossy(&output.stdout).contains(text))
}

/// Compares a program that has ended with what is expected of it, and keeps what its stdout captures.
fn compare(ended: &str, output: &Output, expected: &Expected<'_>, captures: &mut Captures) -> Vec<String> {
    let mut failures = Vec::new();
    if ended != expected.end {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let end = &expected.end;
        failures.push(format!("expected {end}, found {ended}; stderr: `{}`", stderr.trim_end()));
    }
    check_text("stdout", expected.stdout, &output.stdout, OUTPUT_MAX as usize, &mut failures);
    check_text("stderr", expected.stderr, &output.stderr, OUTPUT_MAX as usize, &mut failures);
    if output.dropped > 0 && !failures.is_empty() {
        let kib = OUTPUT_MAX >> 10;
        failures
            .push(format!("{} bytes of its output beyond the first {kib} KiB were dropped", output.dropped));
    }
    if let Some(pattern) = expected.stdout.and_then(|check| check.matches.as_ref()) {
        captures.set_groups(&pattern.0, &String::from_utf8_lossy(&output.stdout));
    }
    failures
}
