//! The raw pages of one CPU, read in batches, so that memory does not grow with the trace.

use super::compression::Compression;
use anyhow::{Context, Result, bail};
use std::{fs::File, os::unix::fs::FileExt};

/// The approximate number of bytes of pages held for one CPU at a time.
const BATCH: usize = 128 << 10;
/// The largest chunk of compressed trace data, packed or unpacked. trace-cmd writes ten pages per
/// chunk.
const CHUNK_MAX: u32 = 32 << 20;

/// The location of one CPU's pages in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuData {
    /// The CPU's number.
    pub(crate) cpu: u32,
    /// The file offset of the first page.
    pub(crate) offset: u64,
    /// Bytes from `offset`; for compressed data, the compressed size.
    pub(crate) size: u64,
    pub(super) compression: Compression,
}

impl CpuData {
    /// Returns the number of bytes of pages; `None` if they are compressed.
    pub(crate) fn unpacked_bytes(&self) -> Option<u64> {
        matches!(self.compression, Compression::None).then_some(self.size)
    }
}

/// Reads the pages of one CPU from front to back.
pub(crate) struct PageReader<'t> {
    file: &'t File,
    compression: Compression,
    at: u64,
    end: u64,
    /// Compressed chunks still to be read; `None` until the first one is read.
    chunks: Option<u32>,
    packed: Vec<u8>,
}

impl<'t> PageReader<'t> {
    pub(crate) fn new(file: &'t File, data: &CpuData) -> PageReader<'t> {
        let CpuData { offset, size, compression, .. } = *data;
        let end = offset.saturating_add(size);
        PageReader { file, compression, at: offset, end, chunks: None, packed: Vec::new() }
    }

    /// Replaces `batch` with the next whole pages of `page_size` bytes; leaves it empty at the end.
    pub(crate) fn next(&mut self, page_size: usize, batch: &mut Vec<u8>) -> Result<()> {
        batch.clear();
        if self.at >= self.end {
            return Ok(());
        }
        match self.compression {
            Compression::None => self.plain(page_size, batch)?,
            _ => self.chunk(batch)?,
        }
        if !batch.len().is_multiple_of(page_size) {
            bail!("the last page is incomplete: it has {} bytes", batch.len() % page_size);
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
        // Check that the file has the bytes before allocating memory for them.
        let length = self.file.metadata().context("cannot get the size of the trace")?.len();
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
