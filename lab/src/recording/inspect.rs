//! `inspect:` steps: the guest's memory at one moment, and what drgn reads in it.

use super::{Recorder, captures::Captures};
use crate::{
    dump::{Answer, Dump, Question, Value},
    host::drgn::Drgn,
    kernel::WITHOUT_VMLINUX,
    machine::Death,
    progress::Progress,
    scenario::{Inspect, InspectItem, SymbolName, WantedValue},
};
use anyhow::{Context, Result};
use std::{
    fs::File,
    os::fd::AsRawFd,
    path::PathBuf,
    process,
    time::{Duration, Instant},
};

impl Recorder<'_> {
    pub(super) fn inspect(&mut self, step: &Inspect, found: &mut String) -> Result<Vec<String>, Death> {
        let questions: Vec<_> = step.inspect.iter().map(question).collect();
        let started = Instant::now();
        let memory = self.machine.memory()?;
        let dumped = started.elapsed();
        let answers = self.read_memory(&memory, &questions).map_err(Death::Lab)?;
        let took = started.elapsed();
        // The guest stood still, and then waited for the lab: none of it is its own time.
        self.until += took;
        let mut failures = Vec::new();
        let mut lines = vec![seconds(dumped, took - dumped)];
        for (item, answer) in step.inspect.iter().zip(answers) {
            match judge(item, &answer, &mut self.captures) {
                Ok(line) => lines.push(line),
                Err(failure) => failures.push(failure),
            }
        }
        *found = lines.join("\n");
        Ok(failures)
    }

    fn read_memory(&self, memory: &File, questions: &[Question]) -> Result<Vec<Answer>> {
        let drgn = Drgn::obtain(&self.kernel.cache()?, &Progress::silent())?;
        // The file has no name but the one that this process has for it.
        let vmcore = PathBuf::from(format!("/proc/{}/fd/{}", process::id(), memory.as_raw_fd()));
        self.dump(vmcore)?.answers(&drgn, questions)
    }

    /// A dump of this guest, with the modules of this scenario.
    pub(super) fn dump(&self, vmcore: PathBuf) -> Result<Dump> {
        let modules = self.modules.values();
        let modules = modules.map(|module| (module.name.clone(), vec![module.debug.clone()])).collect();
        Ok(Dump { vmcore, vmlinux: self.kernel.vmlinux().context(WITHOUT_VMLINUX)?, modules })
    }
}

/// What of an `inspect:` took how long.
fn seconds(dump: Duration, look: Duration) -> String {
    format!("dumped in {:.2} s, read in {:.2} s", dump.as_secs_f64(), look.as_secs_f64())
}

fn question(item: &InspectItem) -> Question {
    match item {
        InspectItem::InspectValue(item) => Question::Value { path: item.value.clone() },
        InspectItem::InspectTasks(item) => Question::Tasks { comm: item.tasks.to_string() },
    }
}

/// What was asked, what it must be, and what to call it.
fn parts(item: &InspectItem) -> (String, Option<&SymbolName>, Option<&WantedValue>, Option<&str>) {
    match item {
        InspectItem::InspectValue(item) => {
            (item.value.to_string(), item.symbol.as_ref(), item.is.as_ref(), item.capture.as_deref())
        }
        InspectItem::InspectTasks(item) => {
            (format!("tasks called `{}`", &*item.tasks), None, item.is.as_ref(), item.capture.as_deref())
        }
    }
}

/// A line on an answer that is as it must be, or what is wrong with it. It is captured in any case.
fn judge(item: &InspectItem, answer: &Answer, captures: &mut Captures) -> Result<String, String> {
    let (asked, symbol, is, capture) = parts(item);
    let value = match answer {
        Answer::Refused { refused } => return Err(format!("{asked}: {refused}")),
        Answer::Found(value) => value,
    };
    // Against what was captured before: a value is not compared with itself.
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
        Ok(Some(wanted)) if !WantedValue::is_met(&wanted, &value.value) => {
            Err(format!("{asked}: expected {}, found {shown}", wanted.escape_debug()))
        }
        Ok(_) => Ok(format!("{asked} = {shown}")),
    }
}

/// The most characters of a value that are shown.
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
        let item: InspectItem = serde_yaml::from_str(yaml).unwrap();
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
        // Into a function is not at it.
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
