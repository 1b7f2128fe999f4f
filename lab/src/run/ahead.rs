//! Restores the machine of a coming turn while another one runs, so that its turn can start at once.
//!
//! One thread does this for a whole run: QEMU dies with the thread that started it, so that thread
//! must outlive the workers. A machine is promised before it is restored; a worker that comes too
//! early waits for it instead of restoring a second one. There is at most one machine of each kind,
//! and it stays stopped until it is taken.
//!
//! A failure here is not an error: the turn then restores its own machine, and reports any error
//! of that.

use super::{
    Prepared,
    schedule::{Schedule, ScheduledRun},
};
use crate::{
    machine::{Death, Machine, MachineSpec, StandbyMachine, restored_spec},
    results,
};
use anyhow::{Context, Result};
use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::Scope,
};
use tempfile::TempDir;

/// The number of coming turns that are searched for one that takes a restored machine. The others
/// boot their own or need none; in an endless run these may be all.
const SIGHT: usize = 16;

/// A kind of machine: those of one kind are interchangeable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MachineKind {
    /// The index of the kernel.
    pub(super) kernel: usize,
    /// Whether the module that hooks functions is loaded.
    pub(super) hooks: bool,
}

impl MachineKind {
    /// The number of kinds per kernel.
    const EACH: usize = 2;

    fn index(self) -> usize {
        self.kernel * MachineKind::EACH + usize::from(self.hooks)
    }
}

/// The machines of coming turns.
pub(super) struct RestoreAhead<'a> {
    prepared: &'a Prepared,
    /// The directory of the run.
    directory: &'a Path,
    /// To the thread that restores, if it runs.
    orders: Mutex<Option<Sender<Order>>>,
    /// For each kind, the machine that was ordered and not yet taken.
    promised: Vec<Mutex<Option<Receiver<Ready>>>>,
    taken: AtomicUsize,
}

/// A machine to restore.
struct Order {
    kind: MachineKind,
    reply: Sender<Ready>,
}

/// A restored machine, and its directory until a scenario takes it.
struct Ready {
    machine: StandbyMachine,
    _directory: TempDir,
    spec: MachineSpec,
}

/// Keeps the thread that restores running. Dropping it ends the thread and discards its machines.
pub(super) struct Restorer<'a>(&'a RestoreAhead<'a>);

/// Returns whether restoring ahead saves time, which it does if a CPU is idle part of the time. With
/// one job per CPU it costs nothing: two jobs on two cores took 13.3 s for 60 scenarios with it and
/// 13.7 s without (medians of three). With more jobs the CPUs are never idle.
pub(super) fn is_worthwhile(jobs: usize, cpus: usize) -> bool {
    jobs <= cpus
}

/// Returns the kind of machine for the first turn, from number `next` on, that takes a restored one.
/// `kind` returns that of a turn, or `None` if the turn takes none.
pub(super) fn next_kind(
    schedule: &Schedule,
    next: usize,
    kind: impl Fn(ScheduledRun) -> Option<MachineKind>,
) -> Option<MachineKind> {
    (next..next.saturating_add(SIGHT)).map_while(|number| schedule.turn(number)).find_map(kind)
}

impl<'a> RestoreAhead<'a> {
    /// Restores nothing until [`RestoreAhead::start`] is called.
    pub(super) fn new(prepared: &'a Prepared, directory: &'a Path) -> RestoreAhead<'a> {
        let kinds = prepared.kernels.len() * MachineKind::EACH;
        let promised = (0..kinds).map(|_| Mutex::default()).collect();
        RestoreAhead { prepared, directory, orders: Mutex::default(), promised, taken: AtomicUsize::new(0) }
    }

    /// Starts the thread that restores.
    pub(super) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Restorer<'s> {
        let (orders, inbox) = mpsc::channel::<Order>();
        if let Ok(mut place) = self.orders.lock() {
            *place = Some(orders);
        }
        scope.spawn(move || {
            for order in inbox {
                // An order that is dropped without a reply has failed. A reply that no one waits for
                // any longer is dropped here.
                if let Ok(ready) = self.restore(order.kind) {
                    let _ = order.reply.send(ready);
                }
            }
        });
        Restorer(self)
    }

    /// Returns the number of machines that were taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// Orders a machine of this kind, unless there is one already.
    pub(super) fn order(&self, kind: MachineKind) {
        let (Ok(orders), Ok(mut promised)) = (self.orders.lock(), self.promised[kind.index()].lock()) else {
            return;
        };
        if let (Some(orders), None) = (&*orders, &*promised) {
            let (reply, ready) = mpsc::channel();
            *promised = orders.send(Order { kind, reply }).is_ok().then_some(ready);
        }
    }

    /// Returns the machine for a turn: the one that was restored ahead, or else a new one.
    pub(super) fn machine(
        &self,
        kind: MachineKind,
        spec: &MachineSpec,
        place: &Path,
    ) -> Result<Machine, Death> {
        match self.take(kind, spec, place) {
            Some(machine) => {
                self.taken.fetch_add(1, Ordering::SeqCst);
                Ok(machine)
            }
            None => Machine::pristine(spec, &self.prepared.snapshots, place),
        }
    }

    fn take(&self, kind: MachineKind, spec: &MachineSpec, place: &Path) -> Option<Machine> {
        let promised = self.promised[kind.index()].lock().ok()?.take()?;
        let mut ready = promised.recv().ok().filter(|ready| ready.spec == *spec)?;
        ready.machine.move_to(place).ok()?;
        ready.machine.resume().ok()
    }

    fn restore(&self, kind: MachineKind) -> Result<Ready> {
        let Prepared { kernels, guest, snapshots, .. } = self.prepared;
        let directory = results::partial(self.directory)?;
        let spec = restored_spec(&kernels[kind.kernel], guest, kind.hooks)?;
        let machine =
            StandbyMachine::restore(&spec, snapshots, directory.path()).context("there is no snapshot")?;
        Ok(Ready { machine, _directory: directory, spec })
    }
}

impl Drop for Restorer<'_> {
    fn drop(&mut self) {
        if let Ok(mut orders) = self.0.orders.lock() {
            *orders = None;
        }
        for promised in &self.0.promised {
            // Dropping the promise discards the machine; one that is still being restored, afterwards.
            let _ = promised.lock().map(|mut promised| promised.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::schedule::{Rounds, Weight};

    #[test]
    fn more_jobs_than_cpus_leave_no_time_to_restore_ahead() {
        for (jobs, cpus, expect) in [(1, 1, true), (1, 2, true), (2, 2, true), (3, 2, false), (3, 4, true)] {
            assert_eq!(is_worthwhile(jobs, cpus), expect, "{jobs} jobs on {cpus} CPUs");
        }
    }

    #[test]
    fn the_next_turn_that_takes_a_restored_machine_says_which() {
        // The kernel of each case that takes a machine; cases start in the order of the list.
        let check = |cases: &[Option<usize>], rounds, next, expect: Option<usize>| {
            let schedule = Schedule::heaviest_first(&vec![Weight::Unknown; cases.len()], rounds);
            let kind = |kernel: usize| MachineKind { kernel, hooks: kernel == 1 };
            let found = next_kind(&schedule, next, |turn| cases[turn.case].map(kind));
            assert_eq!(found, expect.map(kind), "{cases:?} from {next}");
        };
        check(&[Some(0), Some(1)], Rounds::One, 0, Some(0));
        check(&[Some(0), Some(1)], Rounds::One, 1, Some(1));
        check(&[Some(0), Some(1)], Rounds::One, 2, None);
        check(&[Some(0), Some(1)], Rounds::Count(2), 2, Some(0));
        check(&[Some(0), None, None, Some(1)], Rounds::One, 1, Some(1));
        check(&[None], Rounds::Endless, 0, None);
        let mut far = [None; SIGHT + 1];
        far[SIGHT] = Some(0);
        check(&far, Rounds::One, 0, None);
        check(&far, Rounds::One, 1, Some(0));
        check(&[], Rounds::Endless, 0, None);
        check(&[Some(0)], Rounds::Endless, usize::MAX - 1, None);
    }
}
