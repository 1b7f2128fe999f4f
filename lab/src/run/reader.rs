//! Who reads the memory of guests, for scenarios that look into it. Where there is nobody, those are
//! unsupported, and the others run.

use crate::{cache::Cache, host::drgn::Drgn, kernel::Kernel, progress::Progress, scenario::Scenario};
use anyhow::Result;

/// Has the reader in the cache before the first machine starts, if one of the scenarios needs it.
pub(super) fn fetch<'a>(
    scenarios: impl IntoIterator<Item = &'a Scenario>,
    cache: &Cache,
    progress: &Progress,
) {
    if scenarios.into_iter().any(Scenario::reads_memory) {
        // What is wrong is the reason of each of those scenarios.
        let _ = Drgn::obtain(cache, progress);
    }
}

/// Why the memory that a scenario looks into cannot be read on this host.
pub(super) fn missing(scenario: &Scenario, kernel: &Kernel) -> Result<Option<String>> {
    if !scenario.reads_memory() {
        return Ok(None);
    }
    let drgn = Drgn::obtain(&kernel.cache()?, &Progress::silent());
    Ok(drgn.err().map(|no_drgn| no_drgn.to_string()))
}
