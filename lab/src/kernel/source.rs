//! A kernel's source in the cache: a Debian source package, a tarball or a git commit; or a tree on the
//! host, which is used in place.

use super::{
    resolved::{forget, resolve},
    source_tree::{Source, version_of},
    spec::{DebianVersion, SourceSpec, is_commit},
    version::KernelVersion,
    working_tree,
};
use crate::{
    cache::{Key, KeyBuilder},
    context::Lab,
    host::{
        apt::Apt,
        confine::Reach,
        deb,
        git::git,
        outage::Outage,
        process::{Tool, which},
    },
    progress::Progress,
    words::hex,
};
use anyhow::{Context, Error, Result, bail, ensure};
use fs_err::{self as fs, File};
use sha2::{Digest, Sha256};
use std::{io::Read, path::Path};

/// Returns the source in `spec`, fetched unless it is in the cache. Paths are relative to the checkout.
pub(super) fn obtain(lab: &Lab, spec: &SourceSpec) -> Result<Source> {
    match spec {
        SourceSpec::Debian { suite, package, version } => {
            let version = debian_version(lab, spec, suite, package, version.as_ref())?;
            fetched_debian(lab, spec, [suite, package, &version])
        }
        SourceSpec::DebianImage { package, .. } => bail!("`{package}` is not a source package"),
        SourceSpec::Tree(path) => working_tree::open(&lab.root.join(path)),
        SourceSpec::Tarball { url, sha256 } => tarball(lab, url, sha256),
        SourceSpec::Git { url, reference } => repository(lab, spec, url, reference),
    }
}

/// The properties of a source that may not have been fetched; the fields are those of [`Source`].
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) key: String,
    pub(super) version: KernelVersion,
    pub(super) label: String,
}

/// Returns key, version and label of the source in `spec`. A Debian package is only looked up, since its
/// version determines all three; any other source is fetched.
pub(super) fn identify(lab: &Lab, spec: &SourceSpec) -> Result<Named> {
    if let SourceSpec::Debian { suite, package, version } = spec {
        let label = debian_version(lab, spec, suite, package, version.as_ref())?;
        let key = debian_key(package, &label).as_str().to_owned();
        return Ok(Named { key, version: label.parse()?, label });
    }
    let Source { key, version, label, .. } = obtain(lab, spec)?;
    Ok(Named { key, version, label })
}

/// Returns the pinned version, else the one that the suite had when it was first looked up.
fn debian_version(
    lab: &Lab,
    spec: &SourceSpec,
    suite: &str,
    package: &str,
    pinned: Option<&DebianVersion>,
) -> Result<String> {
    match pinned {
        Some(version) => Ok(version.as_str().to_owned()),
        None => resolve(&lab.cache, spec, || Apt::open(lab)?.version(suite, package)),
    }
}

/// Returns the source in `spec` pinned to the version or commit that it has, which is looked up unless it is known.
pub(super) fn exact(lab: &Lab, spec: &SourceSpec) -> Result<SourceSpec> {
    let version = match spec {
        SourceSpec::Debian { suite, package, version } => {
            debian_version(lab, spec, suite, package, version.as_ref())?
        }
        SourceSpec::Git { url, reference } => commit(lab, spec, url, reference)?,
        _ => return Ok(spec.clone()),
    };
    spec.exactly(&version).map_err(Error::msg)
}

/// Returns key, version and label of a source that need not be here, if `spec` pins it. `version` is that in its
/// Makefile.
pub(super) fn named(spec: &SourceSpec, version: KernelVersion) -> Option<Named> {
    let (key, label) = match spec {
        SourceSpec::Debian { package, version: Some(pinned), .. } => {
            (debian_key(package, pinned.as_str()), pinned.as_str().to_owned())
        }
        SourceSpec::Tarball { sha256, .. } => (tarball_key(sha256), version.to_string()),
        SourceSpec::Git { reference, .. } if is_commit(reference) => {
            (commit_key(reference), short(reference).to_owned())
        }
        _ => return None,
    };
    Some(Named { key: key.as_str().to_owned(), version, label })
}

fn debian_key(package: &str, version: &str) -> Key {
    let key = KeyBuilder::default().input("package", package).input("version", version);
    key.finish(&format!("{package}-{version}"))
}

fn fetched_debian(lab: &Lab, spec: &SourceSpec, [suite, package, version]: [&str; 3]) -> Result<Source> {
    let key = debian_key(package, version);
    fetched(lab, &key, version, |into| {
        let pinned = matches!(spec, SourceSpec::Debian { version: Some(_), .. });
        let asked = if pinned { format!("{package}={version}") } else { package.to_owned() };
        let fetched = Apt::open(lab)?.fetch(suite, &[&asked], into)?;
        let [fetched] = &fetched[..] else {
            bail!("apt fetched {} packages for `{package}`, expected one", fetched.len())
        };
        if fetched.version != version {
            forget(&lab.cache, spec)?;
            bail!("Debian `{suite}` now has `{package}` {} instead of {version}; try again", fetched.version);
        }
        let unpacked = into.join("unpacked");
        deb::unpack(&fetched.deb, &unpacked)?;
        fs::remove_file(&fetched.deb)?;
        let archives = fs::read_dir(unpacked.join("usr/src"))
            .with_context(|| format!("the package `{package}` has no /usr/src"))?;
        let archive = archives
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".tar.")));
        let Some(archive) = archive else { bail!("no source tarball in the package `{package}`") };
        unpack_tarball(&archive, &into.join("tree"), &lab.progress)?;
        fs::remove_dir_all(&unpacked)?;
        Ok(())
    })
}

fn tarball_key(sha256: &str) -> Key {
    KeyBuilder::default().input("sha256", sha256).finish("tarball")
}

fn tarball(lab: &Lab, url: &str, sha256: &str) -> Result<Source> {
    fetched(lab, &tarball_key(sha256), "", |into| {
        let archive = into.join("download");
        if which("curl").is_none() {
            bail!(Outage(format!("cannot download `{url}` without curl: install the package `curl`")));
        }
        let task = lab.progress.task(format!("downloading {url} (MB)"), None);
        let size = || archive.metadata().map_or(0, |data| data.len());
        Tool::new("curl")
            .args(["--fail", "--location", "--silent", "--show-error", "--retry", "3"])
            .args(["--connect-timeout", "30", "--speed-time", "60", "--speed-limit", "1000", "--output"])
            .arg(&archive)
            .args(["--", url])
            .run_watched(|| task.set(size() / 1_000_000))
            .with_context(|| Outage(format!("cannot download `{url}`; check the URL and the network")))?;
        drop(task);
        let found = sha256_of(&archive)?;
        ensure!(
            found == sha256,
            "`{url}` has the SHA-256 {found} ({} bytes), expected {sha256}; the download was truncated, or \
             it is a different file",
            size()
        );
        unpack_tarball(&archive, &into.join("tree"), &lab.progress)?;
        fs::remove_file(&archive)?;
        Ok(())
    })
}

fn commit_key(commit: &str) -> Key {
    KeyBuilder::default().input("commit", commit).finish("git")
}

fn short(commit: &str) -> &str {
    &commit[..12.min(commit.len())]
}

/// Returns the commit that the reference had when it was first looked up.
fn commit(lab: &Lab, spec: &SourceSpec, url: &str, reference: &str) -> Result<String> {
    resolve(&lab.cache, spec, || {
        if is_commit(reference) {
            return Ok(reference.to_owned());
        }
        // Query both: the second line has the commit that an annotated tag points to.
        let peeled = format!("{reference}^{{}}");
        let listed = git(&lab.root)
            .args(["ls-remote", "--exit-code", "--", url, reference, &peeled])
            .run()
            .with_context(|| format!("cannot find `{reference}` in the git repository `{url}`"))?;
        let line = listed.lines().find(|line| line.ends_with("^{}")).or(listed.lines().next());
        let commit = line.and_then(|line| line.split_whitespace().next()).unwrap_or_default();
        ensure!(
            commit.len() >= 40,
            "git returned `{commit}` for `{reference}` of `{url}`, expected a commit"
        );
        Ok(commit.to_owned())
    })
}

fn repository(lab: &Lab, spec: &SourceSpec, url: &str, reference: &str) -> Result<Source> {
    if which("git").is_none() {
        bail!("cannot fetch `{url}` without git: install the package `git`");
    }
    let commit = commit(lab, spec, url, reference)?;
    fetched(lab, &commit_key(&commit), short(&commit), |into| {
        let tree = into.join("tree");
        let _task = lab.progress.task(format!("fetching {reference} of {url}"), None);
        let wanted = if is_commit(reference) { &commit } else { reference };
        fs::create_dir(&tree)?;
        git(&tree).args(["init", "--quiet"]).run()?;
        git(&tree)
            .args(["fetch", "--quiet", "--depth", "1", "--", url, wanted])
            .run()
            .with_context(|| format!("cannot fetch `{reference}` of the git repository `{url}`"))?;
        git(&tree).args(["checkout", "--quiet", "--detach", "FETCH_HEAD"]).run()?;
        let found = git(&tree).args(["rev-parse", "HEAD"]).run()?;
        if found.trim() != commit {
            forget(&lab.cache, spec)?;
            bail!("`{reference}` of `{url}` is now {} instead of {commit}; try again", found.trim());
        }
        // The history is not needed.
        fs::remove_dir_all(tree.join(".git"))?;
        Ok(())
    })
}

/// Returns the cached source `key`; `make` creates it, if necessary, as `tree` in the directory passed to it.
pub(super) fn fetched(
    lab: &Lab,
    key: &Key,
    label: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<Source> {
    let waiting = || lab.progress.line("waiting for another process that is fetching this kernel source");
    let mut made = false;
    let lease = lab.cache.leased_entry("sources", key, waiting, |into| {
        made = true;
        make(into)?;
        version_of(&into.join("tree")).map(|_| ())
    })?;
    if made {
        lab.cache.make_room(&lab.progress);
    }
    let directory = lease.path().join("tree");
    let version = version_of(&directory)
        .with_context(|| format!("corrupt cache entry: remove `{}` and try again", lease.path().display()))?;
    let label = if label.is_empty() { version.to_string() } else { label.to_owned() };
    Ok(Source { directory, version, label, key: key.as_str().to_owned(), headers: None, lease: Some(lease) })
}

fn unpack_tarball(archive: &Path, into: &Path, progress: &Progress) -> Result<()> {
    let _task = progress.task("unpacking the kernel source", None);
    fs::create_dir_all(into)?;
    Tool::new("tar")
        .args(["--extract", "--strip-components=1", "--no-same-owner", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(into)
        .confined(Reach::new(into).reading([archive]))
        .run()
        .with_context(|| format!("cannot unpack `{}`; is the disk full?", archive.display()))?;
    Ok(())
}

fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            length => digest.update(&buffer[..length]),
        }
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
