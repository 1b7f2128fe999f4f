//! Decompresses the kernel image and the modules of packages.

use crate::host::process::Tool;
use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use fs_err as fs;
use ruzstd::decoding::StreamingDecoder;
use std::{
    io::{self, Cursor, Read},
    path::Path,
};

/// The maximum size of a decompressed kernel or module.
const LIMIT_BYTES: u64 = 512 << 20;

/// Offset and value of the magic number in an arm64 `Image` (Documentation/arch/arm64/booting.rst).
const MAGIC: (usize, &[u8]) = (56, b"ARM\x64");

/// Writes the kernel in `vmlinuz`, in any format that Debian has used, to `to` as an `Image` that QEMU
/// boots.
pub(super) fn image(vmlinuz: &Path, to: &Path) -> Result<()> {
    let data = fs::read(vmlinuz)?;
    let image = plain(data).with_context(|| format!("cannot unpack `{}`", vmlinuz.display()))?;
    Ok(fs::write(to, image)?)
}

/// Decompresses an `Image`, an `Image.gz`, or a self-decompressing EFI image (`vmlinuz.efi`, since 6.1).
fn plain(data: Vec<u8>) -> Result<Vec<u8>> {
    let has = |data: &[u8], (at, magic): (usize, &[u8])| data.get(at..at + magic.len()) == Some(magic);
    let image = if data.starts_with(&[0x1f, 0x8b]) {
        gunzip(&data)?
    } else if has(&data, (4, b"zimg")) {
        let number = |at: usize| -> Option<usize> {
            Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?) as usize)
        };
        let payload = number(8).zip(number(12)).and_then(|(at, size)| data.get(at..at.checked_add(size)?));
        let payload = payload.context("its header points outside of it")?;
        match data.get(24..56).unwrap_or_default() {
            kind if kind.starts_with(b"gzip") => gunzip(payload)?,
            kind if kind.starts_with(b"zstd") => unzstd(payload)?,
            kind => bail!("its compression is `{}`, expected gzip or zstd", kind.escape_ascii()),
        }
    } else {
        data
    };
    if !has(&image, MAGIC) {
        bail!("its contents are not an arm64 kernel");
    }
    Ok(image)
}

/// Writes the module in `file` to `to`, decompressed according to its name.
pub(super) fn module(file: &Path, to: &Path) -> Result<()> {
    let cannot = || format!("cannot unpack the module `{}`", file.display());
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => fs::write(to, gunzip(&fs::read(file)?).with_context(cannot)?)?,
        Some("zst") => fs::write(to, unzstd(&fs::read(file)?).with_context(cannot)?)?,
        Some("xz") => {
            let packed = to.with_extension("ko.xz");
            fs::copy(file, &packed)?;
            Tool::new("xz")
                .args(["--decompress", "--force", "--"])
                .arg(&packed)
                .run()
                .with_context(cannot)?;
        }
        _ => fs::write(to, fs::read(file)?)?,
    }
    Ok(())
}

fn gunzip(data: &[u8]) -> Result<Vec<u8>> {
    capped(GzDecoder::new(data))
}

fn unzstd(data: &[u8]) -> Result<Vec<u8>> {
    capped(StreamingDecoder::new(Cursor::new(data)).map_err(io::Error::other)?)
}

fn capped(reader: impl Read) -> Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    reader.take(LIMIT_BYTES + 1).read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > LIMIT_BYTES {
        bail!("it is larger than {LIMIT_BYTES} bytes when decompressed");
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn kernel() -> Vec<u8> {
        let mut image = vec![7; 200];
        image[MAGIC.0..MAGIC.0 + 4].copy_from_slice(MAGIC.1);
        image
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    /// Builds an EFI image like scripts/Makefile.vmlinux (drivers/firmware/efi/libstub/zboot-header.S).
    fn efi(kind: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut data = b"MZ\0\0zimg".to_vec();
        data.extend(64_u32.to_le_bytes());
        data.extend((payload.len() as u32).to_le_bytes());
        data.resize(24, 0);
        data.extend(kind);
        data.resize(64, 0);
        data.extend(payload);
        data
    }

    #[test]
    fn an_image_is_found_in_every_form_it_is_shipped_in() {
        let zstd = ruzstd::encoding::compress_to_vec(
            &kernel()[..],
            ruzstd::encoding::CompressionLevel::Uncompressed,
        );
        for form in [kernel(), gzip(&kernel()), efi(b"gzip", &gzip(&kernel())), efi(b"zstd22", &zstd)] {
            assert_eq!(plain(form).unwrap(), kernel());
        }
    }

    #[test]
    fn what_is_no_kernel_is_named() {
        let check = |data: Vec<u8>, expect: &str| {
            let error = format!("{:#}", plain(data).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check(vec![0; 100], "not an arm64 kernel");
        check(gzip(b"short"), "not an arm64 kernel");
        check(Vec::new(), "not an arm64 kernel");
        check(gzip(&kernel())[..20].to_vec(), "");
        check(efi(b"lzma", b""), "compression is `lzma");
        let mut outside = efi(b"gzip", b"");
        outside[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        check(outside, "points outside");
    }

    #[test]
    fn a_module_is_unpacked_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("a.ko"), "module").unwrap();
        fs::write(at("b.ko.gz"), gzip(b"module")).unwrap();
        Tool::new("xz").args(["--keep", "--"]).arg(at("a.ko")).run().unwrap();
        fs::rename(at("a.ko.xz"), at("c.ko.xz")).unwrap();
        for file in ["a.ko", "b.ko.gz", "c.ko.xz"] {
            module(&at(file), &at("unpacked.ko")).unwrap();
            assert_eq!(fs::read(at("unpacked.ko")).unwrap(), b"module");
            fs::remove_file(at("unpacked.ko")).unwrap();
        }
        fs::write(at("d.ko.gz"), "no gzip").unwrap();
        assert!(module(&at("d.ko.gz"), &at("unpacked.ko")).is_err());
    }
}
