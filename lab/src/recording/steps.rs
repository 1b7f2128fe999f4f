//! Steps: each does one thing in the guest and checks what came of it. Here are those that read and
//! write files.

use super::{CHUNK, Recorder, read, unexpected};
use crate::{
    machine::Death,
    report::StepResult,
    scenario::{Errno, MakeDirectory, Read, Step, TextCheck, Write, Written},
};
use anyhow::Context;
use protocol::{Reply, Request, WriteMode};
use std::{fs, path::Path};

impl Recorder<'_> {
    /// Runs one step; `number` counts from 1.
    pub(super) fn step(&mut self, number: usize, step: &Written<Step>) -> Result<StepResult, Death> {
        let mut result = StepResult { text: step.text.clone(), passed: true, ..StepResult::default() };
        let mut found = String::new();
        let failures = match &step.value {
            Step::Workload(step) => self.workload(number, step, &mut result.output)?,
            Step::Write(step) => self.write(step)?,
            Step::Refuses(step) => self.refuses(step, &mut found)?,
            Step::Read(step) => self.read(number, step, &mut result.output)?,
            Step::MakeDirectory(step) => self.make_directory(step)?,
            Step::Load(step) => self.load(&step.into(), step.parameters.as_ref(), step.errno)?,
            Step::Insert(step) => self.load(&step.into(), step.parameters.as_ref(), step.errno)?,
            Step::Unload(step) => self.unload(step)?,
            Step::Hook(step) => self.hook(step)?,
            Step::Hits(step) => self.hits(step)?,
            Step::EnabledFunctions(step) => self.enabled_functions(step, &mut found)?,
            Step::Text(step) => self.patched(number, step, &mut found, &mut result.output)?,
            Step::Inspect(step) => self.inspect(step, &mut found)?,
            Step::Shell(step) => self.shell(number, step, &mut result.output)?,
            Step::Crash(step) => self.crash(number, step, &mut result.output)?,
            Step::Kselftest(step) => self.kselftest(number, step, &mut found)?,
        };
        result.cases = std::mem::take(&mut self.cases);
        result.passed = failures.is_empty();
        result.detail = if result.passed { found } else { failures.join("\n") };
        Ok(result)
    }

    /// Brings a file into the guest, once.
    pub(super) fn push(&mut self, path: &str, file: &Path, mode: u32) -> Result<(), Death> {
        if self.pushed.contains(path) {
            return Ok(());
        }
        let data = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()));
        self.push_bytes(path, &data.map_err(Death::Lab)?, mode)
    }

    /// Brings some bytes into the guest as a file, once.
    pub(super) fn push_bytes(&mut self, path: &str, data: &[u8], mode: u32) -> Result<(), Death> {
        if self.pushed.contains(path) {
            return Ok(());
        }
        // An empty file is a chunk too.
        let empty = data.is_empty().then_some(&[][..]);
        let requests: Vec<_> = data
            .chunks(CHUNK)
            .chain(empty)
            .enumerate()
            .map(|(index, chunk)| Request::Push {
                path: path.to_owned(),
                mode,
                offset: (index * CHUNK) as u64,
                data: chunk.to_vec(),
            })
            .collect();
        for reply in self.call_all(&requests)? {
            if reply != Reply::Done {
                return Err(unexpected(&format!("a place for `{path}`"), &reply));
            }
        }
        self.pushed.insert(path.to_owned());
        Ok(())
    }

    fn write(&mut self, step: &Write) -> Result<Vec<String>, Death> {
        let mode = if step.append { WriteMode::Append } else { WriteMode::Truncate };
        let text = match self.captures.expand(&step.text) {
            Ok(text) => text,
            Err(reason) => return Ok(vec![reason]),
        };
        let data = format!("{text}\n").into_bytes();
        let mut requests = vec![Request::WriteFile { path: step.write.to_string(), data, mode }];
        if step.error_log.is_some() {
            // An earlier refusal must not stand in for this one.
            let clear =
                Request::WriteFile { path: "error_log".into(), data: Vec::new(), mode: WriteMode::Truncate };
            requests.insert(0, clear);
            requests.push(read("error_log"));
        }
        let replies = self.call_all(&requests)?;
        let mut failures = Vec::new();
        let written = replies.get(usize::from(step.error_log.is_some()));
        check_errno(step.errno, written, &mut failures);
        if let Some(check) = &step.kernel_log {
            let logged = self.logged()?.unwrap_or_default();
            check_text("kernel_log", Some(check), logged.as_bytes(), &mut failures);
        }
        if let (Some(check), Some(Reply::Data(log))) = (&step.error_log, replies.get(2)) {
            check_text("error_log", Some(check), log, &mut failures);
        } else if step.error_log.is_some() {
            failures.push("`error_log` cannot be read".into());
        } else if !failures.is_empty() && matches!(written, Some(Reply::Errno { .. })) {
            failures.extend(self.reason(&text)?);
        }
        Ok(failures)
    }

    fn read(&mut self, number: usize, step: &Read, output: &mut Vec<String>) -> Result<Vec<String>, Death> {
        let reply = self.call(&read(&step.read))?;
        let mut failures = Vec::new();
        check_errno(step.errno, Some(&reply), &mut failures);
        if let Reply::Data(data) = &reply {
            output.push(self.keep(number, "text", data)?);
            check_text(step.read.as_str(), step.text.as_ref(), data, &mut failures);
        }
        Ok(failures)
    }

    fn make_directory(&mut self, step: &MakeDirectory) -> Result<Vec<String>, Death> {
        let reply = self.call(&Request::MakeDirectory { path: step.mkdir.to_string() })?;
        let mut failures = Vec::new();
        check_errno(step.errno, Some(&reply), &mut failures);
        Ok(failures)
    }

    /// Stores a step's output; gives back its path below the scenario's directory.
    pub(super) fn keep(&self, number: usize, what: &str, data: &[u8]) -> Result<String, Death> {
        let name = kept_name(number, what);
        let path = self.directory.join(&name);
        let kept = fs::create_dir_all(self.directory.join("steps")).and_then(|()| fs::write(&path, data));
        kept.with_context(|| format!("cannot write `{}`", path.display())).map_err(Death::Lab)?;
        Ok(name)
    }
}

/// Where a step's output is kept below the scenario's directory.
pub(super) fn kept_name(number: usize, what: &str) -> String {
    format!("steps/{number}-{what}.txt")
}

pub(super) fn check_text(what: &str, check: Option<&TextCheck>, data: &[u8], failures: &mut Vec<String>) {
    if let Some(Err(reason)) = check.map(|check| check.check(&String::from_utf8_lossy(data))) {
        failures.push(format!("{what}: {reason}"));
    }
}

pub(super) fn check_errno(expected: Option<Errno>, reply: Option<&Reply>, failures: &mut Vec<String>) {
    match (expected, reply) {
        (None, Some(Reply::Errno { what, errno })) => {
            failures.push(format!("expected success, found {what}: {}", Errno::from_number(*errno)));
        }
        (Some(expected), Some(Reply::Errno { errno, .. })) if expected.number() == *errno => {}
        (Some(expected), Some(Reply::Errno { errno, .. })) => {
            failures.push(format!("expected {expected}, found {}", Errno::from_number(*errno)));
        }
        (Some(expected), _) => failures.push(format!("expected {expected}, found success")),
        (None, _) => {}
    }
}
