//! Selftest steps: each test in a separate process, with a separate deadline, and its results.
//!
//! The trace is not drained while a test runs: the tests of ftrace read it themselves.

use super::{
    files::{EXECUTABLE, Files, READABLE},
    link::{CHUNK, Link, read, unexpected},
    notes::StepNotes,
    processes::{SIGKILL, spawn},
};
use crate::{
    guest::{Content, Suite},
    host::process::tail,
    kernel::{Kernel, SelftestKind},
    machine::{Death, ENVIRONMENT},
    scenario::Kselftest,
    selftest::{self, Case, CaseStatus, Ended, Entry, Expected, Outcome, TestResult, hold, tally},
};
use anyhow::anyhow;
use protocol::{ChildState, Output, Reply, Request, Stdin, WriteMode};
use std::time::{Duration, Instant};

/// The directory of selftests in the guest, in memory that is writable in any userland.
const PLACE: &str = "/tmp/selftests";

/// The length of one wait for a test, in milliseconds.
const WAIT_MILLIS: u32 = 100;

/// The time limit for the end of a test that was killed.
const KILLED: Duration = Duration::from_secs(10);

/// The time limit of depmod.
const DEPMOD: Duration = Duration::from_secs(30);

/// The number of lines of a log that show why a test failed.
const REASON_LINES: usize = 3;

/// A finished run of a test's program.
struct TestRun {
    ended: Ended,
    output: Output,
    /// The log that ftracetest wrote.
    log: String,
    seconds: f64,
}

/// Runs the tests of a step and compares their results with what is known of them.
pub(super) fn kselftest(
    link: &mut Link<'_>,
    files: &mut Files<'_>,
    kernel: &Kernel,
    notes: &mut StepNotes<'_>,
    step: &Kselftest,
) -> Result<Vec<String>, Death> {
    let suite = files.guest.selftests.suite(kernel, step.kselftest.collection());
    let suite = suite.map_err(Death::Lab)?;
    let tests = match suite.select(&step.kselftest) {
        Ok(tests) => tests,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    push_suite(link, files, &suite)?;
    push_modules(link, files, &suite, &kernel.release)?;
    let mut runner = Runner { link, suite: &suite, deadline: step.deadline() };
    for test in &tests {
        let known: Vec<Entry> =
            suite.known.iter().filter(|entry| entry.test.as_str() == *test).cloned().collect();
        let left_out = known.iter().find(|entry| entry.result == Expected::LeftOut);
        if let Some(entry) = left_out.filter(|_| step.kselftest.as_str() != *test) {
            notes.cases.push(Case {
                name: (*test).to_owned(),
                status: CaseStatus::LeftOut,
                seconds: 0.0,
                detail: entry.reason.to_string(),
                output: None,
            });
            continue;
        }
        notes.testing = Some((*test).to_owned());
        let cases = runner.test(notes, test, &known)?;
        notes.testing = None;
        notes.cases.extend(cases);
    }
    if suite.collection.kind == SelftestKind::Ftrace {
        // The buffer has events of the tests, some of which no longer exist and cannot be decoded.
        let clear = Request::WriteFile { path: "trace".into(), data: Vec::new(), mode: WriteMode::Truncate };
        runner.link.call(&clear)?;
    }
    notes.found = tally(&notes.cases);
    Ok(failures(&notes.cases))
}

/// Copies a collection into the guest, once.
fn push_suite(link: &mut Link<'_>, files: &mut Files<'_>, suite: &Suite) -> Result<(), Death> {
    let name = suite.collection.name;
    for (path, content) in &suite.files {
        let place = format!("{PLACE}/{name}/{path}");
        match content {
            Content::Text(text) => {
                let mode = if text.starts_with(b"#!") { EXECUTABLE } else { READABLE };
                files.push_bytes(link, &place, text, mode)?;
            }
            Content::File(file) => files.push(link, &place, file, EXECUTABLE)?,
        }
    }
    Ok(())
}

/// Installs the modules of a collection in a separate directory for modprobe: that of the userland is for
/// another kernel.
fn push_modules(
    link: &mut Link<'_>,
    files: &mut Files<'_>,
    suite: &Suite,
    release: &str,
) -> Result<(), Death> {
    if suite.modules.is_empty() {
        return Ok(());
    }
    for module in &suite.modules {
        // modprobe also looks for the name of the file, which may have a dash.
        let name = module.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = format!("{PLACE}/root/lib/modules/{release}/{name}");
        files.push(link, &path, &module.file, READABLE)?;
    }
    let argv = ["/usr/sbin/depmod", "-b", &format!("{PLACE}/root"), release].map(str::to_owned);
    match run_program(link, argv.into(), DEPMOD)? {
        Ok((Ended::Exited(0), _)) => Ok(()),
        Ok((ended, output)) => Err(Death::Lab(anyhow!(
            "depmod ended with {ended}: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        ))),
        // Without kmod the tests fail early, and each says so.
        Err(_) => Ok(()),
    }
}

/// Runs the tests of a collection.
struct Runner<'r, 'a> {
    link: &'r mut Link<'a>,
    suite: &'r Suite,
    /// The time limit of each test.
    deadline: Duration,
}

impl Runner<'_, '_> {
    /// Runs one test and compares its results with what is known of it.
    fn test(&mut self, notes: &StepNotes<'_>, test: &str, known: &[Entry]) -> Result<Vec<Case>, Death> {
        let run = match self.run(test)? {
            Ok(run) => run,
            Err(reason) => {
                let status = CaseStatus::Failed;
                let case = Case { name: test.to_owned(), status, seconds: 0.0, detail: reason, output: None };
                return Ok(vec![case]);
            }
        };
        let stdout = String::from_utf8_lossy(&run.output.stdout);
        let stderr = String::from_utf8_lossy(&run.output.stderr);
        let mut results = selftest::read(&said(&stdout, &stderr), run.ended);
        if self.suite.collection.kind == SelftestKind::Ftrace {
            results.iter_mut().for_each(|result| of_ftracetest(result, &run.log));
        }
        for result in &mut results {
            // kselftest_harness.h prints the expected values there.
            if result.outcome == Outcome::Failed && !stderr.trim().is_empty() && !stdout.trim().is_empty() {
                result.detail += &format!("\n{}", tail(&stderr, REASON_LINES));
            }
            if result.outcome == Outcome::TimedOut {
                result.detail = format!("it was killed after {:.1} s", run.seconds);
            }
        }
        let held = hold(test, results, known);
        let output = if held.iter().any(|(_, status, _)| *status != CaseStatus::Passed) {
            let text = format!("{stdout}{stderr}{}", run.log);
            Some(notes.store(&test.replace('/', "-"), text.as_bytes())?)
        } else {
            None
        };
        let cases = held.into_iter().enumerate().map(|(index, (part, status, detail))| Case {
            name: if part.is_empty() { test.to_owned() } else { format!("{test}: {part}") },
            status,
            seconds: if index == 0 { run.seconds } else { 0.0 },
            detail,
            output: output.clone().filter(|_| status != CaseStatus::Passed),
        });
        Ok(cases.collect())
    }

    /// Runs a test to its end or to its deadline, or says why it cannot be started.
    fn run(&mut self, test: &str) -> Result<Result<TestRun, String>, Death> {
        let logs = format!("{PLACE}/logs/{test}");
        let argv = command(self.suite, test, &logs);
        let started = Instant::now();
        let (ended, output) = match run_program(self.link, argv, self.deadline)? {
            Ok(ended) => ended,
            Err(reason) => return Ok(Err(reason)),
        };
        let seconds = started.elapsed().as_secs_f64();
        let is_ftrace = self.suite.collection.kind == SelftestKind::Ftrace;
        let log = if is_ftrace { read_logs(self.link, &logs)? } else { String::new() };
        Ok(Ok(TestRun { ended, output, log, seconds }))
    }
}

/// Runs a program and kills it when its deadline passes, with all processes that it has started.
fn run_program(
    link: &mut Link<'_>,
    argv: Vec<String>,
    deadline: Duration,
) -> Result<Result<(Ended, Output), String>, Death> {
    let program = argv.first().cloned().unwrap_or_default();
    let mut env: Vec<String> = ENVIRONMENT.map(str::to_owned).into();
    env.push(format!("MODPROBE_OPTIONS=-d {PLACE}/root"));
    // The scripts of livepatch require the build directory of a kernel, though their modules are built.
    env.push("KDIR=/tmp".to_owned());
    let child = match spawn(link, argv, env, Stdin::Bytes(Vec::new()))? {
        Ok(child) => child,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut until = Instant::now() + deadline.mul_f64(link.scale);
    let mut killed = false;
    loop {
        match link.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
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
        let withheld = link.machine.grant();
        if !withheld.is_zero() {
            until += withheld;
            continue;
        }
        if killed {
            let request = format!("the end of `{program}`, which was killed");
            return Err(Death::Deadline { after: KILLED, scale: link.scale, request });
        }
        killed = true;
        until = Instant::now() + KILLED.mul_f64(link.scale);
        // If it has just ended, the next wait reports that.
        link.call(&Request::Kill { child, signal: SIGKILL })?;
    }
}

/// Reads the logs that ftracetest wrote, one per result.
fn read_logs(link: &mut Link<'_>, directory: &str) -> Result<String, Death> {
    let names = match link.call(&Request::ListDirectory { path: directory.to_owned() })? {
        Reply::Names(names) => names,
        // ftracetest ended before it made the directory.
        _ => return Ok(String::new()),
    };
    let is_log = |name: &&String| name.contains("-log.");
    let paths: Vec<_> = names.iter().filter(is_log).map(|name| format!("{directory}/{name}")).collect();
    let mut text = String::new();
    for path in paths {
        if let Reply::Data(data) = link.call(&read(&path))?
            && text.len() + data.len() <= 2 * CHUNK
        {
            text += &String::from_utf8_lossy(&data);
        }
    }
    Ok(text)
}

/// Returns the command line of a test.
fn command(suite: &Suite, test: &str, logs: &str) -> Vec<String> {
    let name = suite.collection.name;
    let directory = format!("{PLACE}/{name}");
    let path = test.strip_prefix(name).unwrap_or(test).trim_start_matches('/').to_owned();
    match suite.collection.kind {
        SelftestKind::Programs => vec![format!("{directory}/{path}")],
        SelftestKind::Ftrace => {
            let mut argv = vec![format!("{directory}/ftracetest"), "-k".to_owned()];
            argv.extend(suite.ktap.then(|| "--ktap".to_owned()));
            argv.extend(["--logdir".to_owned(), logs.to_owned(), format!("{directory}/{path}")]);
            argv
        }
        // They look for their files in the working directory.
        SelftestKind::Scripts => {
            let script = "cd \"$1\" && exec \"./$2\"".to_owned();
            vec!["/bin/sh".to_owned(), "-c".to_owned(), script, "sh".to_owned(), directory, path]
        }
    }
}

/// Returns the output with a program's results: stdout, or stderr if that is all there is.
fn said(stdout: &str, stderr: &str) -> String {
    if stdout.trim().is_empty() { stderr.to_owned() } else { stdout.to_owned() }
}

/// Completes a result of ftracetest, which names tests by their descriptions: its log has the reason.
fn of_ftracetest(result: &mut TestResult, log: &str) {
    let of_instance = result.name.starts_with("(instance)");
    result.name = if of_instance { "instance".to_owned() } else { String::new() };
    let reason = match result.outcome {
        Outcome::Passed | Outcome::TimedOut | Outcome::Incomplete => String::new(),
        Outcome::Skipped => reason_of_skip(log, of_instance),
        Outcome::Failed | Outcome::ExpectedFailure => reason_of_failure(log, of_instance),
    };
    if !reason.is_empty() {
        let before = if result.detail.is_empty() { String::new() } else { format!("{}: ", result.detail) };
        result.detail = format!("{before}{reason}");
    }
}

/// Returns the log of a test, or of the same test in a tracing instance, from the log with both.
fn one_log(log: &str, of_instance: bool) -> impl DoubleEndedIterator<Item = &str> + Clone {
    let at = log.find("execute (instance)").unwrap_or(log.len());
    let log = if of_instance { &log[at..] } else { &log[..at] };
    log.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("execute"))
}

/// Returns the last message of a test that was skipped or, without one, the command before its exit.
fn reason_of_skip(log: &str, of_instance: bool) -> String {
    const GIVING_UP: [&str; 3] = ["exit_", "kill -s", "exit 0"];
    let mut lines = one_log(log, of_instance);
    let own = lines.clone().rfind(|line| !line.starts_with('+'));
    let before = || lines.rfind(|line| !GIVING_UP.iter().any(|word| line.contains(word)));
    own.or_else(before).unwrap_or_default().trim().to_owned()
}

/// Returns the end of a log: a shell that traces its commands stops at the one that failed.
fn reason_of_failure(log: &str, of_instance: bool) -> String {
    let lines: Vec<&str> = one_log(log, of_instance).collect();
    let from = lines.len().saturating_sub(REASON_LINES);
    lines[from..].join("; ").chars().take(400).collect()
}

/// Returns the failures of a step with these cases.
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
