//! Module steps: into the guest and in, or out, with the errno the kernel gave; and where the
//! functions of a module are once it is in.

use super::{Recorder, steps::check_errno, unexpected};
use crate::{
    guest::Module,
    kernel::text::Binary,
    machine::Death,
    scenario::{Errno, Line, Unload, Wanted},
};
use anyhow::{Context, Result};
use object::{Object, ObjectSection};
use protocol::{Reply, Request};
use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

/// Where modules are pushed to.
pub(super) const MODULES: &str = "/modules";

/// The permissions of a pushed module.
pub(super) const READABLE: u32 = 0o644;

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
            let bases = self.section_bases(&module)?;
            self.learn_module(&module, bases)?;
        }
        Ok(failures)
    }

    /// Whether a module that was built for this scenario was loaded before it began.
    pub(super) fn is_in(&mut self, wanted: &Wanted) -> Result<bool, Death> {
        let Some(module) = self.modules.get(wanted).cloned() else { return Ok(false) };
        let bases = self.section_bases(&module)?;
        if bases.is_empty() {
            return Ok(false);
        }
        self.learn_module(&module, bases)?;
        Ok(true)
    }

    /// Remembers a module that is in, with where its sections are. One that the kernel does not tell
    /// of leaves what is in it without an address.
    fn learn_module(&mut self, module: &Module, bases: BTreeMap<String, u64>) -> Result<(), Death> {
        let binary = Binary::module(&module.file, bases).map_err(Death::Lab)?;
        self.learn_symbols(&module.name, &binary)?;
        self.learn_text(&module.name, binary)
    }

    /// Where the kernel says that the sections of a loaded module are.
    pub(super) fn section_bases(&mut self, module: &Module) -> Result<BTreeMap<String, u64>, Death> {
        let sections = sections(&module.file).map_err(Death::Lab)?;
        let path = |section: &String| format!("/sys/module/{}/sections/{section}", module.name);
        let paths: Vec<String> = sections.iter().map(path).collect();
        let texts = self.files(&paths)?;
        let base = |path: &String| u64::from_str_radix(texts.get(path)?.trim().strip_prefix("0x")?, 16).ok();
        let bases = sections.iter().zip(&paths).filter_map(|(name, path)| Some((name.clone(), base(path)?)));
        Ok(bases.collect())
    }

    /// Remembers where the functions of a module are. One that is loaded again lies elsewhere, and the
    /// trace may have addresses of both. Those of its init are among them: their memory is given back,
    /// but not before the trace has seen them.
    fn learn_symbols(&mut self, module: &str, binary: &Binary) -> Result<(), Death> {
        let code = binary.code().map_err(Death::Lab)?;
        let symbols = binary.symbols().map_err(Death::Lab)?.iter();
        let symbols = symbols.filter(|symbol| code.iter().any(|range| range.contains(&symbol.address)));
        let functions = symbols.map(|symbol| (symbol.address, binary.name(symbol)));
        self.module_symbols.push_str(&kallsyms(functions, module));
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

/// Functions as /proc/kallsyms has them.
fn kallsyms<'a>(functions: impl Iterator<Item = (u64, &'a str)>, module: &str) -> String {
    functions.fold(String::new(), |mut text, (address, name)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{address:016x} t {name}\t[{module}]");
        text
    })
}

/// The sections of a module that are loaded.
fn sections(path: &Path) -> Result<Vec<String>> {
    let data = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let file = object::File::parse(&*data).with_context(|| format!("`{}` is no ELF file", path.display()))?;
    let loaded = |section: &object::Section<'_, '_>| match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(object::elf::SHF_ALLOC),
        _ => false,
    };
    Ok(file.sections().filter(loaded).filter_map(|section| Some(section.name().ok()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Symbols;

    #[test]
    fn functions_of_a_module_have_its_name() {
        let functions = [(0xffff_8000_7a00_0000, "first"), (0xffff_8000_7a00_0040, "second")];
        let symbols = Symbols::parse(kallsyms(functions.into_iter(), "mine"));
        let check = |address, expect: &str| {
            assert_eq!(symbols.resolve(address).map(|symbol| symbol.to_string()).as_deref(), Some(expect));
        };
        check(0xffff_8000_7a00_0004, "first+0x4 [mine]");
        check(0xffff_8000_7a00_0040, "second+0x0 [mine]");
    }

    #[test]
    fn what_is_no_module_has_no_sections() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "no ELF").unwrap();
        assert!(sections(file.path()).is_err());
    }
}
