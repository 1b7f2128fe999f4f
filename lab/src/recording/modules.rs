//! Module steps: into the guest and loaded, or unloaded, with the errno of the kernel; and where the
//! code of a module is once it is loaded.

use super::{
    checks::check_errno,
    files::{Files, READABLE},
    link::{Link, unexpected},
    notes::StepNotes,
    patched::TextReader,
    processes::wait,
    symbols::Symbols,
    tape::Traced,
};
use crate::{
    coverage::Load as CodeLoad,
    dump::Dump,
    guest::Module,
    kernel::{Kernel, WITHOUT_VMLINUX, text::Binary},
    machine::Death,
    scenario::{Errno, HOOK_MODULE, Line, Load, LoadModule, ModuleRef, PatchedText, Scenario, Unload},
};
use anyhow::{Context, Result};
use fs_err as fs;
use object::{Object, ObjectSection};
use protocol::{Reply, Request};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The directory of modules in the guest.
pub(super) const MODULES: &str = "/modules";

/// The modules of a scenario, and the code in the guest.
pub(super) struct Modules<'a> {
    pub(super) kernel: &'a Kernel,
    /// The modules that were built for the scenario.
    built: BTreeMap<ModuleRef, Module>,
    /// The functions of the kernel and of modules that were loaded.
    pub(super) symbols: Symbols<'a>,
    /// Each time that one was loaded.
    pub(super) loads: Vec<CodeLoad>,
    /// The code that steps compare, if they do.
    text: Option<TextReader>,
}

/// A module to load.
pub(super) struct Insmod<'a> {
    wanted: ModuleRef,
    parameters: Option<&'a Line>,
    /// The errno that loading must fail with.
    errno: Option<Errno>,
}

impl Insmod<'_> {
    /// A module to load without parameters.
    pub(super) fn named(name: &str) -> Insmod<'static> {
        Insmod { wanted: ModuleRef::Named(name.to_owned()), parameters: None, errno: None }
    }
}

impl<'a> From<&'a Load> for Insmod<'a> {
    fn from(step: &'a Load) -> Insmod<'a> {
        Insmod { wanted: step.into(), parameters: step.parameters.as_ref(), errno: step.errno }
    }
}

impl<'a> From<&'a LoadModule> for Insmod<'a> {
    fn from(step: &'a LoadModule) -> Insmod<'a> {
        Insmod { wanted: step.into(), parameters: step.parameters.as_ref(), errno: step.errno }
    }
}

impl<'a> Modules<'a> {
    /// The modules that were built for a scenario; none is loaded yet.
    pub(super) fn new(kernel: &'a Kernel, built: BTreeMap<ModuleRef, Module>) -> Modules<'a> {
        Modules { kernel, built, symbols: Symbols::new(kernel), loads: Vec::new(), text: None }
    }

    /// Copies a module into the guest and loads it. Returns what failed.
    pub(super) fn load(
        &mut self,
        traced: &mut Traced<'_>,
        files: &mut Files<'_>,
        insmod: &Insmod<'_>,
    ) -> Result<Vec<String>, Death> {
        let Insmod { wanted, parameters, errno } = insmod;
        let Some(module) = self.built.get(wanted).cloned() else {
            return Ok(vec![format!("the module `{wanted}` was not built")]);
        };
        let path = push(&mut traced.link, files, &module)?;
        let parameters = parameters.map_or_else(String::new, |line| line.to_string());
        let what = format!("insmod {}", module.name);
        self.begin(&module, traced.link.machine.noted());
        let mut failures = in_a_process(traced, &Request::LoadModule { path, parameters }, &what, *errno)?;
        if errno.is_none()
            && let Some(failure) = failures.iter_mut().find(|failure| failure.ends_with(": EEXIST"))
        {
            failure.push_str(", as one of this name is loaded; unload that first");
        }
        if failures.is_empty() && errno.is_none() {
            let loaded = traced.link.machine.noted();
            let bases = section_bases(&mut traced.link, &module)?;
            self.learn(&mut traced.link, &module, bases, loaded)?;
        }
        Ok(failures)
    }

    /// Copies the modules that steps load into the guest, so that no step has to.
    pub(super) fn push_ahead(
        &self,
        link: &mut Link<'_>,
        files: &mut Files<'_>,
        scenario: &Scenario,
    ) -> Result<(), Death> {
        let loaded = scenario.steps.iter().filter_map(|step| step.module());
        let mut built = loaded.filter_map(|wanted| self.built.get(&wanted));
        built.try_for_each(|module| push(link, files, module).map(drop))
    }

    /// Loads the module that hooks functions, if the scenario needs it and the guest was not restored with
    /// it: arming the trace enables its events. Returns why it cannot be loaded.
    pub(super) fn load_hooks(
        &mut self,
        traced: &mut Traced<'_>,
        files: &mut Files<'_>,
        scenario: &Scenario,
    ) -> Result<Option<String>, Death> {
        let insmod = Insmod::named(HOOK_MODULE);
        if !scenario.hooks() || self.is_loaded(&mut traced.link, &insmod.wanted)? {
            return Ok(None);
        }
        let failures = self.load(traced, files, &insmod)?;
        Ok((!failures.is_empty()).then(|| format!("cannot load `{HOOK_MODULE}`: {}", failures.join("\n"))))
    }

    /// Returns whether a module of the scenario was loaded before it began.
    fn is_loaded(&mut self, link: &mut Link<'_>, wanted: &ModuleRef) -> Result<bool, Death> {
        let Some(module) = self.built.get(wanted).cloned() else { return Ok(false) };
        let bases = section_bases(link, &module)?;
        if bases.is_empty() {
            return Ok(false);
        }
        self.begin(&module, 0);
        self.learn(link, &module, bases, 0)?;
        Ok(true)
    }

    /// Notes down that loading a module begins, as yet without addresses.
    fn begin(&mut self, module: &Module, now: u64) {
        let module = module.clone();
        self.loads.push(CodeLoad { module, code: Vec::new(), began: now, loaded: now, unloaded: None });
    }

    /// Notes down that a module is not loaded any more.
    fn end(&mut self, module: &str, now: u64) {
        let loads = self.loads.iter_mut().filter(|load| load.module.name == module);
        loads.for_each(|load| load.unloaded = load.unloaded.or(Some(now)));
    }

    /// Adds the module whose load was noted down last, with the addresses of its sections and the time at which its
    /// init had returned. Code in a section whose address the kernel does not report has no address.
    fn learn(
        &mut self,
        link: &mut Link<'_>,
        module: &Module,
        bases: BTreeMap<String, u64>,
        loaded: u64,
    ) -> Result<(), Death> {
        let binary = Binary::module(&module.file, bases).map_err(Death::Lab)?;
        if let Some(mut load) = self.loads.pop() {
            // Whoever unloaded it before.
            self.end(&module.name, load.began);
            load.code = binary.code_sections().map_err(Death::Lab)?;
            load.loaded = loaded;
            self.loads.push(load);
        }
        self.symbols.add(&module.name, &binary)?;
        match &mut self.text {
            Some(text) => text.add_module(link, &module.name, binary),
            None => Ok(()),
        }
    }

    /// Unloads a module.
    pub(super) fn unload(&mut self, traced: &mut Traced<'_>, step: &Unload) -> Result<Vec<String>, Death> {
        let name = step.unload.replace('-', "_");
        let what = format!("rmmod {name}");
        let failures =
            in_a_process(traced, &Request::UnloadModule { name: name.clone() }, &what, step.errno)?;
        if failures.is_empty() && step.errno.is_none() {
            self.end(&name, traced.link.machine.noted());
            self.text.iter_mut().for_each(|text| text.remove_module(&name));
        }
        Ok(failures)
    }

    /// Reads vmlinux, if steps compare the kernel's text.
    pub(super) fn open_text(&mut self, link: &mut Link<'_>, scenario: &Scenario) -> Result<(), Death> {
        self.text = TextReader::open(link, self.kernel, scenario)?;
        Ok(())
    }

    /// Remembers the text before the trace is armed.
    pub(super) fn remember_text(&mut self, link: &mut Link<'_>) -> Result<(), Death> {
        self.text.as_mut().map_or(Ok(()), |text| text.remember(link))
    }

    /// Runs a text step.
    pub(super) fn patched(
        &mut self,
        link: &mut Link<'_>,
        notes: &mut StepNotes<'_>,
        step: &PatchedText,
    ) -> Result<Vec<String>, Death> {
        match &mut self.text {
            Some(text) => text.check(link, &self.symbols, notes, step),
            None => Err(Death::Lab(anyhow::anyhow!("the kernel's text was not read"))),
        }
    }

    /// A dump of this guest, with the modules of this scenario.
    pub(super) fn dump(&self, vmcore: PathBuf) -> Result<Dump> {
        let modules = self.built.values();
        let modules = modules.map(|module| (module.name.clone(), vec![module.debug.clone()])).collect();
        Ok(Dump { vmcore, vmlinux: self.kernel.vmlinux().context(WITHOUT_VMLINUX)?, modules })
    }
}

/// Copies a module into the guest. Returns its path there.
fn push(link: &mut Link<'_>, files: &mut Files<'_>, module: &Module) -> Result<String, Death> {
    let path = format!("{MODULES}/{}.ko", module.name);
    files.push(link, &path, &module.file, READABLE)?;
    Ok(path)
}

/// Returns the addresses of the sections of a loaded module, as the kernel reports them.
pub(super) fn section_bases(link: &mut Link<'_>, module: &Module) -> Result<BTreeMap<String, u64>, Death> {
    let sections = sections(&module.file).map_err(Death::Lab)?;
    let path = |section: &String| format!("/sys/module/{}/sections/{section}", module.name);
    let paths: Vec<String> = sections.iter().map(path).collect();
    let texts = link.files(&paths)?;
    let base = |path: &String| u64::from_str_radix(texts.get(path)?.trim().strip_prefix("0x")?, 16).ok();
    let bases = sections.iter().zip(&paths).filter_map(|(name, path)| Some((name.clone(), base(path)?)));
    Ok(bases.collect())
}

/// Runs a request in a separate process of the agent, and compares its errno with the expected one.
fn in_a_process(
    traced: &mut Traced<'_>,
    request: &Request,
    what: &str,
    errno: Option<Errno>,
) -> Result<Vec<String>, Death> {
    let child = match traced.link.call(request)? {
        Reply::Started(child) => child,
        other => return Err(unexpected("a process for a module", &other)),
    };
    let (ended, output) = wait(traced, child)?;
    let reply = if ended == "exit status 0" {
        Reply::Done
    } else {
        let errno = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
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

/// Returns the names of a module's sections that are loaded.
fn sections(path: &Path) -> Result<Vec<String>> {
    let data = fs::read(path)?;
    let file =
        object::File::parse(&*data).with_context(|| format!("`{}` is not an ELF file", path.display()))?;
    let loaded = |section: &object::Section<'_, '_>| match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(object::elf::SHF_ALLOC),
        _ => false,
    };
    Ok(file.sections().filter(loaded).filter_map(|section| Some(section.name().ok()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_module_has_no_sections() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "no ELF").unwrap();
        assert!(sections(file.path()).is_err());
    }
}
