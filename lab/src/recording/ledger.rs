//! The kernel's count of the events that were read from a CPU's buffer, compared with those that the lab
//! stored: they agree, or events are lost.
//!
//! A reset of the buffer, as by a change of the tracer or the removal of an event, sets all counters to zero
//! and discards the events that nobody has read. The ledger adds up the counters over resets.

use trace::CpuStats;

/// The events of one CPU's buffer.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The counters when they were last compared.
    last: CpuStats,
    /// The events that were stored since the last reset.
    stored: u64,
    /// The sums of the counters at each reset.
    before: CpuStats,
    /// Whether the counters went back. A snapshot, of a trigger or a latency tracer, exchanges the buffer for
    /// another one, and looks like a reset.
    other: Option<CpuStats>,
}

impl Ledger {
    /// Starts with the counters before any event is stored.
    pub(super) fn new(now: CpuStats) -> Ledger {
        Ledger { last: now, stored: now.read, before: CpuStats::default(), other: None }
    }

    /// Adds events that were stored.
    pub(super) fn store(&mut self, events: u64) {
        self.stored += events;
    }

    /// Compares the stored events with the counters, which are those after the last read of the buffer. Says
    /// what was lost.
    pub(super) fn compare(&mut self, now: CpuStats) -> Option<String> {
        let recent = self.stored.saturating_sub(self.last.read);
        let (lost, how) = if self.is_reset(now) {
            // The recent events that the kernel counts were read after the reset.
            let read = recent.saturating_sub(now.read);
            self.before.read += self.stored.saturating_sub(now.read);
            self.before.overrun += self.last.overrun;
            self.before.commit_overrun += self.last.commit_overrun;
            self.before.dropped += self.last.dropped;
            self.other = Some(self.last);
            (self.last.entries.saturating_sub(read), "in the ring buffer when it was cleared")
        } else {
            (self.unstored(now, recent), "read by something other than the lab")
        };
        self.before.lost += lost;
        (self.last, self.stored) = (now, now.read);
        (lost > 0).then(|| format!("{lost} event{} {how}", if lost == 1 { " was" } else { "s were" }))
    }

    /// Takes the counters without a comparison. What was in the buffer may come out of another one.
    pub(super) fn follow(&mut self, now: CpuStats) {
        (self.last, self.stored) = (CpuStats { entries: 0, ..now }, now.read);
    }

    /// Returns whether there are fewer recent events than were in the buffer.
    pub(super) fn lacks(&self) -> bool {
        self.stored.saturating_sub(self.last.read) < self.last.entries
    }

    fn is_reset(&self, now: CpuStats) -> bool {
        let CpuStats { overrun, commit_overrun, dropped, .. } = self.last;
        let went_back = now.overrun < overrun || now.commit_overrun < commit_overrun || now.dropped < dropped;
        now.read < self.stored || went_back
    }

    /// Returns the number of events that were read and not stored.
    fn unstored(&self, now: CpuStats, recent: u64) -> u64 {
        // The buffer of a snapshot that is back in its place still has its own counters, which say nothing
        // about the events that were read meanwhile. Nothing can be compared then.
        let back = self
            .other
            .is_some_and(|other| now.read.checked_sub(other.read).is_some_and(|read| read <= recent));
        if back { 0 } else { now.read.saturating_sub(self.stored) }
    }

    /// Returns the counters since the beginning.
    pub(super) fn sums(&self) -> CpuStats {
        let CpuStats { read, overrun, commit_overrun, dropped, lost, .. } = self.before;
        CpuStats {
            entries: self.last.entries,
            read: read + self.last.read,
            overrun: overrun + self.last.overrun,
            commit_overrun: commit_overrun + self.last.commit_overrun,
            dropped: dropped + self.last.dropped,
            lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(entries: u64, read: u64, overrun: u64) -> CpuStats {
        CpuStats { entries, read, overrun, ..CpuStats::default() }
    }

    #[track_caller]
    fn check(ledger: &mut Ledger, stored: u64, now: CpuStats, expect: Option<&str>) {
        ledger.store(stored);
        assert_eq!(ledger.compare(now).as_deref(), expect);
    }

    #[test]
    fn what_is_read_is_stored_or_lost() {
        let mut ledger = Ledger::new(stats(0, 5, 0));
        check(&mut ledger, 10, stats(0, 15, 0), None);
        check(&mut ledger, 0, stats(3, 15, 2), None);
        check(&mut ledger, 1, stats(0, 18, 2), Some("2 events were read by something other than the lab"));
        check(&mut ledger, 4, stats(0, 22, 2), None);
        assert_eq!(ledger.sums(), CpuStats { read: 22, overrun: 2, lost: 2, ..CpuStats::default() });
    }

    #[test]
    fn counters_are_added_up_over_resets() {
        let mut ledger = Ledger::new(stats(0, 0, 0));
        check(&mut ledger, 10, stats(0, 10, 7), None);
        // Nothing was in the buffer.
        check(&mut ledger, 0, stats(0, 0, 0), None);
        check(&mut ledger, 3, stats(4, 3, 1), None);
        // One of the four was still read, and then five new ones.
        check(&mut ledger, 6, stats(0, 5, 0), Some("3 events were in the ring buffer when it was cleared"));
        assert_eq!(ledger.sums(), CpuStats { read: 19, overrun: 8, lost: 3, ..CpuStats::default() });
    }

    #[test]
    fn a_reset_before_the_first_read_shows_in_the_overrun() {
        let mut ledger = Ledger::new(stats(0, 0, 0));
        check(&mut ledger, 0, stats(1, 0, 9), None);
        check(&mut ledger, 0, stats(0, 0, 0), Some("1 event was in the ring buffer when it was cleared"));
        assert_eq!(ledger.sums(), CpuStats { overrun: 9, lost: 1, ..CpuStats::default() });
    }

    #[test]
    fn the_buffer_of_a_snapshot_that_is_back_has_its_own_counters() {
        let mut ledger = Ledger::new(stats(0, 0, 0));
        check(&mut ledger, 100, stats(0, 100, 0), None);
        check(&mut ledger, 8, stats(0, 8, 0), None);
        check(&mut ledger, 3, stats(0, 102, 0), None);
    }
}
