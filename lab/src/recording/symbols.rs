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
    /// and the trace may have both. Memory of an earlier init that it now occupies is its own.
    pub(super) fn add(&mut self, module: &str, binary: &Binary) -> Result<(), Death> {
        let code = binary.code().map_err(Death::Lab)?;
        let symbols = binary.symbols().map_err(Death::Lab)?.iter();
        let symbols = symbols.filter(|symbol| code.iter().any(|range| range.contains(&symbol.address)));
        let init = binary.init().map_err(Death::Lab)?;
        let is_init = |address| init.iter().any(|range| range.contains(&address));
        let functions = symbols.map(|symbol| (symbol.address, is_init(symbol.address), binary.name(symbol)));
        self.modules =
            without_init(&self.modules, |address| code.iter().any(|range| range.contains(&address)));
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

/// Returns the lines of [`kallsyms`] but for those of functions of an init at addresses that are `reused`.
fn without_init(lines: &str, reused: impl Fn(u64) -> bool) -> String {
    let is_reused = |line: &str| {
        let (address, rest) = line.split_once(' ')?;
        Some(rest.starts_with('i') && reused(u64::from_str_radix(address, 16).ok()?))
    };
    lines.split_inclusive('\n').filter(|line| is_reused(line) != Some(true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_an_init_belongs_to_the_module_that_reuses_it() {
        let functions = [(0x1000, false, "core"), (0x2000, true, "first_init"), (0x3000, true, "init")];
        let lines = kallsyms(functions.into_iter(), "first");
        let left = without_init(&lines, |address| address < 0x2800);
        assert_eq!(left, "0000000000001000 t core\t[first]\n0000000000003000 i init\t[first]\n");
    }

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
