//! Machines as they are right after boot, for a fraction of its price.
//!
//! A snapshot is made on first need: a machine boots with its memory in a file, is stopped once the
//! agent has answered, and QEMU writes the rest of the machine's state to a second file. Any number
//! of machines can be restored from the two at once; each has its own copy of the pages it writes.
//! A snapshot that does not restore is made again, and where that does not help the machine boots.
//!
//! Machines of one snapshot begin alike to the last bit: the same uptime and wall-clock time, the
//! same addresses, and a random generator in the same state, which the kernel stirs with what
//! happens from there on. A machine that has to differ is one to boot.

use super::{Asleep, BOOT_DEADLINE, Death, Machine, MachineSpec, monitor::Monitor, qemu::Memory};
use crate::{
    cache::{Cache, Key},
    host::interrupt,
    progress::Progress,
    scenario::DEFAULT_BUFFER_KB,
};
use anyhow::{Context, Result, anyhow, bail};
use protocol::{Request, WriteMode};
use qapi::qmp;
use std::{
    collections::BTreeSet,
    fs::File,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

mod key;
mod shelf;
mod sparse;

use shelf::{Held, Shelf};

/// The guest's memory, a sparse file as large as it.
const RAM: &str = "ram";

/// Everything else: registers, devices.
const STATE: &str = "state";

/// Below tracefs, what nearly every scenario starts with: filling a ring buffer with pages is a tenth of
/// a second under emulation, once for all machines.
const PREPARED: (&str, u32) = ("buffer_size_kb", DEFAULT_BUFFER_KB);

/// What a boot has put off until later (initcalls that run asynchronously, freeing of its own
/// memory) is done once for all machines.
const SETTLE: Duration = Duration::from_millis(300);

/// How long a machine may take from QEMU's start to the agent's answer. On an idle host it is a
/// quarter of a second.
pub(super) const RESTORE_DEADLINE: Duration = Duration::from_secs(20);

/// How long QEMU may take to write or read a machine's state.
const MIGRATION_DEADLINE: Duration = Duration::from_secs(20);

/// The snapshots in a cache.
#[derive(Debug)]
pub struct Snapshots {
    shelf: Shelf,
    qemu: key::Qemu,
    progress: Progress,
    /// Held by whoever makes one.
    making: Mutex<()>,
    /// Those that did not even restore when they were new: no time is lost on them again.
    hopeless: Mutex<BTreeSet<String>>,
}

impl Snapshots {
    /// Those in `cache`. What goes wrong with one is told on `progress`.
    pub fn new(cache: &Cache, progress: &Progress) -> Result<Snapshots> {
        Ok(Snapshots {
            shelf: Shelf::new(cache)?,
            qemu: key::Qemu::of_host()?,
            progress: progress.clone(),
            making: Mutex::default(),
            hopeless: Mutex::default(),
        })
    }

    /// The key of a machine's snapshot: everything that shapes it.
    pub fn key(&self, spec: &MachineSpec) -> Result<Key> {
        self.qemu.key(spec)
    }

    /// The snapshot, made if it is not there. `directory` gets the console of the boot.
    fn get(&self, spec: &MachineSpec, key: &Key, directory: &Path) -> Result<Held> {
        if let Some(held) = self.shelf.find(key) {
            return Ok(held);
        }
        // Only what another lab makes has to be explained.
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = || self.progress.line("a snapshot of this machine is being made; waiting for it");
        self.shelf.get(key, waiting, |entry| {
            let _task = self.progress.task("making a snapshot of the booted machine", None);
            make(spec, directory, entry)
        })
    }

    /// The snapshot, if it is there and was not found to be of no use.
    fn find(&self, spec: &MachineSpec) -> Option<Held> {
        let key = self.key(spec).ok()?;
        if self.is_hopeless(&key) { None } else { self.shelf.find(&key) }
    }

    fn is_hopeless(&self, key: &Key) -> bool {
        self.hopeless.lock().is_ok_and(|hopeless| hopeless.contains(key.as_str()))
    }

    /// Restores a machine; what did not work in the end is the error.
    fn machine(&self, spec: &MachineSpec, key: &Key, directory: &Path) -> Result<Machine> {
        let first = self.get(spec, key, directory)?;
        let made_now = first.made_now;
        let death = match restore(spec, first, directory) {
            Ok(machine) => return Ok(machine),
            Err((death, held)) => {
                self.shelf.discard(&held);
                death
            }
        };
        if interrupt::check().is_err() || made_now {
            return Err(death.into());
        }
        self.progress.line(format!("warning: a snapshot did not restore and is made again: {death}"));
        let second = self.get(spec, key, directory)?;
        restore(spec, second, directory).map_err(|(death, held)| {
            self.shelf.discard(&held);
            death.into()
        })
    }
}

impl Machine {
    /// A machine as it is right after boot: restored from a snapshot, which is made if it is not
    /// there, or else booted, with a warning. `directory` gets `console.txt` and `qemu.log`.
    pub fn pristine(spec: &MachineSpec, snapshots: &Snapshots, directory: &Path) -> Result<Machine, Death> {
        let key = snapshots.key(spec).map_err(Death::Lab)?;
        if !snapshots.is_hopeless(&key) {
            match snapshots.machine(spec, &key, directory) {
                Ok(machine) => return Ok(machine),
                Err(_) if interrupt::check().is_err() => return Err(Death::Interrupted),
                Err(error) => match error.downcast::<FailedBoot>() {
                    Ok(FailedBoot(death)) => return Err(death),
                    Err(error) => {
                        let line = format!("warning: no snapshot can be used, machines boot: {error:#}");
                        snapshots.progress.line(line);
                    }
                },
            }
            if let Ok(mut hopeless) = snapshots.hopeless.lock() {
                hopeless.insert(key.as_str().to_owned());
            }
        }
        Machine::boot(spec, directory, BOOT_DEADLINE)
    }
}

impl Asleep {
    /// Restores a machine and stops it behind the agent's first word; `None` if there is no snapshot of
    /// it yet, or none that can be used: [`Machine::pristine`] makes one, and has the warnings.
    /// `directory` gets what it would get there.
    pub fn restore(spec: &MachineSpec, snapshots: &Snapshots, directory: &Path) -> Option<Asleep> {
        let held = snapshots.find(spec)?;
        let mut asleep = load(spec, &held, directory).ok()?.warm().ok()?;
        asleep.0.snapshot = Some(held.lock);
        Some(asleep)
    }
}

/// The boot for a snapshot failed as any other boot would have.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct FailedBoot(Death);

/// Boots a machine and leaves its memory and state in `entry`.
fn make(spec: &MachineSpec, directory: &Path, entry: &Path) -> Result<()> {
    let (ram, state) = (entry.join(RAM), entry.join(STATE));
    let file = File::create(&state).with_context(|| format!("cannot make `{}`", state.display()))?;
    let mut machine = Machine::start(spec, Memory::Kept(&ram), directory)?;
    machine.greet(BOOT_DEADLINE).map_err(FailedBoot)?;
    machine.prepare().map_err(FailedBoot)?;
    thread::sleep(SETTLE);
    machine.save(&file).context("QEMU cannot save the machine")?;
    // QEMU has to be gone before the files are as they will stay.
    drop(machine);
    sparse::dig_holes(&ram).with_context(|| format!("cannot dig holes into `{}`", ram.display()))?;
    file.sync_all().with_context(|| format!("cannot write `{}`", state.display()))
}

/// Starts a machine from a snapshot. A failure gives the snapshot back.
fn restore(spec: &MachineSpec, held: Held, directory: &Path) -> Result<Machine, (Death, Held)> {
    match load(spec, &held, directory).map_err(Death::Lab).and_then(Asleep::wake) {
        Ok(mut machine) => {
            machine.snapshot = Some(held.lock);
            Ok(machine)
        }
        Err(death) => Err((death, held)),
    }
}

/// Has a new QEMU load a machine, which does not run yet.
fn load(spec: &MachineSpec, held: &Held, directory: &Path) -> Result<Asleep> {
    let path = held.path.join(STATE);
    let state = File::open(&path).with_context(|| format!("cannot open `{}`", path.display()))?;
    let memory = held.path.join(RAM);
    let mut machine = Machine::start(spec, Memory::Copied(&memory), directory)?;
    machine.load(&state).with_context(|| {
        let said = machine.last_words();
        format!("QEMU cannot load the machine\n{}", crate::host::process::tail(&said, 12))
    })?;
    Ok(Asleep(machine))
}

impl Machine {
    /// Whether a file below tracefs has this in it from the start. To write the same size again would cost
    /// the guest a wait for RCU and a walk over all pages.
    pub fn is_prepared(&self, file: &str, text: &str) -> bool {
        let (prepared, kilobytes) = PREPARED;
        self.snapshot.is_some() && file == prepared && text == kilobytes.to_string()
    }

    /// A kernel without tracefs has nothing to prepare.
    fn prepare(&mut self) -> Result<(), Death> {
        let (file, kilobytes) = PREPARED;
        let data = format!("{kilobytes}\n").into_bytes();
        let write = Request::WriteFile { path: file.into(), data, mode: WriteMode::Truncate };
        self.call(&write, BOOT_DEADLINE).map(drop)
    }

    /// Stops the guest and has QEMU write everything but its memory to the file.
    fn save(&mut self, state: &File) -> Result<()> {
        self.monitor.execute(&qmp::stop {})?;
        self.monitor.leave_memory_in_place()?;
        self.monitor.hand_over(STATE, state)?;
        let uri = Some(format!("fd:{STATE}"));
        self.monitor.execute(&qmp::migrate { channels: None, detach: None, resume: None, uri })?;
        self.monitor.wait_for_migration()
    }

    /// Has QEMU read what [`Machine::save`] wrote. The guest stays as stopped as it was then.
    fn load(&mut self, state: &File) -> Result<()> {
        self.monitor.leave_memory_in_place()?;
        self.monitor.hand_over(STATE, state)?;
        let uri = Some(format!("fd:{STATE}"));
        self.monitor.execute(&qmp::migrate_incoming { channels: None, exit_on_error: None, uri })?;
        self.monitor.wait_for_migration()
    }
}

impl Monitor {
    /// Memory that is a shared file is no part of the state that is written or read.
    fn leave_memory_in_place(&mut self) -> Result<()> {
        let capability = qmp::MigrationCapability::x_ignore_shared;
        let capabilities = vec![qmp::MigrationCapabilityStatus { capability, state: true }];
        self.execute(&qmp::migrate_set_capabilities { capabilities })?;
        Ok(())
    }

    fn wait_for_migration(&mut self) -> Result<()> {
        let until = Instant::now() + MIGRATION_DEADLINE;
        loop {
            let info = self.execute(&qmp::query_migrate {})?;
            match info.status {
                Some(qmp::MigrationStatus::completed) => return Ok(()),
                Some(qmp::MigrationStatus::failed | qmp::MigrationStatus::cancelled) => {
                    return Err(anyhow!("{}", info.error_desc.unwrap_or("it does not say why".into())));
                }
                _ if Instant::now() > until => {
                    bail!("it is not done after {} s", MIGRATION_DEADLINE.as_secs())
                }
                _ => interrupt::check()?,
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
