//! Landlock rules, for hosts on which bubblewrap does not work.

use super::{Reach, SYSTEM};
use anyhow::{Context, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope, path_beneath_rules,
};
use std::{io, os::unix::process::CommandExt, path::Path, process::Command};

/// The newest version whose rights are handled; older kernels enforce those that they know.
const NEWEST: ABI = ABI::V6;

/// Devices that tools write to.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Returns whether this kernel has Landlock.
pub(super) fn works() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
}

/// Returns the rules for a tool with this reach, which may also write to `home`.
pub(super) fn ruleset(reach: &Reach, home: &Path) -> Result<RulesetCreated> {
    let rules = || {
        let read = AccessFs::from_read(NEWEST);
        let all = AccessFs::from_all(NEWEST);
        let devices: BitFlags<AccessFs> = AccessFs::from_file(NEWEST) & !AccessFs::Execute;
        Ruleset::default()
            .handle_access(all)?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM, read))?
            .add_rules(path_beneath_rules(&reach.readable, read))?
            .add_rules(path_beneath_rules(DEVICES, devices))?
            .add_rules(path_beneath_rules([reach.writable.as_path(), home], all))
    };
    rules().context("cannot make Landlock rules")
}

/// Makes the command restrict itself before its exec.
pub(super) fn enforce(command: &mut Command, ruleset: &RulesetCreated) -> io::Result<()> {
    let mut ruleset = Some(ruleset.try_clone()?);
    // SAFETY: between fork and exec the closure makes two system calls on a descriptor that was opened
    // before, and touches no memory that another thread could hold.
    unsafe {
        command.pre_exec(move || match ruleset.take() {
            Some(ruleset) => {
                ruleset.restrict_self().map(drop).map_err(|_| io::ErrorKind::PermissionDenied.into())
            }
            None => Ok(()),
        });
    }
    Ok(())
}
