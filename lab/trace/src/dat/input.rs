//! Reads numbers, strings and blocks from an untrusted file.

use anyhow::{Context, Result, bail};
use std::io::Read;

/// The maximum number of bytes of metadata read from one file: all its texts in total, unpacked.
/// Parsed, a text crafted for it takes about eight times its size.
pub(super) const METADATA_MAX: u64 = 64 << 20;

/// A reader that counts bytes and stops at a limit. It allocates memory as bytes arrive, not from
/// the lengths that the file declares.
pub(super) struct Input<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Input<R> {
    /// Reads at most `left` bytes of `inner`.
    pub(super) fn new(inner: R, left: u64) -> Input<R> {
        Input { inner, left }
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take(N as u64, what)?;
        self.inner.read_exact(&mut bytes).with_context(|| format!("the file ends in {what}"))?;
        Ok(bytes)
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads exactly `length` bytes.
    pub(super) fn bytes(&mut self, length: u64, what: &str) -> Result<Vec<u8>> {
        self.take(length, what)?;
        let mut bytes = Vec::new();
        self.inner
            .by_ref()
            .take(length)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {what}"))?;
        if bytes.len() as u64 != length {
            bail!("the file ends in {what}: {} of {length} bytes are there", bytes.len());
        }
        Ok(bytes)
    }

    /// Reads a block of text, replacing invalid UTF-8.
    pub(super) fn text(&mut self, length: u64, what: &str) -> Result<String> {
        Ok(into_text(self.bytes(length, what)?))
    }

    /// Reads a NUL-terminated string of at most `max` bytes.
    pub(super) fn string(&mut self, max: usize, what: &str) -> Result<String> {
        let mut bytes = Vec::new();
        loop {
            let [byte] = self.array(what)?;
            if byte == 0 {
                return Ok(into_text(bytes));
            }
            if bytes.len() == max {
                bail!("{what} has more than {max} bytes");
            }
            bytes.push(byte);
        }
    }

    /// Checks that the next bytes are `expect`.
    pub(super) fn literal(&mut self, expect: &[u8], what: &str) -> Result<()> {
        if self.bytes(expect.len() as u64, what)? != expect {
            bail!("{what} is missing");
        }
        Ok(())
    }

    fn take(&mut self, length: u64, what: &str) -> Result<()> {
        match self.left.checked_sub(length) {
            Some(left) => self.left = left,
            None => bail!("{what} claims {length} bytes; at most {} are read", self.left),
        }
        Ok(())
    }
}

/// Converts bytes to text, replacing invalid UTF-8; valid UTF-8 is not copied.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
