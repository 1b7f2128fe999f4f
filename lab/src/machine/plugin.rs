//! The plugin of QEMU that notes which code runs, built with cargo for the host.

use super::{Accelerator, qemu, version::version};
use crate::{
    context::Lab,
    guest::{Guest, Package, host_cargo_build, host_toolchain},
    host::process::Tool,
    scenario::Scenario,
};
use anyhow::Result;
use std::path::PathBuf;

/// The package, below `lab/`.
const PACKAGE: &str = "plugin";

/// The file that cargo builds.
const LIBRARY: &str = "release/libplugin.so";

/// Selects version 2 of QEMU's plugin interface, which the first QEMU without version 1 has.
const VERSION_2: &str = "QEMU_PLUGIN_VERSION_2";

/// The version of that QEMU.
const WITHOUT_VERSION_1: &str = "9.0";

/// Gives the machines of a guest the plugin: all of them, or those of the scenarios that need it.
pub(crate) fn measured<'a>(
    lab: &Lab,
    guest: Guest,
    all: bool,
    scenarios: impl IntoIterator<Item = &'a Scenario>,
) -> Result<Guest> {
    if !all && !scenarios.into_iter().any(Scenario::compares_executed) {
        return Ok(guest);
    }
    let plugin = plugin(lab)?;
    Ok(Guest { measures: all && plugin.is_some(), plugin, ..guest })
}

/// Returns the plugin. If machines of this host cannot have it, prints why and returns `None`.
fn plugin(lab: &Lab) -> Result<Option<PathBuf>> {
    let refuse = |why: &str| {
        lab.progress.line(format!("warning: the code that runs is not measured: {why}"));
        Ok(None)
    };
    if Accelerator::of_host() == Accelerator::Kvm {
        return refuse("this host runs guests under KVM, and only emulated code can be measured");
    }
    if !Tool::new(qemu::PROGRAM).arg("-help").run()?.lines().any(|line| line.starts_with("-plugin ")) {
        return refuse(&format!("this `{}` was built without plugins", qemu::PROGRAM));
    }
    let second = !version()?.is_older_than(&WITHOUT_VERSION_1.parse()?);
    let package = Package {
        name: PACKAGE,
        sources: &["lab/plugin"],
        toolchain: format!("{} {second}", host_toolchain()?),
    };
    let built = package.build(lab, |target| {
        let cargo = host_cargo_build(&lab.root, PACKAGE, target);
        if second { cargo.env(VERSION_2, "1") } else { cargo }.run()?;
        Ok(target.join(LIBRARY))
    })?;
    Ok(Some(built))
}
