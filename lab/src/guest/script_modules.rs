//! The modules that a scenario's scripts load themselves: those of packages, and SystemTap's.

use super::{Guest, dkms::Package, systemtap::Probes};
use crate::{kernel::Kernel, scenario::Scenario};
use anyhow::Result;
use std::path::PathBuf;

impl Guest {
    /// Returns the modules by their names in the directory that the guest shares with the lab, built if
    /// necessary, or why they cannot be built for this kernel.
    pub(crate) fn script_modules(
        &self,
        scenario: &Scenario,
        kernel: &Kernel,
    ) -> Result<Result<Vec<(String, PathBuf)>, String>> {
        let mut modules = Vec::new();
        let Some(userland) = &scenario.userland else { return Ok(Ok(modules)) };
        let lab = self.userlands.lab();
        for shell in scenario.shells().filter(|shell| !shell.dkms.is_empty() || !shell.systemtap.is_empty()) {
            let suite = &self.userlands.suite(userland)?;
            for (name, wanted) in &shell.dkms {
                match (Package { suite, name: name.as_str(), wanted }).build(lab, kernel)? {
                    Ok(built) => modules.extend(built),
                    Err(reason) => return Ok(Err(reason)),
                }
            }
            for (name, script) in &shell.systemtap {
                match (Probes { suite, name, script }).compile(lab, &self.userlands, kernel)? {
                    Ok(built) => modules.extend(built),
                    Err(reason) => return Ok(Err(reason)),
                }
            }
        }
        Ok(Ok(modules))
    }
}
