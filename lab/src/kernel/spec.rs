//! `kernels/NAME.yaml` → [`KernelSpec`]: where a kernel's source comes from, which config
//! fragments shape it, and the machine it runs on.
//!
//! ```yaml
//! summary: the long-term kernel of Debian 13
//! source:
//!   debian: { suite: trixie, package: linux-source-6.12 }   # `version: 6.12.94-1` pins it
//! fragments: [base, virt, tracing]      # kernels/base.config, …; a later one wins
//! machine: { smp: 4, memory: 1G }       # optional, as is each field
//! cmdline: slub_debug=FZ                # optional, added to the lab's own
//! ```
//!
//! or, without fragments, `debian-image: { suite: trixie, package: linux-image-arm64 }`.

use serde::{Deserialize, Deserializer, de};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

/// A file of this size is no kernel description.
const FILE_LIMIT_BYTES: u64 = 64 * 1024;

/// One kernel of the matrix.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// The file's name without `.yaml`.
    #[serde(skip)]
    pub name: String,
    /// What it is, in a line.
    pub summary: String,
    /// Where its source comes from.
    #[serde(with = "serde_yaml::with::singleton_map")]
    pub source: SourceSpec,
    /// The fragments `kernels/NAME.config` it is configured by. A later one wins. One that is used as
    /// it was shipped has none.
    #[serde(default)]
    pub fragments: Vec<String>,
    /// The machine it runs on.
    #[serde(default)]
    pub machine: MachineSpec,
    /// Kernel parameters beside the lab's own.
    #[serde(default)]
    pub cmdline: String,
}

/// Where a kernel's source comes from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceSpec {
    /// A Debian source package of any suite.
    Debian {
        /// Such as `trixie` or `trixie-backports`.
        suite: String,
        /// Such as `linux-source-6.12`.
        package: String,
        /// The one version, such as `6.12.94-1`, where it is not whatever the suite has.
        #[serde(default)]
        version: Option<DebianVersion>,
    },
    /// A kernel as Debian ships it: image, modules and headers packages, of which nothing is built.
    #[serde(rename = "debian-image")]
    DebianImage {
        /// Such as `trixie` or `trixie-backports`.
        suite: String,
        /// Such as `linux-image-6.12.107+deb13-arm64`, or `linux-image-arm64` for the suite's newest.
        package: String,
        /// The one version of the package, where it is not whatever the suite has.
        #[serde(default)]
        version: Option<DebianVersion>,
    },
    /// A tree on this machine, absolute or relative to the checkout. It is built out of tree.
    Tree(PathBuf),
    /// A tarball, compressed in any way that tar knows.
    Tarball {
        /// An `https`, `http` or `file` URL.
        url: String,
        /// Its SHA-256 in hexadecimal.
        sha256: String,
    },
    /// A git repository.
    Git {
        /// Whatever `git fetch` takes.
        url: String,
        /// A branch, a tag or a commit.
        #[serde(rename = "ref")]
        reference: String,
    },
}

/// A package's version as Debian writes it, such as `6.12.94-1` or `1:2.36-9~bpo13+1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebianVersion(String);

impl DebianVersion {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DebianVersion {
    type Err = String;

    /// By the letters of deb-version(7): it becomes a part of apt's arguments.
    fn from_str(text: &str) -> Result<DebianVersion, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".+-~:".contains(c);
        if text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 100 && text.chars().all(allowed) {
            return Ok(DebianVersion(text.to_owned()));
        }
        let shown: String = text.chars().take(100).collect();
        Err(format!("`{shown}` is no version of a Debian package, expected one such as `6.12.94-1`"))
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
    /// How many CPUs.
    pub smp: u32,
    /// How much memory.
    pub memory: Memory,
}

impl Default for MachineSpec {
    fn default() -> MachineSpec {
        MachineSpec {
            // Version 3 of the interrupt controller is what arm64 servers have, and takes any
            // number of CPUs.
            machine: "virt,gic-version=3".into(),
            // Everything QEMU can emulate; pointer authentication by QEMU's own algorithm, since
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
    /// The amount in bytes, whole mebibytes.
    pub bytes: u64,
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let error = || format!("`{text}` is no amount of memory, expected one such as `512M` or `2G`");
        let (number, shift) = match (text.strip_suffix('M'), text.strip_suffix('G')) {
            (Some(number), _) => (number, 20),
            (_, Some(number)) => (number, 30),
            _ => return Err(error()),
        };
        let number: u64 = number.parse().map_err(|_| error())?;
        // A kernel with less does not boot; no machine of this kind has more.
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

/// Why a kernel's description cannot be used: the user named or wrote something wrong.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// No such file.
    #[error("no kernel `{name}` in `{directory}`; there are {known}", directory = .directory.display())]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where the descriptions are.
        directory: PathBuf,
        /// The names that exist.
        known: String,
    },
    /// A name that is no plain name.
    #[error("`{0}` is no name of a kernel or fragment, expected letters, digits, `.`, `-` and `_`")]
    Name(String),
    /// A requirement that no kernel meets.
    #[error("no kernel is `{asked}`; there are {known}, of which a requirement takes plain versions")]
    NoneChosen {
        /// The requirement.
        asked: String,
        /// The names that exist.
        known: String,
    },
    /// A requirement that cannot be read.
    #[error(transparent)]
    Requirement(#[from] super::VersionError),
    /// The file cannot be read, or says something wrong.
    #[error("cannot use `{path}`: {cause}", path = .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line.
        cause: String,
    },
}

impl KernelSpec {
    /// Reads `kernels/NAME.yaml` below `root`, the checkout.
    pub fn load(root: &Path, name: &str) -> Result<KernelSpec, SpecError> {
        check_name(name)?;
        let path = directory(root).join(format!("{name}.yaml"));
        let text = read_capped(&path, FILE_LIMIT_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpecError::Unknown {
                name: name.to_owned(),
                directory: directory(root),
                known: quoted_list(&names(root)),
            },
            _ => SpecError::Invalid { path: path.clone(), cause: error.to_string() },
        })?;
        KernelSpec::parse(name, &text).map_err(|cause| SpecError::Invalid { path, cause })
    }

    /// The files below `kernels/` that it is made of: itself, and those that it names.
    pub fn files(&self) -> Vec<String> {
        let fragments = self.fragments.iter().map(|fragment| format!("{fragment}.config"));
        [format!("{}.yaml", self.name)].into_iter().chain(fragments).collect()
    }

    fn parse(name: &str, text: &str) -> Result<KernelSpec, String> {
        let spec: KernelSpec = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
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

/// Every kernel below `root`, the checkout, in the order of their names.
pub fn list(root: &Path) -> Result<Vec<KernelSpec>, SpecError> {
    names(root).iter().map(|name| KernelSpec::load(root, name)).collect()
}

/// Where descriptions and fragments are.
pub(super) fn directory(root: &Path) -> PathBuf {
    root.join("kernels")
}

/// Names become parts of paths.
pub(crate) fn check_name(name: &str) -> Result<(), SpecError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with(['.', '-']) || !name.chars().all(plain) {
        return Err(SpecError::Name(name.chars().take(80).collect()));
    }
    Ok(())
}

/// What is built is configured, and nothing else is.
fn check_fragments(spec: &KernelSpec) -> Result<(), String> {
    let SourceSpec::DebianImage { package, .. } = &spec.source else {
        let none = "missing field `fragments`, the names of kernels/*.config that configure it";
        return if spec.fragments.is_empty() { Err(none.into()) } else { Ok(()) };
    };
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    if !package.starts_with("linux-image-") || !package.chars().all(letter) {
        return Err(format!("source.debian-image: `{package}` is no package such as `linux-image-arm64`"));
    }
    if !spec.fragments.is_empty() {
        return Err("a debian-image is as it was shipped, and takes no `fragments`".into());
    }
    Ok(())
}

/// Both become words of apt's, and parts of paths.
fn check_debian(suite: &str, package: &str) -> Result<(), String> {
    for (field, name) in [("suite", suite), ("package", package)] {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
            return Err(format!("source.debian.{field} is `{}`, expected a plain name", name.escape_debug()));
        }
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

pub(super) fn names(root: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(directory(root)) else { return Vec::new() };
    let name = |path: PathBuf| {
        let name = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "yaml").then_some(name)
    };
    let mut names: Vec<String> = files.flatten().filter_map(|file| name(file.path())).collect();
    names.sort();
    names
}

pub(super) fn quoted_list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Reads a text file that has no business being larger than `limit_bytes`.
pub(super) fn read_capped(path: &Path, limit_bytes: u64) -> io::Result<String> {
    if fs::metadata(path)?.len() > limit_bytes {
        let message = format!("it is larger than {limit_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    fs::read_to_string(path)
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
