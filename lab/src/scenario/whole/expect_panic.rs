//! `expect_panic:`, a scenario whose kernel must panic.

use crate::scenario::{TextCheck, steps::inspect::SymbolName};
use schemars::JsonSchema;
use serde::Deserialize;

/// Requires the kernel to panic in the last step, in this way. The trace is lost, so `expect` must be
/// empty.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectPanic {
    /// Checks the panic message, the part after `Kernel panic - not syncing: `.
    pub panic: TextCheck,
    /// Functions that the backtrace in the guest's memory must contain, innermost first. Other
    /// functions may come between them.
    #[serde(default)]
    pub backtrace: Vec<SymbolName>,
}

impl ExpectPanic {
    /// Checks that the functions of a backtrace, innermost first, contain the expected ones. The error
    /// is the first missing function.
    pub fn check_backtrace<'a>(&self, functions: impl Iterator<Item = &'a str>) -> Result<(), &str> {
        let mut functions = functions;
        let missing = self.backtrace.iter().find(|wanted| !functions.any(|found| found == wanted.as_str()));
        missing.map_or(Ok(()), |missing| Err(missing.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_has_functions_in_their_order() {
        let check = |wanted: &str, expect| {
            let dies: ExpectPanic = crate::yaml::from_str(&format!("panic: x\nbacktrace: {wanted}")).unwrap();
            let found = ["panic", "deaths_panic", "happen", "deaths_init", "do_one_initcall"];
            assert_eq!(dies.check_backtrace(found.into_iter()), expect, "{wanted}");
        };
        check("[]", Ok(()));
        check("[deaths_panic]", Ok(()));
        check("[deaths_panic, do_one_initcall]", Ok(()));
        check("[deaths_panic, other]", Err("other"));
        check("[deaths_init, deaths_panic]", Err("deaths_panic"));
        check("[deaths_panic, deaths_panic]", Err("deaths_panic"));
    }
}
