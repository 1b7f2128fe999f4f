//! `cargo xtask lab module`

use crate::{
    Usage, complete, exit,
    json::{self, Json},
    merge::reproducer,
    place::{results, root},
    run::code,
    setup::Setup,
};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::{
    checks::Checked,
    host::{prerequisites::Need, scratch::Scratch},
    init::Subject,
    kernel,
    report::{Terminal, summary},
    results::{Results, Status},
    run::{Event, Options, Prepared, Reporter, default_jobs, kernels, prepare_on, run, select::Selection},
    scenario::{self, Project},
    words::printable,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The kernels on which a module is checked unless others are named.
const KERNELS: [&str; 4] = ["debian-12", "debian-13", "6.12-kasan", "6.12-lockdep"];

/// Maximum number of lines that a failure takes on the terminal.
const LINES_MAX: usize = 12;

/// Check a module, without any scenario: build, load, use and unload it on several kernels
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab module .                                     the module of this directory\n  \
    cargo xtask lab module . --kernel debian-13 --kernel 6.12    on these kernels\n  \
    cargo xtask lab module . --parameters 'function=vfs_read' --parameters 'function=vfs_write depth=2'\n  \
    cargo xtask lab module . --exercise 'cat /proc/mine'         use it in this way, too\n  \
    cargo xtask lab module . --eject scenarios/module            write the scenarios, to change them\n\n\
    It is loaded and unloaded, twice and a hundred times, alone, while both CPUs call what it hooks, and beside \
    livepatches of these functions. A check fails if the module does not build, load or unload, if the kernel warns \
    or is tainted, if a function that it hooks is not called on each CPU, or if probes, hooks, files or memory are \
    left behind. 6.12-kasan finds a use of freed memory, 6.12-lockdep sleeping and locking where it is not \
    allowed; both are built when they are first used.\n\n\
    Exit codes: 0 all passed (unsupported allowed), 1 at least one check failed, 2 usage error, 3 the lab itself failed.")]
pub(crate) struct Module {
    /// The directory of the module
    directory: PathBuf,
    /// The module, if the directory builds several
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A kernel of kernels/*.yaml, `all`, or a version range of plain kernels such as '>=6.1' (repeatable)
    /// [default: debian-12, debian-13, 6.12-kasan, 6.12-lockdep]
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// Values of its parameters, as for insmod; each is tried (repeatable) [default: none]
    #[arg(long, value_name = "NAME=VALUE…")]
    parameters: Vec<String>,
    /// A shell script that uses the module while it is loaded, and that succeeds without it, too
    #[arg(long, value_name = "SCRIPT")]
    exercise: Option<String>,
    /// A check to leave out, such as `livepatch` for a module that is meant to be alone on a function (repeatable)
    #[arg(long, value_name = "CHECK")]
    without: Vec<String>,
    /// The command that builds it instead of kbuild, as in ftrace-lab.yaml: 'make KDIR=${kernel}'
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// Write the scenarios to this directory instead of running them
    #[arg(long, value_name = "DIR", conflicts_with = "wanted")]
    eject: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
    #[command(flatten)]
    setup: Setup,
}

/// What became of a module on several kernels.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ModuleChecks {
    checks: Vec<ModuleCheck>,
    /// The results of those that ran, if one did.
    directory: Option<PathBuf>,
}

/// A check on a kernel.
#[derive(Serialize, JsonSchema)]
struct ModuleCheck {
    kernel: String,
    /// `builds`, or the name of a check.
    check: String,
    status: Status,
    /// Why it did not pass.
    reason: String,
    /// The command that does it again, if it failed.
    reproduce: Option<String>,
}

impl Module {
    pub(crate) fn run(self) -> Result<u8> {
        let Found { name, source, build } = self.find()?;
        let checked = Checked {
            source: &source,
            name: &name,
            build: build.as_deref(),
            parameters: &self.parameters,
            exercise: self.exercise.as_deref(),
        };
        let checks = without(checked.scenarios().map_err(Usage)?, &self.without)?;
        if let Some(directory) = &self.eject {
            return eject(&checks, directory);
        }
        let named =
            if self.kernels.is_empty() { KERNELS.map(str::to_owned).to_vec() } else { self.kernels.clone() };
        let chosen = kernel::choose(root(), &named)?;
        let lab = self.setup.ensure(Need::Run)?;
        let place = Scratch::new(&lab.cache)?;
        write(&checks, &place.path().join(&name))?;
        let selection = Selection::all(chosen, scenario::select(place.path(), &[])?);
        let built = kernels(&lab, &selection.kernels, None)?;
        let mut options = Options { jobs: default_jobs(), ..Options::new(root(), selection, &results()) };
        let prepared = prepare_on(&lab, &options, built)?;
        let unbuilt = keep_built(&mut options.selection, &prepared);
        let mut ran = None;
        if !options.selection.cases.is_empty() {
            let terminal = Terminal::new(false);
            let mut reporter = Reporter::new(&lab.progress);
            ran = Some(run(&prepared, &options, |event| {
                reporter.draw(&event);
                if let Event::Result { result, directory } = event
                    && (!result.status.is_good() || result.status == Status::Unsupported)
                {
                    lab.progress.suspend(|| print!("{}", beginning(&terminal.result(result, directory))));
                }
            })?);
        }
        let names: Vec<&str> = checks.iter().map(|(name, _)| name.as_str()).collect();
        let all = all_checks(&prepared, &unbuilt, ran.as_ref());
        println!("\n{}", table(&all, &prepared, &names));
        for ModuleCheck { kernel, check, reproduce, .. } in &all {
            if let Some(command) = reproduce {
                println!("{check} on {kernel}: {command}");
            }
        }
        if let Some((results, directory)) = &ran {
            println!("{}\nresults: {}", summary(results), directory.display());
        }
        if self.json.wanted {
            let directory = ran.as_ref().map(|(_, directory)| directory.clone());
            json::print(&ModuleChecks { checks: all, directory })?;
        }
        let code = ran.as_ref().map_or(exit::SUCCESS, |(results, _)| code(results));
        Ok(if unbuilt.is_empty() { code } else { code.max(exit::FAILED) })
    }

    /// Returns the module to check: built as the project says, if that has it, else as its directory does.
    fn find(&self) -> Result<Found> {
        let above = fs::canonicalize(&self.directory)?;
        let all = match Subject::of(&above) {
            Ok(Subject::Modules(modules)) => modules,
            _ => Vec::new(),
        };
        let wanted = |(name, _): &&(String, PathBuf)| self.name.as_ref().is_none_or(|wanted| wanted == name);
        let found: Vec<_> = all.iter().filter(wanted).collect();
        let shown = above.display();
        let (name, below) = match (&self.name, found.as_slice()) {
            (_, [(name, below)]) => (name.clone(), below.as_path()),
            (Some(name), []) => (name.clone(), Path::new("")),
            (None, []) => {
                return Err(
                    Usage(format!("no `obj-m` in `{shown}` names a module; name it with --name")).into()
                );
            }
            (_, several) => return Err(Usage(ambiguous(&above, several)).into()),
        };
        if self.build.is_some() {
            return Ok(Found { name, source: above, build: self.build.clone() });
        }
        let own = Project::above(&above)?.and_then(|project| project.module_build(&name));
        Ok(match own.filter(|(source, _)| source.starts_with(&above)) {
            Some((source, build)) => Found { name, source, build },
            None => Found { name, source: above.join(below).components().collect(), build: None },
        })
    }
}

/// Returns the checks that are not left out.
fn without(all: Vec<(String, String)>, left_out: &[String]) -> Result<Vec<(String, String)>> {
    if let Some(unknown) = left_out.iter().find(|name| all.iter().all(|(check, _)| check != *name)) {
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Usage(format!("no check `{unknown}`; there are: {}", names.join(", "))).into());
    }
    Ok(all.into_iter().filter(|(name, _)| !left_out.contains(name)).collect())
}

/// The module to check.
struct Found {
    name: String,
    source: PathBuf,
    build: Option<String>,
}

/// Says how to select one of several modules below a directory.
fn ambiguous(above: &Path, several: &[&(String, PathBuf)]) -> String {
    let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
    let shown = above.display();
    if names.iter().all(|name| *name == names[0]) {
        let places = several.iter().map(|(_, below)| format!("`{}`", above.join(below).display()));
        let places: Vec<String> = places.collect();
        return format!("{} each build `{}`; check one of these directories", places.join(" and "), names[0]);
    }
    format!("`{shown}` builds {}; select one with --name", names.join(", "))
}

fn write(checks: &[(String, String)], directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    Ok(checks.iter().try_for_each(|(name, text)| fs::write(directory.join(format!("{name}.yaml")), text))?)
}

fn eject(checks: &[(String, String)], directory: &Path) -> Result<u8> {
    if let Some((name, _)) = checks.iter().find(|(name, _)| directory.join(format!("{name}.yaml")).exists()) {
        let message =
            format!("`{}/{name}.yaml` already exists; choose another directory", directory.display());
        return Err(Usage(message).into());
    }
    write(checks, directory)?;
    println!("wrote {} scenarios to {}", checks.len(), directory.display());
    Ok(exit::SUCCESS)
}

/// Keeps the kernels for which the module builds. Prints why it does not for the others, and returns their names
/// and why.
fn keep_built(selection: &mut Selection, prepared: &Prepared) -> BTreeMap<String, String> {
    let mut unbuilt = BTreeMap::new();
    let Some((_, scenario)) = selection.scenarios.first() else { return unbuilt };
    for (index, kernel) in prepared.kernels.iter().enumerate() {
        if let Err(error) = prepared.guest.modules.of(scenario, kernel) {
            let why = format!("{error:#}");
            println!("failed       builds on {}\n  {}", kernel.name, printable(&why));
            selection.cases.retain(|case| case.kernel != index);
            unbuilt.insert(kernel.name.clone(), why);
        }
    }
    unbuilt
}

/// Returns the first lines of a failure: a check of a hundred loads may fail in each of its steps.
fn beginning(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.get(LINES_MAX..) {
        Some(rest) if rest.len() > 1 => {
            format!("{}\n  … {} more lines\n", lines[..LINES_MAX].join("\n"), rest.len())
        }
        _ => text.to_owned(),
    }
}

/// Returns the checks by kernel, beginning with whether the module builds.
fn all_checks(
    prepared: &Prepared,
    unbuilt: &BTreeMap<String, String>,
    ran: Option<&(Results, PathBuf)>,
) -> Vec<ModuleCheck> {
    let of_kernel = |kernel: &str| {
        let why = unbuilt.get(kernel);
        let builds = ModuleCheck {
            kernel: kernel.to_owned(),
            check: "builds".to_owned(),
            status: if why.is_some() { Status::Failed } else { Status::Passed },
            reason: why.cloned().unwrap_or_default(),
            reproduce: None,
        };
        let ran = ran
            .into_iter()
            .flat_map(|(results, directory)| results.scenarios.iter().map(move |result| (result, directory)));
        let ran = ran.filter(|(result, _)| result.kernel == kernel).map(|(result, directory)| ModuleCheck {
            kernel: kernel.to_owned(),
            check: result.name.rsplit('/').next().unwrap_or_default().to_owned(),
            status: result.status,
            reason: result.reason.clone(),
            reproduce: result.reproducer.as_ref().map(|_| reproducer(result, directory)),
        });
        [builds].into_iter().chain(ran).collect::<Vec<_>>()
    };
    prepared.kernels.iter().flat_map(|kernel| of_kernel(&kernel.name)).collect()
}

/// Returns a table, kernel × check.
fn table(checks: &[ModuleCheck], prepared: &Prepared, names: &[&str]) -> String {
    let kernels = || prepared.kernels.iter().map(|kernel| kernel.name.as_str());
    let width = kernels().map(str::len).max().unwrap_or_default();
    let mut lines = vec![format!("{:width$}  builds  {}", "", names.join("  "))];
    for kernel in kernels() {
        let cells = ["builds"].iter().chain(names).map(|name| {
            let is_it = |check: &&ModuleCheck| check.kernel == kernel && check.check == *name;
            let status = checks.iter().find(is_it).map(|check| check.status);
            format!("{:cell$}", status.map_or("-", mark), cell = name.len())
        });
        lines.push(format!("{kernel:width$}  {}", cells.collect::<Vec<_>>().join("  ")));
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Passed => "ok",
        Status::Unsupported => "n/a",
        _ => "FAIL",
    }
}
