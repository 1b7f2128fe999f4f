//! Packages of any Debian suite, through a private apt root in the cache: nothing is installed on
//! the host, and no root rights are needed.
//!
//! Each suite has a root of its own below `apt/`, with the host's mirror and keyring as its only
//! source. Its package lists are fetched when they are needed and missing, older than a day, or
//! without the package asked for; without a network, older lists serve, with a warning.

mod choose;
mod versions;

pub use choose::Choice;
pub use versions::compare_versions;

use super::{
    interrupt::Interrupted,
    process::Tool,
    sources::{Archive, MIRROR_VARIABLE},
};
use crate::{cache::Cache, progress::Progress};
use anyhow::{Context, Error, Result, anyhow, bail};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// How old package lists may be before they are fetched again.
const LISTS_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The guest's architecture, whose packages are to be had beside the host's.
const GUEST_ARCHITECTURE: &str = "arm64";

/// What a person can do where the network fails.
const NETWORK: &str = "check the network, or the proxy, then run it again";

/// What apt says, and what to do about it. Looked for in this order.
const HINTS: [(&str, &str); 14] = [
    ("No space left on device", "the disk of the cache is full; free some space and run it again"),
    ("Could not resolve", NETWORK),
    ("failure resolving", NETWORK),
    ("Could not connect", NETWORK),
    ("Connection failed", NETWORK),
    ("Connection timed out", NETWORK),
    ("is expired", "the mirror is behind for this suite; name another one by FTRACE_LAB_DEBIAN_MIRROR"),
    ("is not valid yet", "check the clock of this machine"),
    ("NO_PUBKEY", "the keyring is too old for this suite; upgrade the package debian-archive-keyring"),
    ("does not have a Release file", "the mirror does not have this suite; check its name"),
    ("Hash Sum mismatch", "the download was damaged; run it again"),
    ("unexpected size", "the download was cut short or the mirror is changing; run it again"),
    ("Undetermined Error", "the connection broke off; run it again"),
    ("404  Not Found", "the mirror changed while it was read; run it again"),
];

/// Private apt roots, one a suite.
#[derive(Clone, Debug)]
pub struct Apt {
    cache: Cache,
    archive: Archive,
    architecture: String,
    progress: Progress,
}

/// A package that was downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name, such as `linux-source-6.12`.
    pub name: String,
    /// Its Debian version, such as `6.12.107-1`.
    pub version: String,
    /// `amd64`, `arm64`, or `all`.
    pub architecture: String,
    /// The `.deb` file.
    pub deb: PathBuf,
}

impl Apt {
    /// Finds the archive and the host's architecture. Touches neither network nor cache.
    pub fn open(cache: &Cache, progress: &Progress) -> Result<Apt> {
        let architecture = Tool::new("dpkg")
            .arg("--print-architecture")
            .run()
            .context("cannot tell this host's Debian architecture; packages are fetched with apt and dpkg")?;
        Ok(Apt {
            cache: cache.clone(),
            archive: Archive::of_host()?,
            architecture: architecture.trim().to_owned(),
            progress: progress.clone(),
        })
    }

    /// The version of `package` that `suite` has. A package is `name` or `name:arm64`.
    pub fn version(&self, suite: &str, package: &str) -> Result<String> {
        let shown = self.show(suite, package)?;
        let version = shown.lines().find_map(|line| line.strip_prefix("Version: "));
        version.map(str::to_owned).ok_or_else(|| anyhow!("apt-cache gave no version for `{package}`"))
    }

    /// What `suite` says of `package`, with `=VERSION` of that one: a paragraph of deb-control(5).
    pub fn show(&self, suite: &str, package: &str) -> Result<String> {
        let root = self.root(suite)?;
        root.refresh(self, false)?;
        let show = || root.tool("apt-cache").args(["show", "--no-all-versions", package]).run();
        root.again_with_new_lists(self, show)
            .with_context(|| format!("no package `{package}` in Debian `{suite}` of `{}`", self.archive.uri))
    }

    /// Downloads packages, each `name` or `name:arm64`, of a version with `=VERSION`, into the directory `into`. They are in the
    /// order of their files' names. apt has compared each with its hash in the signed lists.
    pub fn fetch(&self, suite: &str, packages: &[&str], into: &Path) -> Result<Vec<Package>> {
        let root = self.root(suite)?;
        root.refresh(self, false)?;
        let plan = || -> Result<Vec<Download>> {
            let uris = root.tool("apt-get").args(["download", "--print-uris"]).args(packages).run()?;
            uris.lines().filter(|line| line.starts_with('\'')).map(Download::parse).collect()
        };
        let names = packages.join(" ");
        let plan = root.again_with_new_lists(self, plan).with_context(|| {
            format!("cannot find all of `{names}` in Debian `{suite}` of `{}`", self.archive.uri)
        })?;
        let temporary = tempfile::Builder::new()
            .prefix(".downloading-")
            .tempdir_in(into)
            .with_context(|| format!("cannot make a directory in `{}`", into.display()))?;
        let total_bytes: u64 = plan.iter().map(|download| download.size_bytes).sum();
        let megabytes = total_bytes.div_ceil(1_000_000);
        let task = self
            .progress
            .task(format!("downloading {}, {megabytes} MB", choose::briefly(packages)), Some(megabytes));
        root.tool("apt-get")
            .args(["download", "--quiet"])
            .args(packages)
            .directory(temporary.path())
            .run_watched(|| task.set(size_bytes_of(temporary.path()) / 1_000_000))
            .map_err(|error| {
                explain(
                    error,
                    &format!("cannot download `{names}` of Debian `{suite}` from `{}`", self.archive.uri),
                )
            })?;
        plan.into_iter().map(|download| download.put_in_place(temporary.path(), into)).collect()
    }

    fn root(&self, suite: &str) -> Result<Root> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !suite.starts_with(|c: char| c.is_ascii_alphanumeric()) || !suite.chars().all(plain) {
            bail!("`{suite}` is no Debian suite; expected a name such as `bookworm` or `trixie-backports`");
        }
        let directory = self.cache.directory(&format!("apt/{suite}"))?;
        let root = Root { suite: suite.to_owned(), directory };
        root.configure(self)?;
        Ok(root)
    }
}

/// One suite's private root.
struct Root {
    suite: String,
    directory: PathBuf,
}

impl Root {
    /// Writes the root's configuration; when another archive is named than before, its lists go.
    fn configure(&self, apt: &Apt) -> Result<()> {
        let archive = &apt.archive;
        let mut options = format!("arch={}", apt.architecture);
        if apt.architecture != GUEST_ARCHITECTURE {
            write!(options, ",{GUEST_ARCHITECTURE}")?;
        }
        if let Some(keyring) = &archive.keyring {
            write!(options, " signed-by={}", keyring.display())?;
        }
        let source = format!("deb [{options}] {} {} main\n", archive.uri_of(&self.suite), self.suite);
        let configuration = self.configuration(apt);
        let has =
            |name, text: &str| fs::read_to_string(self.directory.join(name)).is_ok_and(|old| old == text);
        if has("etc/apt/sources.list", &source) && has("apt.conf", &configuration) {
            return Ok(());
        }
        let _lock = apt.cache.lock(&format!("apt-{}", self.suite), || {})?;
        for directory in [
            "etc/apt/apt.conf.d",
            "etc/apt/preferences.d",
            "var/lib/dpkg",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
        ] {
            fs::create_dir_all(self.directory.join(directory))
                .with_context(|| format!("cannot make `{}`", self.directory.join(directory).display()))?;
        }
        let _ = fs::remove_file(self.stamp());
        self.write("apt.conf", &configuration)?;
        self.write("var/lib/dpkg/status", "")?;
        // Last, as it says that the rest is there.
        self.write("etc/apt/sources.list", &source)
    }

    /// What apt reads instead of the host's configuration.
    fn configuration(&self, apt: &Apt) -> String {
        let quoted = |path: &Path| path.display().to_string().replace('"', "%22");
        let mut text = format!(
            "Dir \"{root}\";\nDir::State::status \"{root}/var/lib/dpkg/status\";\n\
             APT::Architecture \"{}\";\nAPT::Architectures {{ \"{}\"; \"{GUEST_ARCHITECTURE}\"; }};\n",
            apt.architecture,
            apt.architecture,
            root = quoted(&self.directory),
        );
        // The account `_apt` cannot write into a cache below /root, and there is nothing to protect.
        text += "APT::Sandbox::User \"root\";\n";
        // Only the package indices, and an error for each that is missing.
        text +=
            "Acquire::Languages \"none\";\nAcquire::PDiffs \"false\";\nAPT::Update::Error-Mode \"any\";\n";
        text += "Acquire::Retries \"3\";\nAcquire::http::Timeout \"30\";\nAcquire::https::Timeout \"30\";\n";
        // Keys, for a source that names no keyring.
        text += "Dir::Etc::trusted \"/etc/apt/trusted.gpg\";\nDir::Etc::trustedparts \"/etc/apt/trusted.gpg.d\";\n";
        // A proxy or a private mirror's password is the host's business, and serves here too.
        text += "Dir::Etc::netrc \"/etc/apt/auth.conf\";\nDir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\n";
        text + &host_proxies()
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Its age is the age of the lists.
    fn stamp(&self) -> PathBuf {
        self.directory.join("lists-fetched")
    }

    fn tool(&self, program: &str) -> Tool {
        let tool = Tool::new(program).env("APT_CONFIG", self.directory.join("apt.conf")).env("LC_ALL", "C");
        // One that is interrupted leaves its temporary files.
        tool.env("TMPDIR", &self.directory)
    }

    fn lists_age(&self) -> Option<Duration> {
        Some(self.stamp().metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default())
    }

    /// Fetches the lists if they are missing or old, or, with `now`, unless they are quite new.
    fn refresh(&self, apt: &Apt, now: bool) -> Result<()> {
        let limit = if now { Duration::from_secs(60) } else { LISTS_AGE };
        let fresh = |root: &Root| root.lists_age().is_some_and(|age| age < limit);
        if fresh(self) {
            return Ok(());
        }
        let task = apt.progress.task(format!("reading the package lists of Debian {}", self.suite), None);
        let _lock = apt
            .cache
            .lock(&format!("apt-{}", self.suite), || task.note("another lab is reading them; waiting"))?;
        if fresh(self) {
            return Ok(());
        }
        match self.tool("apt-get").args(["update", "--quiet"]).run() {
            Ok(_) => self.write("lists-fetched", ""),
            Err(error) if error.is::<Interrupted>() || self.lists_age().is_none() => Err(explain(
                error,
                &format!(
                    "cannot read the package lists of Debian `{}` from `{}`",
                    self.suite, apt.archive.uri
                ),
            )),
            Err(error) => {
                apt.progress.line(format!(
                    "warning: using older package lists of Debian {}: {}",
                    self.suite,
                    complaint(&error)
                ));
                Ok(())
            }
        }
    }

    /// What `ask` finds in the lists at hand, else in new ones.
    fn again_with_new_lists<T>(&self, apt: &Apt, ask: impl Fn() -> Result<T>) -> Result<T> {
        match ask() {
            Err(error) if !error.is::<Interrupted>() => {
                self.refresh(apt, true)?;
                ask()
            }
            answer => answer,
        }
    }
}

/// One line of `apt-get download --print-uris`: `'URI' FILE SIZE HASH`.
#[derive(Debug, PartialEq, Eq)]
struct Download {
    file: String,
    size_bytes: u64,
}

impl Download {
    fn parse(line: &str) -> Result<Download> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, file, size, ..] if !file.contains('/') && file.matches('_').count() >= 2 => {
                let size_bytes = size.parse().with_context(|| format!("apt-get gave the size `{size}`"))?;
                Ok(Download { file: file.to_owned(), size_bytes })
            }
            _ => bail!("apt-get said `{line}`, expected a URI, a file name and a size"),
        }
    }

    fn put_in_place(self, from: &Path, into: &Path) -> Result<Package> {
        let deb = into.join(&self.file);
        fs::rename(from.join(&self.file), &deb)
            .with_context(|| format!("cannot put the download `{}` in place", deb.display()))?;
        let Choice { name, version, architecture } = self.choice();
        Ok(Package { name, version, architecture, deb })
    }

    /// What the file's name says.
    fn choice(&self) -> Choice {
        let stem = self.file.trim_end_matches(".deb");
        let mut parts = stem.rsplitn(3, '_');
        let (architecture, version, name) = (parts.next(), parts.next(), parts.next());
        Choice {
            name: name.unwrap_or_default().to_owned(),
            // The colon of an epoch is escaped in a file's name.
            version: version.unwrap_or_default().replace("%3a", ":"),
            architecture: architecture.unwrap_or_default().to_owned(),
        }
    }
}

/// The host's proxy settings, in apt's own syntax.
fn host_proxies() -> String {
    let dump = Tool::new("apt-config").arg("dump").env("LC_ALL", "C").run().unwrap_or_default();
    let proxies = dump.lines().filter(|line| {
        let name = line.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        name.starts_with("acquire::http") && name.contains("proxy")
    });
    proxies.map(|line| format!("{line}\n")).collect()
}

fn explain(error: Error, operation: &str) -> Error {
    if error.is::<Interrupted>() {
        return error;
    }
    let said = format!("{error:#}");
    match HINTS.iter().find(|(marker, _)| said.contains(marker)) {
        Some((_, hint)) => error.context(format!("{operation}: {hint}")),
        None => error.context(format!("{operation} (the mirror may be named by `{MIRROR_VARIABLE}`)")),
    }
}

/// The first `E:` line of what apt said, else its last line.
fn complaint(error: &Error) -> String {
    let said = format!("{error:#}");
    let lines = || said.lines().map(str::trim);
    lines().find(|line| line.starts_with("E:")).or(lines().next_back()).unwrap_or_default().to_owned()
}

fn size_bytes_of(directory: &Path) -> u64 {
    let Ok(files) = fs::read_dir(directory) else { return 0 };
    files.flatten().filter_map(|file| Some(file.metadata().ok()?.len())).sum()
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

    #[test]
    fn an_error_of_apt_says_what_to_do() {
        let error = anyhow!("E: Release file for http://mirror.test/sid/InRelease is expired (invalid)");
        let text = format!("{:#}", explain(error, "cannot read"));
        assert!(text.starts_with("cannot read: the mirror is behind"), "{text}");
        assert!(explain(Interrupted.into(), "cannot read").is::<Interrupted>());
    }

    #[test]
    fn a_suite_is_a_plain_name() {
        let directory = tempfile::tempdir().unwrap();
        let apt = Apt {
            cache: Cache::at(directory.path()).unwrap(),
            archive: Archive { uri: "http://mirror.test/debian".into(), keyring: None },
            architecture: "amd64".into(),
            progress: Progress::silent(),
        };
        for suite in ["", "..", "../x", "a/b", "x y"] {
            assert!(apt.root(suite).is_err(), "{suite}");
        }
        let root = apt.root("trixie").unwrap();
        let source = fs::read_to_string(root.directory.join("etc/apt/sources.list")).unwrap();
        assert_eq!(source, "deb [arch=amd64,arm64] http://mirror.test/debian trixie main\n");
        let security = apt.archive.uri_of("trixie-security");
        assert_eq!(security, "http://mirror.test/debian-security");
    }
}
