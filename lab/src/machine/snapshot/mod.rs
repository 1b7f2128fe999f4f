//! Machines in their state right after boot, at a fraction of the cost of a boot.
//!
//! A snapshot is made on first use: a machine boots with its memory in a file and is stopped once
//! the agent has answered, then QEMU saves the rest of the machine's state to a second file. Any
//! number of machines can be restored from the two files at once; each has its own copy of the
//! pages it writes. A snapshot that cannot be restored is made again, and if that does not help,
//! machines boot.
//!
//! Machines restored from one snapshot start bit-for-bit identical: the same uptime, wall-clock
//! time and addresses, and the same random number generator state, to which the kernel adds later
//! events. To get a different machine, boot one.

use super::{BOOT_DEADLINE, Death, Machine, MachineSpec, StandbyMachine, monitor::Monitor, qemu::Memory};
use crate::{cache::Key, context::Lab, host::interrupt, progress::Progress, scenario::DEFAULT_BUFFER_KB};
use anyhow::{Context, Result, anyhow, bail};
use fs_err::File;
use protocol::{Request, WriteMode};
use qapi::qmp;
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

mod key;
mod sparse;
mod store;

use store::{SnapshotLease, SnapshotStore};

/// The guest's memory, a sparse file of the same size.
const RAM: &str = "ram";

/// Everything else: registers, devices.
const STATE: &str = "state";

/// A setting below tracefs that nearly every scenario starts with. Filling a ring buffer with pages
/// takes a tenth of a second under emulation; here it is done once for all machines.
const PREPARED: (&str, u32) = ("buffer_size_kb", DEFAULT_BUFFER_KB);

/// Time for the kernel to finish what boot deferred (asynchronous initcalls, freeing of init
/// memory), once for all machines.
const SETTLE: Duration = Duration::from_millis(300);

/// The time limit from QEMU's start to the agent's answer. An idle host needs a quarter of a
/// second.
pub(super) const RESTORE_DEADLINE: Duration = Duration::from_secs(20);

/// The time limit for QEMU to save or load a machine's state.
const MIGRATION_DEADLINE: Duration = Duration::from_secs(20);

/// The snapshots in a cache.
#[derive(Debug)]
pub struct Snapshots {
    shelf: SnapshotStore,
    qemu: key::Qemu,
    progress: Progress,
    /// Held while making a snapshot.
    making: Mutex<()>,
    /// Whether QEMU can open their files: it opens those of memory for writing, although it writes to a copy.
    is_usable: bool,
    /// Snapshots that could not be restored even when new, so that no time is wasted on them again.
    hopeless: Mutex<BTreeSet<String>>,
}

impl Snapshots {
    /// Opens the snapshots in the lab's cache. Problems are reported as lines of its progress.
    pub fn new(lab: &Lab) -> Result<Snapshots> {
        let is_usable = lab.cache.is_writable(store::KIND);
        if !is_usable {
            let root = lab.cache.root().display();
            let line = format!(
                "warning: cannot write to the cache `{root}`, booting machines instead of restoring snapshots"
            );
            lab.progress.line(line);
        }
        Ok(Snapshots {
            is_usable,
            shelf: SnapshotStore::new(&lab.cache)?,
            qemu: key::Qemu::of_host()?,
            progress: lab.progress.clone(),
            making: Mutex::default(),
            hopeless: Mutex::default(),
        })
    }

    /// Returns the key of a machine's snapshot, which covers everything that affects it.
    pub fn key(&self, spec: &MachineSpec) -> Result<Key> {
        self.qemu.key(spec)
    }

    /// Returns the snapshot, making it if necessary. `directory` gets the console of the boot.
    fn get(&self, spec: &MachineSpec, key: &Key, directory: &Path) -> Result<SnapshotLease> {
        if let Some(held) = self.shelf.find(key) {
            return Ok(held);
        }
        // The wait is reported only if another process makes the snapshot.
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting =
            || self.progress.line("waiting for another process that is making a snapshot of this machine");
        self.shelf.get(key, waiting, |entry| {
            let _task = self.progress.task("making a snapshot of the booted machine", None);
            make(spec, directory, entry)
        })
    }

    /// Returns the snapshot if it exists and is not known to be unusable.
    fn find(&self, spec: &MachineSpec) -> Option<SnapshotLease> {
        let key = self.key(spec).ok()?;
        if self.is_hopeless(&key) { None } else { self.shelf.find(&key) }
    }

    fn is_hopeless(&self, key: &Key) -> bool {
        !self.is_usable || self.hopeless.lock().is_ok_and(|hopeless| hopeless.contains(key.as_str()))
    }

    /// Restores a machine; the error is that of the last attempt.
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
        self.progress.line(format!("warning: cannot restore a snapshot, making a new one: {death}"));
        let second = self.get(spec, key, directory)?;
        restore(spec, second, directory).map_err(|(death, held)| {
            self.shelf.discard(&held);
            death.into()
        })
    }
}

impl Machine {
    /// Returns a machine in its state right after boot, restored from a snapshot, which is made if
    /// necessary. If that fails, boots one, with a warning. `directory` gets `console.txt` and
    /// `qemu.log`.
    pub fn pristine(spec: &MachineSpec, snapshots: &Snapshots, directory: &Path) -> Result<Machine, Death> {
        let key = snapshots.key(spec).map_err(Death::Lab)?;
        if !snapshots.is_hopeless(&key) {
            match snapshots.machine(spec, &key, directory) {
                Ok(machine) => return Ok(machine),
                Err(_) if interrupt::check().is_err() => return Err(Death::Interrupted),
                Err(error) => match error.downcast::<FailedBoot>() {
                    Ok(FailedBoot(death)) => return Err(death),
                    Err(error) => {
                        let line =
                            format!("warning: cannot use a snapshot, booting machines instead: {error:#}");
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

impl StandbyMachine {
    /// Restores a machine and stops it after the agent's greeting. `None` if there is no usable
    /// snapshot of it yet: [`Machine::pristine`] makes one and prints the warnings. `directory`
    /// gets the same files as there.
    pub fn restore(spec: &MachineSpec, snapshots: &Snapshots, directory: &Path) -> Option<StandbyMachine> {
        let held = snapshots.find(spec)?;
        let mut asleep = load(spec, &held, directory).ok()?.warm().ok()?;
        asleep.0.snapshot = Some(held.lease);
        Some(asleep)
    }
}

/// The boot for a snapshot failed, as any other boot would have failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct FailedBoot(Death);

/// Boots a machine and saves its memory and state to `entry`.
fn make(spec: &MachineSpec, directory: &Path, entry: &Path) -> Result<()> {
    let (ram, state) = (entry.join(RAM), entry.join(STATE));
    let file = File::create(&state)?;
    let mut machine = Machine::start(spec, Memory::Kept(&ram), directory)?;
    machine.greet(BOOT_DEADLINE).map_err(FailedBoot)?;
    machine.prepare().map_err(FailedBoot)?;
    thread::sleep(SETTLE);
    machine.save(&file).context("QEMU cannot save the machine")?;
    // The files are final only after QEMU has exited.
    drop(machine);
    sparse::punch_holes(&ram).with_context(|| format!("cannot punch holes in `{}`", ram.display()))?;
    Ok(file.sync_all()?)
}

/// Starts a machine from a snapshot. A failure returns the snapshot.
fn restore(
    spec: &MachineSpec,
    held: SnapshotLease,
    directory: &Path,
) -> Result<Machine, (Death, SnapshotLease)> {
    match load(spec, &held, directory).map_err(Death::Lab).and_then(StandbyMachine::resume) {
        Ok(mut machine) => {
            machine.snapshot = Some(held.lease);
            Ok(machine)
        }
        Err(death) => Err((death, held)),
    }
}

/// Loads a machine into a new QEMU, without running it yet.
fn load(spec: &MachineSpec, held: &SnapshotLease, directory: &Path) -> Result<StandbyMachine> {
    let path = held.lease.path().join(STATE);
    let state = File::open(&path)?;
    let memory = held.lease.path().join(RAM);
    let mut machine = Machine::start(spec, Memory::Copied(&memory), directory)?;
    machine.load(&state).with_context(|| {
        let said = machine.last_words();
        format!("QEMU cannot load the machine\n{}", crate::host::process::tail(&said, 12))
    })?;
    Ok(StandbyMachine(machine))
}

impl Machine {
    /// Returns whether a file below tracefs contains this text from the start. Writing the same
    /// size again would cost the guest a wait for RCU and a walk over all pages.
    pub fn is_prepared(&self, file: &str, text: &str) -> bool {
        let (prepared, kilobytes) = PREPARED;
        self.snapshot.is_some() && file == prepared && text == kilobytes.to_string()
    }

    /// Writes the prepared setting. A kernel without tracefs has nothing to prepare.
    fn prepare(&mut self) -> Result<(), Death> {
        let (file, kilobytes) = PREPARED;
        let data = format!("{kilobytes}\n").into_bytes();
        let write = Request::WriteFile { path: file.into(), data, mode: WriteMode::Truncate };
        self.call(&write, BOOT_DEADLINE).map(drop)
    }

    /// Stops the guest and saves the machine state without memory to the file.
    fn save(&mut self, state: &File) -> Result<()> {
        self.monitor.execute(&qmp::stop {})?;
        self.monitor.leave_memory_in_place()?;
        self.monitor.hand_over(STATE, state.file())?;
        let uri = Some(format!("fd:{STATE}"));
        self.monitor.execute(&qmp::migrate { channels: None, detach: None, resume: None, uri })?;
        self.monitor.wait_for_migration()
    }

    /// Loads the state written by [`Machine::save`]. The guest remains stopped.
    fn load(&mut self, state: &File) -> Result<()> {
        self.monitor.leave_memory_in_place()?;
        self.monitor.hand_over(STATE, state.file())?;
        let uri = Some(format!("fd:{STATE}"));
        self.monitor.execute(&qmp::migrate_incoming { channels: None, exit_on_error: None, uri })?;
        self.monitor.wait_for_migration()
    }
}

impl Monitor {
    /// Excludes memory in a shared file from the saved or loaded state.
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
                    return Err(anyhow!("{}", info.error_desc.unwrap_or("QEMU gives no reason".into())));
                }
                _ if Instant::now() > until => {
                    bail!("the migration is not done after {} s", MIGRATION_DEADLINE.as_secs())
                }
                _ => interrupt::check()?,
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
