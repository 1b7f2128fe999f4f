//! Finds the packages of a distribution kernel through Debian's dependencies.

use crate::{
    host::apt::{Apt, Package},
    kernel::DebianVersion,
};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// The prefix of the names of image packages.
const IMAGE: &str = "linux-image-";

/// Prefixes of the packages that the image package, empty since 7.0, depends on.
const PARTS: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

/// The packages of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packages {
    /// Such as `linux-image-6.12.107+deb13-arm64`.
    pub(super) image: String,
    /// Their Debian version, such as `6.12.107-1`.
    pub(super) version: String,
    /// The kernel release, such as `6.12.107+deb13-arm64`.
    pub(super) release: String,
}

/// The downloaded packages.
pub(super) struct Fetched {
    /// Image, modules, headers, and kbuild's programs for this host.
    pub(super) of_kernel: Vec<Package>,
    /// The libc that these programs are linked with.
    pub(super) libc: Package,
}

/// Resolves `package` of `suite` to a line for [`Packages::parse`].
pub(super) fn look_up(
    apt: &Apt,
    suite: &str,
    package: &str,
    version: Option<&DebianVersion>,
) -> Result<String> {
    let pinned = version.map(|version| format!("={}", version.as_str())).unwrap_or_default();
    let stanza = apt.show(suite, &format!("{package}:arm64{pinned}"))?;
    let version = field(&stanza, "Version").context("apt-cache returned no version")?;
    if is_one_kernel(package) {
        return Ok(format!("{package} {version}"));
    }
    let Some((image, version)) = dependencies(&stanza).into_iter().find(|(name, _)| is_one_kernel(name))
    else {
        bail!("`{package}` of Debian `{suite}` is not a kernel and depends on none");
    };
    let version =
        version.with_context(|| format!("`{package}` does not depend on an exact version of `{image}`"))?;
    Ok(format!("{image} {version}"))
}

impl Packages {
    pub(super) fn parse(text: &str) -> Result<Packages> {
        let Some((image, version)) = text.split_once(' ') else {
            bail!("`{text}` is not a package and its version");
        };
        let version = version.parse::<DebianVersion>().map_err(anyhow::Error::msg)?.as_str().to_owned();
        let Some(release) = image.strip_prefix(IMAGE).filter(|_| is_one_kernel(image)) else {
            bail!("`{image}` is not a kernel package");
        };
        let release = release.trim_end_matches("-unsigned").to_owned();
        Ok(Packages { image: image.to_owned(), version, release })
    }

    /// Downloads the package with the debug information into the directory `into`.
    pub(super) fn fetch_debug(&self, apt: &Apt, suite: &str, into: &Path) -> Result<Package> {
        let wanted = format!("{IMAGE}{}-dbg:arm64={}", self.release, self.version);
        let mut fetched = apt.fetch(suite, &[&wanted], into)?;
        match (fetched.pop(), fetched.pop()) {
            (Some(package), None) => Ok(package),
            _ => bail!("apt did not fetch exactly one package for `{wanted}`"),
        }
    }

    /// Downloads all of them into the directory `into`.
    pub(super) fn fetch(&self, apt: &Apt, suite: &str, into: &Path) -> Result<Fetched> {
        let exactly = |name: &str| format!("{name}:arm64={}", self.version);
        let image = exactly(&self.image);
        let headers = exactly(&format!("linux-headers-{}", self.release));
        let parts = dependencies(&apt.show(suite, &image)?).into_iter().map(|(name, _)| name);
        let parts = parts.filter(|name| PARTS.iter().any(|part| name.starts_with(part)));
        let mut wanted: Vec<String> = parts.map(|name| exactly(&name)).collect();
        for (name, _) in dependencies(&apt.show(suite, &headers)?) {
            if name.starts_with("linux-headers-") {
                wanted.push(format!("{name}={}", self.version));
            } else if name.starts_with("linux-kbuild-") {
                // Of the host's architecture.
                wanted.push(name);
            }
        }
        wanted.extend([image, headers]);
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let of_kernel = apt.fetch(suite, &wanted, into)?;
        let mut libc = apt.fetch(base_suite(suite), &["libc6"], into)?;
        match (libc.pop(), libc.pop()) {
            (Some(libc), None) => Ok(Fetched { of_kernel, libc }),
            _ => bail!("apt did not fetch exactly one package for `libc6`"),
        }
    }
}

/// Returns whether this is the package of one kernel, not a metapackage for the newest.
fn is_one_kernel(package: &str) -> bool {
    package.strip_prefix(IMAGE).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the suite that has the rest of the system.
fn base_suite(suite: &str) -> &str {
    let additions = ["-backports", "-security", "-updates"];
    additions.iter().find_map(|addition| suite.strip_suffix(addition)).unwrap_or(suite)
}

fn field<'a>(stanza: &'a str, name: &str) -> Option<&'a str> {
    stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns the dependencies of a package, of alternatives only the first, each with its version if it is
/// exact.
fn dependencies(stanza: &str) -> Vec<(String, Option<String>)> {
    let all = field(stanza, "Depends").unwrap_or_default().split(',');
    let first = all.filter_map(|alternatives| alternatives.split('|').next());
    let parse = |text: &str| {
        let (name, relation) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let version = relation.strip_prefix("(= ").and_then(|rest| rest.strip_suffix(')'));
        (name.to_owned(), version.map(str::to_owned))
    };
    first.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_kept_as_a_line() {
        let packages = Packages::parse("linux-image-6.12.107+deb13-arm64 6.12.107-1").unwrap();
        assert_eq!((&*packages.version, &*packages.release), ("6.12.107-1", "6.12.107+deb13-arm64"));
        let unsigned = Packages::parse("linux-image-6.1.0-50-arm64-unsigned 6.1.176-1").unwrap();
        assert_eq!(unsigned.release, "6.1.0-50-arm64");
        for wrong in ["", "linux-image-arm64 6.12", "linux-image-6.12-arm64", "bash 5.2", "linux-image-6 a b"]
        {
            assert!(Packages::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dependencies_have_a_version_where_it_is_the_only_one() {
        let stanza = "Package: x\nVersion: 7.3.4-1\nDepends: dracut | initramfs-tools (>= 0.120), kmod, \
                      linux-kbuild-6.1 (>= 6.1.176-1), linux-binary-7.3.4+deb13-arm64 (= 7.3.4-1~bpo13+1)\n";
        assert_eq!(field(stanza, "Version"), Some("7.3.4-1"));
        let found = dependencies(stanza);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["dracut", "kmod", "linux-kbuild-6.1", "linux-binary-7.3.4+deb13-arm64"]);
        assert_eq!(found[2].1, None);
        assert_eq!(found[3].1.as_deref(), Some("7.3.4-1~bpo13+1"));
        assert_eq!(dependencies("Package: x\n"), [(String::new(), None)]);
    }

    #[test]
    fn one_kernel_is_told_from_the_newest() {
        assert!(is_one_kernel("linux-image-6.1.0-50-arm64") && !is_one_kernel("linux-image-arm64"));
        assert!(!is_one_kernel("linux-image-rt-arm64") && !is_one_kernel("linux-source-6.12"));
        assert_eq!(base_suite("bookworm-backports"), "bookworm");
        assert_eq!(base_suite("trixie"), "trixie");
    }
}
