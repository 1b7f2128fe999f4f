//! Time that the host withheld from a guest, by running other things: no deadline counts it.
//!
//! The kernel of the host counts for each thread how long it was ready to run and waited for a CPU.

use fs_err as fs;
use std::time::{Duration, Instant};

/// Less than this is not worth another wait.
const LEAST: Duration = Duration::from_millis(20);

/// The time that QEMU waited for a CPU since a deadline was set.
#[derive(Debug)]
pub(super) struct Withheld {
    /// QEMU's PID.
    pid: u32,
    /// The last look at its threads, and the time that they had waited then.
    looked: Instant,
    waited: Duration,
    /// The time by which the deadline was extended.
    pub(super) granted: Duration,
}

impl Withheld {
    pub(super) fn new(pid: u32) -> Withheld {
        Withheld { pid, looked: Instant::now(), waited: waited(pid), granted: Duration::ZERO }
    }

    /// Extends a deadline that has passed by the time that was withheld since the last look; returns that, or zero
    /// if the guest had its time.
    pub(super) fn grant(&mut self) -> Duration {
        let now = Withheld::new(self.pid);
        // Several threads may have waited at once.
        let more = now.waited.saturating_sub(self.waited).min(now.looked - self.looked);
        if more < LEAST {
            return Duration::ZERO;
        }
        *self = Withheld { granted: self.granted + more, ..now };
        more
    }
}

/// Returns the time that all threads of a process have waited for a CPU; zero if the host does not count it.
fn waited(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waited = |thread: fs::DirEntry| -> Option<u64> {
        // Nanoseconds on a CPU, nanoseconds waiting for one, and how often it was switched to.
        let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        counts.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(waited).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{thread::available_parallelism, thread::sleep, thread::spawn};

    #[test]
    fn only_a_process_that_waited_for_a_cpu_is_granted_time() {
        let cpus = available_parallelism().unwrap().get();
        let until = Instant::now() + Duration::from_secs(1);
        let mut withheld = Withheld::new(std::process::id());
        // Three for each CPU: each waits most of the time.
        let spinning = (0..3 * cpus).map(|_| spawn(move || while Instant::now() < until {}));
        let spinning: Vec<_> = spinning.collect();
        sleep(Duration::from_millis(900));
        let granted = withheld.grant();
        assert!(granted > LEAST && granted < Duration::from_secs(60), "{granted:?}");
        assert_eq!(withheld.granted, granted);
        spinning.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn what_does_not_exist_is_granted_nothing() {
        assert_eq!(Withheld::new(u32::MAX).grant(), Duration::ZERO);
    }
}
