//! Steps: each does one thing in the guest and checks the result. This file has those that read and
//! write files.

use super::{
    Recorder,
    captures::Captures,
    checks::{check_errno, check_text},
    hooks,
    inspect::inspect,
    link::{CHUNK, LOG_LIMIT, Link, read},
    notes::StepNotes,
    refusal::{logged, reason},
    rejects::refuses,
    selftests::kselftest,
};
use crate::{
    machine::Death,
    results::StepResult,
    scenario::{MakeDirectory, Read, Step, Write},
};
use protocol::{Reply, Request, WriteMode};

impl Recorder<'_> {
    /// Runs a step. Returns its result, and how the machine ended if it did.
    pub(super) fn step(&mut self, number: usize, step: &Step) -> (StepResult, Result<(), Death>) {
        let Recorder { traced, files, modules, programs, crash, captures, .. } = self;
        let mut notes = StepNotes::new(self.directory, number, captures);
        notes.keeps_output = self.keeps_output;
        let ran = match step {
            Step::Workload(step) => programs.workload(traced, files, &mut notes, step),
            Step::Shell(step) => programs.shell(traced, files, &mut notes, step),
            Step::Load(step) => modules.load(traced, files, &step.into()),
            Step::LoadModule(step) => modules.load(traced, files, &step.into()),
            Step::Unload(step) => modules.unload(traced, step),
            Step::Write(step) => write(&mut traced.link, notes.captures, step),
            Step::Read(step) => read_file(&mut traced.link, &mut notes, step),
            Step::MakeDirectory(step) => make_directory(&mut traced.link, step),
            Step::Rejects(step) => refuses(&mut traced.link, &mut notes, step),
            Step::Hook(step) => hooks::hook(&mut traced.link, step),
            Step::Hits(step) => hooks::hits(&mut traced.link, step),
            Step::EnabledFunctions(step) => hooks::enabled_functions(&mut traced.link, &mut notes, step),
            Step::PatchedText(step) => modules.patched(&mut traced.link, &mut notes, step),
            Step::Inspect(step) => inspect(&mut traced.link, modules, &mut notes, step),
            Step::Crash(step) => crash.run(traced, &mut notes, step),
            Step::Kselftest(step) => kselftest(&mut traced.link, files, modules.kernel, &mut notes, step),
        };
        match ran {
            Ok(failures) => (notes.result(&failures), Ok(())),
            Err(death) => (notes.interrupted(), Err(death)),
        }
    }
}

fn write(link: &mut Link<'_>, captures: &Captures, step: &Write) -> Result<Vec<String>, Death> {
    let mode = if step.append { WriteMode::Append } else { WriteMode::Truncate };
    let text = match captures.expand(&step.text) {
        Ok(text) => text,
        Err(reason) => return Ok(vec![reason]),
    };
    let data = format!("{text}\n").into_bytes();
    let mut requests = vec![Request::WriteFile { path: step.write.to_string(), data, mode }];
    if step.error_log.is_some() {
        // An earlier refusal must not be taken for this one.
        let clear =
            Request::WriteFile { path: "error_log".into(), data: Vec::new(), mode: WriteMode::Truncate };
        requests.insert(0, clear);
        requests.push(read("error_log"));
    }
    let replies = link.call_all(&requests)?;
    let mut failures = Vec::new();
    let written = replies.get(usize::from(step.error_log.is_some()));
    check_errno(step.errno, written, &mut failures);
    if let Some(check) = &step.kernel_log {
        let logged = logged(link)?.unwrap_or_default();
        check_text("kernel_log", Some(check), logged.as_bytes(), LOG_LIMIT, &mut failures);
    }
    if let (Some(check), Some(Reply::Data(log))) = (&step.error_log, replies.get(2)) {
        check_text("error_log", Some(check), log, CHUNK, &mut failures);
    } else if step.error_log.is_some() {
        failures.push("cannot read `error_log`".into());
    } else if !failures.is_empty() && matches!(written, Some(Reply::Errno { .. })) {
        failures.extend(reason(link, &text)?);
    }
    Ok(failures)
}

fn read_file(link: &mut Link<'_>, notes: &mut StepNotes<'_>, step: &Read) -> Result<Vec<String>, Death> {
    let reply = link.call(&read(&step.read))?;
    let mut failures = Vec::new();
    check_errno(step.errno, Some(&reply), &mut failures);
    if let Reply::Data(data) = &reply {
        notes.keep("text", data)?;
        check_text(step.read.as_str(), step.text.as_ref(), data, CHUNK, &mut failures);
    }
    Ok(failures)
}

fn make_directory(link: &mut Link<'_>, step: &MakeDirectory) -> Result<Vec<String>, Death> {
    let reply = link.call(&Request::MakeDirectory { path: step.mkdir.to_string() })?;
    let mut failures = Vec::new();
    check_errno(step.errno, Some(&reply), &mut failures);
    Ok(failures)
}
