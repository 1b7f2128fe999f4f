//! The requirements of a scenario: kernel versions, configuration, files that a distribution kernel lacks.

use super::event_support;
use crate::{
    kernel::{Kernel, WITHOUT_VMLINUX},
    scenario::{ModuleRef, Scenario, Step},
};

/// Returns the first requirement of a scenario that this kernel does not meet, as text.
pub(super) fn unmet_requirement(scenario: &Scenario, kernel: &Kernel) -> Option<String> {
    let requires = &scenario.requires;
    if let Some(versions) = &requires.kernel
        && !versions.matches(&kernel.version)
    {
        return Some(format!("requires kernel {versions}; this is {}", kernel.version));
    }
    if let Some(reason) = of_modules(scenario, kernel) {
        return Some(reason);
    }
    if scenario.compares_kernel_text() && (kernel.version.major, kernel.version.minor) < (6, 1) {
        return Some("the lab knows the layout of the kernel's text since 6.1".to_owned());
    }
    if scenario.attaches_crash() && kernel.version.major >= 7 && !scenario.modules().is_empty() {
        // "invalid structure member offset: module_num_gpl_syms", once a module is loaded (7.2).
        return Some("crash 8.0.6 of Debian 13 cannot read the modules of kernels since 7.0".to_owned());
    }
    if let Some(reason) =
        userland_obstacle(scenario, kernel).or_else(|| missing_from_distribution_kernel(scenario, kernel))
    {
        return Some(reason);
    }
    if let Some(reason) = event_support::unmet(&scenario.trace, &kernel.version, kernel.config()) {
        return Some(reason);
    }
    let of_bootconfig = scenario.bootconfig.as_ref().map(|_| ("BOOT_CONFIG", true));
    let required = requires.config.iter().map(|required| (required.symbol.as_str(), required.set));
    let (symbol, set) =
        required.chain(of_bootconfig).find(|(symbol, set)| kernel.config().is_set(symbol) != *set)?;
    Some(format!("CONFIG_{symbol} is {}set in this kernel", if set { "not " } else { "" }))
}

/// Returns why this kernel cannot load or unload the modules of a scenario.
fn of_modules(scenario: &Scenario, kernel: &Kernel) -> Option<String> {
    let unloads = |step: &Step| matches!(step, Step::Unload(unload) if unload.errno.is_none());
    let unloaded = scenario.steps.iter().position(|step| unloads(&step.value));
    let is_set = |symbol: &str| kernel.config().is_set(symbol);
    if !scenario.modules().is_empty() && !is_set("MODULES") {
        return Some("CONFIG_MODULES is not set in this kernel, which therefore loads no module".to_owned());
    }
    let step = unloaded.filter(|_| !is_set("MODULE_UNLOAD"))? + 1;
    Some(format!(
        "CONFIG_MODULE_UNLOAD is not set in this kernel, and step {step} unloads a module; leave it loaded, and \
         declare that with `may_leave`"
    ))
}

/// Returns why this kernel cannot mount a userland. Only a distribution kernel has an initramfs that loads
/// modules for that.
fn userland_obstacle(scenario: &Scenario, kernel: &Kernel) -> Option<String> {
    scenario.userland.as_ref()?;
    let missing = ["VIRTIO_PCI", "NET_9P_VIRTIO", "9P_FS"];
    let config = kernel.config();
    let works = |symbol: &str| {
        if kernel.is_distribution() { config.is_set(symbol) } else { config.get(symbol) == Some("y") }
    };
    let missing = missing.into_iter().find(|symbol| !works(symbol))?;
    let expected = if kernel.is_distribution() { "not set" } else { "not `y`" };
    Some(format!("cannot mount a userland: CONFIG_{missing} is {expected} in this kernel"))
}

/// Returns what a scenario needs and a distribution kernel lacks.
fn missing_from_distribution_kernel(scenario: &Scenario, kernel: &Kernel) -> Option<String> {
    if !kernel.is_distribution() {
        return None;
    }
    let is_sample = |wanted: &ModuleRef| matches!(wanted, ModuleRef::Sample(_));
    let reads = scenario.reads_text() || scenario.reads_memory() || scenario.attaches_crash();
    if kernel.vmlinux().is_none() && (reads || scenario.compares_executed()) {
        return Some(WITHOUT_VMLINUX.to_owned());
    }
    if !scenario.selftests().is_empty() {
        return Some("this distribution kernel has no source, and therefore no selftests".to_owned());
    }
    let samples = scenario.modules().iter().any(is_sample);
    samples.then(|| "this distribution kernel has no samples".to_owned())
}
