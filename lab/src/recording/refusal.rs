//! The kernel's reason for refusing a write: the entry of `error_log` with its caret, and the lines that
//! the write added to the kernel log. Some refusals are explained only there.

use super::link::{Link, read};
use crate::{machine::Death, splat::STEP_MARK};
use protocol::{Reply, Request, WriteMode};

/// The line in the kernel log before the trace is armed.
const ARMING: &str = "ftrace-lab: arming";

/// The maximum number of lines of the kernel log that are shown.
const LINES_SHOWN: usize = 8;

/// Writes a line into the kernel log; [`logged`] returns the lines after it.
pub(super) fn mark_log(link: &mut Link<'_>, mark: &str) {
    // KERN_INFO, which a quiet console does not print: printing there would show in latency tracers.
    let data = format!("<6>{mark}\n").into_bytes();
    // The log of a kernel without /dev/kmsg has no marks.
    let request = Request::WriteFile { path: "/dev/kmsg".into(), data, mode: WriteMode::Append };
    link.send_ahead(request);
}

/// Marks the kernel log before the first write that arms the trace.
pub(super) fn mark_arming(link: &mut Link<'_>) {
    mark_log(link, ARMING);
}

/// Returns the kernel's reason for refusing `text` just now.
pub(super) fn reason(link: &mut Link<'_>, text: &str) -> Result<Option<String>, Death> {
    let entry = match link.call(&read("error_log"))? {
        Reply::Data(log) => entry_of(&String::from_utf8_lossy(&log), text),
        _ => None,
    };
    // The entry may only say that it failed.
    let logged = logged(link)?.map(|lines| format!("the kernel log says: {lines}"));
    let said: Vec<_> = entry.into_iter().chain(logged).collect();
    Ok((!said.is_empty()).then(|| said.join("\n")))
}

/// Returns the lines of the kernel log since the last mark.
pub(super) fn logged(link: &mut Link<'_>) -> Result<Option<String>, Death> {
    Ok(since_mark(&link.kernel_log()?))
}

/// Returns the last entry of `error_log` about `text`: the error, the command, and a `^` below the place. The
/// command may be a part of `text`.
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

/// Returns the first lines after the last mark of a kernel log, without level and time.
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
        // Several lines that are written at once are separate commands.
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
