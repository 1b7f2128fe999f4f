//! Determines the packages that apt would install in a guest.

use super::{Apt, download::Download, root::GUEST_ARCHITECTURE};
use anyhow::{Context, Result};

/// Returns options that simulate apt on a machine of one architecture with nothing installed. Its package
/// index differs then, and must not replace the cached one.
fn options(architecture: &str) -> [String; 8] {
    let option = || "-o".to_owned();
    [
        option(),
        format!("APT::Architecture={architecture}"),
        option(),
        format!("APT::Architectures={architecture}"),
        option(),
        "Dir::Cache::pkgcache=".to_owned(),
        option(),
        "Dir::Cache::srcpkgcache=".to_owned(),
    ]
}

/// The side that packages are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Guests.
    Guest,
    /// This host.
    Host,
}

/// A package that could be downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name, such as `bash`.
    pub name: String,
    /// Its Debian version.
    pub version: String,
    /// `amd64`, `arm64`, or `all`.
    pub architecture: String,
}

impl Choice {
    /// Returns the package with its version, in the form that [`Apt::fetch`] takes.
    pub fn exactly(&self) -> String {
        match &*self.architecture {
            "all" => format!("{}={}", self.name, self.version),
            architecture => format!("{}:{architecture}={}", self.name, self.version),
        }
    }
}

impl Apt {
    /// Returns the packages of `suite` that `packages` and all their dependencies need on a machine with
    /// nothing installed, in installation order. Downloads nothing.
    pub fn choose(&self, suite: &str, side: Side, packages: &[&str]) -> Result<Vec<Choice>> {
        let root = self.root(suite)?;
        let architecture = match side {
            Side::Guest => GUEST_ARCHITECTURE,
            Side::Host => &self.architecture,
        };
        let choose = || -> Result<Vec<Choice>> {
            let uris = root
                .tool("apt-get")
                .args(options(architecture))
                .args(["install", "--yes", "--quiet", "--no-install-recommends", "--print-uris"])
                .args(packages)
                .run()?;
            let lines = uris.lines().filter(|line| line.starts_with('\''));
            lines.map(|line| Ok(Download::parse(line)?.choice())).collect()
        };
        root.again_with_new_lists(choose).with_context(|| {
            let names = packages.join(" ");
            format!("cannot choose packages for `{names}` in Debian `{suite}` of `{}`", self.archive.uri)
        })
    }
}

/// Shortens a list of packages for a progress line.
pub(super) fn briefly(packages: &[&str]) -> String {
    if packages.len() > 4 { format!("{} packages", packages.len()) } else { packages.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_fetched_in_its_version() {
        let check = |file: &str, expect: &str| {
            let line = format!("'http://mirror.test/debian/pool/x.deb' {file} 2312 SHA256:ab");
            assert_eq!(Download::parse(&line).unwrap().choice().exactly(), expect);
        };
        check("libcap2_1%3a2.75-10_arm64.deb", "libcap2:arm64=1:2.75-10");
        check("debconf_1.5.91_all.deb", "debconf=1.5.91");
    }
}
