//! The nights between which something began, and the versions that differ between them.

use super::{Life, Lives};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The last night in which a scenario passed, and the first in which it did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Between {
    /// The last night before in which it passed; null if there is none.
    pub good: Option<Versions>,
    /// The first night in which it failed.
    pub bad: Versions,
}

/// A night, and what ran in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Versions {
    /// When it started.
    pub night: String,
    /// The version of the kernel's source.
    pub kernel: String,
    /// The digest of its configuration.
    pub config: String,
    /// QEMU.
    pub qemu: String,
    /// The host.
    pub host: String,
}

/// Returns the nights and versions between which a scenario's state in the night `bad` began.
pub fn between(lives: &Lives, life: &Life, bad: u32) -> Option<Between> {
    let good = life.nights.iter().rev().find(|lived| lived.night < bad && lived.ending.holds());
    Some(Between {
        good: good.and_then(|good| versions(lives, life, good.night)),
        bad: versions(lives, life, bad)?,
    })
}

fn versions(lives: &Lives, life: &Life, night: u32) -> Option<Versions> {
    let night = lives.nights.get(night as usize)?;
    let (kernel, config) = night
        .kernel(&life.kernel)
        .map(|kernel| (kernel.version.clone(), kernel.config.clone()))
        .unwrap_or_default();
    let host = &night.host;
    Some(Versions {
        night: night.time(),
        kernel,
        config,
        qemu: night.qemu.clone(),
        host: format!("{}, {} CPUs, {}", host.architecture, host.cpus, host.accelerator),
    })
}

impl Between {
    /// Returns what differs between the two nights, such as `kernel 6.12.5 → 6.12.6`.
    pub fn differences(&self) -> Vec<String> {
        let Some(good) = &self.good else { return Vec::new() };
        let bad = &self.bad;
        let config = |config: &str| config.chars().take(8).collect::<String>();
        let pairs = [
            ("kernel", good.kernel.clone(), bad.kernel.clone()),
            ("configuration", config(&good.config), config(&bad.config)),
            ("QEMU", good.qemu.clone(), bad.qemu.clone()),
            ("host", good.host.clone(), bad.host.clone()),
        ];
        let differs = pairs.into_iter().filter(|(_, good, bad)| good != bad);
        differs.map(|(what, good, bad)| format!("{what} {good} → {bad}")).collect()
    }
}

impl fmt::Display for Between {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(good) = &self.good else {
            return write!(out, "it never passed before {} (kernel {})", self.bad.night, self.bad.kernel);
        };
        write!(out, "between {} and {}: ", good.night, self.bad.night)?;
        match self.differences().as_slice() {
            [] => write!(out, "same kernel {}, configuration, QEMU and host", self.bad.kernel),
            differences => out.write_str(&differences.join(", ")),
        }
    }
}
