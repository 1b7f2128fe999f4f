//! Why the kernel refused a write, in its own words: the entry of `error_log` with its caret, and what
//! the kernel log got by it, which for some refusals is the only reason given.

use super::{Recorder, read};
use crate::{machine::Death, verdict::STEP_MARK};
use protocol::{Reply, Request, WriteMode};

/// What the kernel log gets where the arming begins.
const ARMING: &str = "ftrace-lab: arming";

/// The most lines of the kernel log that are shown.
const LINES_SHOWN: usize = 8;

impl Recorder<'_> {
    /// Writes a line into the kernel log behind which the next writes' lines come.
    pub(super) fn mark_log(&mut self, mark: &str) -> Result<(), Death> {
        // KERN_INFO, which stays off a quiet console: printing there would show in latency tracers.
        let data = format!("<6>{mark}\n").into_bytes();
        // A kernel without /dev/kmsg has a log without marks.
        let request = Request::WriteFile { path: "/dev/kmsg".into(), data, mode: WriteMode::Append };
        self.call(&request).map(drop)
    }

    /// The same before the first write of the arming.
    pub(super) fn mark_arming(&mut self) -> Result<(), Death> {
        self.mark_log(ARMING)
    }

    /// What the kernel said of `text`, which it refused just now.
    pub(super) fn reason(&mut self, text: &str) -> Result<Option<String>, Death> {
        let entry = match self.call(&read("error_log"))? {
            Reply::Data(log) => entry_of(&String::from_utf8_lossy(&log), text),
            _ => None,
        };
        // An entry may say no more than that it failed.
        let logged = self.logged()?.map(|lines| format!("the kernel log says: {lines}"));
        let said: Vec<_> = entry.into_iter().chain(logged).collect();
        Ok((!said.is_empty()).then(|| said.join("\n")))
    }

    /// What the kernel log got since the last mark.
    pub(super) fn logged(&mut self) -> Result<Option<String>, Death> {
        Ok(since_mark(&self.kernel_log()?))
    }
}

/// The last entry of `error_log` that is about what was written: what is wrong, the command, and a `^`
/// below the place. A command may be a part of what was written.
pub(super) fn entry_of(log: &str, text: &str) -> Option<String> {
    let lines: Vec<_> = log.lines().collect();
    let of_text = |entry: &&[&str]| match entry {
        [_, shown, place] => shown.strip_prefix("  Command: ").is_some_and(|shown| {
            place.trim() == "^" && !shown.trim().is_empty() && text.contains(shown.trim_end())
        }),
        _ => false,
    };
    lines.windows(3).rev().find(of_text).map(|entry| entry.join("\n"))
}

/// The first lines behind the last mark of a kernel log, without level and time.
fn since_mark(log: &str) -> Option<String> {
    let text = |line: &str| {
        let line =
            line.strip_prefix('<').and_then(|line| line.split_once('>')).map_or(line, |(_, line)| line);
        match line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
            Some((_, text)) => text.to_owned(),
            None => line.to_owned(),
        }
    };
    let lines: Vec<String> = log.lines().map(text).collect();
    let is_mark = |line: &String| line.starts_with(STEP_MARK) || line == ARMING;
    let mark = lines.iter().rposition(is_mark)?;
    let said: Vec<&str> = lines[mark + 1..].iter().take(LINES_SHOWN).map(String::as_str).collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_reason_belongs_to_the_command() {
        let first =
            "[   12.3] trace_kprobe: error: Invalid argument name\n  Command: p:x f a-b=1\n             ^\n";
        let second = "[   12.4] trace_kprobe: error: Bad symbol\n  Command: p:x nope\n               ^\n";
        let check = |log: &str, command, expect: Option<&str>| {
            assert_eq!(entry_of(log, command).as_deref(), expect, "{log}");
        };
        let log = format!("{first}{second}");
        check(&log, "p:x nope", Some(second.trim_end()));
        check(&log, "p:x f a-b=1", Some(first.trim_end()));
        check(&log, "p:y f", None);
        // Of several lines that are written at once, each is a command.
        check(&log, "p:y f\np:x nope\n", Some(second.trim_end()));
        check("", "p:x nope", None);
        check("[ 1.0] x: error: y\n  Command: \n           ^\n", "p:x", None);
    }

    #[test]
    fn only_what_was_logged_since_the_last_mark_counts() {
        let check = |log: &str, expect: Option<&str>| assert_eq!(since_mark(log).as_deref(), expect, "{log}");
        check("<4>[    1.5] old\n<6>[    1.6] ftrace-lab: step 3\n", None);
        check(
            "<6>[    1.6] ftrace-lab: arming\n<4>[    1.7] trace_kprobe: Could not probe notrace function x\n",
            Some("trace_kprobe: Could not probe notrace function x"),
        );
        check("<6>ftrace-lab: step 3\n<6>ftrace-lab: step 4\n<4>[    1.5] one\ntwo", Some("one\ntwo"));
        check("<4>[    1.5] no mark\n", None);
    }
}
