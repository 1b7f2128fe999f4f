//! The functions in the guest by address: those of the kernel and of all modules that were loaded.

use crate::{
    kernel::{Kernel, text::Binary},
    machine::Death,
};
use std::fmt::Write;

/// The functions of a kernel and of modules.
pub(super) struct Symbols<'a> {
    kernel: &'a Kernel,
    /// Those of modules, in the format of `/proc/kallsyms`.
    modules: String,
}

impl<'a> Symbols<'a> {
    /// The functions of a kernel without modules.
    pub(super) fn new(kernel: &'a Kernel) -> Symbols<'a> {
        Symbols { kernel, modules: String::new() }
    }

    /// Adds the functions of a module that was loaded, including those of its init: the kernel frees their
    /// memory, but the trace may have their addresses. A module that is loaded again has other addresses,
    /// and the trace may have both.
    pub(super) fn add(&mut self, module: &str, binary: &Binary) -> Result<(), Death> {
        let code = binary.code().map_err(Death::Lab)?;
        let symbols = binary.symbols().map_err(Death::Lab)?.iter();
        let symbols = symbols.filter(|symbol| code.iter().any(|range| range.contains(&symbol.address)));
        let init = binary.init().map_err(Death::Lab)?;
        let is_init = |address| init.iter().any(|range| range.contains(&address));
        let functions = symbols.map(|symbol| (symbol.address, is_init(symbol.address), binary.name(symbol)));
        self.modules.push_str(&kallsyms(functions, module));
        Ok(())
    }

    /// Returns all functions in the format of `/proc/kallsyms`.
    pub(super) fn kallsyms(&self) -> Result<String, Death> {
        let kernel = self.kernel.functions().map_err(Death::Lab)?;
        Ok([kernel, &self.modules].concat())
    }
}

/// Returns functions with their addresses, and whether they are in the module's init. Those have type `i`.
fn kallsyms<'a>(functions: impl Iterator<Item = (u64, bool, &'a str)>, module: &str) -> String {
    functions.fold(String::new(), |mut text, (address, init, name)| {
        let kind = if init { 'i' } else { 't' };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{address:016x} {kind} {name}\t[{module}]");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_module_have_its_name() {
        let functions = [(0xffff_8000_7a00_0000, false, "first"), (0xffff_8000_7a00_0040, true, "second")];
        let symbols = trace::Symbols::parse(kallsyms(functions.into_iter(), "mine"));
        let check = |address, expect: &str| {
            assert_eq!(symbols.resolve(address).map(|symbol| symbol.to_string()).as_deref(), Some(expect));
        };
        check(0xffff_8000_7a00_0004, "first+0x4 [mine]");
        check(0xffff_8000_7a00_0040, "second+0x0 [mine]");
    }
}
