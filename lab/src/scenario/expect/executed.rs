//! `executed:`, the functions of the trace and those that QEMU executed.

use crate::scenario::{Amount, Line};
use schemars::JsonSchema;
use serde::Deserialize;

/// Compares the functions in the trace, which the function tracer must trace during all steps, with those that
/// QEMU executed: each function of the kernel that ftrace has a record of and that ran while the steps did must be
/// in the trace, and each one in the trace must have been executed. Only emulated machines can tell.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Executed {
    /// Number of functions that ran while the steps did and are in the trace.
    pub functions: Amount,
    /// Functions that may run without being traced.
    #[serde(default)]
    pub except: Vec<Line>,
}
