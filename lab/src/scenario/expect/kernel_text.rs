//! `kernel_text:`, the kernel's own text of the trace.

use crate::scenario::{Amount, InstanceName, OptionName, Switch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

/// Requires that the kernel's own text of the trace, as in `trace` after the last step, follows line for line
/// from the raw ring buffer. The text has the events since the last step that may clear the buffer: `write`
/// (except to trace markers and `inject`), `load`, `unload`, `sh`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KernelText {
    /// The tracing instance whose text is compared. Default: the top-level one.
    pub instance: Option<InstanceName>,
    /// Compares only the text of this CPU, `per_cpu/cpuN/trace`.
    pub cpu: Option<u32>,
    /// Trace options while the kernel prints the text: names, each with on or off. Other options are as the
    /// steps left them.
    pub options: BTreeMap<OptionName, Switch>,
    /// Number of events that the text must have. Default: at least one.
    pub events: Option<Amount>,
}

/// Identifies the text: what is compared, without the number of events.
impl fmt::Display for KernelText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kernel_text")?;
        self.instance.iter().try_for_each(|instance| write!(f, "@{}", instance.as_str()))?;
        self.cpu.iter().try_for_each(|cpu| write!(f, " cpu{cpu}"))?;
        let switch = |switch: &Switch| if switch.0 { "" } else { "no" };
        self.options.iter().try_for_each(|(name, on)| write!(f, " {}{}", switch(on), name.as_str()))
    }
}
