//! `inspect:` steps: the guest's memory at one moment, read by drgn.

use super::{captures::Captures, link::Link, modules::Modules, notes::StepNotes};
use crate::{
    dump::{Answer, PanickedTask, Question, Section, Value},
    host::drgn::Drgn,
    machine::{Death, VMCORE},
    progress::Progress,
    scenario::{ExpectedValue, Inspect, InspectItem, SymbolName},
};
use anyhow::{Result, bail};
use std::{
    fs::File,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

/// Runs an `inspect:` step.
pub(super) fn inspect(
    link: &mut Link<'_>,
    modules: &Modules<'_>,
    notes: &mut StepNotes<'_>,
    step: &Inspect,
) -> Result<Vec<String>, Death> {
    let questions: Vec<_> = step.inspect.iter().map(question).collect();
    let started = Instant::now();
    let memory = link.machine.memory()?;
    let dumped = started.elapsed();
    let answers = read_memory(modules, &memory, &questions).map_err(Death::Lab)?;
    let took = started.elapsed();
    // The guest was stopped, and then waited for the lab: none of it is its own time.
    link.extend(took);
    let mut failures = Vec::new();
    let mut lines = vec![seconds(dumped, took - dumped)];
    for (item, answer) in step.inspect.iter().zip(answers) {
        match judge(item, &answer, notes.captures) {
            Ok(line) => lines.push(line),
            Err(failure) => failures.push(failure),
        }
    }
    notes.found = lines.join("\n");
    Ok(failures)
}

fn read_memory(modules: &Modules<'_>, memory: &File, questions: &[Question]) -> Result<Vec<Answer>> {
    let drgn = Drgn::obtain(modules.kernel.cache(), &Progress::silent())?;
    // The file has no name except the one in this process.
    let vmcore = PathBuf::from(format!("/proc/{}/fd/{}", process::id(), memory.as_raw_fd()));
    modules.dump(vmcore)?.answers(&drgn, questions)
}

/// Reads the backtrace of a panic in the memory that the guest left in `directory`.
pub(super) fn backtrace(
    modules: &Modules<'_>,
    directory: &Path,
    death: &Death,
) -> Result<Section<PanickedTask>> {
    if let Some(note) = death.note() {
        bail!("there is no backtrace: {note}");
    }
    let drgn = Drgn::obtain(modules.kernel.cache(), &Progress::silent())?;
    Ok(modules.dump(directory.join(VMCORE))?.post_mortem(&drgn, false, &[])?.death)
}

/// Shows the times that an `inspect:` took.
fn seconds(dump: Duration, look: Duration) -> String {
    format!("dumped in {:.2} s, read in {:.2} s", dump.as_secs_f64(), look.as_secs_f64())
}

fn question(item: &InspectItem) -> Question {
    match item {
        InspectItem::InspectValue(item) => Question::Value { path: item.value.clone() },
        InspectItem::InspectTasks(item) => Question::Tasks { comm: item.tasks.to_string() },
    }
}

/// Returns the question, the expected symbol and value, and the name of the capture.
fn parts(item: &InspectItem) -> (String, Option<&SymbolName>, Option<&ExpectedValue>, Option<&str>) {
    match item {
        InspectItem::InspectValue(item) => {
            (item.value.to_string(), item.symbol.as_ref(), item.is.as_ref(), item.capture.as_deref())
        }
        InspectItem::InspectTasks(item) => {
            (format!("tasks called `{}`", &*item.tasks), None, item.is.as_ref(), item.capture.as_deref())
        }
    }
}

/// Returns a line about an expected answer, or what is wrong with it. Captures the value in either case.
fn judge(item: &InspectItem, answer: &Answer, captures: &mut Captures) -> Result<String, String> {
    let (asked, symbol, is, capture) = parts(item);
    let value = match answer {
        Answer::Refused { refused } => return Err(format!("{asked}: {refused}")),
        Answer::Found(value) => value,
    };
    // Expanded before the capture, so that no value is compared with itself.
    let wanted = is.map(|is| captures.expand(is.as_str())).transpose();
    if let Some(name) = capture {
        captures.set(name, &value.value);
    }
    let shown = shown(value);
    if let Some(symbol) = symbol
        && !value.symbols.iter().any(|found| found == symbol.as_str())
    {
        return Err(format!("{asked}: expected it to point at `{}`, found {shown}", symbol.as_str()));
    }
    match wanted {
        Err(reason) => Err(format!("{asked}: {reason}")),
        Ok(Some(wanted)) if !ExpectedValue::is_met(&wanted, &value.value) => {
            Err(format!("{asked}: expected {}, found {shown}", wanted.escape_debug()))
        }
        Ok(_) => Ok(format!("{asked} = {shown}")),
    }
}

/// The maximum length of a value that is shown, in characters.
const SHOWN: usize = 200;

fn shown(value: &Value) -> String {
    let mut text: String = value.value.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if let Some(symbol) = value.symbols.first().or(value.near.first()) {
        text += &format!(" <{}>", symbol.escape_debug());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, answer: &Answer, captures: &mut Captures, expect: Result<&str, &str>) {
        let item: InspectItem = crate::yaml::from_str(yaml).unwrap();
        let found = judge(&item, answer, captures);
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{yaml}");
    }

    fn found(value: &str, symbols: &[&str], near: &[&str]) -> Answer {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Answer::Found(Value { value: value.into(), symbols: texts(symbols), near: texts(near) })
    }

    #[test]
    fn answers_are_judged_and_captured() {
        let mut captures = Captures::new();
        let function = found("0xffff1000", &["__x", "eventfd_write"], &["__x+0x0"]);
        check("value: a.b\nsymbol: eventfd_write", &function, &mut captures, Ok("a.b = 0xffff1000 <__x>"));
        check(
            "value: a.b\nsymbol: eventfd_read",
            &function,
            &mut captures,
            Err("a.b: expected it to point at `eventfd_read`, found 0xffff1000 <__x>"),
        );
        // An address inside a function is not its address.
        check(
            "value: a.b\nsymbol: eventfd_write",
            &found("0xffff1004", &[], &["eventfd_write+0x4"]),
            &mut captures,
            Err("a.b: expected it to point at `eventfd_write`, found 0xffff1004 <eventfd_write+0x4>"),
        );
        let five = found("5", &[], &[]);
        check("value: n\nis: 0x5\ncapture: n", &five, &mut captures, Ok("n = 5"));
        check("tasks: eventfd\nis: \"${n}\"", &five, &mut captures, Ok("tasks called `eventfd` = 5"));
        check(
            "tasks: eventfd\nis: 4",
            &five,
            &mut captures,
            Err("tasks called `eventfd`: expected 4, found 5"),
        );
        check(
            "value: n\nis: \"${m}\"",
            &five,
            &mut captures,
            Err("n: no step has captured `m`; there are: n, shared"),
        );
        let six = found("6", &[], &[]);
        check("value: n\nis: \"${n}\"\ncapture: n", &six, &mut captures, Err("n: expected 5, found 6"));
        check("value: n\nis: \"${n}\"", &six, &mut captures, Ok("n = 6"));
    }

    #[test]
    fn what_has_no_answer_fails_with_its_reason() {
        let refused = Answer::Refused { refused: "there is no symbol `a`".into() };
        check("value: a\nis: 1", &refused, &mut Captures::new(), Err("a: there is no symbol `a`"));
    }
}
