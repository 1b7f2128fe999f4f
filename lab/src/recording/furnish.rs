//! A machine made ready for a person instead of a scenario: all workloads and the lab's own modules are
//! where a scenario would have them, and some modules are loaded.

use super::{Recorder, modules::MODULES, modules::READABLE};
use crate::{
    guest::{Guest, Module},
    kernel::Kernel,
    machine::{Death, Machine},
    scenario::{WORKLOADS, Wanted},
};
use anyhow::anyhow;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long it may take on the reference machine.
const FURNISH_DEADLINE: Duration = Duration::from_secs(30);

/// What is brought into a guest.
#[derive(Clone, Debug, Default)]
pub struct Furniture {
    /// Programs beside the workloads, and where they go.
    pub programs: Vec<(String, PathBuf)>,
    /// Modules that are put into the guest.
    pub modules: Vec<Module>,
    /// Of the modules, those that are loaded, in this order.
    pub load: Vec<Module>,
}

/// A module that was loaded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What was loaded.
    pub module: Module,
    /// Where its sections are, by their names.
    pub bases: BTreeMap<String, u64>,
}

/// Brings it in. Gives back where the sections of the modules that were loaded are.
pub fn furnish(
    kernel: &Kernel,
    machine: &mut Machine,
    guest: &Guest,
    furniture: &Furniture,
) -> Result<Vec<Loaded>, Death> {
    let mut recorder = Recorder::new(kernel, machine, guest, Path::new(""), FURNISH_DEADLINE);
    for (path, file) in &furniture.programs {
        recorder.push(path, file, super::processes::EXECUTABLE)?;
    }
    for (name, file) in &guest.workloads {
        recorder.push(&format!("{WORKLOADS}/{name}"), file, super::processes::EXECUTABLE)?;
    }
    for module in &furniture.modules {
        recorder.push(&format!("{MODULES}/{}.ko", module.name), &module.file, READABLE)?;
    }
    let mut loaded = Vec::new();
    for module in &furniture.load {
        let wanted = Wanted::Named(module.name.clone());
        recorder.modules.insert(wanted.clone(), module.clone());
        let failures = recorder.load(&wanted, None, None)?;
        if !failures.is_empty() {
            let failures = failures.join("; ");
            return Err(Death::Lab(anyhow!("cannot load the module `{}`: {failures}", module.name)));
        }
        let bases = recorder.section_bases(module)?;
        loaded.push(Loaded { module: module.clone(), bases });
    }
    Ok(loaded)
}
