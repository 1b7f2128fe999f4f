//! Steps that run a program: workloads, to their end or beside the steps behind them, and scripts of
//! a userland's shell.

use super::{Recorder, Recording, steps::check_text, unexpected};
use crate::{
    host::process::tail,
    machine::{Death, END_OF_A_PROCESS, TIME_SCALE},
    scenario::{Errno, Shell, TextCheck, WORKLOADS, Workload},
};
use protocol::{ChildState, Output, Reply, Request, Stdin};
use std::borrow::Cow;

/// The most bytes of a workload's stdout, and of its stderr, that are kept.
const OUTPUT_MAX: u32 = 256 << 10;

/// How long one wait for a workload is; between waits the trace is drained.
const WAIT_MILLIS: u32 = 20;

/// The lines of output that are shown of a workload that did not end.
const SHOWN: usize = 12;

/// The permissions of a pushed program.
pub(super) const EXECUTABLE: u32 = 0o755;

/// The environment of what a userland runs.
pub(crate) const ENVIRONMENT: [&str; 5] =
    ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "TERM=dumb", "LC_ALL=C"];

/// Ends a process at once.
pub(super) const SIGKILL: i32 = 9;

/// A workload that runs beside the steps.
#[derive(Clone, Debug)]
pub(super) struct Background {
    /// The step that started it, from 1.
    step: usize,
    child: u32,
    stdout: Option<TextCheck>,
    stderr: Option<TextCheck>,
}

/// What a program has to come to.
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

impl Recorder<'_> {
    pub(super) fn workload(
        &mut self,
        number: usize,
        step: &Workload,
        output: &mut Vec<String>,
    ) -> Result<Vec<String>, Death> {
        let env = step.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let started =
            self.start(step.workload.program(), step.workload.arguments(), env, step.stdin.as_bytes())?;
        let child = match started {
            Ok(child) => child,
            Err(reason) => return Ok(vec![reason]),
        };
        if let Some(until) = &step.until {
            let background =
                Background { step: number, child, stdout: step.stdout.clone(), stderr: step.stderr.clone() };
            return self.run_beside(background, until);
        }
        let expected = Expected::exit(step.exit, step.stdout.as_ref(), step.stderr.as_ref());
        self.run_to_end(number, child, &expected, output)
    }

    /// Runs a script with the userland's shell.
    pub(super) fn shell(
        &mut self,
        number: usize,
        step: &Shell,
        output: &mut Vec<String>,
    ) -> Result<Vec<String>, Death> {
        let script = match self.captures.expand(step.sh.as_str()) {
            Ok(script) => script,
            Err(reason) => return Ok(vec![reason]),
        };
        for program in &step.workloads {
            if let Err(reason) = self.push_workload(program)? {
                return Ok(vec![reason]);
            }
        }
        let mut env: Vec<String> = ENVIRONMENT.map(str::to_owned).into();
        env.extend(step.env.iter().map(|(name, value)| format!("{name}={value}")));
        let script = format!("cd /tmp\n{script}");
        let argv = ["/bin/sh", "-eu", "-c", &script].map(str::to_owned).into();
        let child = match self.spawn(argv, env, Stdin::Bytes(Vec::new()))? {
            Ok(child) => child,
            Err(reason) => return Ok(vec![reason]),
        };
        let expected = Expected::exit(step.exit, step.stdout.as_ref(), step.stderr.as_ref());
        self.run_to_end(number, child, &expected, output)
    }

    fn run_to_end(
        &mut self,
        number: usize,
        child: u32,
        expected: &Expected<'_>,
        output: &mut Vec<String>,
    ) -> Result<Vec<String>, Death> {
        self.running = Some((number, child));
        let (ended, said) = self.wait(child)?;
        self.running = None;
        output.extend(self.keep_output(number, &said)?);
        Ok(self.compare(&ended, &said, expected))
    }

    /// Where a program that has ended was not as expected.
    fn compare(&mut self, ended: &str, said: &Output, expected: &Expected<'_>) -> Vec<String> {
        let mut failures = Vec::new();
        if ended != expected.end {
            let stderr = String::from_utf8_lossy(&said.stderr);
            let end = &expected.end;
            failures.push(format!("expected {end}, found {ended}; stderr: `{}`", stderr.trim_end()));
        }
        check_text("stdout", expected.stdout, &said.stdout, &mut failures);
        check_text("stderr", expected.stderr, &said.stderr, &mut failures);
        if said.dropped > 0 && !failures.is_empty() {
            let kib = OUTPUT_MAX >> 10;
            failures.push(format!(
                "of its output {} bytes beyond the first {kib} KiB were dropped",
                said.dropped
            ));
        }
        if let Some(pattern) = expected.stdout.and_then(|check| check.matches.as_ref()) {
            self.captures.set_groups(&pattern.0, &String::from_utf8_lossy(&said.stdout));
        }
        failures
    }

    /// Waits until a workload that just began has said so much.
    fn run_beside(&mut self, background: Background, until: &str) -> Result<Vec<String>, Death> {
        let Background { step, child, .. } = background;
        self.running = Some((step, child));
        let mut said = self.said(child)?;
        while !String::from_utf8_lossy(&said.stdout).contains(until) {
            let state = self.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })?;
            if let Reply::Child(ChildState::Exited(_, said) | ChildState::Signaled(_, said)) = &state {
                self.running = None;
                self.keep_output(step, said)?;
                return Ok(vec![format!("it ended before its stdout had \"{until}\"; see its output")]);
            }
            self.drain(false)?;
            said = self.said(child)?;
        }
        self.running = None;
        self.background.push(background);
        Ok(Vec::new())
    }

    /// Ends what runs beside the steps, now that they are over, and adds what it came to to its step.
    pub(super) fn end_background(&mut self, recording: &mut Recording) -> Result<(), Death> {
        for Background { step, child, stdout, stderr } in std::mem::take(&mut self.background) {
            self.call(&Request::Kill { child, signal: SIGKILL })?;
            let (ended, said) = self.wait(child)?;
            let kept = self.keep_output(step, &said)?;
            let end = format!("signal {SIGKILL}");
            let expected = Expected { end, stdout: stdout.as_ref(), stderr: stderr.as_ref() };
            let failures = self.compare(&ended, &said, &expected);
            if let Some(result) = recording.steps.get_mut(step - 1) {
                result.output.extend(kept);
                if !failures.is_empty() {
                    result.passed = false;
                    result.detail = failures.join("\n");
                }
            }
        }
        Ok(())
    }

    /// Starts a workload, or says why it cannot be started.
    pub(super) fn start(
        &mut self,
        program: &str,
        arguments: &[String],
        mut env: Vec<String>,
        stdin: &[u8],
    ) -> Result<Result<u32, String>, Death> {
        let path = match self.push_workload(program)? {
            Ok(path) => path,
            Err(reason) => return Ok(Err(reason)),
        };
        env.push(format!("{TIME_SCALE}={:.2}", self.scale));
        let argv = std::iter::once(path).chain(arguments.iter().cloned()).collect();
        self.spawn(argv, env, Stdin::Bytes(stdin.to_vec()))
    }

    /// Starts a program of the guest's, or says why it cannot be started.
    pub(super) fn spawn(
        &mut self,
        argv: Vec<String>,
        env: Vec<String>,
        stdin: Stdin,
    ) -> Result<Result<u32, String>, Death> {
        match self.call(&Request::Spawn { argv, env, stdin, output_max: OUTPUT_MAX })? {
            Reply::Started(child) => Ok(Ok(child)),
            Reply::Errno { errno, what } => Ok(Err(format!("{what}: {}", Errno::from_number(errno)))),
            other => Err(unexpected("a new process", &other)),
        }
    }

    /// Brings a workload into the guest; its path there.
    pub(super) fn push_workload(&mut self, program: &str) -> Result<Result<String, String>, Death> {
        let Some(file) = self.guest.workloads.get(program) else {
            let known = self.guest.workloads.keys().cloned().collect::<Vec<_>>().join(", ");
            return Ok(Err(format!("no workload is called `{program}`; there are {known}")));
        };
        let path = format!("{WORKLOADS}/{program}");
        self.push(&path, file, EXECUTABLE)?;
        Ok(Ok(path))
    }

    /// Waits for a child while the trace is drained beside it.
    pub(super) fn wait(&mut self, child: u32) -> Result<(String, Output), Death> {
        loop {
            match self.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
                // It is the child that is waited for, whatever is done meanwhile.
                Reply::Child(ChildState::Running) => self.drain(false).map_err(|death| match death {
                    Death::Deadline { after, scale, .. } => {
                        Death::Deadline { after, scale, request: END_OF_A_PROCESS.into() }
                    }
                    death => death,
                })?,
                Reply::Child(ChildState::Exited(status, output)) => {
                    return Ok((format!("exit status {status}"), output));
                }
                Reply::Child(ChildState::Signaled(signal, output)) => {
                    return Ok((format!("signal {signal}"), output));
                }
                other => return Err(unexpected("a child's state", &other)),
            }
        }
    }

    /// What a child has written so far.
    fn said(&mut self, child: u32) -> Result<Output, Death> {
        match self.call(&Request::Output { child })? {
            Reply::Said(said) => Ok(said),
            other => Err(unexpected("the output of a process", &other)),
        }
    }

    /// Stores what the workload of a step that did not end has written so far, and shows how it ends.
    pub(super) fn said_so_far(&mut self, recording: &mut Recording) -> Result<(), Death> {
        let Some((number, child)) = self.running.take() else { return Ok(()) };
        let said = match self.call(&Request::Output { child })? {
            Reply::Said(said) => said,
            // Its end was on its way when the time was up.
            Reply::Errno { .. } => return Ok(()),
            other => return Err(unexpected("the output of a process", &other)),
        };
        let kept = self.keep_output(number, &said)?;
        let Some(step) = recording.steps.last_mut() else { return Ok(()) };
        step.output.extend(kept);
        for (what, text) in [("stdout", &said.stdout), ("stderr", &said.stderr)] {
            if !text.is_empty() {
                step.detail +=
                    &format!("; its {what} so far:\n{}", tail(&String::from_utf8_lossy(text), SHOWN));
            }
        }
        Ok(())
    }

    /// Stores a program's stdout and stderr.
    fn keep_output(&self, number: usize, said: &Output) -> Result<[String; 2], Death> {
        Ok([
            self.keep(number, "stdout", &whole_or_said(&said.stdout, said.dropped))?,
            self.keep(number, "stderr", &whole_or_said(&said.stderr, said.dropped))?,
        ])
    }
}

/// An output that is stored: one that was cut says so at its end.
fn whole_or_said(output: &[u8], dropped: u64) -> Cow<'_, [u8]> {
    if dropped == 0 || output.len() < OUTPUT_MAX as usize {
        return Cow::Borrowed(output);
    }
    let note = format!("\n{NOTE} {dropped} {NOTE_END}");
    Cow::Owned([output, note.as_bytes()].concat())
}

/// What stands around the number of bytes that were dropped.
const NOTE: &str = "[ftrace-lab:";
const NOTE_END: &str = "more bytes of output were dropped]\n";

/// Whether a stored output is all that there was.
pub(super) fn is_whole(output: &str) -> bool {
    let noted = output.lines().next_back().is_some_and(|line| line.starts_with(NOTE));
    !(noted && output.ends_with(NOTE_END))
}
