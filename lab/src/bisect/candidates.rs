//! The kernels that a bisection searches, and how they are built.

use super::BisectError;
use crate::{
    context::Lab,
    host::apt::{Apt, compare_versions},
    kernel::{self, DebianVersion, Kernel, KernelSpec, SourceSpec, named_version},
};
use anyhow::{Context, Result, anyhow};
use std::{cmp::Ordering, fmt, path::Path};

/// Matches packages of distribution kernels without a flavour. Their names contain the version.
const IMAGES: &str = "^linux-image-[0-9][0-9a-z.+~]*(-[0-9]+)?-arm64$";

/// A kernel that may be the first changed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A kernel of the matrix.
    Named(String),
    /// A version of a Debian package, of kernel source or of a distribution kernel.
    Package {
        /// The kernel whose description it is built with.
        kernel: String,
        /// The suite that has it.
        suite: String,
        /// The package.
        package: String,
        /// The version.
        version: String,
    },
    /// A commit of a kernel tree.
    Commit(Commit),
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The full hash.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

impl Candidate {
    /// Returns a short name that is also a valid directory name: `6.12`, `6.12.94-1`, `1a2b3c4d5e6f`.
    pub fn label(&self) -> &str {
        match self {
            Candidate::Named(name) => name,
            Candidate::Package { version, .. } => version,
            Candidate::Commit(commit) => commit.id.get(..12).unwrap_or(&commit.id),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Candidate::Named(name) => out.write_str(name),
            Candidate::Package { version, suite, .. } => write!(out, "{version} of Debian {suite}"),
            Candidate::Commit(Commit { id, subject }) => write!(out, "{id} {subject}"),
        }
    }
}

/// Builds candidates.
#[derive(Clone, Copy, Debug)]
pub struct Builder<'a> {
    /// The lab, with the descriptions of kernels and the cache for builds.
    pub lab: &'a Lab,
    /// The kernel whose description commits are built with, and the tree in which they are checked out.
    pub tree: Option<(&'a str, &'a Path)>,
}

impl Builder<'_> {
    /// Returns the kernel, built unless it is in the cache. A commit must be checked out.
    pub fn build(&self, candidate: &Candidate) -> Result<Kernel> {
        let lab = self.lab;
        match candidate {
            Candidate::Named(name) => kernel::build(lab, name, None),
            Candidate::Package { kernel, suite, package, version } => {
                let mut spec = KernelSpec::load(&lab.root, kernel)?;
                if let SourceSpec::Debian { suite: of, package: which, version: pinned }
                | SourceSpec::DebianImage { suite: of, package: which, version: pinned } = &mut spec.source
                {
                    (*of, *which) = (suite.clone(), package.clone());
                    *pinned = Some(version.parse::<DebianVersion>().map_err(BisectError)?);
                }
                kernel::build_spec(lab, spec)
            }
            Candidate::Commit(_) => {
                let (name, tree) = self.tree.context("a commit without a kernel tree")?;
                kernel::build(lab, name, Some(tree))
            }
        }
    }
}

/// Candidates in the order of their versions, from one known end to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateRange {
    /// The first and the last are the ends.
    pub candidates: Vec<Candidate>,
    /// Whether the first is the good one, so that something broke; otherwise something was fixed.
    pub breaks: bool,
}

impl CandidateRange {
    /// Returns the candidates from `good` to `bad` of `all`, which are in order.
    fn between(all: Vec<Candidate>, good: &str, bad: &str) -> Result<CandidateRange> {
        let place = |wanted: &str| {
            let known = || all.iter().map(|one| format!("`{}`", one.label())).collect::<Vec<_>>().join(", ");
            all.iter().position(|one| one.label() == wanted).ok_or_else(|| {
                anyhow!(BisectError(format!("`{wanted}` is not among the candidates: {}", known())))
            })
        };
        let (good, bad) = (place(good)?, place(bad)?);
        if good == bad {
            return Err(BisectError("good and bad are the same kernel".into()).into());
        }
        let candidates = all[good.min(bad)..=good.max(bad)].to_vec();
        Ok(CandidateRange { candidates, breaks: good < bad })
    }

    /// Returns the kernels of the matrix between two of them: those of `chosen`, or if it is empty, the
    /// known ones with plain version names. They are ordered by the versions in their names.
    pub fn of_matrix(known: &[String], chosen: &[String], good: &str, bad: &str) -> Result<CandidateRange> {
        let plain = |name: &&String| name.chars().all(|c| c.is_ascii_digit() || c == '.');
        let mut names: Vec<String> = match chosen {
            [] => known.iter().filter(plain).cloned().collect(),
            chosen => chosen.to_vec(),
        };
        names.extend([good, bad].map(str::to_owned));
        let version = |name: &String| {
            named_version(name).ok_or_else(|| {
                anyhow!(BisectError(format!(
                    "cannot order the kernel `{name}`: there is no version in its name"
                )))
            })
        };
        let mut ordered = names.iter().map(|name| Ok((version(name)?, name))).collect::<Result<Vec<_>>>()?;
        ordered.sort();
        ordered.dedup();
        let all = ordered.into_iter().map(|(_, name)| Candidate::Named(name.clone())).collect();
        CandidateRange::between(all, good, bad)
    }

    /// Returns the versions of the Debian package of `kernel` between two of them that the archive still
    /// has, in the suite of the kernel's description and in `suites`.
    pub fn of_package(
        builder: &Builder<'_>,
        kernel: &str,
        suites: &[String],
        good: &str,
        bad: &str,
    ) -> Result<CandidateRange> {
        let source = KernelSpec::load(&builder.lab.root, kernel)?.source;
        let apt = Apt::open(builder.lab)?;
        let (suite, package) = match &source {
            SourceSpec::Debian { suite, package, .. } | SourceSpec::DebianImage { suite, package, .. } => {
                (suite, package)
            }
            _ => return Err(BisectError(format!("the kernel `{kernel}` is not a Debian package")).into()),
        };
        let mut known = Vec::new();
        for suite in std::iter::once(suite).chain(suites) {
            let packages = match source {
                SourceSpec::DebianImage { .. } => apt.packages(suite, IMAGES)?,
                _ => apt
                    .versions(suite, package)?
                    .into_iter()
                    .map(|version| (package.clone(), version))
                    .collect(),
            };
            known.extend(packages.into_iter().map(|(package, version)| [version, suite.clone(), package]));
        }
        CandidateRange::between(versions_in_order(kernel, known), good, bad)
            .with_context(|| format!("cannot bisect the versions of `{package}`"))
    }
}

/// Returns each version once, from the first suite that has it.
fn versions_in_order(kernel: &str, known: Vec<[String; 3]>) -> Vec<Candidate> {
    let mut known = known;
    // The sort is stable: equal versions keep the order of the suites.
    known.sort_by(|a, b| compare_versions(&a[0], &b[0]));
    known.dedup_by(|later, first| compare_versions(&later[0], &first[0]) == Ordering::Equal);
    let candidate = |[version, suite, package]: [String; 3]| Candidate::Package {
        kernel: kernel.to_owned(),
        suite,
        package,
        version,
    };
    known.into_iter().map(candidate).collect()
}

/// Returns whether good and bad both name kernels of the matrix.
pub fn are_named(known: &[String], good: &str, bad: &str) -> bool {
    [good, bad].iter().all(|wanted| known.iter().any(|name| name == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["5.10", "6.1", "6.12", "6.12-kasan", "7.2", "debian-trixie"];

    fn labels(row: &CandidateRange) -> Vec<&str> {
        row.candidates.iter().map(Candidate::label).collect()
    }

    fn matrix(chosen: &[&str], good: &str, bad: &str) -> Result<CandidateRange> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        CandidateRange::of_matrix(&owned(&KNOWN), &owned(chosen), good, bad)
    }

    #[test]
    fn the_matrix_is_ordered_by_version_not_by_name() {
        let check = |chosen: &[&str], good, bad, expect: &[&str], breaks| {
            let row = matrix(chosen, good, bad).unwrap();
            assert_eq!((labels(&row).as_slice(), row.breaks), (expect, breaks));
        };
        check(&[], "5.10", "7.2", &["5.10", "6.1", "6.12", "7.2"], true);
        check(&[], "7.2", "6.1", &["6.1", "6.12", "7.2"], false);
        check(&[], "6.1", "6.12-kasan", &["6.1", "6.12", "6.12-kasan"], true);
        check(&["6.12-kasan", "6.12"], "5.10", "7.2", &["5.10", "6.12", "6.12-kasan", "7.2"], true);
    }

    #[test]
    fn what_cannot_be_ordered_is_refused() {
        let check = |good, bad, expect: &str| {
            let error = matrix(&[], good, bad).unwrap_err();
            assert!(error.is::<BisectError>() && error.to_string().contains(expect), "{error}");
        };
        check("6.1", "debian-trixie", "cannot order the kernel `debian-trixie`");
        check("6.1", "6.1", "the same kernel");
    }

    #[test]
    fn versions_of_several_suites_are_one_row() {
        let known = [
            ("6.12.107-1", "trixie"),
            ("6.12.94-1", "trixie"),
            ("6.12.100-1", "trixie-proposed-updates"),
            ("6.12.107-1", "trixie-proposed-updates"),
            ("6.12.9-1", "sid"),
        ];
        let known = known.map(|(version, suite)| [version, suite, "p"].map(str::to_owned)).to_vec();
        let all = versions_in_order("6.12", known);
        let row = CandidateRange::between(all.clone(), "6.12.94-1", "6.12.107-1").unwrap();
        assert_eq!(labels(&row), ["6.12.94-1", "6.12.100-1", "6.12.107-1"]);
        assert_eq!(row.candidates[2].to_string(), "6.12.107-1 of Debian trixie");
        let error = CandidateRange::between(all, "6.12.95-1", "6.12.107-1").unwrap_err();
        let text = error.to_string();
        assert!(error.is::<BisectError>(), "{error}");
        assert!(
            text.contains("`6.12.95-1` is not among") && text.contains("`6.12.9-1`, `6.12.94-1`"),
            "{text}"
        );
    }
}
