//! The agent, built with cargo for the guest.

use super::{package::Package, toolchain::Toolchain};
use crate::context::Lab;
use anyhow::Result;
use std::path::PathBuf;

/// The package, its profile, and its program.
const PACKAGE: &str = "agent";

/// Returns the agent's program. The version of the cross compiler counts as part of the toolchain, since it
/// links and provides the C library.
pub(super) fn build(lab: &Lab, compiler: &str) -> Result<PathBuf> {
    let toolchain = Toolchain::find(lab)?;
    let package = Package {
        name: PACKAGE,
        sources: &["guest/agent", "guest/protocol"],
        toolchain: format!("{} {compiler}", toolchain.identity()),
    };
    package.build(lab, |target| {
        toolchain.cargo_build(&lab.root, PACKAGE, target).run()?;
        Ok(toolchain.built(target, PACKAGE))
    })
}
