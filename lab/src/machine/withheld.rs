//! Time that the host withheld from a guest, by running other things: no deadline counts it.
//!
//! The kernel of the host counts for each thread how long it was ready to run and waited for a CPU.

use fs_err as fs;
use std::{collections::BTreeMap, ffi::OsString, time::Duration};

/// Less than this is not worth another wait.
const LEAST: Duration = Duration::from_millis(20);

/// The time that QEMU waited for a CPU since a deadline was set.
#[derive(Debug)]
pub(super) struct Withheld {
    /// QEMU's PID.
    pid: u32,
    /// The nanoseconds that each of its threads had waited at the last look.
    waited: BTreeMap<OsString, u64>,
    /// The time by which the deadline was extended.
    pub(super) granted: Duration,
}

impl Withheld {
    pub(super) fn new(pid: u32) -> Withheld {
        Withheld { pid, waited: waited(pid), granted: Duration::ZERO }
    }

    /// Extends a deadline that has passed by the time that was withheld since the last look; returns that, or zero
    /// if the guest had its time.
    pub(super) fn grant(&mut self) -> Duration {
        let now = waited(self.pid);
        let since =
            |(thread, now): (&OsString, &u64)| now.saturating_sub(*self.waited.get(thread).unwrap_or(&0));
        // Threads wait at the same time, so that their sum would be no time of the guest.
        let more = Duration::from_nanos(now.iter().map(since).max().unwrap_or_default());
        if more < LEAST {
            return Duration::ZERO;
        }
        self.waited = now;
        self.granted += more;
        more
    }
}

/// Returns the nanoseconds that each thread of a process has waited for a CPU; none if the host does not count them.
fn waited(pid: u32) -> BTreeMap<OsString, u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waited = |thread: fs::DirEntry| -> Option<(OsString, u64)> {
        // Nanoseconds on a CPU, nanoseconds waiting for one, and how often it was switched to.
        let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((thread.file_name(), counts.split_ascii_whitespace().nth(1)?.parse().ok()?))
    };
    threads.filter_map(waited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        thread::{available_parallelism, sleep, spawn},
        time::Instant,
    };

    #[test]
    fn only_a_process_that_waited_for_a_cpu_is_granted_time() {
        let cpus = available_parallelism().unwrap().get();
        let started = Instant::now();
        let until = started + Duration::from_secs(1);
        let mut withheld = Withheld::new(std::process::id());
        // Three for each CPU: each waits most of the time.
        let spinning = (0..3 * cpus).map(|_| spawn(move || while Instant::now() < until {}));
        let spinning: Vec<_> = spinning.collect();
        sleep(Duration::from_millis(900));
        let granted = withheld.grant();
        // No thread can have waited longer than all the time.
        assert!(granted > LEAST && granted <= started.elapsed(), "{granted:?}");
        assert_eq!(withheld.granted, granted);
        spinning.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn what_does_not_exist_is_granted_nothing() {
        assert_eq!(Withheld::new(u32::MAX).grant(), Duration::ZERO);
    }
}
