//! `cargo xtask lab coverage`

use crate::{
    Usage, exit,
    json::{self, Json},
    results, root,
};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::{
    cache::Cache,
    coverage::{Fewest, FileCoverage, Function, Measured, Share, SourceFiles, fewest, last_measured, lcov},
    guest::source_name,
    progress::Progress,
    results::Times,
    run::select::Selection,
    words::printable,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Show which code of the kernel and of modules the scenarios of a run ran
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab run --coverage                           measure\n  \
    cargo xtask lab coverage                                 the kernel's tracing code, by file\n  \
    cargo xtask lab coverage fs/eventfd.c kernel/bpf         other files, or directories\n  \
    cargo xtask lab coverage guest/modules/ftracehook        a module\n  \
    cargo xtask lab coverage --function register_kprobe      its lines, and who ran them\n  \
    cargo xtask lab coverage --never                         functions that nothing ran\n  \
    cargo xtask lab coverage --lcov out.info                 for genhtml and Codecov\n\n\
    Code that is freed after boot is not counted. A branch counts twice, once for each way.\n\
    Of a distribution kernel, only the functions are known.\n\
    docs/coverage.md says how it is measured and how exact it is.")]
pub(crate) struct Coverage {
    /// Directory of a run, by default results/latest, and files or directories of the kernel tree or of modules to
    /// count instead of the kernel's tracing code; `*` stands for a part of a name
    #[arg(value_name = "RESULTS|FILE")]
    arguments: Vec<String>,
    /// Show the source of a function with the number of scenarios that ran each line, and their names
    #[arg(long, value_name = "NAME", conflicts_with_all = ["never", "lcov"])]
    function: Option<String>,
    /// List the functions that nothing ran
    #[arg(long, conflicts_with = "lcov")]
    never: bool,
    /// Write the coverage to a file, in the format of lcov
    #[arg(long, value_name = "FILE")]
    lcov: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// What ran, of each kernel of a run.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Covered {
    Files(Vec<CoveredFiles>),
    /// With --never.
    Never(Vec<NeverRun>),
    /// With --function: each function of that name.
    Functions(Vec<CoveredFunction>),
}

/// The coverage of a kernel, by file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CoveredFiles {
    kernel: String,
    /// The number of scenarios that ran.
    scenarios: usize,
    functions: Share,
    /// Empty for a distribution kernel, of which only the functions are known.
    files: Vec<FileCoverage>,
    /// Scenarios that ran more code than could be noted; they count for what was noted.
    incomplete: Vec<String>,
    /// Loads that the kernel refused; what ran during them is not counted.
    refused: Vec<RefusedLoads>,
}

/// The scenarios in which the kernel refused to load a module.
#[derive(Serialize, JsonSchema)]
struct RefusedLoads {
    module: String,
    scenarios: Vec<String>,
}

/// A function that nothing ran.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NeverRun {
    kernel: String,
    file: String,
    function: String,
    /// Whether it ran before the scenarios.
    during_boot: bool,
}

/// A function, and who ran it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CoveredFunction {
    kernel: String,
    function: String,
    /// Null for a distribution kernel, of which only the functions are known.
    file: Option<String>,
    lines: Vec<CoveredLine>,
    run_by: Vec<String>,
}

/// A line of a function.
#[derive(Serialize, JsonSchema)]
struct CoveredLine {
    number: u32,
    text: String,
    /// The number of scenarios that ran it; null for a line without code.
    ran: Option<usize>,
}

impl Coverage {
    pub(crate) fn run(self) -> Result<u8> {
        let (run, named) = self.subject();
        let named: Vec<String> = named.iter().map(|name| source_name(root(), name)).collect();
        let files =
            if named.is_empty() { SourceFiles::of_tracing(root())? } else { SourceFiles::named(&named) };
        let measured = Measured::load(&run, &Cache::open(&Progress::new())?, &files)?;
        for measured in &measured {
            let is_known = |name: &&String| {
                let files = SourceFiles::named(std::slice::from_ref(name));
                measured.source.files.iter().any(|file| files.has(file))
            };
            if let Some(name) = named.iter().find(|name| !is_known(name)) {
                return Err(Usage(format!("{} has no code in `{name}`", measured.kernel.name)).into());
            }
        }
        if let Some(path) = &self.lcov {
            if let Some(measured) = measured.iter().find(|measured| !measured.has_lines()) {
                return Err(Usage(without_lines(measured)).into());
            }
            fs::write(path, measured.iter().map(lcov).collect::<String>())?;
            return Ok(exit::SUCCESS);
        }
        let covered = self.covered(&measured)?;
        match &covered {
            _ if self.json.wanted => json::print(&covered)?,
            Covered::Files(kernels) => kernels.iter().for_each(show_files),
            Covered::Never(functions) => show_never(functions),
            Covered::Functions(functions) => functions.iter().for_each(show_function),
        }
        Ok(exit::SUCCESS)
    }

    fn covered(&self, measured: &[Measured]) -> Result<Covered> {
        if let Some(name) = &self.function {
            let functions = measured.iter().map(|measured| covered_functions(measured, name));
            return Ok(Covered::Functions(
                functions.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect(),
            ));
        }
        Ok(match self.never {
            true => Covered::Never(measured.iter().flat_map(never_run).collect()),
            false => Covered::Files(measured.iter().map(covered_files).collect()),
        })
    }

    /// Returns the run, and the files that are named.
    fn subject(&self) -> (PathBuf, &[String]) {
        match self.arguments.split_first() {
            Some((first, rest)) if Path::new(first).join("results.json").is_file() => (first.into(), rest),
            _ => (results().join("latest"), &self.arguments),
        }
    }
}

fn covered_files(measured: &Measured) -> CoveredFiles {
    let mut files = measured.files(&measured.ran());
    let functions = files.iter().fold(Share::default(), |sum, file| sum.and(file.functions));
    if !measured.has_lines() {
        files.clear();
    }
    let modules = measured.modules.iter().filter(|module| module.counted && !module.refused.is_empty());
    let refused = modules.map(|module| RefusedLoads {
        module: module.name.clone(),
        scenarios: module.refused.iter().cloned().collect(),
    });
    CoveredFiles {
        kernel: measured.kernel.name.clone(),
        scenarios: measured.scenarios.len(),
        functions,
        files,
        incomplete: measured.incomplete.to_vec(),
        refused: refused.collect(),
    }
}

fn show_files(covered: &CoveredFiles) {
    let CoveredFiles { kernel, scenarios, functions, files, incomplete, refused } = covered;
    println!("{kernel}: {scenarios} scenarios");
    if files.is_empty() {
        let Share { ran, all } = functions;
        let percent = functions.percent();
        println!("{ran} of {all} functions ran ({percent} %); files and lines are unknown");
        return;
    }
    let widest = files.iter().map(|file| file.file.len()).max().unwrap_or_default().max("file".len());
    println!("{:widest$}  {:>19} {:>19} {:>19}", "file", "lines", "functions", "branches");
    let mut all = FileCoverage { file: "all".to_owned(), functions: *functions, ..FileCoverage::default() };
    for file in files {
        println!("{}", row(file, widest));
        all.lines = all.lines.and(file.lines);
        all.branches = all.branches.and(file.branches);
    }
    println!("{}", row(&all, widest));
    for name in incomplete {
        println!("{name} ran more code than could be noted; it counts for what was noted");
    }
    for RefusedLoads { module, scenarios } in refused {
        let scenarios = scenarios.join(", ");
        println!("what {module} ran while the kernel refused to load it is not counted: {scenarios}");
    }
}

fn without_lines(measured: &Measured) -> String {
    format!("{} is a distribution kernel, whose lines are unknown", measured.kernel.name)
}

fn row(file: &FileCoverage, widest: usize) -> String {
    let share = |share: Share| format!("{:>6} of {:>5} {:>3} %", share.ran, share.all, share.percent());
    let FileCoverage { file, lines, functions, branches } = file;
    format!("{file:widest$}  {:>19} {:>19} {:>19}", share(*lines), share(*functions), share(*branches))
}

fn never_run(measured: &Measured) -> Vec<NeverRun> {
    let ran = measured.ran();
    let functions = measured.source.functions.iter().filter(|function| !ran.meets(&function.code));
    let never = functions.map(|function| NeverRun {
        kernel: measured.kernel.name.clone(),
        file: measured.source.files[function.file].clone(),
        function: function.name.clone(),
        during_boot: measured.boot.meets(&function.code),
    });
    never.collect()
}

fn show_never(functions: &[NeverRun]) {
    for of_file in functions.chunk_by(|one, next| one.file == next.file && one.kernel == next.kernel) {
        println!("{}", of_file[0].file);
        for NeverRun { function, during_boot, .. } in of_file {
            println!("  {function}{}", if *during_boot { "  (ran during boot)" } else { "" });
        }
    }
}

/// Returns each function of that name.
fn covered_functions(measured: &Measured, name: &str) -> Result<Vec<CoveredFunction>> {
    let is_it = |function: &&Function| function.name == name;
    let functions: Vec<_> = measured.source.functions.iter().filter(is_it).collect();
    if functions.is_empty() {
        let error = format!(
            "{} has no function `{name}` of its own in the files that are counted; name its file, or a function \
             that it is inlined into",
            measured.kernel.name
        );
        return Err(Usage(error).into());
    }
    if measured.has_lines() {
        let of_lines = measured.scenarios_of_lines();
        return functions.into_iter().map(|function| lines_of(measured, function, &of_lines)).collect();
    }
    let whole = functions.into_iter().map(|function| CoveredFunction {
        kernel: measured.kernel.name.clone(),
        function: name.to_owned(),
        file: None,
        lines: Vec::new(),
        run_by: measured.scenarios_of(function).into_iter().map(str::to_owned).collect(),
    });
    Ok(whole.collect())
}

/// Returns a function with its lines, given the scenarios that ran each line of the kernel.
fn lines_of(measured: &Measured, function: &Function, of_lines: &[Vec<&str>]) -> Result<CoveredFunction> {
    let source = &measured.source;
    let file = &source.files[function.file];
    let with_code: BTreeMap<u32, &[&str]> = source
        .lines_of(function)
        .into_iter()
        .map(|line| (source.lines[line].number, of_lines[line].as_slice()))
        .collect();
    let first = with_code.keys().next().copied().unwrap_or(1);
    let last = with_code.keys().next_back().copied().unwrap_or_default();
    let text = measured.text_of(file)?;
    let numbered = text.lines().zip(1_u32..).skip(first as usize - 1);
    let lines = numbered.take_while(|(_, number)| *number <= last).map(|(text, number)| CoveredLine {
        number,
        text: text.to_owned(),
        ran: with_code.get(&number).map(|scenarios| scenarios.len()),
    });
    let run_by: BTreeSet<&str> = with_code.values().copied().flatten().copied().collect();
    Ok(CoveredFunction {
        kernel: measured.kernel.name.clone(),
        function: function.name.clone(),
        file: Some(file.clone()),
        lines: lines.collect(),
        run_by: run_by.into_iter().map(str::to_owned).collect(),
    })
}

fn show_function(covered: &CoveredFunction) {
    let CoveredFunction { kernel, function, file, lines, run_by } = covered;
    match (file, lines.first()) {
        (Some(file), Some(first)) => println!("{function} on {kernel}, {file}:{}", first.number),
        _ => println!("{function} on {kernel}"),
    }
    for CoveredLine { number, text, ran } in lines {
        let count = match ran {
            None => String::new(),
            Some(0) => "never".to_owned(),
            Some(scenarios) => scenarios.to_string(),
        };
        println!("{count:>6} {number:>5}  {}", printable(text));
    }
    let run_by = if run_by.is_empty() { "no scenario".to_owned() } else { run_by.join(", ") };
    println!("run by: {run_by}");
}

/// The part of the lines that all scenarios run which those of `lab run --smoke` run, in percent.
const SMOKE: usize = 95;

/// Keeps a few scenarios that, as measured by the runs in `results`, run nearly all that all run, and prints
/// what they take.
pub(crate) fn keep_fewest(selection: &mut Selection, results: &Path) -> Result<()> {
    let mut wanted = BTreeSet::new();
    for kernel in &selection.kernels {
        let (measured, times) =
            measured_on(kernel, &best_run(results, kernel)?, &SourceFiles::of_tracing(root())?)?;
        let chosen = fewest(&measured, SMOKE, |scenario| times.get(kernel, scenario));
        let Fewest { scenarios, lines, of_lines, seconds, of_seconds } = chosen;
        println!(
            "{kernel}: {} of {} scenarios ran {lines} of {of_lines} lines, in {seconds:.0} of {of_seconds:.0} s of \
             machine time",
            scenarios.len(),
            measured.scenarios.len(),
        );
        wanted.extend(scenarios.into_iter().map(|name| (kernel.clone(), name)));
    }
    // What was measured may be out of the selection.
    selection.keep(&wanted);
    Ok(())
}

/// Returns the run below `results` that measured most scenarios on a kernel.
pub(crate) fn best_run(results: &Path, kernel: &str) -> Result<PathBuf> {
    let none =
        || Usage(format!("no coverage of {kernel} in `{}`: run `lab run --coverage`", results.display()));
    Ok(last_measured(results, kernel)?.ok_or_else(none)?)
}

/// Returns the coverage of a kernel in a run, and the times that its scenarios took.
pub(crate) fn measured_on(kernel: &str, run: &Path, files: &SourceFiles) -> Result<(Measured, Times)> {
    let measured = Measured::load(run, &Cache::open(&Progress::new())?, files)?;
    let measured = measured.into_iter().find(|measured| measured.kernel.name == kernel);
    let measured =
        measured.ok_or_else(|| Usage(format!("`{}` has no coverage of {kernel}", run.display())))?;
    if !measured.has_lines() {
        return Err(Usage(without_lines(&measured)).into());
    }
    Ok((measured, Times::of_results(&[run.to_owned()])?))
}
