//! Arguments of bwrap(1).

use super::{Reach, SYSTEM};
use crate::host::process::{Tool, which};
use anyhow::{Context, Result};
use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, absolute},
};

const PROGRAM: &str = "bwrap";

/// An empty home. Not below /tmp or /home, which may contain what a tool reaches.
pub(super) const HOME: &str = "/build-home";

/// The directory for temporary files.
pub(super) const TEMPORARY: &str = "/tmp";

/// Namespaces for everything, without the capabilities that root would have in them.
const ISOLATED: [&str; 15] = [
    "--unshare-all",
    "--die-with-parent",
    // Without a terminal, whose input could be forged.
    "--new-session",
    "--cap-drop",
    "ALL",
    "--proc",
    "/proc",
    // Its files in /proc/sys belong to root, who needs no capability to write to them.
    "--remount-ro",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    TEMPORARY,
    "--tmpfs",
    HOME,
];

/// Returns whether bubblewrap is installed and this user may create namespaces.
pub(super) fn works() -> bool {
    let reach = Reach::new("/usr");
    let Ok((program, args)) = wrapped(&reach, OsStr::new("true"), &[]) else { return false };
    Tool::new(program).args(args).env("PATH", super::PATH).run().is_ok()
}

/// Returns bwrap with the arguments that run `program` confined to `reach`.
pub(super) fn wrapped(
    reach: &Reach,
    program: &OsStr,
    args: &[OsString],
) -> Result<(OsString, Vec<OsString>)> {
    let bwrap = which(PROGRAM).context("cannot find `bwrap`; install the package `bubblewrap`")?;
    let mut words: Vec<OsString> = ISOLATED.map(OsString::from).to_vec();
    for path in SYSTEM.map(Path::new) {
        match fs::read_link(path) {
            // On a merged /usr, such as /bin → usr/bin.
            Ok(target) => words.extend(["--symlink".into(), target.into(), path.into()]),
            Err(_) => words.extend(["--ro-bind-try".into(), path.into(), path.into()]),
        }
    }
    for path in &reach.readable {
        bind("--ro-bind", path, &mut words)?;
    }
    bind("--bind", &reach.writable, &mut words)?;
    words.extend(["--chdir".into(), absolute(&reach.writable)?.into(), "--".into(), program.to_owned()]);
    words.extend_from_slice(args);
    Ok((bwrap.into(), words))
}

/// Adds the option that makes a path of the host available. Below a link it is available by both of its
/// paths, since make records the real one.
fn bind(option: &str, path: &Path, words: &mut Vec<OsString>) -> Result<()> {
    let (path, real) = (absolute(path)?, fs_err::canonicalize(path)?);
    if real != path {
        words.extend([option.into(), real.clone().into(), real.clone().into()]);
    }
    words.extend([option.into(), real.into(), path.into()]);
    Ok(())
}
