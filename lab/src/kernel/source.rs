//! A kernel's source in the cache: a Debian source package, a tarball, a git commit; or a tree on
//! this machine, which is used where it is.
//!
//! What a suite or a branch stood for is remembered when it was first asked for: the same kernel
//! builds tomorrow, without a network too. [`forget`] makes the next build look again.

use super::{
    spec::{DebianVersion, SourceSpec, read_capped},
    tree,
    version::KernelVersion,
};
use crate::{
    cache::{Cache, Key, KeyBuilder, hex},
    host::{
        apt::Apt,
        deb,
        process::{Tool, which},
    },
    progress::Progress,
};
use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// The kernel's Makefile is 70 kB.
const MAKEFILE_LIMIT_BYTES: u64 = 4 << 20;

/// Source that is ready to be built.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The tree.
    pub(super) directory: PathBuf,
    /// The version its Makefile gives.
    pub(super) version: KernelVersion,
    /// As its origin calls it: `6.12.107-1`, a commit, or the version again.
    pub(super) label: String,
    /// Changes whenever the source does.
    pub(super) key: String,
    /// Whether it is someone's working tree, to be built incrementally.
    pub(super) mutable: bool,
}

/// The source `spec` names, fetched if it is not in the cache. Paths are relative to `root`. Of a
/// package, `exactly` is the version that is wanted in place of the suite's, of a repository the commit.
pub(super) fn obtain(
    cache: &Cache,
    root: &Path,
    spec: &SourceSpec,
    exactly: Option<&str>,
    progress: &Progress,
) -> Result<Source> {
    match spec {
        SourceSpec::Debian { suite, package, version } => {
            let pinned = match exactly {
                Some(exactly) => Some(exactly.parse::<DebianVersion>().map_err(anyhow::Error::msg)?),
                None => version.clone(),
            };
            let version = debian_version(cache, spec, suite, package, pinned.as_ref(), progress)?;
            fetched_debian(cache, spec, [suite, package, &version], pinned.is_some(), progress)
        }
        SourceSpec::DebianImage { package, .. } => bail!("`{package}` is no source package"),
        SourceSpec::Tree(path) => tree::open(&root.join(path)),
        SourceSpec::Tarball { url, sha256 } => tarball(cache, url, sha256, progress),
        SourceSpec::Git { url, reference } => {
            let reference = exactly.unwrap_or(reference);
            let spec = SourceSpec::Git { url: url.clone(), reference: reference.to_owned() };
            ensure!(exactly.is_none_or(is_commit), "`{}` is no commit", reference.escape_debug());
            git(cache, &spec, url, reference, progress)
        }
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// The key and the version of the source `spec` names. A Debian package is only looked up, since its
/// version says both; anything else is fetched.
pub(super) fn identify(
    cache: &Cache,
    root: &Path,
    spec: &SourceSpec,
    progress: &Progress,
) -> Result<(String, KernelVersion)> {
    if let SourceSpec::Debian { suite, package, version } = spec {
        let version = debian_version(cache, spec, suite, package, version.as_ref(), progress)?;
        return Ok((debian_key(package, &version).as_str().to_owned(), version.parse()?));
    }
    let source = obtain(cache, root, spec, None, progress)?;
    Ok((source.key, source.version))
}

/// Forgets what a suite or a branch stood for, so that it is looked up anew.
pub(super) fn forget(cache: &Cache, spec: &SourceSpec) -> Result<()> {
    match fs::remove_file(remembered(cache, spec)?) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The version that is pinned, else the one that the suite had when it was first asked.
fn debian_version(
    cache: &Cache,
    spec: &SourceSpec,
    suite: &str,
    package: &str,
    pinned: Option<&DebianVersion>,
    progress: &Progress,
) -> Result<String> {
    match pinned {
        Some(version) => Ok(version.as_str().to_owned()),
        None => resolve(cache, spec, || Apt::open(cache, progress)?.version(suite, package)),
    }
}

fn debian_key(package: &str, version: &str) -> Key {
    let key = KeyBuilder::default().input("package", package).input("version", version);
    key.finish(&format!("{package}-{version}"))
}

fn fetched_debian(
    cache: &Cache,
    spec: &SourceSpec,
    [suite, package, version]: [&str; 3],
    exactly: bool,
    progress: &Progress,
) -> Result<Source> {
    let key = debian_key(package, version);
    fetched(cache, &key, version, progress, |into| {
        let wanted = if exactly { format!("{package}={version}") } else { package.to_owned() };
        let fetched = Apt::open(cache, progress)?.fetch(suite, &[&wanted], into)?;
        let [fetched] = &fetched[..] else { bail!("apt gave {} packages for `{package}`", fetched.len()) };
        if fetched.version != version {
            forget(cache, spec)?;
            bail!(
                "Debian `{suite}` has `{package}` {} now, no longer {version}; run it again",
                fetched.version
            );
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
        unpack_tarball(&archive, &into.join("tree"), progress)?;
        fs::remove_dir_all(&unpacked)?;
        Ok(())
    })
}

fn tarball(cache: &Cache, url: &str, sha256: &str, progress: &Progress) -> Result<Source> {
    let key = KeyBuilder::default().input("sha256", sha256).finish("tarball");
    fetched(cache, &key, "", progress, |into| {
        let archive = into.join("download");
        if which("curl").is_none() {
            bail!("cannot download `{url}` without curl: install the package `curl`");
        }
        let task = progress.task(format!("downloading {url} (MB)"), None);
        let size = || archive.metadata().map_or(0, |data| data.len());
        Tool::new("curl")
            .args(["--fail", "--location", "--silent", "--show-error", "--retry", "3"])
            .args(["--connect-timeout", "30", "--speed-time", "60", "--speed-limit", "1000", "--output"])
            .arg(&archive)
            .args(["--", url])
            .run_watched(|| task.set(size() / 1_000_000))
            .with_context(|| format!("cannot download `{url}`; check the URL and the network"))?;
        drop(task);
        let found = sha256_of(&archive)?;
        ensure!(
            found == sha256,
            "`{url}` has the SHA-256 {found} ({} bytes), expected {sha256}; the download was cut short or \
             it is another file",
            size()
        );
        unpack_tarball(&archive, &into.join("tree"), progress)?;
        fs::remove_file(&archive)?;
        Ok(())
    })
}

fn git(cache: &Cache, spec: &SourceSpec, url: &str, reference: &str, progress: &Progress) -> Result<Source> {
    if which("git").is_none() {
        bail!("cannot fetch `{url}` without git: install the package `git`");
    }
    let is_commit = is_commit(reference);
    let commit = resolve(cache, spec, || {
        if is_commit {
            return Ok(reference.to_owned());
        }
        // Both, since an annotated tag stands for a commit, which the second line names.
        let peeled = format!("{reference}^{{}}");
        let listed = git_tool()
            .args(["ls-remote", "--exit-code", "--", url, reference, &peeled])
            .run()
            .with_context(|| format!("cannot find `{reference}` in the git repository `{url}`"))?;
        let line = listed.lines().find(|line| line.ends_with("^{}")).or(listed.lines().next());
        let commit = line.and_then(|line| line.split_whitespace().next()).unwrap_or_default();
        ensure!(commit.len() >= 40, "git gave `{commit}` for `{reference}` of `{url}`, expected a commit");
        Ok(commit.to_owned())
    })?;
    let key = KeyBuilder::default().input("commit", &commit).finish("git");
    fetched(cache, &key, &commit[..12.min(commit.len())], progress, |into| {
        let tree = into.join("tree");
        let _task = progress.task(format!("fetching {reference} of {url}"), None);
        let wanted = if is_commit { &commit } else { reference };
        git_tool().args(["init", "--quiet"]).arg(&tree).run()?;
        let inside = || git_tool().directory(&tree);
        inside()
            .args(["fetch", "--quiet", "--depth", "1", "--", url, wanted])
            .run()
            .with_context(|| format!("cannot fetch `{reference}` of the git repository `{url}`"))?;
        inside().args(["checkout", "--quiet", "--detach", "FETCH_HEAD"]).run()?;
        let found = inside().args(["rev-parse", "HEAD"]).run()?;
        if found.trim() != commit {
            forget(cache, spec)?;
            bail!("`{reference}` of `{url}` is {} now, no longer {commit}; run it again", found.trim());
        }
        // Nothing is asked of its history.
        fs::remove_dir_all(tree.join(".git"))?;
        Ok(())
    })
}

/// git, that never asks a person.
fn git_tool() -> Tool {
    Tool::new("git").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C")
}

/// The cached tree `key`, made by `make` as `tree` in the directory it is given.
fn fetched(
    cache: &Cache,
    key: &Key,
    label: &str,
    progress: &Progress,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<Source> {
    let waiting = || progress.line("another lab is fetching this kernel source; waiting");
    let entry = cache.entry("sources", key, waiting, |into| {
        make(into)?;
        version_of(&into.join("tree")).map(|_| ())
    })?;
    let directory = entry.join("tree");
    let version = version_of(&directory)
        .with_context(|| format!("a damaged cache entry: remove `{}` and run it again", entry.display()))?;
    let label = if label.is_empty() { version.to_string() } else { label.to_owned() };
    Ok(Source { directory, version, label, key: key.as_str().to_owned(), mutable: false })
}

/// What `spec` stood for when it was first looked up.
pub(super) fn resolve(
    cache: &Cache,
    spec: &SourceSpec,
    look_up: impl FnOnce() -> Result<String>,
) -> Result<String> {
    if let Some(known) = known(cache, spec)? {
        return Ok(known);
    }
    let found = look_up()?;
    write_atomically(&remembered(cache, spec)?, &format!("{found}\n"))?;
    Ok(found)
}

/// What `spec` stood for, if it was looked up before.
pub(super) fn known(cache: &Cache, spec: &SourceSpec) -> Result<Option<String>> {
    let text = read_capped(&remembered(cache, spec)?, 4096).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    Ok(matches!(lines[..], [line] if !line.is_empty()).then(|| lines[0].to_owned()))
}

/// Where is kept what `spec` stood for.
pub(super) fn remembered(cache: &Cache, spec: &SourceSpec) -> Result<PathBuf> {
    let (label, inputs) = match spec {
        SourceSpec::DebianImage { suite, package, version } => {
            let pinned = version.as_ref().map_or(String::new(), |version| version.as_str().to_owned());
            (format!("{suite}-{package}-{pinned}"), [suite, &format!("{package}={pinned}")])
        }
        // A pinned version stands for itself, too.
        SourceSpec::Debian { version: Some(_), .. } => {
            ("itself".to_owned(), [&String::new(), &String::new()])
        }
        SourceSpec::Debian { suite, package, version: None } => {
            (format!("{suite}-{package}"), [suite, package])
        }
        SourceSpec::Git { url, reference } => ("git".to_owned(), [url, reference]),
        // These stand for themselves; nothing is ever remembered of them.
        SourceSpec::Tree(_) | SourceSpec::Tarball { .. } => {
            ("itself".to_owned(), [&String::new(), &String::new()])
        }
    };
    let key = KeyBuilder::default().input("0", inputs[0]).input("1", inputs[1]).finish(&label);
    Ok(cache.directory("sources")?.join(format!("{}.resolved", key.as_str())))
}

/// Writes a small file so that a reader sees all of it or nothing.
pub(super) fn write_atomically(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(".writing-").tempfile_in(parent)?;
        fs::write(file.path(), text)?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

fn unpack_tarball(archive: &Path, into: &Path, progress: &Progress) -> Result<()> {
    let _task = progress.task("unpacking the kernel source", None);
    fs::create_dir_all(into).with_context(|| format!("cannot make `{}`", into.display()))?;
    Tool::new("tar")
        .args(["--extract", "--strip-components=1", "--no-same-owner", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(into)
        .env("LC_ALL", "C")
        .run()
        .with_context(|| format!("cannot unpack `{}`; is the disk full?", archive.display()))?;
    Ok(())
}

fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).with_context(|| format!("cannot read `{}`", path.display()))? {
            0 => return Ok(hex(&digest.finalize())),
            length => digest.update(&buffer[..length]),
        }
    }
}

/// The version a tree's Makefile gives.
pub(super) fn version_of(tree: &Path) -> Result<KernelVersion> {
    let path = tree.join("Makefile");
    let text = read_capped(&path, MAKEFILE_LIMIT_BYTES)
        .with_context(|| format!("no kernel source in `{}`: cannot read its Makefile", tree.display()))?;
    version_in_makefile(&text)
        .with_context(|| format!("no kernel source in `{}`: its Makefile gives no version", tree.display()))
}

fn version_in_makefile(text: &str) -> Option<KernelVersion> {
    let value = |name: &str| {
        let mut lines = text.lines().take(40);
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim()))
    };
    let number = |name| value(name)?.parse().ok();
    let extra = value("EXTRAVERSION").unwrap_or_default();
    Some(KernelVersion {
        major: number("VERSION")?,
        minor: number("PATCHLEVEL")?,
        patch: number("SUBLEVEL")?,
        candidate: extra.strip_prefix("-rc").and_then(|number| number.parse().ok()),
    })
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
