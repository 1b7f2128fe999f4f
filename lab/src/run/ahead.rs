//! The machine of a coming turn, restored while another still runs, so that its turn can begin at
//! once.
//!
//! One thread does so for a whole run: QEMU dies with the thread that started it, so that thread
//! has to outlive the workers. A machine is promised before it is restored; a worker that comes
//! too early waits for it instead of restoring a second one. There is one of a kind at most, and it
//! sleeps until it is taken.
//!
//! Nothing that goes wrong here is an error. The turn comes without a machine then, restores its
//! own, and says what it has to say.

use super::{
    Prepared,
    boot::restored_spec,
    schedule::{Schedule, Turn},
};
use crate::{
    machine::{Asleep, Death, Machine, MachineSpec},
    report,
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

/// How many turns are looked through for one that takes a restored machine. The others, of which
/// there is no end in some runs, boot their own or need none.
const SIGHT: usize = 16;

/// Machines that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The kernel's place in the list.
    pub(super) kernel: usize,
    /// Whether the module that hooks functions is in.
    pub(super) hooks: bool,
}

impl Kind {
    /// How many there are of each kernel.
    const EACH: usize = 2;

    fn index(self) -> usize {
        self.kernel * Kind::EACH + usize::from(self.hooks)
    }
}

/// The machines of coming turns.
pub(super) struct Ahead<'a> {
    prepared: &'a Prepared,
    /// The run's.
    directory: &'a Path,
    /// To the thread that restores; nothing where there is none.
    orders: Mutex<Option<Sender<Order>>>,
    /// For each kind what was ordered and not taken yet.
    promised: Vec<Mutex<Option<Receiver<Ready>>>>,
    taken: AtomicUsize,
}

/// A machine to restore.
struct Order {
    kind: Kind,
    reply: Sender<Ready>,
}

/// A machine and, while it has no scenario, its files.
struct Ready {
    machine: Asleep,
    _directory: TempDir,
    spec: MachineSpec,
}

/// The thread that restores, until this is dropped; it leaves no machine behind.
pub(super) struct Restorer<'a>(&'a Ahead<'a>);

/// Whether restoring ahead saves time. It does where a CPU is idle for part of the time, and costs
/// nothing with a job a CPU: two jobs on two cores took 13.3 s for 60 scenarios with it and 13.7 s
/// without (medians of three). With more jobs the CPUs are never idle.
pub(super) fn pays(jobs: usize, cpus: usize) -> bool {
    jobs <= cpus
}

/// The kind of machine of the first turn from number `next` on that takes a restored one. `kind` knows
/// it of a turn; `None` if that one takes none.
pub(super) fn coming(schedule: &Schedule, next: usize, kind: impl Fn(Turn) -> Option<Kind>) -> Option<Kind> {
    (next..next.saturating_add(SIGHT)).map_while(|number| schedule.turn(number)).find_map(kind)
}

impl<'a> Ahead<'a> {
    /// None yet, and none to come until [`Ahead::start`].
    pub(super) fn new(prepared: &'a Prepared, directory: &'a Path) -> Ahead<'a> {
        let kinds = prepared.kernels.len() * Kind::EACH;
        let promised = (0..kinds).map(|_| Mutex::default()).collect();
        Ahead { prepared, directory, orders: Mutex::default(), promised, taken: AtomicUsize::new(0) }
    }

    /// Starts the thread that restores.
    pub(super) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Restorer<'s> {
        let (orders, inbox) = mpsc::channel::<Order>();
        if let Ok(mut place) = self.orders.lock() {
            *place = Some(orders);
        }
        scope.spawn(move || {
            for order in inbox {
                // Dropped without an answer, the order is known to have failed; and an answer that
                // nobody waits for any more is dropped here.
                if let Ok(ready) = self.restore(order.kind) {
                    let _ = order.reply.send(ready);
                }
            }
        });
        Restorer(self)
    }

    /// How many machines were taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// Has a machine of this kind restored, unless there is one already.
    pub(super) fn order(&self, kind: Kind) {
        let (Ok(orders), Ok(mut promised)) = (self.orders.lock(), self.promised[kind.index()].lock()) else {
            return;
        };
        if let (Some(orders), None) = (&*orders, &*promised) {
            let (reply, ready) = mpsc::channel();
            *promised = orders.send(Order { kind, reply }).is_ok().then_some(ready);
        }
    }

    /// The machine for a turn: the one that was restored ahead, or as good a one.
    pub(super) fn machine(&self, kind: Kind, spec: &MachineSpec, place: &Path) -> Result<Machine, Death> {
        match self.take(kind, spec, place) {
            Some(machine) => {
                self.taken.fetch_add(1, Ordering::SeqCst);
                Ok(machine)
            }
            None => Machine::pristine(spec, &self.prepared.snapshots, place),
        }
    }

    fn take(&self, kind: Kind, spec: &MachineSpec, place: &Path) -> Option<Machine> {
        let promised = self.promised[kind.index()].lock().ok()?.take()?;
        let mut ready = promised.recv().ok().filter(|ready| ready.spec == *spec)?;
        ready.machine.move_to(place).ok()?;
        ready.machine.wake().ok()
    }

    fn restore(&self, kind: Kind) -> Result<Ready> {
        let Prepared { kernels, guest, snapshots, .. } = self.prepared;
        let directory = report::partial(self.directory)?;
        let spec = restored_spec(&kernels[kind.kernel], guest, kind.hooks)?;
        let machine = Asleep::restore(&spec, snapshots, directory.path()).context("no snapshot is there")?;
        Ok(Ready { machine, _directory: directory, spec })
    }
}

impl Drop for Restorer<'_> {
    fn drop(&mut self) {
        if let Ok(mut orders) = self.0.orders.lock() {
            *orders = None;
        }
        for promised in &self.0.promised {
            // A machine goes with its promise; one that is still being restored, when it is.
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
            assert_eq!(pays(jobs, cpus), expect, "{jobs} jobs on {cpus} CPUs");
        }
    }

    #[test]
    fn the_next_turn_that_takes_a_restored_machine_says_which() {
        // Each case's kernel, if it takes a machine; each starts in the order of the list.
        let check = |cases: &[Option<usize>], rounds, next, expect: Option<usize>| {
            let schedule = Schedule::heaviest_first(&vec![Weight::Unknown; cases.len()], rounds);
            let kind = |kernel: usize| Kind { kernel, hooks: kernel == 1 };
            let found = coming(&schedule, next, |turn| cases[turn.case].map(kind));
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
