//! Events that the trace lost, and their effect on expectations.

use std::collections::BTreeMap;
use trace::Loss;

/// Every loss of a trace.
#[derive(Debug, Default)]
pub(super) struct Losses {
    gaps: Vec<Loss>,
    /// There are more than [`GAPS_MAX`]; each window is taken to overlap one.
    crowded: bool,
    /// The known number of lost events per CPU.
    lost: BTreeMap<u32, u64>,
    /// The kernel did not report the number for some loss.
    uncounted: bool,
    /// The number of events that are there, but have no format.
    unknown: u64,
}

/// The maximum number of gaps that are kept.
const GAPS_MAX: usize = 10_000;

impl Losses {
    pub(super) fn add(&mut self, loss: &Loss) {
        let of_cpu = self.lost.entry(loss.cpu).or_default();
        *of_cpu = of_cpu.saturating_add(loss.lost.unwrap_or(0));
        self.uncounted |= loss.lost.is_none();
        self.add_gap(loss);
    }

    /// Adds an event without a format, of which no more than CPU and time are known.
    pub(super) fn add_unknown(&mut self, cpu: u32, time: u64) {
        self.unknown += 1;
        self.add_gap(&Loss { cpu, lost: Some(1), after: Some(time), before: Some(time) });
    }

    fn add_gap(&mut self, loss: &Loss) {
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(*loss);
        } else {
            self.crowded = true;
        }
    }

    pub(super) fn any(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Returns whether events may have been lost between two times, in nanoseconds.
    pub(super) fn overlap(&self, start: u64, end: u64) -> bool {
        let overlaps = |gap: &Loss| {
            gap.after.is_none_or(|after| after <= end) && gap.before.is_none_or(|before| start <= before)
        };
        self.crowded || self.gaps.iter().any(overlaps)
    }

    /// Describes how many events were lost on which CPUs, and the buffer size that would have held them.
    pub(super) fn describe(&self, buffer_kb: u32, event_bytes: u64) -> String {
        let unknown = match self.unknown {
            0 => return self.describe_lost(buffer_kb, event_bytes),
            1 => "1 event has".to_owned(),
            more => format!("{more} events have"),
        };
        let unknown = format!("{unknown} an unknown format, as after an event was removed");
        if self.lost.is_empty() {
            return unknown;
        }
        format!("{unknown}, and {}", self.describe_lost(buffer_kb, event_bytes))
    }

    fn describe_lost(&self, buffer_kb: u32, event_bytes: u64) -> String {
        let most = self.lost.values().copied().max().unwrap_or(0);
        let total: u64 = self.lost.values().fold(0, |sum, lost| sum.saturating_add(*lost));
        let cpus: Vec<_> = self.lost.keys().map(u32::to_string).collect();
        let number = match (total, self.uncounted) {
            (0, _) => "an unknown number of events".to_owned(),
            (1, false) => "1 event".to_owned(),
            (total, false) => format!("{total} events"),
            (total, true) => format!("more than {total} events"),
        };
        let was = if total == 1 && !self.uncounted { "was" } else { "were" };
        let hint = if most == 0 {
            format!("a `buffer_kb` above {buffer_kb} may hold them")
        } else {
            let missing_kb = most.saturating_mul(event_bytes.max(8)).div_ceil(1024);
            let needed = u64::from(buffer_kb).saturating_add(missing_kb);
            let needed = needed.checked_next_power_of_two().unwrap_or(needed);
            format!("`buffer_kb: {needed}` would have held them (it was {buffer_kb})")
        };
        format!("{number} {was} lost on CPU {}; {hint}", cpus.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(cpu: u32, lost: Option<u64>, after: Option<u64>, before: Option<u64>) -> Loss {
        Loss { cpu, lost, after, before }
    }

    #[test]
    fn windows_overlap_what_may_have_been_lost_in_them() {
        let mut losses = Losses::default();
        assert!(!losses.any() && !losses.overlap(0, u64::MAX));
        losses.add(&loss(0, Some(3), Some(100), Some(200)));
        let check = |losses: &Losses, start, end, expect| {
            assert_eq!(losses.overlap(start, end), expect, "{start}-{end}");
        };
        check(&losses, 0, 99, false);
        check(&losses, 0, 100, true);
        check(&losses, 150, 160, true);
        check(&losses, 200, 300, true);
        check(&losses, 201, 300, false);
        losses.add(&loss(1, None, Some(500), None));
        check(&losses, 400, 499, false);
        check(&losses, 9000, 9001, true);
    }

    #[test]
    fn a_loss_is_told_with_the_buffer_that_would_have_held_it() {
        let check = |all: &[Loss], expect: &str| {
            let mut losses = Losses::default();
            all.iter().for_each(|loss| losses.add(loss));
            assert_eq!(losses.describe(64, 40), expect);
        };
        check(
            &[loss(1, Some(10_000), None, None)],
            "10000 events were lost on CPU 1; `buffer_kb: 512` would have held them (it was 64)",
        );
        check(
            &[loss(0, Some(1), None, None)],
            "1 event was lost on CPU 0; `buffer_kb: 128` would have held them (it was 64)",
        );
        check(
            &[loss(0, Some(7), None, None), loss(1, None, None, None)],
            "more than 7 events were lost on CPU 0, 1; `buffer_kb: 128` would have held them (it was 64)",
        );
        check(
            &[loss(2, None, None, None)],
            "an unknown number of events were lost on CPU 2; a `buffer_kb` above 64 may hold them",
        );
    }
}
