//! The compression of version 7 files: zstd or zlib, of whole sections and of chunks of trace data.

use anyhow::{Context, Result, bail};
use std::io::Read;

/// The compression algorithm of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// No compression.
    None,
    /// Zstandard frames.
    Zstd,
    /// zlib streams.
    Zlib,
}

impl Compression {
    /// Parses the name of the algorithm in a file header.
    pub(super) fn named(name: &str) -> Result<Compression> {
        match name {
            "none" => Ok(Compression::None),
            "zstd" => Ok(Compression::Zstd),
            "zlib" => Ok(Compression::Zlib),
            other => bail!("the file is compressed with `{other}`, expected zstd or zlib"),
        }
    }

    /// Unpacks `packed` into `out`, replacing its contents. Fails unless the result has `size`
    /// bytes.
    pub(super) fn unpack(self, packed: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        // One byte more than expected reveals a block that is too long.
        let most = size as u64 + 1;
        match self {
            Compression::None => bail!("a compressed section in a file that names no compression"),
            Compression::Zlib => {
                flate2::read::ZlibDecoder::new(packed)
                    .take(most)
                    .read_to_end(out)
                    .context("cannot unpack a zlib block")?;
            }
            Compression::Zstd => {
                ruzstd::decoding::StreamingDecoder::new(packed)
                    .map_err(anyhow::Error::new)
                    .context("cannot unpack a zstd block")?
                    .take(most)
                    .read_to_end(out)
                    .context("cannot unpack a zstd block")?;
            }
        }
        if out.len() != size {
            bail!("a compressed block does not unpack to the {size} bytes that it declares");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn blocks_keep_their_promise() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"abcdef").unwrap();
        let zlib = encoder.finish().unwrap();
        // `zstd` of "abcdef": a frame without the size of its content and without a checksum.
        let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x31, 0, 0, b'a', b'b', b'c', b'd', b'e', b'f'];
        let check = |compression: Compression, packed: &[u8], size: usize, fine: bool| {
            let mut out = vec![1; 40];
            let result = compression.unpack(packed, size, &mut out);
            assert_eq!(result.is_ok(), fine, "{compression:?} {size} {result:?}");
            assert!(!fine || out == b"abcdef");
        };
        for (compression, packed) in [(Compression::Zlib, &zlib[..]), (Compression::Zstd, &zstd[..])] {
            check(compression, packed, 6, true);
            check(compression, packed, 5, false);
            check(compression, packed, 7, false);
            check(compression, &packed[..packed.len() - 3], 6, false);
            check(compression, b"", 6, false);
            check(compression, b"no such thing", 6, false);
        }
        check(Compression::None, b"abcdef", 6, false);
    }
}
