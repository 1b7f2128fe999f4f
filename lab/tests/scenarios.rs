//! Runs every scenario on every kernel under test, each as a separate test of its verdict, and compares
//! its trace with trace-cmd.
//!
//! FTRACE_LAB_KERNELS lists the kernels, separated by commas; the default is the default kernel. They
//! are built when the first test needs them. Works under `cargo test` and under cargo-nextest.
//!
//! A scenario that fails runs once more, since QEMU 7.2 sometimes executes code that another CPU has just
//! replaced (docs/failures.md). One that then passes is named at the end, with its first failure.

mod compare;

use anyhow::{Context, Result};
use compare::compare;
use lab::{
    Lab,
    guest::{self, Guest},
    host::prerequisites::{self, Need},
    kernel::{self, Kernel},
    machine::{Snapshots, boot_if_child},
    report::Terminal,
    results::{Status, TRACE},
    run::{self, Attempt, known},
    scenario::{self, Scenario, ScenarioFile},
};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

fn main() -> Result<ExitCode> {
    boot_if_child();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(run::default_jobs);
    let bench = Arc::new(Bench::default());
    let mut trials = Vec::new();
    for kernel in kernels() {
        for (found, scenario) in scenario::select(&root().join("scenarios"), &[])? {
            let bench = Arc::clone(&bench);
            let kernel = kernel.clone();
            let name = format!("{kernel}::{}", found.name);
            let (opt_in, alone) = (scenario.opt_in, scenario.exclusive);
            let trial = Trial::ignorable_test(name, move || bench.judge_twice(&kernel, &found, &scenario));
            trials.push((alone, trial.with_ignored_flag(opt_in)));
        }
    }
    // These run first, as in `lab run`, so that they need not wait for others to end.
    trials.sort_by_key(|&(alone, _)| !alone);
    let trials = trials.into_iter().map(|(_, trial)| trial).collect();
    let listing = arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !listing {
        let flaky = bench.flaky.lock().map_or_else(|_| Vec::new(), |flaky| flaky.clone());
        for first in &flaky {
            println!("passed only when it ran again; the first run:\n{first}");
        }
        println!(
            "scenarios: {} passed ({} only when run again), {} failed, {} skipped",
            conclusion.num_passed,
            flaky.len(),
            conclusion.num_failed,
            conclusion.num_ignored
        );
    }
    Ok(conclusion.exit_code())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn kernels() -> Vec<String> {
    let names = env::var("FTRACE_LAB_KERNELS").unwrap_or_else(|_| kernel::DEFAULT.into());
    names.split(',').map(str::to_owned).collect()
}

/// Shared by the tests: each kernel and the guest are looked up once.
#[derive(Default)]
struct Bench {
    built: Mutex<BTreeMap<String, Arc<(Kernel, Guest, Snapshots)>>>,
    /// The failures of scenarios that passed when they ran again.
    flaky: Mutex<Vec<String>>,
}

impl Bench {
    fn judge_twice(
        &self,
        kernel: &str,
        found: &ScenarioFile,
        scenario: &Scenario,
    ) -> Result<Completion, Failed> {
        let first = match self.judge(kernel, found, scenario) {
            Err(first) => first,
            judged => return judged,
        };
        let second = self.judge(kernel, found, scenario)?;
        let first = first.message().unwrap_or_default().to_owned();
        self.flaky.lock().map_err(|_| "another test panicked")?.push(first);
        Ok(second)
    }

    fn judge(&self, kernel: &str, found: &ScenarioFile, scenario: &Scenario) -> Result<Completion, Failed> {
        let built = self.built(kernel).map_err(|error| format!("{error:#}"))?;
        // Below the build directory; the files of a failed test stay there for inspection.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let result = Attempt {
            kernel: &built.0,
            guest: &built.1,
            found: found,
            scenario: scenario,
            repeat: None,
            run: directory.path(),
        }
        .execute(&built.2);
        let result = known::in_view_of_bugs(&built.0.spec, result.map_err(|error| format!("{error:#}"))?);
        match result.status {
            Status::Passed => {
                if scenario.expect_panic.is_some() {
                    // The trace died with the kernel.
                    return Ok(Completion::Completed);
                }
                // trace-cmd must read the same as the lab.
                let trace = directory.path().join(&result.directory).join(TRACE);
                compare(&trace).map_err(|error| {
                    let kept = directory.keep();
                    format!("{error:#}\nfiles: {}", kept.join(&result.directory).display())
                })?;
                Ok(Completion::Completed)
            }
            Status::KnownBug => Ok(Completion::Completed),
            Status::Unsupported => Ok(Completion::ignored_with(result.reason)),
            _ => {
                let kept = directory.keep();
                Err(Terminal::new(false).result(&result, &kept).into())
            }
        }
    }

    fn built(&self, name: &str) -> Result<Arc<(Kernel, Guest, Snapshots)>> {
        let mut built = self.built.lock().ok().context("another test panicked while it built a kernel")?;
        if let Some(built) = built.get(name) {
            return Ok(Arc::clone(built));
        }
        let lab = Lab::open(root())?;
        prerequisites::ensure(Need::Test, env::var("CI").is_ok_and(|value| value == "true"), &lab.progress)?;
        let kernel = kernel::build(&lab, name, None)?;
        let guest = guest::build(&lab)?;
        let all = Arc::new((kernel, guest, Snapshots::new(&lab)?));
        built.insert(name.to_owned(), Arc::clone(&all));
        Ok(all)
    }
}
