//! One sub-buffer of the kernel's ring buffer, in the format of `trace_pipe_raw`.
//!
//! A sub-buffer is a header (timestamp, commit field, flags of lost events) followed by records,
//! each a 32-bit word of type and time delta followed by its payload. The layout of the header is
//! read from `events/header_page`; the record word is checked against `events/header_event`.
//! Nothing here allocates, and every offset is checked against the size of the page before it is
//! used. Little-endian only.

use super::fields::Declaration;
use std::ops::Range;
use thiserror::Error;

/// The largest accepted sub-buffer, in bytes. The limit of Linux is order 7 of 64 KiB pages.
pub const SUB_BUFFER_MAX: usize = 8 << 20;

/// The bits of the commit field that hold the length; the flags are above them.
const COMMIT_LENGTH: u64 = (1 << 27) - 1;
/// Commit flag: events were lost between the previous sub-buffer and this one.
const MISSED_EVENTS: u64 = 1 << 31;
/// Commit flag: the number of lost events is stored after the committed bytes.
const MISSED_STORED: u64 = 1 << 30;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
/// An absolute timestamp has 59 bits; the upper five bits are those of the time before it.
const STAMP_BITS: u32 = 59;

/// An error in a sub-buffer or in the description of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// `header_page` lacks a field, or its numbers do not describe a page.
    #[error("`header_page` does not describe a sub-buffer: {0}")]
    Layout(&'static str),
    /// `header_event` describes records that this decoder does not know.
    #[error("`header_event` describes an unknown record header: {0}")]
    RecordHeader(&'static str),
    /// There are fewer bytes than one sub-buffer.
    #[error("the page has {found} bytes instead of {expected}")]
    Short {
        /// The number of bytes there are.
        found: usize,
        /// The size of a sub-buffer, in bytes.
        expected: usize,
    },
    /// The commit field names more bytes than the page has.
    #[error("{committed} bytes are committed to a page that holds {room}")]
    Commit {
        /// The length in the commit field, in bytes.
        committed: u64,
        /// The bytes of data that a page holds.
        room: usize,
    },
    /// A record reaches beyond the committed bytes.
    #[error("the record at byte {at} reaches beyond the {committed} committed bytes")]
    Record {
        /// Offset of the record in the data of the page.
        at: usize,
        /// The number of committed bytes.
        committed: usize,
    },
}

/// The layout of a sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    timestamp: usize,
    commit: usize,
    commit_size: usize,
    data: usize,
    data_size: usize,
}

impl PageLayout {
    /// Parses `events/header_page`.
    pub fn parse(header_page: &str) -> Result<PageLayout, PageError> {
        let mut layout = PageLayout { timestamp: 0, commit: 0, commit_size: 0, data: 0, data_size: 0 };
        let mut seen = 0;
        for declaration in header_page.lines().filter_map(Declaration::parse) {
            match declaration.name {
                "timestamp" if declaration.size == 8 => layout.timestamp = declaration.offset,
                "commit" => (layout.commit, layout.commit_size) = (declaration.offset, declaration.size),
                "data" => (layout.data, layout.data_size) = (declaration.offset, declaration.size),
                _ => continue,
            }
            seen += 1;
        }
        if seen != 3 {
            return Err(PageError::Layout("it lacks `timestamp`, `commit` or `data`"));
        }
        layout.checked()
    }

    fn checked(self) -> Result<PageLayout, PageError> {
        if !matches!(self.commit_size, 4 | 8) {
            return Err(PageError::Layout("`commit` is neither 4 nor 8 bytes"));
        }
        if self.timestamp.saturating_add(8) > self.data
            || self.commit.saturating_add(self.commit_size) > self.data
        {
            return Err(PageError::Layout("the header reaches into `data`"));
        }
        if self.data.saturating_add(self.data_size) > SUB_BUFFER_MAX || self.data_size < 16 {
            return Err(PageError::Layout("`data` is too small or too large"));
        }
        Ok(self)
    }

    /// Returns the size of a whole sub-buffer, including its header, in bytes.
    pub fn size(&self) -> usize {
        self.data + self.data_size
    }

    /// Returns the size of a `long` of the traced kernel, in bytes.
    pub fn long_size(&self) -> usize {
        self.commit_size
    }

    /// Returns `page` without its events, but with the mark that some were lost before it.
    pub(crate) fn lost(&self, page: &[u8]) -> Vec<u8> {
        let mut lost = page[..self.data].to_vec();
        lost[self.commit..][..self.commit_size]
            .copy_from_slice(&MISSED_EVENTS.to_le_bytes()[..self.commit_size]);
        lost.resize(self.size(), 0);
        lost
    }

    /// Parses the header of the sub-buffer at the start of `bytes`.
    pub fn page(&self, bytes: &[u8]) -> Result<Page, PageError> {
        let size = self.size();
        let Some(bytes) = bytes.get(..size) else {
            return Err(PageError::Short { found: bytes.len(), expected: size });
        };
        let timestamp = word64(bytes, self.timestamp);
        let commit = match self.commit_size {
            4 => u64::from(word32(bytes, self.commit)),
            _ => word64(bytes, self.commit),
        };
        let committed = commit & COMMIT_LENGTH;
        let room = self.data_size;
        if committed > room as u64 {
            return Err(PageError::Commit { committed, room });
        }
        let end = self.data + committed as usize;
        let missed = (commit & MISSED_EVENTS != 0).then(|| {
            // The count is a `long` after the records, if the page had room for one.
            let stored = commit & MISSED_STORED != 0 && end + self.commit_size <= size;
            Missed(stored.then(|| match self.commit_size {
                4 => u64::from(word32(bytes, end)),
                _ => word64(bytes, end),
            }))
        });
        Ok(Page { missed, cursor: Cursor { start: self.data, at: self.data, end, time: timestamp } })
    }
}

/// Checks that `events/header_event` describes the record header that this decoder knows.
pub fn check_record_header(header_event: &str) -> Result<(), PageError> {
    // Each row: the start of a line, the text that such a line must contain, and the error if it
    // does not.
    const KNOWN: [(&str, &str, &str); 5] = [
        ("type_len", "5 bits", "`type_len` is not 5 bits"),
        ("time_delta", "27 bits", "`time_delta` is not 27 bits"),
        ("padding", "type == 29", "padding is not type 29"),
        ("time_extend", "type == 30", "a time extend is not type 30"),
        ("time_stamp", "type == 31", "a time stamp is not type 31"),
    ];
    for line in header_event.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        for (known, says, complaint) in KNOWN {
            if name.trim() == known && rest.trim() != says {
                return Err(PageError::RecordHeader(complaint));
            }
        }
    }
    Ok(())
}

/// Events lost before a sub-buffer: their number, if the kernel had room to store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed(pub Option<u64>);

/// The header of a sub-buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Set if events were lost between the previous sub-buffer and this one.
    pub missed: Option<Missed>,
    /// A cursor before the first record.
    pub cursor: Cursor,
}

/// A position in a sub-buffer. It does not hold the bytes, so that their buffer can be refilled;
/// every call must be passed the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    start: usize,
    at: usize,
    end: usize,
    time: u64,
}

/// One record: its time in units of the trace clock, and the location of its payload in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// In units of the trace clock: nanoseconds, except for `counter` and the like.
    pub time: u64,
    /// The location of the payload in the bytes of the page.
    pub payload: Range<usize>,
}

impl Cursor {
    /// Returns a cursor at its end, for when no page has been read yet.
    pub fn exhausted() -> Cursor {
        Cursor { start: 0, at: 0, end: 0, time: 0 }
    }

    /// Returns the number of bytes of records left in the page.
    pub fn left(&self) -> usize {
        self.end - self.at
    }

    /// Advances to the next event, skipping padding and time records; `None` at the end of the
    /// page.
    #[inline]
    pub fn next(&mut self, page: &[u8]) -> Result<Option<Record>, PageError> {
        if self.end > page.len() {
            return Err(PageError::Short { found: page.len(), expected: self.end });
        }
        while self.at < self.end {
            let at = self.at;
            let room = self.end - at;
            if room < 4 {
                return Err(self.overrun(at));
            }
            let word = word32(page, at);
            let (kind, delta) = (word & 0x1f, u64::from(word >> 5));
            if (1..TYPE_PADDING).contains(&kind) {
                let length = kind as usize * 4;
                if length + 4 > room {
                    return Err(self.overrun(at));
                }
                self.at = at + 4 + length;
                self.time = self.time.wrapping_add(delta);
                return Ok(Some(Record { time: self.time, payload: at + 4..self.at }));
            }
            // A padding record without a delta fills the rest of the page and has no length.
            if kind == TYPE_PADDING && delta == 0 {
                self.at = self.end;
                break;
            }
            if room < 8 {
                return Err(self.overrun(at));
            }
            let array = word32(page, at + 4);
            if let Some(record) = self.long_record(kind, delta, array, at, room)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Decodes records that have a second word: time records, discarded events, long payloads.
    fn long_record(
        &mut self,
        kind: u32,
        delta: u64,
        array: u32,
        at: usize,
        room: usize,
    ) -> Result<Option<Record>, PageError> {
        let time = u64::from(array) << 27 | delta;
        match kind {
            TYPE_TIME_EXTEND => {
                self.time = self.time.wrapping_add(time);
                self.at = at + 8;
            }
            TYPE_TIME_STAMP => {
                self.time = absolute(time, self.time);
                self.at = at + 8;
            }
            // A discarded event is skipped by its length, but its delta counts, because the next
            // delta is relative to it.
            TYPE_PADDING => {
                let length = array as usize;
                if length < 4 || length > room - 4 {
                    return Err(self.overrun(at));
                }
                self.time = self.time.wrapping_add(delta);
                self.at = at + 4 + length;
            }
            // The length includes its own word.
            _ => {
                let length = array as usize;
                if length < 4 || length > room - 4 {
                    return Err(self.overrun(at));
                }
                self.time = self.time.wrapping_add(delta);
                self.at = (at + 4 + length.next_multiple_of(4)).min(self.end);
                return Ok(Some(Record { time: self.time, payload: at + 8..at + 4 + length }));
            }
        }
        Ok(None)
    }

    fn overrun(&self, at: usize) -> PageError {
        PageError::Record { at: at - self.start, committed: self.end - self.start }
    }
}

/// Completes an absolute timestamp with the top bits of the previous time, plus one if time would
/// go back.
fn absolute(stamp: u64, before: u64) -> u64 {
    let top = before >> STAMP_BITS << STAMP_BITS;
    if top == 0 {
        return stamp;
    }
    let time = top | stamp;
    if time < before { time.wrapping_add(1 << STAMP_BITS) } else { time }
}

/// Returns the 32-bit word at `at`. The caller has checked that it lies in `bytes`.
#[inline]
fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// Returns the 64-bit word at `at`. The caller has checked that it lies in `bytes`.
#[inline]
fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
