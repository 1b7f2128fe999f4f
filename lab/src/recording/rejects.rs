//! The step `rejects:`: commands that the kernel must refuse, each with its entry of `error_log`.

use super::{
    link::{Link, read},
    notes::StepNotes,
    refusal::entry_of,
};
use crate::{
    machine::Death,
    scenario::{Errno, PointedAt, Rejects},
};
use protocol::{Reply, Request, WriteMode};

/// The text before a command in an entry.
const COMMAND: &str = "  Command: ";

/// Runs a `rejects:` step.
pub(super) fn refuses(
    link: &mut Link<'_>,
    notes: &mut StepNotes<'_>,
    step: &Rejects,
) -> Result<Vec<String>, Death> {
    let write = |path: &str, text: String, mode| Request::WriteFile {
        path: path.to_owned(),
        data: text.into_bytes(),
        mode,
    };
    let requests: Vec<_> = step
        .errors
        .0
        .keys()
        .flat_map(|pointed| {
            // An earlier refusal must not be taken for this one.
            let clear = write("error_log", String::new(), WriteMode::Truncate);
            let command = format!("{}\n", pointed.command());
            [clear, write(&step.rejects, command, WriteMode::Append), read("error_log")]
        })
        .collect();
    let replies = link.call_all(&requests)?;
    let wrong = step.errors.0.iter().zip(replies.chunks(3)).filter_map(|((pointed, message), replies)| {
        let [_, written, log] = replies else { return None };
        wrong(&step.errno, pointed, message, written, log)
    });
    notes.found = format!("{} commands refused", step.errors.0.len());
    Ok(wrong.collect())
}

/// Says what is wrong with a refusal.
fn wrong(errno: &Errno, pointed: &PointedAt, message: &str, written: &Reply, log: &Reply) -> Option<String> {
    let command = pointed.command();
    let found_errno = match written {
        Reply::Errno { errno, .. } => Errno::from_number(*errno).to_string(),
        _ => return Some(format!("`{command}` was not refused, expected {errno}: {message}")),
    };
    let log = match log {
        Reply::Data(log) => String::from_utf8_lossy(log).into_owned(),
        _ => return Some("cannot read `error_log`".to_owned()),
    };
    // After the time and the parser's name.
    let entry = entry_of(&log, &command)
        .map(|entry| entry.split_once(": error: ").map_or(entry.clone(), |(_, entry)| entry.to_owned()))
        .map(|entry| entry.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"));
    let caret = format!("{:1$}^", "", COMMAND.len() + pointed.place);
    // The kernel joins the words of the command again.
    let expected = format!("{message}\n{COMMAND}{}\n{caret}", command.trim_end());
    if found_errno == errno.to_string() && entry.as_ref() == Some(&expected) {
        return None;
    }
    let entry = entry.unwrap_or_else(|| "nothing in `error_log`".to_owned());
    Some(format!("expected {errno}: {expected}\nfound {found_errno}: {entry}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FromText;

    #[test]
    fn a_refusal_is_compared_in_whole() {
        let log = "[    1.5] trace_kprobe: error: Bad symbol\n  Command: p nope\n             ^\n";
        let refused = |errno| Reply::Errno { what: "write".into(), errno };
        let check = |command, message, written: Reply, expect: Option<&str>| {
            let pointed = PointedAt::from_text(command).unwrap();
            let log = Reply::Data(log.as_bytes().to_vec());
            let found = wrong(&Errno::EINVAL, &pointed, message, &written, &log);
            assert_eq!(found.as_deref(), expect, "{command}");
        };
        check("p ^nope", "Bad symbol", refused(22), None);
        // The name of a parser may end like the word after it.
        let filter = "[    1.5] event filter parse error: error: Too few '('\n  Command: a)\n            ^\n";
        let log_of_filter = Reply::Data(filter.as_bytes().to_vec());
        let pointed = PointedAt::from_text("a^)").unwrap();
        let found = wrong(&Errno::EINVAL, &pointed, "Too few '('", &refused(22), &log_of_filter);
        assert_eq!(found, None);
        check(
            "p^ nope",
            "Bad symbol",
            refused(22),
            Some(
                "expected EINVAL: Bad symbol\n  Command: p nope\n            ^\n\
                 found EINVAL: Bad symbol\n  Command: p nope\n             ^",
            ),
        );
        check(
            "p ^nope",
            "Worse",
            refused(2),
            Some(
                "expected EINVAL: Worse\n  Command: p nope\n             ^\n\
                 found ENOENT: Bad symbol\n  Command: p nope\n             ^",
            ),
        );
        check(
            "p ^nope",
            "Bad symbol",
            Reply::Done,
            Some("`p nope` was not refused, expected EINVAL: Bad symbol"),
        );
        check(
            "p ^other",
            "Bad symbol",
            refused(22),
            Some(
                "expected EINVAL: Bad symbol\n  Command: p other\n             ^\n\
                 found EINVAL: nothing in `error_log`",
            ),
        );
    }
}
