//! Confines the tools that run on sources: make, compilers, strip and whatever scripts these start.
//!
//! Sources may come from someone else, in a reproducer, a kernel tree or a module, and building them
//! runs their code. bubblewrap gives a tool namespaces of its own: it sees the programs and libraries of
//! the system and the sources read-only, one directory that it can write to, an empty home, no network,
//! and no process except its own, and it dies with the lab. Where that does not work, in most containers,
//! Landlock confines what it can; [`gap`] describes the rest.

mod bubblewrap;
mod landlock;

use ::landlock::RulesetCreated;
use anyhow::{Result, bail};
use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tempfile::TempDir;

/// Selects a [`Level`] other than the best one.
pub const VARIABLE: &str = "FTRACE_LAB_CONFINEMENT";

/// The directories of programs. Those of the user, below a home, are not available to a confined tool.
pub(crate) const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";

/// Programs, libraries and headers, and what the loader and Debian's alternatives need. Not all of /etc:
/// the lab may run as root, who can read the shadow file.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    // Programs on NixOS and Guix.
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// The means by which tools are confined on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Namespaces, made by bubblewrap.
    Bubblewrap,
    /// Landlock alone.
    Landlock,
    /// Nothing but an environment without the user's variables.
    None,
}

/// The names of the levels in [`VARIABLE`].
const LEVELS: [(&str, Level); 3] =
    [("bubblewrap", Level::Bubblewrap), ("landlock", Level::Landlock), ("none", Level::None)];

/// Returns the level of this host: the one that the environment selects, else the best that works.
///
/// # Errors
/// The variable selects an unknown level.
pub fn level() -> Result<Level> {
    static BEST: OnceLock<Level> = OnceLock::new();
    let Some(selected) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(*BEST.get_or_init(|| {
            if bubblewrap::works() {
                Level::Bubblewrap
            } else if landlock::works() {
                Level::Landlock
            } else {
                Level::None
            }
        }));
    };
    match LEVELS.into_iter().find(|(name, _)| selected == *name) {
        Some((_, level)) => Ok(level),
        None => bail!(
            "`{VARIABLE}` is `{}`, expected {}",
            selected.display(),
            LEVELS.map(|(name, _)| format!("`{name}`")).join(", ")
        ),
    }
}

/// Describes what the code of a build can reach on this host although it should not; `None` if it is
/// confined completely.
pub fn gap() -> Result<Option<&'static str>> {
    Ok(match level()? {
        Level::Bubblewrap => None,
        Level::Landlock => Some(
            "builds are confined by Landlock alone, without namespaces: they cannot read or write other files, \
             but reach local sockets of services, UDP, and before Linux 6.7 any network, and what they start may \
             outlive them",
        ),
        Level::None => Some(
            "builds are not confined, neither by bubblewrap nor by Landlock: they reach every file of yours and \
             the network",
        ),
    })
}

/// The directories that a confined tool can reach, besides the system's.
#[derive(Clone, Debug)]
pub struct Reach {
    writable: PathBuf,
    readable: Vec<PathBuf>,
}

impl Reach {
    /// Lets a tool write to the directory `writable`, which exists, and starts it there.
    pub fn new(writable: impl Into<PathBuf>) -> Reach {
        Reach { writable: writable.into(), readable: Vec::new() }
    }

    /// Also lets it read these files and directories.
    pub fn reading<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Reach {
        self.readable.extend(paths.into_iter().map(Into::into));
        self
    }
}

/// A confined command, ready to be started.
pub(super) struct Command {
    program: OsString,
    args: Vec<OsString>,
    /// The whole environment.
    env: Vec<(OsString, OsString)>,
    directory: PathBuf,
    /// Enforced by the child before its exec.
    ruleset: Option<RulesetCreated>,
    /// Its home and its temporary directory, removed with this.
    _home: Option<TempDir>,
}

/// Confines a program with its arguments. `env` is added to a minimal environment.
pub(super) fn confine(
    reach: &Reach,
    level: Level,
    program: &OsStr,
    args: &[OsString],
    env: &[(OsString, Option<OsString>)],
) -> Result<Command> {
    let home = match level {
        Level::Bubblewrap => None,
        Level::Landlock | Level::None => Some(tempfile::tempdir()?),
    };
    let home_path = home.as_ref().map_or(Path::new(bubblewrap::HOME), TempDir::path);
    let temporary = home.as_ref().map_or(Path::new(bubblewrap::TEMPORARY), TempDir::path);
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), PATH.into()),
        ("HOME".into(), home_path.into()),
        ("TMPDIR".into(), temporary.into()),
        ("LC_ALL".into(), "C".into()),
    ];
    variables.extend(env.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))));
    let ruleset = match level {
        Level::Landlock => Some(landlock::ruleset(reach, home_path)?),
        Level::Bubblewrap | Level::None => None,
    };
    let (program, args) = match level {
        Level::Bubblewrap => bubblewrap::wrapped(reach, program, args)?,
        Level::Landlock | Level::None => (program.to_owned(), args.to_owned()),
    };
    let directory = reach.writable.clone();
    Ok(Command { program, args, env: variables, directory, ruleset, _home: home })
}

impl Command {
    /// Returns the command for duct.
    pub(super) fn expression(&self) -> Result<duct::Expression> {
        let expression =
            duct::cmd(&self.program, &self.args).full_env(self.env.iter().cloned()).dir(&self.directory);
        let Some(ruleset) = &self.ruleset else { return Ok(expression) };
        let ruleset = ruleset.try_clone()?;
        Ok(expression.before_spawn(move |command| landlock::enforce(command, &ruleset)))
    }
}

#[cfg(test)]
mod tests;
