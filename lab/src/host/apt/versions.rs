//! Lists the versions of a package in a suite, and compares versions by deb-version(7).

use super::{Apt, root::GUEST_ARCHITECTURE};
use anyhow::{Context, Result, bail};
use std::{cmp::Ordering, collections::BTreeSet};

impl Apt {
    /// Returns all versions of `package` in `suite`, oldest first.
    pub fn versions(&self, suite: &str, package: &str) -> Result<Vec<String>> {
        let root = self.root(suite)?;
        let versions = || -> Result<Vec<String>> {
            // A line is `PACKAGE | VERSION | SOURCE`, one per architecture.
            let known = root.tool("apt-cache").args(["madison", "--", package]).run()?;
            let versions: BTreeSet<&str> =
                known.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
            if versions.is_empty() {
                bail!("apt-cache lists no version of `{package}`");
            }
            Ok(versions.into_iter().map(str::to_owned).collect())
        };
        let mut versions = root.again_with_new_lists(versions).with_context(|| {
            format!("no package `{package}` in Debian `{suite}` of `{}`", self.archive.uri)
        })?;
        versions.sort_by(|a, b| compare_versions(a, b));
        Ok(versions)
    }
}

impl Apt {
    /// Returns the packages of `suite` whose names match `names`, an apt regular expression, with
    /// their versions for the guest. For packages that have a version in their name.
    pub fn packages(&self, suite: &str, names: &str) -> Result<Vec<(String, String)>> {
        let root = self.root(suite)?;
        let found = root.tool("apt-cache").args(["search", "--names-only", "--", names]).run()?;
        let names: BTreeSet<&str> = found.lines().filter_map(|line| line.split_whitespace().next()).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let names = names.into_iter().map(|name| format!("{name}:{GUEST_ARCHITECTURE}"));
        let known = root.tool("apt-cache").args(["madison", "--"]).args(names).run()?;
        let package = |line: &str| {
            let mut parts = line.split('|').map(str::trim);
            let (name, version) = (parts.next()?, parts.next()?);
            Some((name.split(':').next()?.to_owned(), version.to_owned()))
        };
        Ok(known.lines().filter_map(package).collect())
    }
}

/// Compares two Debian versions.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    let (a, b) = (Version::of(a), Version::of(b));
    let epochs = a.epoch.cmp(&b.epoch);
    epochs
        .then_with(|| compare_parts(a.upstream, b.upstream))
        .then_with(|| compare_parts(a.revision, b.revision))
}

struct Version<'a> {
    epoch: u64,
    upstream: &'a str,
    revision: &'a str,
}

impl Version<'_> {
    fn of(text: &str) -> Version<'_> {
        let (epoch, rest) = text.split_once(':').unwrap_or(("0", text));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        Version { epoch: epoch.parse().unwrap_or(0), upstream, revision }
    }
}

/// Alternately compares a part without digits and a number, until one differs.
fn compare_parts<'a>(mut a: &'a str, mut b: &'a str) -> Ordering {
    while !(a.is_empty() && b.is_empty()) {
        let (words, numbers);
        (words, a, b) = compare_heads(a, b, |c| !c.is_ascii_digit(), compare_words);
        (numbers, a, b) = compare_heads(a, b, |c| c.is_ascii_digit(), compare_numbers);
        if words.then(numbers).is_ne() {
            return words.then(numbers);
        }
    }
    Ordering::Equal
}

/// Compares the leading characters that are `wanted`, and returns the remainders.
fn compare_heads<'a>(
    a: &'a str,
    b: &'a str,
    wanted: fn(char) -> bool,
    compare: fn(&str, &str) -> Ordering,
) -> (Ordering, &'a str, &'a str) {
    let split = |text: &'a str| text.split_at(text.find(|c| !wanted(c)).unwrap_or(text.len()));
    let ((a, behind_a), (b, behind_b)) = (split(a), split(b));
    (compare(a, b), behind_a, behind_b)
}

/// `~` sorts before the end, the end before letters, letters before everything else.
fn compare_words(a: &str, b: &str) -> Ordering {
    let rank = |c: Option<char>| match c {
        Some('~') => 0,
        None => 1,
        Some(c) if c.is_ascii_alphabetic() => 2 + u32::from(c),
        Some(c) => 1000 + u32::from(c),
    };
    let (mut a, mut b) = (a.chars(), b.chars());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (x, y) if rank(x) != rank(y) => return rank(x).cmp(&rank(y)),
            _ => {}
        }
    }
}

/// Compares numbers of any length; a missing number counts as 0.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::process::Tool;

    /// In dpkg's order, which the test also checks.
    const ORDERED: [&str; 14] = [
        "6.1.176-1",
        "6.12~rc3-1~exp1",
        "6.12-1",
        "6.12.0-1",
        "6.12.94-1~bpo12+1",
        "6.12.94-1",
        "6.12.94-1+b1",
        "6.12.94-1.1",
        "6.12.94-2",
        "6.12.107-1",
        "6.12.107a-1",
        "6.12.107+x-1",
        "7.2.12-1~bpo13+1",
        "1:5.0-1",
    ];

    #[test]
    fn versions_are_ordered_as_dpkg_orders_them() {
        for pair in ORDERED.windows(2) {
            assert_eq!(compare_versions(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare_versions(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
            let dpkg = Tool::new("dpkg").args(["--compare-versions", pair[0], "lt", pair[1]]);
            dpkg.run().unwrap_or_else(|error| panic!("dpkg orders {pair:?} differently: {error:#}"));
        }
        assert_eq!(compare_versions("6.012-1", "0:6.12-1"), Ordering::Equal);
        assert_eq!(compare_versions("6.12", "6.12-0"), Ordering::Equal);
    }
}
