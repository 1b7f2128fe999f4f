//! The private apt root of one suite: its configuration and its package lists.

use super::{
    Apt,
    hints::{complaint, explain},
};
use crate::host::{interrupt::Interrupted, outage::NETWORK, process::Tool};
use anyhow::{Result, bail};
use fs_err as fs;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// The age at which package lists are fetched again.
const LISTS_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The guest's architecture, whose packages are available in addition to the host's.
pub(super) const GUEST_ARCHITECTURE: &str = "arm64";

/// One suite's private root.
pub(super) struct Root<'a> {
    apt: &'a Apt,
    suite: String,
    directory: PathBuf,
}

impl<'a> Root<'a> {
    /// Opens the root of `suite`, and writes its configuration unless it is there.
    pub(super) fn open(apt: &'a Apt, suite: &str) -> Result<Root<'a>> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !suite.starts_with(|c: char| c.is_ascii_alphanumeric()) || !suite.chars().all(plain) {
            bail!(
                "`{suite}` is not a Debian suite, expected a name such as `bookworm` or `trixie-backports`"
            );
        }
        let directory = apt.lab.cache.directory(&format!("apt/{suite}"))?;
        let root = Root { apt, suite: suite.to_owned(), directory };
        root.configure()?;
        Ok(root)
    }

    /// Writes the root's configuration. If the archive has changed, its lists are fetched again.
    fn configure(&self) -> Result<()> {
        let Apt { lab, archive, architecture } = self.apt;
        let mut options = format!("arch={architecture}");
        if architecture != GUEST_ARCHITECTURE {
            write!(options, ",{GUEST_ARCHITECTURE}")?;
        }
        if let Some(keyring) = &archive.keyring {
            write!(options, " signed-by={}", keyring.display())?;
        }
        let source = format!("deb [{options}] {} {} main\n", archive.uri_of(&self.suite), self.suite);
        let configuration = self.configuration();
        let has =
            |name, text: &str| fs::read_to_string(self.directory.join(name)).is_ok_and(|old| old == text);
        if has("etc/apt/sources.list", &source) && has("apt.conf", &configuration) {
            return Ok(());
        }
        let _lock = lab.cache.lock(&format!("apt-{}", self.suite), || {})?;
        for directory in [
            "etc/apt/apt.conf.d",
            "etc/apt/preferences.d",
            "var/lib/dpkg",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
        ] {
            fs::create_dir_all(self.directory.join(directory))?;
        }
        let _ = fs::remove_file(self.stamp());
        self.write("apt.conf", &configuration)?;
        self.write("var/lib/dpkg/status", "")?;
        // Written last, because it marks the rest as complete.
        self.write("etc/apt/sources.list", &source)
    }

    /// Returns the configuration that apt reads instead of the host's.
    fn configuration(&self) -> String {
        let architecture = &self.apt.architecture;
        let quoted = |path: &Path| path.display().to_string().replace('"', "%22");
        let mut text = format!(
            "Dir \"{root}\";\nDir::State::status \"{root}/var/lib/dpkg/status\";\n\
             APT::Architecture \"{architecture}\";\nAPT::Architectures {{ \"{architecture}\"; \"{GUEST_ARCHITECTURE}\"; }};\n",
            root = quoted(&self.directory),
        );
        // The user `_apt` cannot write to a cache below /root, and there is nothing to protect.
        text += "APT::Sandbox::User \"root\";\n";
        // Fetch only the package indices, and fail if any is missing.
        text +=
            "Acquire::Languages \"none\";\nAcquire::PDiffs \"false\";\nAPT::Update::Error-Mode \"any\";\n";
        text += "Acquire::Retries \"3\";\nAcquire::http::Timeout \"30\";\nAcquire::https::Timeout \"30\";\n";
        // Keys for a source without a keyring.
        text += "Dir::Etc::trusted \"/etc/apt/trusted.gpg\";\nDir::Etc::trustedparts \"/etc/apt/trusted.gpg.d\";\n";
        // Proxies and passwords of private mirrors are configured on the host and also apply here.
        text += "Dir::Etc::netrc \"/etc/apt/auth.conf\";\nDir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\n";
        text + &host_proxies()
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.directory.join(name), text)?)
    }

    /// Returns the path of a file whose age is the age of the lists.
    fn stamp(&self) -> PathBuf {
        self.directory.join("lists-fetched")
    }

    /// Returns a program of apt, set up to use this root.
    pub(super) fn tool(&self, program: &str) -> Tool {
        let tool = Tool::new(program).env("APT_CONFIG", self.directory.join("apt.conf")).env("LC_ALL", "C");
        // An interrupted apt leaves its temporary files behind.
        tool.env("TMPDIR", &self.directory)
    }

    fn lists_age(&self) -> Option<Duration> {
        Some(self.stamp().metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default())
    }

    /// Fetches the lists if they are missing or old; with `now`, if they are older than a minute.
    pub(super) fn refresh(&self, now: bool) -> Result<()> {
        let Apt { lab, archive, .. } = self.apt;
        let limit = if now { Duration::from_secs(60) } else { LISTS_AGE };
        let fresh = |root: &Root<'_>| root.lists_age().is_some_and(|age| age < limit);
        if fresh(self) {
            return Ok(());
        }
        let task = lab.progress.task(format!("reading the package lists of Debian {}", self.suite), None);
        let _lock = lab.cache.lock(&format!("apt-{}", self.suite), || {
            task.note("waiting for another process that is reading them");
        })?;
        if fresh(self) {
            return Ok(());
        }
        match self.tool("apt-get").args(["update", "--quiet"]).run() {
            Ok(_) => self.write("lists-fetched", ""),
            Err(error) if error.is::<Interrupted>() || self.lists_age().is_none() => {
                let (suite, uri) = (&self.suite, &archive.uri);
                let operation = format!("cannot read the package lists of Debian `{suite}` from `{uri}`");
                // Other causes may be those of this suite alone.
                Err(explain(error, &operation, |hint| hint == Some(NETWORK)))
            }
            Err(error) => {
                lab.progress.line(format!(
                    "warning: using older package lists of Debian {}: {}",
                    self.suite,
                    complaint(&error)
                ));
                Ok(())
            }
        }
    }

    /// Runs `ask` with the present lists and, if that fails, with new ones.
    pub(super) fn again_with_new_lists<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        match ask() {
            Err(error) if !error.is::<Interrupted>() => {
                self.refresh(true)?;
                ask()
            }
            answer => answer,
        }
    }
}

/// Returns the host's proxy settings, in apt's syntax.
fn host_proxies() -> String {
    let dump = Tool::new("apt-config").arg("dump").env("LC_ALL", "C").run().unwrap_or_default();
    let proxies = dump.lines().filter(|line| {
        let name = line.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        name.starts_with("acquire::http") && name.contains("proxy")
    });
    proxies.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{context::Lab, host::sources::Archive};

    #[test]
    fn a_suite_is_a_plain_name() {
        let directory = tempfile::tempdir().unwrap();
        let apt = Apt {
            lab: Lab::alone(directory.path()).unwrap(),
            archive: Archive { uri: "http://mirror.test/debian".into(), keyring: None },
            architecture: "amd64".into(),
        };
        for suite in ["", "..", "../x", "a/b", "x y"] {
            assert!(Root::open(&apt, suite).is_err(), "{suite}");
        }
        let root = Root::open(&apt, "trixie").unwrap();
        let source = fs::read_to_string(root.directory.join("etc/apt/sources.list")).unwrap();
        assert_eq!(source, "deb [arch=amd64,arm64] http://mirror.test/debian trixie main\n");
        let security = apt.archive.uri_of("trixie-security");
        assert_eq!(security, "http://mirror.test/debian-security");
    }
}
