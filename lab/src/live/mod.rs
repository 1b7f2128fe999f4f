//! A machine under a person's hands instead of a scenario's: a shell in its guest, gdb on its kernel.
//!
//! It has what a scenario's machine has: tracefs, the workloads, the lab's own modules. Whatever ends
//! it, nothing runs on; only a guest that died leaves files, for they say why.

mod gdb;
mod shell;
mod terminal;

pub use gdb::{Session, debug};
pub use shell::{Left, shell};

use crate::{
    cache::Cache,
    guest::{self, Guest, Module},
    kernel::{self, Kernel},
    machine::{Death, Machine, Snapshots, VMCORE},
    progress::Progress,
    recording::{Furniture, Loaded, furnish},
    report::{Place, RunDirectory, printable},
    run::{boot_userland, machine_spec},
    scenario::WantedUserland,
    verdict::{Binaries, decode, find_splats},
};
use anyhow::{Context, Error, Result, ensure};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The directory of a machine's files below that of its run.
const DIRECTORY: &str = "live";

/// The userland that brings a restored machine its shell, and where the shell is in it and in the guest.
const TOOLS: (&str, &[&str], &str) = ("shell", &["usr/bin/busybox", "bin/busybox"], "/bin/busybox");

/// What machine is wanted.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The repository.
    pub root: PathBuf,
    /// A kernel of kernels/*.yaml.
    pub kernel: String,
    /// A local kernel tree that takes the place of its own source.
    pub kernel_tree: Option<PathBuf>,
    /// A whole userland, or a pristine machine.
    pub userland: Option<WantedUserland>,
    /// Whether a pristine machine gets a shell and its tools.
    pub tools: bool,
    /// Modules that are loaded: the lab's own, or the kernel's.
    pub load: Vec<String>,
    /// Where the files of a guest that dies go.
    pub results: PathBuf,
}

/// The machine.
pub struct Live {
    // Before the directory that it writes to.
    machine: Machine,
    kernel: Kernel,
    modules: Vec<Module>,
    loaded: Vec<Loaded>,
    /// The programs of /workloads.
    workloads: Vec<String>,
    userland: bool,
    root: PathBuf,
    cache: Cache,
    place: Place,
    run: RunDirectory,
}

impl Live {
    /// Builds what is not built yet, and starts the machine.
    pub fn start(cache: &Cache, wish: &Wish, progress: &Progress) -> Result<Live> {
        let kernel = kernel::build(cache, &wish.root, &wish.kernel, wish.kernel_tree.as_deref(), progress)?;
        let guest = guest::build(cache, &wish.root, progress)?;
        let find = |names: &[String]| -> Result<Vec<Module>> {
            names.iter().map(|name| guest.modules.find(&kernel, name)).collect()
        };
        let (mut modules, load) = (find(&guest.modules.own())?, find(&wish.load)?);
        modules.extend(load.iter().filter(|module| !modules.contains(module)).cloned().collect::<Vec<_>>());
        let programs = if wish.tools && wish.userland.is_none() { tools(&guest)? } else { vec![] };
        let run = RunDirectory::create(&wish.results, std::slice::from_ref(&kernel.name))?;
        let place = Place::new(run.path(), DIRECTORY)?;
        let task = progress.task("starting the machine", None);
        let started = boot(cache, wish, &kernel, &guest, place.path(), progress).and_then(|mut machine| {
            let furniture = Furniture { programs, modules: modules.clone(), load };
            let loaded = furnish(&kernel, &mut machine, &guest, &furniture)?;
            Ok((machine, loaded))
        });
        drop(task);
        let (userland, cache) = (wish.userland.is_some(), cache.clone());
        match started {
            Ok((machine, loaded)) => {
                let (workloads, root) = (guest.workloads.into_keys().collect(), wish.root.clone());
                Ok(Live { machine, kernel, modules, loaded, workloads, userland, root, cache, place, run })
            }
            Err(death) => {
                let told = told(&death, &kernel, &modules, place.path());
                keep(&death, place, run)?;
                Err(Error::from(death)).with_context(|| format!("cannot start a machine{told}"))
            }
        }
    }

    /// Ends it. What it leaves behind, if it died, and where, is the text.
    pub fn end(self, death: Option<&Death>) -> Result<String> {
        let Live { machine, kernel, modules, place, run, .. } = self;
        drop(machine);
        let Some(death) = death else {
            drop(place);
            return clear(run).map(|()| String::new());
        };
        let mut text = format!("{death}{}", told(death, &kernel, &modules, place.path()));
        if let Some(directory) = keep(death, place, run)? {
            write!(text, "\nfiles: {}", directory.display())?;
            if directory.join(VMCORE).is_file() {
                write!(text, "\nmemory, for crash and drgn: {}", directory.join(VMCORE).display())?;
            }
        }
        Ok(printable(&text))
    }
}

fn boot(
    cache: &Cache,
    wish: &Wish,
    kernel: &Kernel,
    guest: &Guest,
    directory: &Path,
    progress: &Progress,
) -> Result<Machine, Death> {
    let spec = machine_spec(kernel, guest).map_err(Death::Lab)?;
    match &wish.userland {
        Some(wanted) => boot_userland(&spec, wanted, guest, directory, |_| Ok(Vec::new())),
        None => {
            let snapshots = Snapshots::new(cache, progress).map_err(Death::Lab)?;
            Machine::pristine(&spec, &snapshots, directory)
        }
    }
}

/// The program that a restored machine has for a shell.
fn tools(guest: &Guest) -> Result<Vec<(String, PathBuf)>> {
    let (name, within, at) = TOOLS;
    let wanted = WantedUserland::named(name).map_err(Error::msg)?;
    let tree = guest.userlands.tree(&wanted)?.path;
    let program = within.iter().map(|path| tree.join(path)).find(|path| path.is_file());
    let program = program.with_context(|| format!("`{}` has no busybox", tree.display()))?;
    Ok(vec![(at.to_owned(), program)])
}

/// What the console tells of a guest's death: splats, with files and lines.
fn told(death: &Death, kernel: &Kernel, modules: &[Module], directory: &Path) -> String {
    if !matches!(death, Death::Panic { .. }) {
        return String::new();
    }
    let console = fs::read(directory.join("console.txt")).unwrap_or_default();
    let mut splats = find_splats(&String::from_utf8_lossy(&console).replace('\r', ""));
    let binaries = Binaries {
        vmlinux: kernel.vmlinux(),
        modules: modules.iter().map(|module| (module.name.clone(), module.debug.clone())).collect(),
        roots: vec![kernel.directory.clone(), kernel.source.clone()],
    };
    // Without files and lines they still say what happened.
    let _ = decode(&mut splats, &binaries);
    splats.iter().map(|splat| format!("\n{splat}")).collect()
}

/// Puts a dead guest's files in place, unless the lab was merely told to stop.
fn keep(death: &Death, place: Place, run: RunDirectory) -> Result<Option<PathBuf>> {
    if matches!(death, Death::Interrupted) {
        drop(place);
        return clear(run).map(|()| None);
    }
    place.put()?;
    Ok(Some(run.path().join(DIRECTORY)))
}

/// Removes the directory of a run that leaves nothing.
fn clear(run: RunDirectory) -> Result<()> {
    let path = run.path().to_owned();
    drop(run);
    ensure!(path.file_name().is_some(), "`{}` is no directory of a run", path.display());
    fs::remove_dir(&path).with_context(|| format!("cannot remove `{}`", path.display()))
}
