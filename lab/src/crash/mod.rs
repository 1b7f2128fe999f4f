//! The crash utility in a guest: a session that runs one command at a time.
//!
//! crash reads its commands from a pipe and prints no prompt there. Each command is therefore followed by a second
//! one with a known answer, which marks the end of the first answer.

use crate::kernel::KernelVersion;
use protocol::{ChildState, Output, Reply, Request};

/// The length of one wait for crash, in milliseconds.
const WAIT_MILLIS: u32 = 50;

/// Options that crash needs on some kernels.
const QUIRKS: [Quirk; 1] = [Quirk {
    since: (7, 0),
    option: "--no_kmem_cache",
    // "invalid structure member offset: kmem_cache_s_num", at startup (crash 8.0.6 on 7.2).
    _why: "it reads members that slab caches had in older kernels",
}];

struct Quirk {
    /// The first version with it.
    since: (u32, u32),
    option: &'static str,
    _why: &'static str,
}

/// Returns the command line of crash, silent and without a pager, on `files` of this kernel.
pub(crate) fn command(kernel: &KernelVersion, files: &[&str]) -> Vec<String> {
    let quirks = QUIRKS.iter().filter(|quirk| (kernel.major, kernel.minor) >= quirk.since);
    let options = ["/usr/bin/crash", "-s", "--no_scroll"].into_iter().chain(quirks.map(|quirk| quirk.option));
    options.chain(files.iter().copied()).map(str::to_owned).collect()
}

/// Page frames beyond the memory of any guest: `ptob` computes the address of one without reading memory.
const FIRST_MARK: u64 = 0x00f7_1ab0_0000;

/// Numbers the end markers of answers.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// The number of markers so far.
    marks: u64,
}

impl Marks {
    /// Returns the input that makes crash run `command` and then print an end marker, and the start of the line with
    /// the marker.
    fn after(&mut self, command: &str) -> (Vec<u8>, String) {
        let mark = FIRST_MARK + self.marks;
        self.marks += 1;
        (format!("{command}\nptob {mark:#x}\n").into_bytes(), format!("{mark:x}: "))
    }

    /// Returns the output before the marker, once the marker is there.
    fn answer(text: &str, mark: &str) -> Option<String> {
        let end = text.lines().position(|line| line.starts_with(mark))?;
        Some(text.lines().take(end).collect::<Vec<_>>().join("\n"))
    }
}

/// The agent, as used by a session of crash. The implementation enforces the deadline.
pub(crate) trait Agent {
    /// The failure of a call.
    type Error;

    /// Sends one request to the agent.
    fn call(&mut self, request: &Request) -> Result<Reply, Self::Error>;

    /// Converts a reply that does not fit its request to an error.
    fn unexpected(&self, requested: &str, reply: &Reply) -> Self::Error;

    /// Called between two reads of the output of crash.
    fn wait(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// The answer of crash to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its output; only the end of it if it is `truncated`.
    Text { text: String, truncated: bool },
    /// crash exited instead; its last output.
    Exited(String),
    /// crash had exited before the command.
    NotRunning,
}

/// A running crash process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    child: u32,
    marks: Marks,
}

impl Session {
    /// A session with the crash that the agent runs as `child`.
    pub(crate) fn new(child: u32) -> Session {
        Session { child, marks: Marks::default() }
    }

    /// Runs a command and returns its answer, of which at most the last `max` bytes are kept.
    ///
    /// # Errors
    /// A call to the agent failed.
    pub(crate) fn ask<A: Agent>(
        &mut self,
        agent: &mut A,
        command: &str,
        max: usize,
    ) -> Result<Answer, A::Error> {
        let child = self.child;
        let (data, mark) = self.marks.after(command);
        match agent.call(&Request::Feed { child, data })? {
            Reply::Done => {}
            Reply::Errno { .. } => return Ok(Answer::NotRunning),
            other => return Err(agent.unexpected("crash to take a command", &other)),
        }
        let mut said = Said { max, ..Said::default() };
        loop {
            match agent.call(&Request::Take { child })? {
                Reply::Said(output) => said.add(&output),
                other => return Err(agent.unexpected("the output of crash", &other)),
            }
            if let Some(text) = Marks::answer(&said.text, &mark) {
                return Ok(Answer::Text { text, truncated: said.truncated });
            }
            match agent.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
                Reply::Child(ChildState::Running) => agent.wait()?,
                Reply::Child(ChildState::Exited(_, output) | ChildState::Signaled(_, output)) => {
                    said.add(&output);
                    return Ok(Answer::Exited(said.text));
                }
                other => return Err(agent.unexpected("the end of crash", &other)),
            }
        }
    }
}

/// The output of crash since its last command.
#[derive(Default)]
struct Said {
    text: String,
    max: usize,
    truncated: bool,
}

impl Said {
    fn add(&mut self, output: &Output) {
        for part in [&output.stdout, &output.stderr] {
            self.text.push_str(&String::from_utf8_lossy(part));
        }
        if self.text.len() > self.max {
            // The marker is at the end.
            let cut = self.text.ceil_char_boundary(self.text.len() - self.max);
            self.text.replace_range(..cut, "");
            self.truncated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_at_its_mark() {
        let mut marks = Marks::default();
        let (first, _) = marks.after("sym a");
        assert_eq!(first, b"sym a\nptob 0xf71ab00000\n");
        let (_, mark) = marks.after("sym b");
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(Marks::answer(text, &mark).as_deref(), expect, "{text}");
        };
        check("one\ntwo\nf71ab00001: f71ab00001000\n", Some("one\ntwo"));
        check("f71ab00001: f71ab00001000\n", Some(""));
        check("one\nf71ab00000: f71ab00000000\n", None);
        check("", None);
    }
}
