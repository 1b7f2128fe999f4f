//! `crash` steps: one session of the crash utility on the running kernel.

use super::{
    captures::Captures,
    checks::check_text,
    link::unexpected,
    notes::StepNotes,
    processes::spawn,
    tape::{Drain, Traced},
};
use crate::{
    crash::{Agent, Answer, Session, command},
    kernel::KernelVersion,
    machine::{Death, ENVIRONMENT, SHARED, VMLINUX},
    scenario::{self, CrashCommand},
};
use protocol::{Reply, Request, Stdin};

/// The maximum size of one command's output, in bytes.
const ANSWER_MAX: usize = 1 << 20;

impl Agent for Traced<'_> {
    type Error = Death;

    fn call(&mut self, request: &Request) -> Result<Reply, Death> {
        self.link.call(request)
    }

    fn unexpected(&self, requested: &str, reply: &Reply) -> Death {
        unexpected(requested, reply)
    }

    fn wait(&mut self) -> Result<(), Death> {
        self.drain(Drain::Some)
    }
}

/// The crash utility in the guest.
pub(super) struct Crash<'a> {
    version: &'a KernelVersion,
    /// Its session, from the first command on.
    session: Option<Session>,
}

impl<'a> Crash<'a> {
    /// crash for a kernel of this version, not started yet.
    pub(super) fn new(version: &'a KernelVersion) -> Crash<'a> {
        Crash { version, session: None }
    }

    /// Runs the commands of a step, up to the first that fails.
    pub(super) fn run(
        &mut self,
        traced: &mut Traced<'_>,
        notes: &mut StepNotes<'_>,
        step: &scenario::Crash,
    ) -> Result<Vec<String>, Death> {
        let mut transcript = String::new();
        let mut failures = Vec::new();
        for command in &step.crash {
            if let Err(reason) = self.ask(traced, notes.captures, command, &mut transcript)? {
                failures.push(format!("`{}`: {reason}", command.run));
                // Later commands lack the values that it would have captured.
                break;
            }
        }
        notes.keep("crash", transcript.as_bytes())?;
        Ok(failures)
    }

    fn ask(
        &mut self,
        traced: &mut Traced<'_>,
        captures: &mut Captures,
        command: &CrashCommand,
        transcript: &mut String,
    ) -> Result<Result<(), String>, Death> {
        let line = match captures.expand(&command.run) {
            Ok(line) => line,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut session = match self.session {
            Some(session) => session,
            None => match self.start(traced)? {
                Ok(session) => session,
                Err(reason) => return Ok(Err(reason)),
            },
        };
        let answer = session.ask(traced, &line, ANSWER_MAX)?;
        self.session = Some(session);
        let (Answer::Text { text, .. } | Answer::Exited(text)) = &answer else {
            return Ok(Err("crash is no longer running".to_owned()));
        };
        transcript.push_str(&format!("crash> {line}\n{text}\n"));
        let Answer::Text { text, .. } = answer else {
            self.session = None;
            return Ok(Err("crash exited; see its output".to_owned()));
        };
        let mut failures = Vec::new();
        let expected = command.output.as_ref();
        let expected = expected.map(|check| check.expanded(|text| captures.expand(text)));
        match expected.transpose() {
            Ok(expected) => {
                check_text("output", expected.as_ref(), text.as_bytes(), ANSWER_MAX, &mut failures);
            }
            Err(reason) => failures.push(reason),
        }
        if let Some(pattern) = command.output.as_ref().and_then(|check| check.matches.as_ref()) {
            captures.set_groups(&pattern.0, &text);
        }
        Ok(if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) })
    }

    fn start(&self, traced: &mut Traced<'_>) -> Result<Result<Session, String>, Death> {
        let vmlinux = format!("{SHARED}/{VMLINUX}");
        let argv = command(self.version, &[&vmlinux, "/proc/kcore"]);
        let env = ENVIRONMENT.map(str::to_owned).into();
        let child = spawn(&mut traced.link, argv, env, Stdin::Open)?;
        Ok(child.map(Session::new))
    }
}
