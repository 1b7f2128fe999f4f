//! Selftest steps: each test in a process of its own, within a deadline of its own, and what it came
//! to.
//!
//! The trace is not drained while a test runs: those of ftrace read it themselves.

use super::{
    CHUNK, Recorder,
    processes::{ENVIRONMENT, SIGKILL},
    read, unexpected,
};
use crate::{
    guest::{Content, Suite},
    host::process::tail,
    machine::Death,
    scenario::Kselftest,
    selftest::{self, Case, CaseStatus, Ended, Entry, Expected, Kind, Outcome, TestResult, hold, tally},
};
use anyhow::anyhow;
use protocol::{ChildState, Output, Reply, Request, Stdin, WriteMode};
use std::time::{Duration, Instant};

/// Where they are in the guest: in any userland this is memory that can be written to.
const PLACE: &str = "/tmp/selftests";

/// How long one wait for a test is.
const WAIT_MILLIS: u32 = 100;

/// How long a test that was killed may take to be gone.
const KILLED: Duration = Duration::from_secs(10);

/// How long finding the dependencies of some modules may take.
const DEPMOD: Duration = Duration::from_secs(30);

/// Lines of a log that tell why a test failed.
const REASON_LINES: usize = 3;

/// What a run of a test's program left.
struct Ran {
    ended: Ended,
    output: Output,
    /// The log that ftracetest wrote.
    log: String,
    seconds: f64,
}

impl Recorder<'_> {
    /// Runs the tests of a step. `found` becomes how many came to what.
    pub(super) fn kselftest(
        &mut self,
        number: usize,
        step: &Kselftest,
        found: &mut String,
    ) -> Result<Vec<String>, Death> {
        let suite = self.guest.selftests.suite(self.kernel, step.kselftest.collection());
        let suite = suite.map_err(Death::Lab)?;
        let tests = match suite.select(&step.kselftest) {
            Ok(tests) => tests,
            Err(error) => return Ok(vec![error.to_string()]),
        };
        self.push_suite(&suite)?;
        self.find_modules(&suite)?;
        for test in &tests {
            let entries: Vec<Entry> =
                suite.known.iter().filter(|entry| entry.test.as_str() == *test).cloned().collect();
            let left_out = entries.iter().find(|entry| entry.result == Expected::LeftOut);
            if let Some(entry) = left_out.filter(|_| step.kselftest.as_str() != *test) {
                self.cases.push(Case {
                    name: (*test).to_owned(),
                    status: CaseStatus::LeftOut,
                    seconds: 0.0,
                    detail: entry.reason.to_string(),
                    output: None,
                });
                continue;
            }
            self.testing = Some((*test).to_owned());
            let cases = self.selftest(number, &suite, test, &entries, step.deadline())?;
            self.testing = None;
            self.cases.extend(cases);
        }
        if suite.collection.kind == Kind::Ftrace {
            // What is in the buffer is the tests' own, and events of it that are gone cannot be read.
            let clear =
                Request::WriteFile { path: "trace".into(), data: Vec::new(), mode: WriteMode::Truncate };
            self.call(&clear)?;
        }
        *found = tally(&self.cases);
        Ok(failures(&self.cases))
    }

    /// Runs one test and holds its results against what is known of it.
    fn selftest(
        &mut self,
        number: usize,
        suite: &Suite,
        test: &str,
        known: &[Entry],
        deadline: Duration,
    ) -> Result<Vec<Case>, Death> {
        let ran = match self.run_test(suite, test, deadline)? {
            Ok(ran) => ran,
            Err(reason) => {
                let status = CaseStatus::Failed;
                let case = Case { name: test.to_owned(), status, seconds: 0.0, detail: reason, output: None };
                return Ok(vec![case]);
            }
        };
        let stdout = String::from_utf8_lossy(&ran.output.stdout);
        let stderr = String::from_utf8_lossy(&ran.output.stderr);
        let mut results = selftest::read(&said(&stdout, &stderr), ran.ended);
        if suite.collection.kind == Kind::Ftrace {
            results.iter_mut().for_each(|result| of_ftracetest(result, &ran.log));
        }
        for result in &mut results {
            // kselftest_harness.h says there what it expected.
            if result.outcome == Outcome::Failed && !stderr.trim().is_empty() && !stdout.trim().is_empty() {
                result.detail += &format!("\n{}", tail(&stderr, REASON_LINES));
            }
            if result.outcome == Outcome::TimedOut {
                result.detail = format!("it was killed after {:.1} s", ran.seconds);
            }
        }
        let held = hold(test, results, known);
        let output = if held.iter().any(|(_, status, _)| *status != CaseStatus::Passed) {
            let text = format!("{stdout}{stderr}{}", ran.log);
            Some(self.keep(number, &test.replace('/', "-"), text.as_bytes())?)
        } else {
            None
        };
        let cases = held.into_iter().enumerate().map(|(index, (part, status, detail))| Case {
            name: if part.is_empty() { test.to_owned() } else { format!("{test}: {part}") },
            status,
            seconds: if index == 0 { ran.seconds } else { 0.0 },
            detail,
            output: output.clone().filter(|_| status != CaseStatus::Passed),
        });
        Ok(cases.collect())
    }

    /// Brings a collection into the guest, once.
    fn push_suite(&mut self, suite: &Suite) -> Result<(), Death> {
        let name = suite.collection.name;
        for (path, content) in &suite.files {
            let place = format!("{PLACE}/{name}/{path}");
            match content {
                Content::Text(text) => {
                    let mode = if text.starts_with(b"#!") { 0o755 } else { 0o644 };
                    self.push_bytes(&place, text, mode)?;
                }
                Content::File(file) => self.push(&place, file, 0o755)?,
            }
        }
        Ok(())
    }

    /// Has modprobe find the modules of a collection below a directory of their own: that of the
    /// userland belongs to no kernel of the lab's.
    fn find_modules(&mut self, suite: &Suite) -> Result<(), Death> {
        if suite.modules.is_empty() {
            return Ok(());
        }
        let release = self.kernel.release.clone();
        for module in &suite.modules {
            // The file's name, which modprobe looks for too, may have a dash.
            let name = module.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.push(&format!("{PLACE}/root/lib/modules/{release}/{name}"), &module.file, 0o644)?;
        }
        let argv = ["/usr/sbin/depmod", "-b", &format!("{PLACE}/root"), &release].map(str::to_owned);
        match self.run_program(argv.into(), DEPMOD)? {
            Ok((Ended::Exited(0), _)) => Ok(()),
            Ok((ended, output)) => Err(Death::Lab(anyhow!(
                "depmod ended with {ended}: {}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            ))),
            // Without kmod no test gets far, and each says so.
            Err(_) => Ok(()),
        }
    }

    /// Runs a test to its end or to its deadline, or says why it cannot be started.
    fn run_test(
        &mut self,
        suite: &Suite,
        test: &str,
        deadline: Duration,
    ) -> Result<Result<Ran, String>, Death> {
        let logs = format!("{PLACE}/logs/{test}");
        let argv = command(suite, test, &logs);
        let started = Instant::now();
        let (ended, output) = match self.run_program(argv, deadline)? {
            Ok(ended) => ended,
            Err(reason) => return Ok(Err(reason)),
        };
        let seconds = started.elapsed().as_secs_f64();
        let log = if suite.collection.kind == Kind::Ftrace { self.logs(&logs)? } else { String::new() };
        Ok(Ok(Ran { ended, output, log, seconds }))
    }

    /// Runs a program and kills it when its deadline passes, with all that it has started.
    fn run_program(
        &mut self,
        argv: Vec<String>,
        deadline: Duration,
    ) -> Result<Result<(Ended, Output), String>, Death> {
        let program = argv.first().cloned().unwrap_or_default();
        let mut env: Vec<String> = ENVIRONMENT.map(str::to_owned).into();
        env.push(format!("MODPROBE_OPTIONS=-d {PLACE}/root"));
        // livepatch's scripts want a kernel to build modules against, which are built.
        env.push("KDIR=/tmp".to_owned());
        let child = match self.spawn(argv, env, Stdin::Bytes(Vec::new()))? {
            Ok(child) => child,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut until = Instant::now() + deadline.mul_f64(self.scale);
        let mut killed = false;
        loop {
            match self.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
                Reply::Child(ChildState::Running) => {}
                Reply::Child(ChildState::Exited(_, output) | ChildState::Signaled(_, output)) if killed => {
                    return Ok(Ok((Ended::TimedOut, output)));
                }
                Reply::Child(ChildState::Exited(status, output)) => {
                    return Ok(Ok((Ended::Exited(status), output)));
                }
                Reply::Child(ChildState::Signaled(signal, output)) => {
                    return Ok(Ok((Ended::Signaled(signal), output)));
                }
                other => return Err(unexpected("a child's state", &other)),
            }
            if Instant::now() < until {
                continue;
            }
            if killed {
                let request = format!("the end of `{program}`, which was killed");
                return Err(Death::Deadline { after: KILLED, scale: self.scale, request });
            }
            killed = true;
            until = Instant::now() + KILLED.mul_f64(self.scale);
            // It may have ended meanwhile, of which the next wait tells.
            self.call(&Request::Kill { child, signal: SIGKILL })?;
        }
    }

    /// The logs that ftracetest wrote, one for each result.
    fn logs(&mut self, directory: &str) -> Result<String, Death> {
        let names = match self.call(&Request::ListDirectory { path: directory.to_owned() })? {
            Reply::Names(names) => names,
            // It did not get so far.
            _ => return Ok(String::new()),
        };
        let is_log = |name: &&String| name.contains("-log.");
        let paths: Vec<_> = names.iter().filter(is_log).map(|name| format!("{directory}/{name}")).collect();
        let mut text = String::new();
        for path in paths {
            if let Reply::Data(data) = self.call(&read(&path))?
                && text.len() + data.len() <= 2 * CHUNK
            {
                text += &String::from_utf8_lossy(&data);
            }
        }
        Ok(text)
    }
}

/// How a test is run.
fn command(suite: &Suite, test: &str, logs: &str) -> Vec<String> {
    let name = suite.collection.name;
    let directory = format!("{PLACE}/{name}");
    let path = test.strip_prefix(name).unwrap_or(test).trim_start_matches('/').to_owned();
    match suite.collection.kind {
        Kind::Programs => vec![format!("{directory}/{path}")],
        Kind::Ftrace => {
            let mut argv = vec![format!("{directory}/ftracetest"), "-k".to_owned()];
            argv.extend(suite.ktap.then(|| "--ktap".to_owned()));
            argv.extend(["--logdir".to_owned(), logs.to_owned(), format!("{directory}/{path}")]);
            argv
        }
        // They look for their files where they are run.
        Kind::Scripts => {
            let script = "cd \"$1\" && exec \"./$2\"".to_owned();
            vec!["/bin/sh".to_owned(), "-c".to_owned(), script, "sh".to_owned(), directory, path]
        }
    }
}

/// What a program printed, as its results are read: stderr is for people, where there is anything else.
fn said(stdout: &str, stderr: &str) -> String {
    if stdout.trim().is_empty() { stderr.to_owned() } else { stdout.to_owned() }
}

/// A result of ftracetest, which names tests by what they describe; and its log says why.
fn of_ftracetest(result: &mut TestResult, log: &str) {
    let of_instance = result.name.starts_with("(instance)");
    result.name = if of_instance { "instance".to_owned() } else { String::new() };
    let reason = match result.outcome {
        Outcome::Passed | Outcome::TimedOut => String::new(),
        Outcome::Skipped => reason_of_skip(log, of_instance),
        Outcome::Failed | Outcome::ExpectedFailure => reason_of_failure(log, of_instance),
    };
    if !reason.is_empty() {
        let before = if result.detail.is_empty() { String::new() } else { format!("{}: ", result.detail) };
        result.detail = format!("{before}{reason}");
    }
}

/// Of the logs of a test and of the same in an instance, that of one of them.
fn one_log(log: &str, of_instance: bool) -> impl DoubleEndedIterator<Item = &str> + Clone {
    let at = log.find("execute (instance)").unwrap_or(log.len());
    let log = if of_instance { &log[at..] } else { &log[..at] };
    log.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("execute"))
}

/// What a test said itself before it gave up, else the command by which it did.
fn reason_of_skip(log: &str, of_instance: bool) -> String {
    const GIVING_UP: [&str; 3] = ["exit_", "kill -s", "exit 0"];
    let mut lines = one_log(log, of_instance);
    let own = lines.clone().rfind(|line| !line.starts_with('+'));
    let before = || lines.rfind(|line| !GIVING_UP.iter().any(|word| line.contains(word)));
    own.or_else(before).unwrap_or_default().trim().to_owned()
}

/// The end of a log: a shell that traces its commands stops at the one that failed.
fn reason_of_failure(log: &str, of_instance: bool) -> String {
    let lines: Vec<&str> = one_log(log, of_instance).collect();
    let from = lines.len().saturating_sub(REASON_LINES);
    lines[from..].join("; ").chars().take(400).collect()
}

/// What of the cases fails a step.
fn failures(cases: &[Case]) -> Vec<String> {
    let bad = cases.iter().filter(|case| !case.status.is_good());
    let mut failures: Vec<String> =
        bad.map(|case| format!("{} {}: {}", case.name, case.status, case.detail)).collect();
    if !failures.is_empty() {
        failures.insert(0, tally(cases));
    } else if cases.iter().all(|case| matches!(case.status, CaseStatus::Skipped | CaseStatus::LeftOut)) {
        let first = cases.first().map(|case| format!("; {}: {}", case.name, case.detail)).unwrap_or_default();
        failures.push(format!("no test ran to a result: {}{first}", tally(cases)));
    }
    failures
}
