//! A file that apt would download → the [`Package`].

use super::{Choice, Package};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use std::path::Path;

/// One line of `apt-get download --print-uris`: `'URI' FILE SIZE HASH`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Download {
    pub(super) file: String,
    pub(super) size_bytes: u64,
}

impl Download {
    pub(super) fn parse(line: &str) -> Result<Download> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, file, size, ..] if !file.contains('/') && file.matches('_').count() >= 2 => {
                let size_bytes =
                    size.parse().with_context(|| format!("apt-get reported the size `{size}`"))?;
                Ok(Download { file: file.to_owned(), size_bytes })
            }
            _ => bail!("apt-get printed `{line}`, expected a URI, a file name and a size"),
        }
    }

    pub(super) fn put_in_place(self, from: &Path, into: &Path) -> Result<Package> {
        let deb = into.join(&self.file);
        fs::rename(from.join(&self.file), &deb)?;
        let Choice { name, version, architecture } = self.choice();
        Ok(Package { name, version, architecture, deb })
    }

    /// Returns name, version and architecture from the file name.
    pub(super) fn choice(&self) -> Choice {
        let stem = self.file.trim_end_matches(".deb");
        let mut parts = stem.rsplitn(3, '_');
        let (architecture, version, name) = (parts.next(), parts.next(), parts.next());
        Choice {
            name: name.unwrap_or_default().to_owned(),
            // The colon of an epoch is escaped in file names.
            version: version.unwrap_or_default().replace("%3a", ":"),
            architecture: architecture.unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_is_named_by_its_file() {
        let line = "'http://mirror.test/debian/pool/x.deb' libc6_1%3a2.36-9_arm64.deb 2312 SHA256:ab";
        let download = Download::parse(line).unwrap();
        assert_eq!(download, Download { file: "libc6_1%3a2.36-9_arm64.deb".into(), size_bytes: 2312 });
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(from.path().join(&download.file), "").unwrap();
        let package = download.put_in_place(from.path(), into.path()).unwrap();
        assert_eq!(
            (&*package.name, &*package.version, &*package.architecture),
            ("libc6", "1:2.36-9", "arm64")
        );
        assert!(package.deb.is_file());
    }

    #[test]
    fn a_download_with_a_path_or_without_a_size_is_refused() {
        for line in ["'u' ../x_1_all.deb 3 h", "'u' x_1_all.deb", "'u' x.deb 3 h", "'u' x_1_all.deb big h"] {
            assert!(Download::parse(line).is_err(), "{line}");
        }
    }
}
