//! Checks and installs the software that must be installed on the host.
//!
//! Nothing is installed unless requested: missing packages are listed, with the one command that
//! installs them.

mod table;

pub use table::Need;

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
use table::{Look, Prerequisite, TABLE};

/// A tool's version: numbers separated by dots, compared as numbers and shown verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: Vec<u32>,
    text: String,
}

impl Version {
    /// Returns whether it is lower than `other`.
    pub fn is_older_than(&self, other: &Version) -> bool {
        self.numbers < other.numbers
    }

    /// Returns the first numbers separated by dots in a tool's output.
    pub(crate) fn find(text: &str) -> Option<Version> {
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

/// The result of checking one prerequisite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of a program, or of the contents of a package.
    pub name: &'static str,
    /// Its Debian package.
    pub package: &'static str,
    /// Its purpose.
    pub needed_for: &'static str,
    /// Whether it is installed at all.
    pub present: bool,
    /// Its version, if it can be determined.
    pub found: Option<Version>,
    /// The minimum version.
    pub minimum: Option<Version>,
    /// Whether it is installed and new enough.
    pub ok: bool,
    /// Whether running scenarios requires it.
    pub required: bool,
    /// The remedy, unless it is ok.
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

/// The host lacks prerequisites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPrerequisites {
    /// Prerequisites that are missing or too old.
    pub missing: Vec<Check>,
    /// The command that installs them, if there is apt.
    pub command: Option<String>,
}

impl std::error::Error for MissingPrerequisites {}

impl fmt::Display for MissingPrerequisites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this machine lacks prerequisites of the lab:")?;
        for check in &self.missing {
            write!(f, "\n    {check}")?;
        }
        match &self.command {
            Some(command) => write!(f, "\ninstall them with\n    {command}\nor run this again with --yes"),
            None => {
                let packages = self.missing.iter().map(|check| check.package).collect::<Vec<_>>().join(" ");
                write!(f, "\nthere is no apt-get here; the Debian packages are {packages}")
            }
        }
    }
}

/// Checks every prerequisite.
pub fn doctor() -> Vec<Check> {
    TABLE.iter().map(|prerequisite| look(prerequisite, true)).collect()
}

/// Checks one prerequisite; determines its version only if it is shown or compared.
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

/// Ensures that everything up to `need` is installed. Missing packages are installed if `yes`.
/// Otherwise, or if they are still missing after the installation, the error is a
/// [`MissingPrerequisites`].
pub fn ensure(need: Need, yes: bool, progress: &Progress) -> Result<()> {
    ensure_beside(need, &[], yes, progress)
}

/// Like [`ensure`], but also requires these programs of the table, in addition to `need`.
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
        .context("apt-get ran, but the prerequisites are still not met")
}

fn missing_now(need: Need, programs: &[&str]) -> Vec<Check> {
    let is_wanted = |of: Need| of == need || of < need && need == Need::Test;
    let required = TABLE.iter().filter(|row| is_wanted(row.need) || programs.contains(&row.name));
    required.map(|prerequisite| look(prerequisite, false)).filter(|check| !check.ok).collect()
}

/// Returns the one command that installs the missing packages.
fn command(missing: &[Check], privileged: bool) -> String {
    let sudo = if privileged { "" } else { "sudo " };
    // Container images come without package lists.
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
        // Wait for another apt, such as unattended-upgrades.
        tool.args(["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-o", "DPkg::Lock::Timeout=300"])
    };
    if !privileged && !may_sudo() {
        bail!(
            "cannot install packages: this user may not use sudo; ask an administrator to run this, then try again\n    {}",
            command(missing, privileged)
        );
    }
    let packages = packages(missing);
    let task = progress.task("reading the package lists", None);
    if let Err(error) = apt_get().arg("update").run() {
        // The broken list is often a third party's; only Debian's are needed here.
        progress.line(format!("warning: {error:#}"));
    }
    drop(task);
    let _task = progress.task(format!("installing {}", packages.join(" ")), None);
    apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages).run().with_context(|| {
        format!("cannot install packages; to install them by hand, run: {}", command(missing, privileged))
    })?;
    Ok(())
}

/// Returns whether sudo works, after asking for a password if there is a terminal.
fn may_sudo() -> bool {
    if Tool::new("sudo").args(["-n", "true"]).run().is_ok() {
        return true;
    }
    // Not as a `Tool`: it needs the terminal for the password prompt.
    stdin().is_terminal() && Command::new("sudo").arg("-v").status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{table::program, *};

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
