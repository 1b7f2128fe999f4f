//! `crash` steps: one session of the crash utility on the running kernel, asked command by command.
//!
//! It reads its commands from a pipe and prints no prompt there, so behind each command goes one
//! whose answer is known and tells that the other is over.

use super::{Recorder, processes::ENVIRONMENT, steps::check_text, unexpected};
use crate::{
    kernel::KernelVersion,
    machine::{Death, SHARED},
    scenario::{Crash, CrashCommand},
};
use protocol::{ChildState, Output, Reply, Request, Stdin};

/// The vmlinux among the files that are shared with the guest.
pub(crate) const VMLINUX: &str = "vmlinux";

/// How long one wait for crash is; between waits the trace is drained.
const WAIT_MILLIS: u32 = 50;

/// What crash has to be told to leave alone in some kernels.
const QUIRKS: [Quirk; 1] = [Quirk {
    since: (7, 0),
    option: "--no_kmem_cache",
    // "invalid structure member offset: kmem_cache_s_num", as soon as it begins (crash 8.0.6 on 7.2).
    _why: "it looks for what slab caches had in older kernels",
}];

struct Quirk {
    /// The first version with it.
    since: (u32, u32),
    option: &'static str,
    _why: &'static str,
}

/// The command line of crash, silent and without a pager, on `files` of this kernel.
pub(crate) fn crash_command(kernel: &KernelVersion, files: &[&str]) -> Vec<String> {
    let quirks = QUIRKS.iter().filter(|quirk| (kernel.major, kernel.minor) >= quirk.since);
    let options = ["/usr/bin/crash", "-s", "--no_scroll"].into_iter().chain(quirks.map(|quirk| quirk.option));
    options.chain(files.iter().copied()).map(str::to_owned).collect()
}

/// The most bytes of one command's output that are kept.
const ANSWER_MAX: usize = 1 << 20;

/// Page frames that no guest has: `ptob` tells of each where it would be, and asks nobody for it.
const FIRST_MARK: u64 = 0x00f7_1ab0_0000;

/// How the end of an answer is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CrashMark {
    /// How many there were.
    marks: u64,
}

impl CrashMark {
    /// What crash is given to do `command` and then tell that it has, and how the line begins by which
    /// it does.
    pub(crate) fn behind(&mut self, command: &str) -> (Vec<u8>, String) {
        let mark = FIRST_MARK + self.marks;
        self.marks += 1;
        (format!("{command}\nptob {mark:#x}\n").into_bytes(), format!("{mark:x}: "))
    }

    /// What stands before the mark, once it is there.
    pub(crate) fn answer(text: &str, mark: &str) -> Option<String> {
        let end = text.lines().position(|line| line.starts_with(mark))?;
        Some(text.lines().take(end).collect::<Vec<_>>().join("\n"))
    }
}

/// A crash that was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    child: u32,
    marks: CrashMark,
}

impl Recorder<'_> {
    pub(super) fn crash(
        &mut self,
        number: usize,
        step: &Crash,
        output: &mut Vec<String>,
    ) -> Result<Vec<String>, Death> {
        let mut transcript = String::new();
        let mut failures = Vec::new();
        for command in &step.crash {
            match self.ask_crash(command, &mut transcript)? {
                Ok(()) => {}
                Err(reason) => {
                    failures.push(format!("`{}`: {reason}", command.run));
                    // What it would have captured is missing to those behind it.
                    break;
                }
            }
        }
        output.push(self.keep(number, "crash", transcript.as_bytes())?);
        Ok(failures)
    }

    fn ask_crash(
        &mut self,
        command: &CrashCommand,
        transcript: &mut String,
    ) -> Result<Result<(), String>, Death> {
        let line = match self.captures.expand(&command.run) {
            Ok(line) => line,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut session = match self.crash {
            Some(session) => session,
            None => match self.start_crash()? {
                Ok(session) => session,
                Err(reason) => return Ok(Err(reason)),
            },
        };
        let (data, mark) = session.marks.behind(&line);
        self.crash = Some(session);
        match self.call(&Request::Feed { child: session.child, data })? {
            Reply::Done => {}
            Reply::Errno { .. } => return Ok(Err("crash does not run any more".to_owned())),
            other => return Err(unexpected("crash to take a command", &other)),
        }
        let answer = self.until_mark(session.child, &mark)?;
        let (Ok(text) | Err(text)) = &answer;
        transcript.push_str(&format!("crash> {line}\n{text}\n"));
        let Ok(text) = answer else {
            self.crash = None;
            return Ok(Err("crash ended; see its output".to_owned()));
        };
        let mut failures = Vec::new();
        let expected = command.output.as_ref();
        let expected = expected.map(|check| check.expanded(|text| self.captures.expand(text)));
        match expected.transpose() {
            Ok(expected) => check_text("output", expected.as_ref(), text.as_bytes(), &mut failures),
            Err(reason) => failures.push(reason),
        }
        if let Some(pattern) = command.output.as_ref().and_then(|check| check.matches.as_ref()) {
            self.captures.set_groups(&pattern.0, &text);
        }
        Ok(if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) })
    }

    fn start_crash(&mut self) -> Result<Result<Session, String>, Death> {
        let vmlinux = format!("{SHARED}/{VMLINUX}");
        let argv = crash_command(&self.kernel.version, &[&vmlinux, "/proc/kcore"]);
        let env = ENVIRONMENT.map(str::to_owned).into();
        let child = self.spawn(argv, env, Stdin::Open)?;
        Ok(child.map(|child| Session { child, marks: CrashMark::default() }))
    }

    /// Collects what crash says, up to the mark. The error has what it said where it ended instead.
    fn until_mark(&mut self, child: u32, mark: &str) -> Result<Result<String, String>, Death> {
        let mut text = String::new();
        let add = |text: &mut String, said: &Output| {
            for part in [&said.stdout, &said.stderr] {
                text.push_str(&String::from_utf8_lossy(part));
            }
            if text.len() > ANSWER_MAX {
                // The mark is at the end.
                let cut = text.ceil_char_boundary(text.len() - ANSWER_MAX);
                text.replace_range(..cut, "");
            }
        };
        loop {
            match self.call(&Request::Take { child })? {
                Reply::Said(said) => add(&mut text, &said),
                other => return Err(unexpected("the output of crash", &other)),
            }
            if let Some(answer) = CrashMark::answer(&text, mark) {
                return Ok(Ok(answer));
            }
            match self.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
                Reply::Child(ChildState::Running) => self.drain(false)?,
                Reply::Child(ChildState::Exited(_, said) | ChildState::Signaled(_, said)) => {
                    add(&mut text, &said);
                    return Ok(Err(text));
                }
                other => return Err(unexpected("the end of crash", &other)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_at_its_mark() {
        let mut marks = CrashMark::default();
        let (first, _) = marks.behind("sym a");
        assert_eq!(first, b"sym a\nptob 0xf71ab00000\n");
        let (_, mark) = marks.behind("sym b");
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(CrashMark::answer(text, &mark).as_deref(), expect, "{text}");
        };
        check("one\ntwo\nf71ab00001: f71ab00001000\n", Some("one\ntwo"));
        check("f71ab00001: f71ab00001000\n", Some(""));
        check("one\nf71ab00000: f71ab00000000\n", None);
        check("", None);
    }
}
