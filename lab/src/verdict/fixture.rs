//! Traces for tests, written as text.
//!
//! A line is `TIME CPU COMM-PID GROUP:NAME FIELD=VALUE…`; a value is an integer (`8`, `-9`, `0x10`
//! unsigned, `+8` unsigned), a text (`"x"`), a symbol (`@vfs_write+4`), or a list (`[1,2]`). A
//! line `LOST CPU NUMBER AFTER BEFORE` is a loss; `-` stands for unknown.

use super::{Judge, Observed};
use crate::{
    recording::StepStdout,
    results::{Outcome, OutcomeStatus},
    scenario::Scenario,
};
use std::{borrow::Cow, collections::BTreeMap, path::Path};
use trace::{Loss, Value};

pub(super) struct TestEvent {
    time: u64,
    cpu: u32,
    pid: i32,
    comm: String,
    group: String,
    name: String,
    kind: u16,
    fields: Vec<(String, Value<'static>)>,
}

/// The symbols of tests, 4 KiB apart.
const SYMBOLS: [&str; 7] = [
    "vfs_write",
    "eventfd_write",
    "ksys_write",
    "__arm64_sys_write",
    "schedule",
    "__schedule",
    "rw_verify_area",
];
const BASE: u64 = 0xffff_8000_8000_0000;

impl Observed for TestEvent {
    fn kind(&self) -> u16 {
        self.kind
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn group(&self) -> &str {
        &self.group
    }
    fn time(&self) -> u64 {
        self.time
    }
    fn cpu(&self) -> u32 {
        self.cpu
    }
    fn pid(&self) -> i32 {
        self.pid
    }
    fn comm(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.comm)
    }
    fn field(&self, name: &str) -> Option<Value<'_>> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone())
    }
    fn fields(&self) -> Vec<(&str, Value<'_>)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
    }
    fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let offset = address.checked_sub(BASE)?;
        let name = SYMBOLS.get(usize::try_from(offset / 4096).ok()?)?;
        Some((name, offset % 4096))
    }
    fn size(&self) -> usize {
        32
    }
}

fn value(text: &str) -> Value<'static> {
    if let Some(text) = text.strip_prefix('"') {
        return Value::Text(text.trim_end_matches('"').to_owned().into());
    }
    if let Some(list) = text.strip_prefix('[') {
        return Value::List(list.trim_end_matches(']').split(',').map(value).collect());
    }
    if let Some(symbol) = text.strip_prefix('@') {
        let (name, offset) = symbol.split_once('+').unwrap_or((symbol, "0"));
        let index = SYMBOLS.iter().position(|known| *known == name).unwrap() as u64;
        return Value::Unsigned(BASE + index * 4096 + offset.parse::<u64>().unwrap());
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return Value::Unsigned(u64::from_str_radix(hex, 16).unwrap());
    }
    match text.strip_prefix('+') {
        Some(unsigned) => Value::Unsigned(unsigned.parse().unwrap()),
        None => Value::Signed(text.parse().unwrap()),
    }
}

pub(super) fn event(line: &str) -> TestEvent {
    let words: Vec<_> = line.split_whitespace().collect();
    let [time, cpu, task, event, fields @ ..] = words.as_slice() else { panic!("{line}") };
    let (comm, pid) = task.rsplit_once('-').unwrap();
    let (group, name) = event.split_once(':').unwrap();
    let fields = fields.iter().map(|field| {
        let (name, text) = field.split_once('=').unwrap();
        (name.to_owned(), value(text))
    });
    // Any function of the name will do.
    let hash = event.bytes().fold(7_u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let kind = if *event == ":unknown" { 0 } else { 1 + hash % 5000 };
    TestEvent {
        time: time.parse().unwrap(),
        cpu: cpu.parse().unwrap(),
        pid: pid.parse().unwrap(),
        comm: comm.to_owned(),
        group: group.to_owned(),
        name: name.to_owned(),
        kind,
        fields: fields.collect(),
    }
}

fn loss(words: &str) -> Loss {
    let numbers: Vec<_> = words.split_whitespace().map(|word| word.parse::<u64>().ok()).collect();
    let [cpu, lost, after, before] = numbers[..] else { panic!("{words}") };
    Loss { cpu: cpu.unwrap() as u32, lost, after, before }
}

/// Judges the expectations of a scenario file on a trace of two CPUs, that of the instance of the first one.
pub(super) fn judge_all(source: &str, trace: &str, log: &str, files: &[(&str, &str)]) -> Vec<Outcome> {
    judge_with(source, trace, log, files, &BTreeMap::new())
}

/// Like [`judge_all`], but with the stdout of steps.
pub(super) fn judge_with(
    source: &str,
    trace: &str,
    log: &str,
    files: &[(&str, &str)],
    outputs: &BTreeMap<usize, StepStdout>,
) -> Vec<Outcome> {
    let scenario = Scenario::parse(Path::new("x.yaml"), source).unwrap_or_else(|error| panic!("{error}"));
    let instance = scenario.expect.first().and_then(|item| item.value.instance());
    let mut judge = Judge::of(&scenario, instance, vec![0, 1]);
    for line in trace.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("LOST ") {
            Some(words) => judge.loss(&loss(words)),
            None => judge.observe(&event(line)),
        }
    }
    let files =
        files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect::<BTreeMap<_, _>>();
    judge.finish(None, log, &files, outputs)
}

/// Judges one expectation, which must end with `status` and these texts in its detail. Returns the detail.
#[track_caller]
pub(super) fn check(expectation: &str, trace: &str, status: OutcomeStatus, details: &[&str]) -> String {
    let indented = expectation.trim().replace('\n', "\n    ");
    let header = "summary: test\ntrace: { tracer: function_graph }\nexpect:\n";
    let outcomes = judge_all(&format!("{header}  - {indented}\n"), trace, "", &[]);
    let [outcome] = <[Outcome; 1]>::try_from(outcomes).unwrap();
    let shown = format!("{expectation}\n{trace}\n→ {:?}: {}", outcome.status, outcome.detail);
    assert_eq!(outcome.status, status, "{shown}");
    for detail in details {
        assert!(outcome.detail.contains(detail), "no `{detail}` in\n{shown}");
    }
    outcome.detail
}
