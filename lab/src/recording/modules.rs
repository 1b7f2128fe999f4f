//! Module steps: into the guest and in, or out, with the errno the kernel gave; and where the
//! functions of a module are once it is in.

use super::{Recorder, steps::check_errno, unexpected};
use crate::{
    guest::Module,
    machine::Death,
    scenario::{Errno, Line, Unload, Wanted},
};
use anyhow::{Context, Result};
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, elf};
use protocol::{Reply, Request};
use std::{collections::BTreeMap, fmt::Write, fs};

/// Where modules are pushed to.
const MODULES: &str = "/modules";

/// The permissions of a pushed module.
const READABLE: u32 = 0o644;

impl Recorder<'_> {
    /// Loads a module that was built for this scenario.
    pub(super) fn load(
        &mut self,
        wanted: &Wanted,
        parameters: Option<&Line>,
        errno: Option<Errno>,
    ) -> Result<Vec<String>, Death> {
        let Some(module) = self.modules.get(wanted).cloned() else {
            return Ok(vec![format!("the module `{wanted}` was not built")]);
        };
        let path = format!("{MODULES}/{}.ko", module.name);
        self.push(&path, &module.file, READABLE)?;
        let parameters = parameters.map_or_else(String::new, |line| line.to_string());
        let what = format!("insmod {}", module.name);
        let failures = self.in_a_process(&Request::LoadModule { path, parameters }, &what, errno)?;
        if failures.is_empty() && errno.is_none() {
            self.learn_symbols(&module)?;
            self.learn_text(&module)?;
        }
        Ok(failures)
    }

    /// Finds out where the functions of a module are that was just loaded. One that is loaded again
    /// lies elsewhere, and the trace may have addresses of both.
    fn learn_symbols(&mut self, module: &Module) -> Result<(), Death> {
        let data = fs::read(&module.file);
        let data = data.with_context(|| format!("cannot read `{}`", module.file.display()));
        let functions = functions(&data.map_err(Death::Lab)?)
            .with_context(|| format!("cannot read the symbols of `{}`", module.file.display()))
            .map_err(Death::Lab)?;
        let path = |section: &String| format!("/sys/module/{}/sections/{section}", module.name);
        let paths: Vec<String> = functions.keys().map(path).collect();
        let starts = self.files(&paths)?;
        for ((_, functions), path) in functions.iter().zip(paths) {
            // A section that the kernel does not tell of leaves its functions without a name.
            let start = starts.get(&path).and_then(|text| text.trim().strip_prefix("0x"));
            let Some(start) = start.and_then(|text| u64::from_str_radix(text, 16).ok()) else { continue };
            self.module_symbols.push_str(&kallsyms(start, functions, &module.name));
        }
        Ok(())
    }

    pub(super) fn unload(&mut self, step: &Unload) -> Result<Vec<String>, Death> {
        let name = step.unload.replace('-', "_");
        let what = format!("rmmod {name}");
        self.in_a_process(&Request::UnloadModule { name }, &what, step.errno)
    }

    /// Has a process of the agent's do `request`, and says where that did not come out as expected.
    fn in_a_process(
        &mut self,
        request: &Request,
        what: &str,
        errno: Option<Errno>,
    ) -> Result<Vec<String>, Death> {
        let child = match self.call(request)? {
            Reply::Started(child) => child,
            other => return Err(unexpected("a process for a module", &other)),
        };
        let (ended, said) = self.wait(child)?;
        let reply = if ended == "exit status 0" {
            Reply::Done
        } else {
            let errno = String::from_utf8_lossy(&said.stdout).trim().parse().ok();
            let Some(errno) = errno.filter(|_| ended == "exit status 1") else {
                // An oops in the module's init ends the process that loads it.
                return Ok(vec![format!("{what} ended with {ended}")]);
            };
            Reply::Errno { what: what.to_owned(), errno }
        };
        let mut failures = Vec::new();
        check_errno(errno, Some(&reply), &mut failures);
        Ok(failures)
    }
}

/// The functions of each section of an unlinked module, by their place in it. Those of its init
/// sections are among them: their memory is given back, but not before the trace has seen them.
fn functions(data: &[u8]) -> Result<BTreeMap<String, Vec<(u64, String)>>> {
    let file = object::File::parse(data)?;
    let mut functions: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for symbol in file.symbols() {
        let Some(section) = symbol.section_index() else { continue };
        let (section, name) = (file.section_by_index(section)?, symbol.name()?);
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let (section, code) = (section.name()?, sh_flags.contains(elf::SHF_EXECINSTR));
        // `$x` and `$d` mark code and data for disassemblers.
        if code && !name.is_empty() && !name.starts_with('$') {
            functions.entry(section.to_owned()).or_default().push((symbol.address(), name.to_owned()));
        }
    }
    Ok(functions)
}

/// Functions as /proc/kallsyms has them.
fn kallsyms(start: u64, functions: &[(u64, String)], module: &str) -> String {
    functions.iter().fold(String::new(), |mut text, (offset, name)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:016x} t {name}\t[{module}]", start.wrapping_add(*offset));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Symbols;

    #[test]
    fn functions_of_a_module_have_its_name() {
        let functions = [(0, "first".to_owned()), (0x40, "second".to_owned())];
        let symbols = Symbols::parse(kallsyms(0xffff_8000_7a00_0000, &functions, "mine"));
        let check = |address, expect: &str| {
            assert_eq!(symbols.resolve(address).map(|symbol| symbol.to_string()).as_deref(), Some(expect));
        };
        check(0xffff_8000_7a00_0004, "first+0x4 [mine]");
        check(0xffff_8000_7a00_0040, "second+0x0 [mine]");
    }

    #[test]
    fn what_is_no_module_has_no_functions() {
        assert!(functions(b"no ELF").is_err());
    }
}
