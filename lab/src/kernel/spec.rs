//! `kernels/NAME.yaml` → [`KernelSpec`]: a kernel's source, its config fragments, and the machine it runs
//! on.
//!
//! ```yaml
//! summary: the long-term kernel of Debian 13
//! source:
//!   debian: { suite: trixie, package: linux-source-6.12 }   # `version: 6.12.94-1` pins it
//! fragments: [base, virt, tracing]      # kernels/base.config, …; a later one wins
//! compiler: clang                       # optional: with LLVM's tools instead of gcc's
//! machine: { smp: 4, memory: 1G }       # optional, like each field in it
//! cmdline: slub_debug=FZ                # optional, added to the lab's own
//! patches: [watchpoint-cut]             # optional: kernels/patches/watchpoint-cut.patch, …, in order
//! opt_in: true                          # optional: left out of `--kernel all`
//! bugs:                                 # optional: known failures, each with part of its text
//!   bugs/watchpoint-length: "watched 12 13 14 15"
//! bugs_of: "6.12"                       # optional: it also has the known bugs of this kernel
//! bugs_but: [bugs/arg0-leak]            # optional: those of them that it does not have
//! bugs_as_of: 6.12.107                  # optional: a later version may have fixed some
//! ```
//!
//! or, without fragments, `debian-image: { suite: trixie, package: linux-image-arm64 }`, with its vmlinux if
//! `debug_package: true`.

use super::{
    compiler::Compiler,
    version::{KernelVersion, VersionError},
};
use serde::{Deserialize, Deserializer, de};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// One kernel of the matrix.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// The file's name without `.yaml`.
    #[serde(skip)]
    pub name: String,
    /// A description in one line.
    pub summary: String,
    /// Its source.
    #[serde(with = "crate::yaml::singleton_map")]
    pub source: SourceSpec,
    /// The fragments `kernels/NAME.config` that configure it. A later one wins. A distribution kernel
    /// has none.
    #[serde(default)]
    pub fragments: Vec<String>,
    /// The compiler that builds it.
    #[serde(default)]
    pub compiler: Compiler,
    /// Whether it may contain Rust, for which kbuild then has a compiler.
    #[serde(default)]
    pub rust: bool,
    /// The machine it runs on.
    #[serde(default)]
    pub machine: MachineSpec,
    /// Kernel parameters in addition to the lab's own.
    #[serde(default)]
    pub cmdline: String,
    /// Whether a distribution kernel has the vmlinux of its debug package, which is large.
    #[serde(default)]
    pub debug_package: bool,
    /// Patches `kernels/patches/NAME.patch`, applied in order to a copy of the source.
    #[serde(default)]
    pub patches: Vec<String>,
    /// Whether `all` leaves it out, so that it must be named.
    #[serde(default)]
    pub opt_in: bool,
    /// Known bugs: the names of scenarios that fail on it, each with a part of the reason that the
    /// failure gives.
    #[serde(default)]
    pub bugs: BTreeMap<String, String>,
    /// The newest version that was seen to have `bugs`: a suite's next one may have fixed some.
    #[serde(default)]
    pub bugs_as_of: Option<KernelVersion>,
    /// Whether the kernel may have its `bugs` or not: it is later than that, or of another source.
    #[serde(skip)]
    pub bugs_may_be_fixed: bool,
    /// A kernel whose known bugs it has, too; [`KernelSpec::load`] adds them to `bugs`.
    #[serde(default)]
    pub bugs_of: Option<String>,
    /// Those of its bugs that this one does not have.
    #[serde(default)]
    pub bugs_but: BTreeSet<String>,
    /// Those of `bugs` that only the other kernel lists: it may run scenarios that the configuration of this
    /// one rules out.
    #[serde(skip)]
    pub inherited_bugs: BTreeSet<String>,
}

/// The origin of a kernel's source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceSpec {
    /// A source package of any Debian suite.
    Debian {
        /// Such as `trixie` or `trixie-backports`.
        suite: String,
        /// Such as `linux-source-6.12`.
        package: String,
        /// The version to use, such as `6.12.94-1`, instead of the current one of the suite.
        #[serde(default)]
        version: Option<DebianVersion>,
    },
    /// A Debian kernel, from its image, modules and headers packages. Nothing is built.
    #[serde(rename = "debian-image")]
    DebianImage {
        /// Such as `trixie` or `trixie-backports`.
        suite: String,
        /// Such as `linux-image-6.12.107+deb13-arm64`, or `linux-image-arm64` for the suite's newest.
        package: String,
        /// The version to use instead of the current one of the suite.
        #[serde(default)]
        version: Option<DebianVersion>,
    },
    /// A tree on the host, absolute or relative to the checkout. It is built out of tree.
    Tree(PathBuf),
    /// A tarball, with any compression that tar supports.
    Tarball {
        /// An `https`, `http` or `file` URL.
        url: String,
        /// Its SHA-256 in hexadecimal.
        sha256: String,
    },
    /// A git repository.
    Git {
        /// Any URL or path that `git fetch` accepts.
        url: String,
        /// A branch, a tag or a commit.
        #[serde(rename = "ref")]
        reference: String,
    },
}

impl SourceSpec {
    /// Pins the source to this version of its Debian package, or to this commit. Other sources are returned
    /// unchanged.
    pub(super) fn exactly(&self, version: &str) -> Result<SourceSpec, String> {
        let mut exact = self.clone();
        match &mut exact {
            SourceSpec::Debian { version: pinned, .. } | SourceSpec::DebianImage { version: pinned, .. } => {
                *pinned = Some(version.parse()?);
            }
            SourceSpec::Git { reference, .. } if is_commit(version) => version.clone_into(reference),
            SourceSpec::Git { .. } => return Err(format!("`{}` is not a commit", version.escape_debug())),
            SourceSpec::Tree(_) | SourceSpec::Tarball { .. } => {}
        }
        Ok(exact)
    }
}

/// Returns whether a git reference is an unabbreviated commit hash.
pub(super) fn is_commit(reference: &str) -> bool {
    reference.len() == 40 && reference.chars().all(|c| c.is_ascii_hexdigit())
}

/// A package's version as Debian writes it, such as `6.12.94-1` or `1:2.36-9~bpo13+1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebianVersion(String);

impl DebianVersion {
    /// Returns the version as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DebianVersion {
    type Err = String;

    /// Accepts only the characters of deb-version(7), since the version becomes part of apt's arguments.
    fn from_str(text: &str) -> Result<DebianVersion, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".+-~:".contains(c);
        if text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 100 && text.chars().all(allowed) {
            return Ok(DebianVersion(text.to_owned()));
        }
        let shown: String = text.chars().take(100).collect();
        Err(format!("`{shown}` is not a Debian package version, expected one such as `6.12.94-1`"))
    }
}

impl<'de> Deserialize<'de> for DebianVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DebianVersion, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The machine a kernel runs on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSpec {
    /// QEMU's `-machine`.
    pub machine: String,
    /// QEMU's `-cpu`.
    pub cpu: String,
    /// The number of CPUs.
    pub smp: u32,
    /// The amount of memory.
    pub memory: Memory,
}

impl Default for MachineSpec {
    fn default() -> MachineSpec {
        MachineSpec {
            // Version 3 of the interrupt controller is that of arm64 servers, and supports any
            // number of CPUs.
            machine: "virt,gic-version=3".into(),
            // Every feature QEMU can emulate; pointer authentication with QEMU's own algorithm, since
            // the architected one makes emulated function calls several times slower.
            cpu: "max,pauth-impdef=on".into(),
            smp: 2,
            memory: Memory { bytes: 512 << 20 },
        }
    }
}

/// An amount of memory, written as `512M` or `2G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The amount in bytes, a multiple of 1 MiB.
    pub bytes: u64,
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let error = || format!("`{text}` is not an amount of memory, expected one such as `512M` or `2G`");
        let (number, shift) = match (text.strip_suffix('M'), text.strip_suffix('G')) {
            (Some(number), _) => (number, 20),
            (_, Some(number)) => (number, 30),
            _ => return Err(error()),
        };
        let number: u64 = number.parse().map_err(|_| error())?;
        // A kernel does not boot with less; no machine of this type has more.
        let bytes = number.checked_mul(1 << shift).filter(|bytes| (64 << 20..=1 << 40).contains(bytes));
        Ok(Memory { bytes: bytes.ok_or_else(|| format!("`{text}` is not between 64M and 1024G"))? })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}M", self.bytes >> 20)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Memory, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A kernel's description cannot be used, because of a wrong name or a wrong file.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// No such file.
    #[error("no kernel `{name}`{nearest}; there are {known}; `cargo xtask lab kernels` describes them")]
    Unknown {
        /// The requested name.
        name: String,
        /// The name that is meant, perhaps: the end of a message.
        nearest: String,
        /// The names that exist.
        known: String,
    },
    /// The name is not a plain name.
    #[error("`{0}` is not a valid name of a kernel or fragment, expected letters, digits, `.`, `-` and `_`")]
    Name(String),
    /// No kernel meets the requirement.
    #[error("no kernel matches `{asked}`; there are {known}, and a requirement selects only plain versions")]
    NoneChosen {
        /// The requirement.
        asked: String,
        /// The names that exist.
        known: String,
    },
    /// The requirement cannot be parsed.
    #[error(transparent)]
    Requirement(#[from] VersionError),
    /// The file cannot be read, or its contents are invalid.
    #[error("cannot use `{path}`: {cause}", path = .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The error, with its line.
        cause: String,
    },
}

impl KernelSpec {
    /// Returns the description for a kernel of this version.
    pub(super) fn of_version(mut self, version: &KernelVersion) -> KernelSpec {
        self.bugs_may_be_fixed |= self.bugs_as_of.is_some_and(|seen| *version > seen);
        self
    }

    /// Returns the files below `kernels/` that define it: the description, that of the kernel whose bugs it has,
    /// its fragments and its patches.
    pub fn files(&self) -> Vec<String> {
        let fragments = self.fragments.iter().map(|fragment| format!("{fragment}.config"));
        let patches = self.patches.iter().map(|patch| format!("patches/{patch}.patch"));
        let descriptions = [&self.name].into_iter().chain(&self.bugs_of).map(|name| format!("{name}.yaml"));
        descriptions.chain(fragments).chain(patches).collect()
    }

    /// Parses the description `name` and checks what it says by itself.
    pub(super) fn parse(name: &str, text: &str) -> Result<KernelSpec, String> {
        let spec: KernelSpec = crate::yaml::from_str(text).map_err(|error| error.to_string())?;
        for fragment in &spec.fragments {
            check_name(fragment).map_err(|error| error.to_string())?;
        }
        if !(1..=64).contains(&spec.machine.smp) {
            return Err(format!("machine.smp is {}, expected 1 to 64", spec.machine.smp));
        }
        check_fragments(&spec)?;
        if let SourceSpec::Debian { suite, package, .. } | SourceSpec::DebianImage { suite, package, .. } =
            &spec.source
        {
            check_debian(suite, package)?;
        }
        if let SourceSpec::Tarball { url, sha256 } = &spec.source {
            check_tarball(url, sha256)?;
        }
        if let SourceSpec::Git { url, reference } = &spec.source
            && [url, reference].iter().any(|word| word.is_empty() || word.starts_with('-'))
        {
            return Err("source.git has an empty field, or one that git would take for an option".into());
        }
        Ok(KernelSpec { name: name.to_owned(), ..spec })
    }
}

/// The directory of descriptions and fragments.
pub(super) fn directory(root: &Path) -> PathBuf {
    root.join("kernels")
}

/// Checks that a name is plain, since it becomes part of a path.
pub(crate) fn check_name(name: &str) -> Result<(), SpecError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with(['.', '-']) || !name.chars().all(plain) {
        return Err(SpecError::Name(name.chars().take(80).collect()));
    }
    Ok(())
}

/// Checks suite and package, which become arguments of apt and parts of paths.
fn check_debian(suite: &str, package: &str) -> Result<(), String> {
    for (field, name) in [("suite", suite), ("package", package)] {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
            return Err(format!("source.debian.{field} is `{}`, expected a plain name", name.escape_debug()));
        }
    }
    Ok(())
}

/// Checks that a kernel that is built has fragments, and a debian-image none.
fn check_fragments(spec: &KernelSpec) -> Result<(), String> {
    let SourceSpec::DebianImage { package, .. } = &spec.source else {
        let none = "missing field `fragments`, the names of kernels/*.config that configure it";
        if spec.debug_package {
            return Err("only a debian-image has a `debug_package`".into());
        }
        return if spec.fragments.is_empty() { Err(none.into()) } else { Ok(()) };
    };
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    if !package.starts_with("linux-image-") || !package.chars().all(letter) {
        return Err(format!("source.debian-image: `{package}` is not a package such as `linux-image-arm64`"));
    }
    if !spec.fragments.is_empty() {
        return Err("a debian-image is not built, so it takes no `fragments`".into());
    }
    Ok(())
}

fn check_tarball(url: &str, sha256: &str) -> Result<(), String> {
    if !["https://", "http://", "file://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(format!("source.tarball.url is `{url}`, expected an https, http or file URL"));
    }
    if sha256.len() != 64 || !sha256.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!(
            "source.tarball.sha256 is `{sha256}`, expected 64 lower-case hexadecimal digits"
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
