//! Scenario × Kernel → the scenario with the symbols of this kernel in place of paths of Rust.
//!
//! The symbol of a function of Rust is mangled from its path and from hashes of the compiler and of all crates, so it
//! differs between kernels; its path does not.

use super::Unfit;
use crate::{
    kernel::Kernel,
    scenario::{FromText, ProbePoint, RustPoint, Scenario},
    words::nearest_is,
};
use anyhow::{Context, Result};
use fs_err as fs;
use object::{Object, ObjectSymbol, SymbolKind};
use rustc_demangle::try_demangle;
use std::{borrow::Cow, collections::BTreeSet};

/// The maximum number of symbols of one path that an error names.
const SYMBOLS_SHOWN: usize = 3;

/// Returns the scenario with symbols of the kernel, and of its own modules.
///
/// # Errors
/// The kernel's files cannot be read.
pub(super) fn with_symbols<'a>(
    scenario: &'a Scenario,
    kernel: &Kernel,
) -> Result<Result<Cow<'a, Scenario>, Unfit>> {
    let mut targets = scenario.trace.events.iter().filter_map(|event| Some(event.probe()?.target));
    if !targets.any(|target| target.contains("::")) || !kernel.knows_functions() {
        return Ok(Ok(Cow::Borrowed(scenario)));
    }
    let mut scenario = scenario.clone();
    for point in scenario.trace.events.iter_mut().filter_map(|event| event.probe_point_mut()) {
        let Some(rust) = point.rust() else { continue };
        let found = match rust.module {
            Some(module) => match module_functions(module, kernel)? {
                Some(functions) => symbol(&rust, functions.iter().map(String::as_str)),
                None => Err(format!("`{module}` is not a module of this kernel")),
            },
            None => symbol(&rust, kernel.probeable()?.names()),
        };
        match found.and_then(|symbol| ProbePoint::from_text(&symbol)) {
            Ok(symbol) => *point = symbol,
            Err(why) => return Ok(Err(Unfit::Invalid(format!("cannot probe `{point}`: {why}")))),
        }
    }
    Ok(Ok(Cow::Owned(scenario)))
}

/// Returns the probe point with the symbol in place of its path.
fn symbol<'a>(
    RustPoint { module, path, offset }: &RustPoint<'_>,
    functions: impl Iterator<Item = &'a str>,
) -> Result<String, String> {
    // `{:#}` leaves out the hashes.
    let demangled = functions.filter_map(|name| Some((name, format!("{:#}", try_demangle(name).ok()?))));
    let demangled: BTreeSet<(&str, String)> = demangled.collect();
    let found: Vec<&str> =
        demangled.iter().filter(|(_, demangled)| demangled == path).map(|(name, _)| *name).collect();
    match found[..] {
        [symbol] => {
            Ok(format!("{}{symbol}{offset}", module.map(|module| format!("{module}:")).unwrap_or_default()))
        }
        [] => {
            let near = nearest_is(path, demangled.iter().map(|(_, demangled)| demangled));
            Err(format!("no function of Rust has this path{near}"))
        }
        [..] => Err(format!(
            "{} functions have this path; write the symbol of one, such as {}",
            found.len(),
            found[..SYMBOLS_SHOWN.min(found.len())].join(", ")
        )),
    }
}

/// Returns the symbols of functions of one of the kernel's own modules.
fn module_functions(module: &str, kernel: &Kernel) -> Result<Option<Vec<String>>> {
    let Some(path) = kernel.find_module(module)? else { return Ok(None) };
    let file = fs::read(&path)?;
    let elf = object::File::parse(&*file).with_context(|| format!("cannot read `{}`", path.display()))?;
    let functions = elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    Ok(Some(functions.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: [&str; 4] = [
        "vfs_write",
        "_RNvNtCs6bgHdBIRPTs_6kernel5print11call_printk",
        "_RNvNtCs6bgHdBIRPTs_6kernel5print16call_printk_cont",
        "_ZN4core3fmt5write17h0123456789abcdefE",
    ];

    fn check(point: &str, functions: &[&str], expect: Result<&str, &str>) {
        let point = ProbePoint::from_text(point).unwrap();
        let found = symbol(&point.rust().unwrap(), functions.iter().copied());
        match expect {
            Ok(expect) => assert_eq!(found.as_deref(), Ok(expect)),
            Err(expect) => assert!(found.as_ref().is_err_and(|why| why.contains(expect)), "{found:?}"),
        }
    }

    #[test]
    fn a_path_is_one_symbol() {
        check("kernel::print::call_printk", &FUNCTIONS, Ok(FUNCTIONS[1]));
        check("kernel::print::call_printk+0x8", &FUNCTIONS, Ok(&format!("{}+0x8", FUNCTIONS[1])));
        check("m:core::fmt::write", &FUNCTIONS, Ok(&format!("m:{}", FUNCTIONS[3])));
        check("kernel::print::cal_printk", &FUNCTIONS, Err("the nearest is `kernel::print::call_printk`"));
        let generic = ["_ZN4core3fmt5write17h0123456789abcdefE", "_ZN4core3fmt5write17h0123456789abcdeeE"];
        check("core::fmt::write", &generic, Err("2 functions have this path"));
    }
}
