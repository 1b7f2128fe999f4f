//! An interactive machine: a shell in its guest, or gdb on its kernel.
//!
//! It has the same contents as a scenario's machine: tracefs, the workloads, the lab's own modules.
//! The machine is always discarded at the end. Only a guest that died leaves files, for the
//! diagnosis.

mod gdb;
mod shell;
mod terminal;

pub use gdb::{Session, debug};
pub use shell::{ShellEnd, shell};

use crate::{
    context::Lab,
    guest::{self, Guest, Module},
    host::interrupt,
    kernel::{self, Kernel},
    machine::{Death, Machine, Snapshots, VMCORE, boot_userland, machine_spec},
    recording::{GuestFiles, Loaded, install},
    results::{PendingDirectory, RunDirectory},
    scenario::UserlandSpec,
    splat::{Binaries, decode, find},
    words::printable,
};
use anyhow::{Context, Error, Result, ensure};
use fs_err as fs;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// The directory of a machine's files below the directory of its run.
const DIRECTORY: &str = "live";

/// The userland that provides the shell of a restored machine, and the paths of the shell in it and
/// in the guest.
const TOOLS: (&str, &[&str], &str) = ("shell", &["usr/bin/busybox", "bin/busybox"], "/bin/busybox");

/// The specification of a machine.
#[derive(Clone, Debug)]
pub struct LiveSpec {
    /// A kernel of kernels/*.yaml.
    pub kernel: String,
    /// A local kernel tree that replaces the kernel's own source.
    pub kernel_tree: Option<PathBuf>,
    /// A whole userland, or a pristine machine.
    pub userland: Option<UserlandSpec>,
    /// Whether a pristine machine gets a shell and tools.
    pub tools: bool,
    /// Modules to load: the lab's own, or the kernel's.
    pub load: Vec<String>,
    /// The directory for the files of a guest that dies.
    pub results: PathBuf,
}

/// A running interactive machine.
pub struct LiveGuest {
    // Dropped before the directory that it writes to.
    machine: Machine,
    kernel: Kernel,
    modules: Vec<Module>,
    loaded: Vec<Loaded>,
    /// The programs of /workloads.
    workloads: Vec<String>,
    userland: bool,
    lab: Lab,
    place: PendingDirectory,
    run: RunDirectory,
}

impl LiveGuest {
    /// Builds what is missing and starts the machine.
    pub fn start(lab: &Lab, wish: &LiveSpec) -> Result<LiveGuest> {
        let kernel = kernel::build(lab, &wish.kernel, wish.kernel_tree.as_deref())?;
        let guest = guest::build(lab)?;
        let load = wish.load.iter().map(|name| guest.modules.find(&kernel, name));
        let load: Vec<Module> = load.collect::<Result<_>>()?;
        let mut modules = own_modules(lab, &guest, &kernel)?;
        modules.extend(load.iter().filter(|module| !modules.contains(module)).cloned().collect::<Vec<_>>());
        let programs = if wish.tools && wish.userland.is_none() { tools(&guest)? } else { vec![] };
        let run = RunDirectory::create(&wish.results, std::slice::from_ref(&kernel.name))?;
        let place = PendingDirectory::new(run.path(), DIRECTORY)?;
        let task = lab.progress.task("starting the machine", None);
        let started = boot(lab, wish, &kernel, &guest, place.path()).and_then(|mut machine| {
            let files = GuestFiles { programs, modules: modules.clone(), load };
            let loaded = install(&kernel, &mut machine, &guest, &files)?;
            Ok((machine, loaded))
        });
        drop(task);
        let (userland, lab) = (wish.userland.is_some(), lab.clone());
        match started {
            Ok((machine, loaded)) => {
                let workloads = guest.workloads.into_keys().collect();
                Ok(LiveGuest { machine, kernel, modules, loaded, workloads, userland, lab, place, run })
            }
            Err(death) => {
                let told = told(&death, &kernel, &modules, place.path());
                keep(&death, place, run)?;
                Err(Error::from(death)).with_context(|| format!("cannot start a machine{told}"))
            }
        }
    }

    /// Ends it. Returns a description of the death, if any, and of the files it leaves behind.
    pub fn end(self, death: Option<&Death>) -> Result<String> {
        let LiveGuest { machine, kernel, modules, place, run, .. } = self;
        drop(machine);
        let Some(death) = death else {
            drop(place);
            return clear(run).map(|()| String::new());
        };
        let mut text = format!("{death}{}", told(death, &kernel, &modules, place.path()));
        if let Some(directory) = keep(death, place, run)? {
            write!(text, "\nfiles: {}", directory.display())?;
            if directory.join(VMCORE).is_file() {
                write!(text, "\nvmcore: {}", directory.join(VMCORE).display())?;
            }
        }
        Ok(printable(&text))
    }
}

fn boot(
    lab: &Lab,
    wish: &LiveSpec,
    kernel: &Kernel,
    guest: &Guest,
    directory: &Path,
) -> Result<Machine, Death> {
    let spec = machine_spec(kernel, guest).map_err(Death::Lab)?;
    match &wish.userland {
        Some(wanted) => boot_userland(&spec, wanted, (kernel, guest), directory, |_| Ok(Vec::new())),
        None => {
            let snapshots = Snapshots::new(lab).map_err(Death::Lab)?;
            Machine::pristine(&spec, &snapshots, directory)
        }
    }
}

/// Returns the program that serves as a shell in a restored machine.
fn tools(guest: &Guest) -> Result<Vec<(String, PathBuf)>> {
    let (name, within, at) = TOOLS;
    let wanted = UserlandSpec::named(name).map_err(Error::msg)?;
    let tree = guest.userlands.tree(&wanted)?.path;
    let program = within.iter().map(|path| tree.join(path)).find(|path| path.is_file());
    let program = program.with_context(|| format!("`{}` has no busybox", tree.display()))?;
    Ok(vec![(at.to_owned(), program)])
}

/// Builds the lab's own modules. What a kernel cannot have, a local tree for example, is said and left out.
fn own_modules(lab: &Lab, guest: &Guest, kernel: &Kernel) -> Result<Vec<Module>> {
    let mut modules = Vec::new();
    for name in guest.modules.own() {
        match guest.modules.find(kernel, &name) {
            Ok(module) => modules.push(module),
            Err(error) if interrupt::check().is_err() => return Err(error),
            Err(error) => lab.progress.line(format!("without the module {name}: {error:#}")),
        }
    }
    Ok(modules)
}

/// Returns the splats on the console of a guest that panicked, with files and lines.
fn told(death: &Death, kernel: &Kernel, modules: &[Module], directory: &Path) -> String {
    if !matches!(death, Death::Panic { .. }) {
        return String::new();
    }
    let console = fs::read(directory.join("console.txt")).unwrap_or_default();
    let mut splats = find(&String::from_utf8_lossy(&console).replace('\r', ""));
    let binaries = Binaries {
        vmlinux: kernel.vmlinux(),
        modules: modules.iter().map(|module| (module.name.clone(), module.debug.clone())).collect(),
        roots: kernel.roots(),
    };
    // Without files and lines, the splats are still useful.
    let _ = decode(&mut splats, &binaries);
    splats.iter().map(|splat| format!("\n{splat}")).collect()
}

/// Keeps a dead guest's files, unless the lab was only interrupted.
fn keep(death: &Death, place: PendingDirectory, run: RunDirectory) -> Result<Option<PathBuf>> {
    if matches!(death, Death::Interrupted) {
        drop(place);
        return clear(run).map(|()| None);
    }
    place.put()?;
    Ok(Some(run.path().join(DIRECTORY)))
}

/// Removes the directory of a run that leaves nothing behind.
fn clear(run: RunDirectory) -> Result<()> {
    let path = run.path().to_owned();
    drop(run);
    ensure!(path.file_name().is_some(), "`{}` is not the directory of a run", path.display());
    Ok(fs::remove_dir(&path)?)
}
