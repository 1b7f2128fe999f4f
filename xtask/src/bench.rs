//! `cargo xtask bench`

use crate::{Usage, complete, exit, results, root, run::wanted, scenarios, setup::Setup};
use anyhow::{Context, Result, bail};
use checkers::browser::Browser;
use clap::{Args, ValueEnum};
use lab::{
    bench,
    host::prerequisites::Need,
    scenario::{Scenario, ScenarioFile},
};
use std::{
    env,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// Resolves when the list exists and is painted: a frame was requested after it existed, and
/// another frame followed.
const PAINTED: &str = "new Promise((done) => { const look = () => \
    document.querySelectorAll('#rows .name').length === WANTED && document.querySelector('#rows button') \
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(true))) : setTimeout(look, 1); look(); })";

/// Resolves when the first result's details exist and its timeline is drawn.
const OPENED: &str = "new Promise((done) => { document.querySelector('#rows button').click(); const look = () => \
    document.querySelector('section.details canvas')?.width > 0 && document.querySelector('[data-role=range]').textContent \
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(true))) : setTimeout(look, 1); look(); })";

/// The areas of scenarios that `gcov` runs by default.
const COMPARED: [&str; 2] = ["probes", "ftrace"];

/// Run one of the lab's benchmarks
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask bench boot --json")]
pub(crate) struct Bench {
    /// The benchmark
    name: Name,
    /// The scenarios of `gcov`: files, directories, or names [default: those of probes and ftrace]
    #[arg(value_name = "PATH", add = complete::scenarios())]
    scenarios: Vec<PathBuf>,
    /// Print a JSON object: {bench, figures: {name: number}}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    setup: Setup,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Cold boot compared with a bare /init, and a rerun without changes
    Boot,
    /// Builds of a kernel and of a module, confined and unconfined
    Confine,
    /// A run that measures which code runs, compared with one that does not
    Coverage,
    /// From an edit of the kernel to the verdicts of the scenarios that it concerns, compared with building it;
    /// needs a run of all scenarios with --coverage in results/
    Edit,
    /// Sequences of operations that `lab explore` runs in a second
    Explore,
    /// A fleet of 1 to 2,000 machines that runs 1,000 scenarios on 1,000 kernels, simulated with the times of results/latest
    Fleet,
    /// The lines that scenarios run as the lab measures them, compared with the kernel's own counters (GCOV)
    Gcov,
    /// A pristine machine per scenario: restore, memory, and runs of up to 200 scenarios
    Isolation,
    /// A report of 10,000 results from 40 parts, made of those of results/latest: time and memory of `lab merge`
    Merge,
    /// A report of 200 scenarios and a million events: its size, and the time until a browser shows it
    Report,
    /// Paths through structs: the first one, including opening vmlinux, and a hundred in one go
    Resolve,
    /// A million events: decode and judge compared with trace-cmd report, and raw drain with text
    Trace,
    /// A Debian userland: boot compared with vmtest's, and the time crash and drgn take to inspect it
    Userland,
}

impl Bench {
    pub(crate) fn run(self) -> Result<u8> {
        if !self.scenarios.is_empty() && !matches!(self.name, Name::Gcov) {
            return Err(Usage("only `gcov` takes scenarios".into()).into());
        }
        // Decoding and judging are measured in an optimized build.
        if matches!(self.name, Name::Trace) && cfg!(debug_assertions) {
            return optimised();
        }
        let need = if matches!(self.name, Name::Gcov) { Need::Run } else { Need::Test };
        let lab = self.setup.ensure(need)?;
        let figures = match self.name {
            Name::Boot => bench::boot(&lab, &env::current_exe()?)?,
            Name::Confine => bench::confine(&lab)?,
            Name::Coverage => bench::coverage(&lab, &env::current_exe()?)?,
            Name::Edit => bench::edit(&lab, &env::current_exe()?, &results())?,
            Name::Explore => bench::explore(&lab)?,
            Name::Fleet => bench::fleet(&results().join("latest"))?,
            Name::Gcov => bench::gcov(&lab, &self.compared()?, &results())?,
            Name::Isolation => bench::isolation(&lab, &env::current_exe()?)?,
            Name::Merge => bench::merge(&lab, &env::current_exe()?, &results().join("latest"))?,
            Name::Report => bench::report(&lab, &look)?,
            Name::Resolve => bench::resolve(&lab)?,
            Name::Trace => bench::trace(&lab, &env::current_exe()?)?,
            Name::Userland => bench::userland(&lab)?,
        };
        if self.json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            print!("{figures}");
        }
        Ok(exit::SUCCESS)
    }

    /// Returns the scenarios of `gcov`.
    fn compared(&self) -> Result<Vec<(ScenarioFile, Scenario)>> {
        let paths = match &*self.scenarios {
            [] => COMPARED.map(|area| scenarios().join(area)).to_vec(),
            paths => paths.to_vec(),
        };
        Ok(wanted(&paths, None, false)?.0)
    }
}

/// Runs the same command line with an xtask built in release mode.
fn optimised() -> Result<u8> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let error = Command::new(cargo)
        .args(["run", "--release", "--quiet", "--package", "xtask", "--"])
        .args(env::args_os().skip(1))
        .current_dir(root())
        .exec();
    Err(error).context("cannot run `cargo run --release --package xtask`")
}

/// Opens a report of this many scenarios in Chromium. Returns the seconds from the request to the painted list,
/// and from a click to the first details.
fn look(path: &Path, scenarios: usize) -> Result<(f64, f64)> {
    let mut browser = Browser::start()?;
    browser.resize(1280, 900)?;
    let started = Instant::now();
    browser.open(&format!("file://{}", path.display()))?;
    browser.evaluate(&PAINTED.replace("WANTED", &scenarios.to_string()))?;
    let shown = started.elapsed().as_secs_f64();
    let started = Instant::now();
    browser.evaluate(OPENED)?;
    let opened = started.elapsed().as_secs_f64();
    match browser.complaints().first() {
        Some(complaint) => bail!("Chromium reports an error in the report: {complaint}"),
        None => Ok((shown, opened)),
    }
}
