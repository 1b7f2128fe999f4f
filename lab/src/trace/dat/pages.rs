//! The raw pages of one CPU, a batch at a time, so that memory does not grow with the trace.

use super::compression::Compression;
use anyhow::{Context, Result, bail};
use std::{fs::File, os::unix::fs::FileExt};

/// About how many bytes of pages are held for one CPU at a time.
const BATCH: usize = 128 << 10;
/// The largest chunk of compressed trace data, packed or not. trace-cmd writes ten pages a chunk.
const CHUNK_MAX: u32 = 32 << 20;

/// Where the pages of one CPU lie in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::trace) struct CpuData {
    /// The CPU's number.
    pub(in crate::trace) cpu: u32,
    /// Where they start.
    pub(in crate::trace) offset: u64,
    /// Bytes from there on; of compressed data what they take in the file.
    pub(in crate::trace) size: u64,
    pub(super) compression: Compression,
}

impl CpuData {
    /// How many bytes of pages it has; `None` if they are compressed.
    pub(in crate::trace) fn unpacked_bytes(&self) -> Option<u64> {
        matches!(self.compression, Compression::None).then_some(self.size)
    }
}

/// Reads the pages of one CPU from front to back.
pub(in crate::trace) struct PageReader<'t> {
    file: &'t File,
    compression: Compression,
    at: u64,
    end: u64,
    /// Compressed chunks still to come; unknown before the first was read.
    chunks: Option<u32>,
    packed: Vec<u8>,
}

impl<'t> PageReader<'t> {
    pub(in crate::trace) fn new(file: &'t File, data: &CpuData) -> PageReader<'t> {
        let CpuData { offset, size, compression, .. } = *data;
        let end = offset.saturating_add(size);
        PageReader { file, compression, at: offset, end, chunks: None, packed: Vec::new() }
    }

    /// Replaces `batch` by the next whole pages of `page_size` bytes; leaves it empty at the end.
    pub(in crate::trace) fn next(&mut self, page_size: usize, batch: &mut Vec<u8>) -> Result<()> {
        batch.clear();
        if self.at >= self.end {
            return Ok(());
        }
        match self.compression {
            Compression::None => self.plain(page_size, batch)?,
            _ => self.chunk(batch)?,
        }
        if !batch.len().is_multiple_of(page_size) {
            bail!("the pages end with {} bytes that are no whole page", batch.len() % page_size);
        }
        Ok(())
    }

    fn plain(&mut self, page_size: usize, batch: &mut Vec<u8>) -> Result<()> {
        let most = (BATCH / page_size).max(1) * page_size;
        let length = usize::try_from(self.end - self.at).map_or(most, |left| left.min(most));
        batch.resize(length, 0);
        self.read(self.at, batch)?;
        self.at += length as u64;
        Ok(())
    }

    fn chunk(&mut self, batch: &mut Vec<u8>) -> Result<()> {
        let left = match self.chunks {
            Some(left) => left,
            None => {
                let mut count = [0; 4];
                self.read(self.at, &mut count)?;
                self.at += 4;
                u32::from_le_bytes(count)
            }
        };
        let Some(left) = left.checked_sub(1) else {
            self.at = self.end;
            return Ok(());
        };
        let mut sizes = [0; 8];
        self.read(self.at, &mut sizes)?;
        let [a, b, c, d, e, f, g, h] = sizes;
        let (packed, size) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if packed > CHUNK_MAX || size > CHUNK_MAX || size == 0 {
            bail!("a compressed chunk claims {size} bytes, packed {packed}");
        }
        // The file must have the bytes before memory is taken for them.
        let length = self.file.metadata().context("cannot ask for the size of the trace")?.len();
        if self.at.saturating_add(8 + u64::from(packed)) > length {
            bail!("the file ends in a compressed chunk of pages");
        }
        let mut bytes = std::mem::take(&mut self.packed);
        bytes.resize(packed as usize, 0);
        self.read(self.at + 8, &mut bytes)?;
        self.compression.unpack(&bytes, size as usize, batch)?;
        self.packed = bytes;
        self.at += 8 + u64::from(packed);
        self.chunks = Some(left);
        if left == 0 {
            self.at = self.end;
        }
        Ok(())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, at).with_context(|| format!("cannot read the pages at byte {at}"))
    }
}
