//! `dies:`, a scenario whose kernel is to panic.

use super::{TextCheck, inspect::SymbolName};
use schemars::JsonSchema;
use serde::Deserialize;

/// The kernel must panic in the last step, in this way. The trace goes with it, so there is nothing to
/// `expect`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dies {
    /// What the panic must say, behind `Kernel panic - not syncing: `.
    pub panic: TextCheck,
    /// Functions of the backtrace that its memory must hold, innermost first. Others may stand between
    /// them.
    #[serde(default)]
    pub backtrace: Vec<SymbolName>,
}

impl Dies {
    /// Whether the functions of a backtrace, innermost first, hold those that are wanted. The error is
    /// the first that is missing.
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
            let dies: Dies = serde_yaml::from_str(&format!("panic: x\nbacktrace: {wanted}")).unwrap();
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
