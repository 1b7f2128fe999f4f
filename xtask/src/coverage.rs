//! `cargo xtask lab coverage`

use crate::{Usage, exit, results, root};
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
use std::{
    collections::BTreeSet,
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
        let mut lines = String::new();
        for measured in &measured {
            match (&self.function, &self.lcov) {
                (Some(name), _) => show_function(measured, name)?,
                (None, Some(_)) if !measured.has_lines() => {
                    return Err(Usage(without_lines(measured)).into());
                }
                (None, Some(_)) => lines += &lcov(measured),
                (None, None) if self.never => show_never(measured),
                (None, None) => show_files(measured),
            }
        }
        if let Some(path) = &self.lcov {
            fs::write(path, lines)?;
        }
        Ok(exit::SUCCESS)
    }

    /// Returns the run, and the files that are named.
    fn subject(&self) -> (PathBuf, &[String]) {
        match self.arguments.split_first() {
            Some((first, rest)) if Path::new(first).join("results.json").is_file() => (first.into(), rest),
            _ => (results().join("latest"), &self.arguments),
        }
    }
}

fn show_files(measured: &Measured) {
    println!("{}: {} scenarios", measured.kernel.name, measured.scenarios.len());
    let files = measured.files(&measured.ran());
    if !measured.has_lines() {
        let functions = files.iter().fold(Share::default(), |sum, file| sum.and(file.functions));
        println!(
            "{} of {} functions ran ({} %); files and lines are unknown",
            functions.ran,
            functions.all,
            functions.percent()
        );
        return;
    }
    let widest = files.iter().map(|file| file.file.len()).max().unwrap_or_default().max("file".len());
    println!("{:widest$}  {:>19} {:>19} {:>19}", "file", "lines", "functions", "branches");
    let mut all = FileCoverage { file: "all".to_owned(), ..FileCoverage::default() };
    for file in &files {
        println!("{}", row(file, widest));
        all.lines = all.lines.and(file.lines);
        all.functions = all.functions.and(file.functions);
        all.branches = all.branches.and(file.branches);
    }
    println!("{}", row(&all, widest));
    for name in &measured.incomplete {
        println!("{name} ran more code than could be noted; it counts for what was noted");
    }
    for module in measured.modules.iter().filter(|module| module.counted && !module.refused.is_empty()) {
        let scenarios = module.refused.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        println!("what {} ran while the kernel refused to load it is not counted: {scenarios}", module.name);
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

fn show_never(measured: &Measured) {
    let ran = measured.ran();
    let mut file = None;
    for function in measured.source.functions.iter().filter(|function| !ran.meets(&function.code)) {
        if file != Some(function.file) {
            println!("{}", measured.source.files[function.file]);
            file = Some(function.file);
        }
        let boot = if measured.boot.meets(&function.code) { "  (ran during boot)" } else { "" };
        println!("  {}{boot}", function.name);
    }
}

fn show_function(measured: &Measured, name: &str) -> Result<()> {
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
    let of_lines = measured.scenarios_of_lines();
    for function in functions {
        if !measured.has_lines() {
            println!("{name} on {}", measured.kernel.name);
            println!("run by: {}", listed(measured.scenarios_of(function)));
            continue;
        }
        let source = &measured.source;
        let lines = source.lines_of(function);
        let file = &source.files[function.file];
        let text = measured.text_of(file)?;
        let numbers: Vec<u32> = lines.iter().map(|line| source.lines[*line].number).collect();
        let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) else { continue };
        println!("{name} on {}, {file}:{first}", measured.kernel.name);
        let mut who: Vec<&str> = Vec::new();
        let numbered = text.lines().zip(1_u32..).skip(*first as usize - 1);
        for (line, number) in numbered.take_while(|(_, number)| number <= last) {
            let place = lines.iter().find(|line| source.lines[**line].number == number);
            let count = match place.map(|line| &of_lines[*line]) {
                None => String::new(),
                Some(scenarios) if scenarios.is_empty() => "never".to_owned(),
                Some(scenarios) => {
                    who.extend(scenarios);
                    scenarios.len().to_string()
                }
            };
            println!("{count:>6} {number:>5}  {}", printable(line));
        }
        who.sort_unstable();
        who.dedup();
        println!("run by: {}", listed(who));
    }
    Ok(())
}

fn listed(scenarios: Vec<&str>) -> String {
    if scenarios.is_empty() { "no scenario".to_owned() } else { scenarios.join(", ") }
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
