//! Merges the events of all CPUs into one stream, in time order.

use super::{
    Loss,
    dat::{CpuData, PageReader, Times},
    metadata::{CpuStats, Metadata},
    page::{Cursor, Missed},
};
use anyhow::{Context, Result};
use std::{cmp::Reverse, collections::BinaryHeap, fs::File, ops::Range};

/// The stream of one CPU, positioned at an event.
pub(super) struct CpuStream<'t> {
    pub(super) cpu: u32,
    pages: PageReader<'t>,
    metadata: &'t Metadata,
    times: Times,
    /// Whole pages.
    batch: Vec<u8>,
    /// The page under the cursor, in `batch`.
    page: Range<usize>,
    cursor: Cursor,
    /// Pages read so far, for error messages.
    number: u64,
    head: Option<Head>,
    /// Events lost before the head that have not been reported yet.
    missed: Option<Missed>,
    last: Option<u64>,
    /// Reported losses: the number of events, and whether the number of some is unknown.
    told: u64,
    told_without_number: bool,
}

/// The current event of a stream.
struct Head {
    time: u64,
    payload: Range<usize>,
}

impl<'t> CpuStream<'t> {
    pub(super) fn new(file: &'t File, data: &CpuData, metadata: &'t Metadata, times: Times) -> CpuStream<'t> {
        CpuStream {
            cpu: data.cpu,
            pages: PageReader::new(file, data),
            metadata,
            times,
            batch: Vec::new(),
            page: 0..0,
            cursor: Cursor::exhausted(),
            number: 0,
            head: None,
            missed: None,
            last: None,
            told: 0,
            told_without_number: false,
        }
    }

    /// Returns time and payload of the current event; `None` at the end of the stream.
    #[inline]
    pub(super) fn event(&self) -> Option<(u64, &[u8])> {
        let head = self.head.as_ref()?;
        Some((head.time, self.batch.get(self.page.clone())?.get(head.payload.clone())?))
    }

    /// Returns the loss right before the current event, once.
    #[inline]
    pub(super) fn loss(&mut self) -> Option<Loss> {
        let Missed(lost) = self.missed.take()?;
        self.told = self.told.saturating_add(lost.unwrap_or(0));
        self.told_without_number |= lost.is_none();
        Some(Loss { cpu: self.cpu, lost, after: self.last, before: self.head.as_ref().map(|head| head.time) })
    }

    /// Advances to the next event.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<()> {
        if let Some(head) = self.head.take() {
            self.last = Some(head.time);
        }
        loop {
            let page = self.batch.get(self.page.clone()).unwrap_or_default();
            if let Some(record) = self.cursor.next(page).with_context(|| self.place())? {
                let time = self.times.apply(record.time);
                self.head = Some(Head { time, payload: record.payload });
                return Ok(());
            }
            if !self.turn()? {
                return Ok(());
            }
        }
    }

    /// Advances to the next page; returns false at the end.
    fn turn(&mut self) -> Result<bool> {
        let layout = self.metadata.layout();
        let mut start = self.page.end;
        if start >= self.batch.len() {
            let cpu = self.cpu;
            self.pages
                .next(layout.size(), &mut self.batch)
                .with_context(|| format!("cannot read the trace of CPU {cpu}"))?;
            start = 0;
        }
        let Some(bytes) = self.batch.get(start..).filter(|bytes| !bytes.is_empty()) else {
            self.page = 0..0;
            return Ok(false);
        };
        self.number += 1;
        let page = layout.page(bytes).with_context(|| self.place())?;
        self.page = start..start + layout.size();
        self.cursor = page.cursor;
        if let Some(Missed(lost)) = page.missed {
            // A page without events passes its loss on to the next.
            let before = self.missed.take().map_or(Some(0), |Missed(before)| before);
            let sum = before.zip(lost).map(|(before, lost)| before.saturating_add(lost));
            self.missed = Some(Missed(sum));
        }
        Ok(true)
    }

    /// Returns the losses that no page reports: after the last event, or, if the buffer is not
    /// overwritten, anywhere in the trace.
    pub(super) fn trailing(&mut self, stats: Option<&CpuStats>) -> [Option<Loss>; 3] {
        let told = self.loss();
        let stats = stats.copied().unwrap_or_default();
        let untold = stats.overrun.saturating_sub(self.told);
        // If a page did not give the number, these events are most likely included in its loss.
        let behind = (untold > 0 && !self.told_without_number).then_some(Loss {
            cpu: self.cpu,
            lost: Some(untold),
            after: self.last,
            before: None,
        });
        // No page is marked for these events.
        let refused = stats.dropped.saturating_add(stats.commit_overrun).saturating_add(stats.lost);
        let dropped =
            (refused > 0).then_some(Loss { cpu: self.cpu, lost: Some(refused), after: None, before: None });
        [told, behind, dropped]
    }

    fn place(&self) -> String {
        format!("CPU {}, page {}", self.cpu, self.number)
    }
}

/// Determines which stream is next.
pub(super) struct Order {
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Order {
    /// Advances every stream to its first event.
    pub(super) fn new(streams: &mut [CpuStream<'_>]) -> Result<Order> {
        let mut waiting = BinaryHeap::with_capacity(streams.len());
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.advance()?;
            if let Some((time, _)) = stream.event() {
                waiting.push(Reverse((time, number)));
            }
        }
        Ok(Order { waiting })
    }

    /// Returns the stream with the earliest event; among equal times, the one with the lowest
    /// number.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        self.waiting.pop().map(|Reverse((_, number))| number)
    }

    /// Returns whether the stream last returned by `next` is still the first, now at `time`. If
    /// not, queues it again.
    #[inline]
    pub(super) fn stays(&mut self, time: u64, number: usize) -> bool {
        let first = self.waiting.peek().is_none_or(|&Reverse(other)| (time, number) < other);
        if !first {
            self.waiting.push(Reverse((time, number)));
        }
        first
    }
}
