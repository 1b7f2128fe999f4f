//! Scenario × Kernel × host → the scenario as this kernel runs it, or why it cannot run it.

mod event_support;
mod preflight;
mod probes;
mod requirements;
mod resolve;
mod rust;

pub use probes::Unfit;
pub(crate) use probes::resolve_probes;
pub use resolve::{ProbeLocation, Resolved, Resolver, Step};

use crate::{context::Lab, host::drgn::Drgn, kernel::Kernel, progress::Progress, scenario::Scenario};
use anyhow::Result;
use std::borrow::Cow;

/// Returns the scenario for this kernel, with its paths replaced by fetch arguments, or why this kernel and this
/// host cannot run it. No guest is started.
///
/// # Errors
/// The kernel's files cannot be read.
pub fn fit<'a>(scenario: &'a Scenario, kernel: &Kernel) -> Result<Result<Cow<'a, Scenario>, Unfit>> {
    let lacking = match requirements::unmet_requirement(scenario, kernel) {
        Some(reason) => Some(reason),
        None => missing_reader(scenario, kernel)?,
    };
    match lacking {
        Some(reason) => Ok(Err(Unfit::Unsupported(reason))),
        None => resolve_probes(scenario, kernel),
    }
}

/// Fetches what the host needs for these scenarios, before the first machine starts.
pub(crate) fn prepare_host<'a>(lab: &Lab, scenarios: impl IntoIterator<Item = &'a Scenario>) {
    if scenarios.into_iter().any(Scenario::reads_memory) {
        // An error is the reason of each of those scenarios.
        let _ = Drgn::obtain(&lab.cache, &lab.progress);
    }
}

/// Returns why this host cannot read guest memory, if the scenario needs it to.
fn missing_reader(scenario: &Scenario, kernel: &Kernel) -> Result<Option<String>> {
    if !scenario.reads_memory() {
        return Ok(None);
    }
    let drgn = Drgn::obtain(kernel.cache(), &Progress::silent());
    Ok(drgn.err().map(|no_drgn| no_drgn.to_string()))
}
