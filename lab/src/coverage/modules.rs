//! The coverage of modules, which are loaded at other addresses in each scenario.
//!
//! Each build of a module gets addresses of its own, far below those of the kernel, and what scenarios ran of
//! it is moved there. The build is found by its ID, so that code of another one is never taken for it.

use super::{ModuleRan, Ranges, SectionRan, Source, SourceFiles, loads::INIT};
use crate::{
    cache::Cache,
    guest::{FoundModule, find_module},
    kernel::{FoundBuild, build_id, module_name, text::Binary},
};
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// The addresses of a module begin at its number shifted by this, above those of any section.
const MODULE_SHIFT: u32 = 48;

/// A module that scenarios loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuredModule {
    /// Its name in the kernel.
    pub name: String,
    /// The source files that it was built from, by name, with the copies that were built. None for one of the
    /// kernel's own, whose files are in the kernel tree.
    pub files: BTreeMap<String, PathBuf>,
    /// The scenarios that loaded it.
    pub scenarios: BTreeSet<String>,
    /// Those in which the kernel did not load it once, so that the addresses of its init are not known.
    pub refused: BTreeSet<String>,
    /// The code of its init, if machines were restored with it: its init ran when the snapshot was made.
    pub restored: Ranges,
    /// Whether any of its code is counted.
    pub counted: bool,
}

/// A module, built from a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Built {
    name: String,
    sources: Option<String>,
    build_id: String,
}

/// The loads of all scenarios on a kernel.
#[derive(Default)]
pub(super) struct Loads(BTreeMap<Built, Vec<(String, Vec<SectionRan>)>>);

/// The modules of a run on a kernel, with their lines.
pub(super) struct Modules {
    pub(super) modules: Vec<MeasuredModule>,
    pub(super) sources: Vec<Source>,
}

impl Loads {
    /// Adds those of a scenario.
    pub(super) fn add(&mut self, scenario: &str, modules: Vec<ModuleRan>) {
        for ModuleRan { name, build_id, sources, sections } in modules {
            let loads = self.0.entry(Built { name, sources, build_id }).or_default();
            loads.push((scenario.to_owned(), sections));
        }
    }

    /// Reads the lines of the modules, and adds what `scenarios` ran of them.
    ///
    /// # Errors
    /// A build of a module whose files are wanted is not in the cache, or there are several.
    pub(super) fn read(
        self,
        cache: &Cache,
        kernel: &FoundBuild,
        files: &SourceFiles,
        scenarios: &mut BTreeMap<String, Ranges>,
    ) -> Result<Modules> {
        let mut read = Modules { modules: Vec::new(), sources: Vec::new() };
        let mut counted: BTreeMap<(String, Option<String>), String> = BTreeMap::new();
        for (number, (built, loads)) in (1_u64..).zip(self.0) {
            let Some(found) = built.find(cache, kernel)? else {
                built.check_unwanted(files)?;
                continue;
            };
            let mut module = built.measured(&found, &loads);
            let binary = Binary::unloaded(&found.debug)?;
            let source = built.source(&found, &binary, kernel, files);
            let source = source.with_context(|| format!("cannot read `{}`", found.debug.display()))?;
            let offset = number << MODULE_SHIFT;
            if !source.files.is_empty() {
                let same = (built.name.clone(), built.sources.clone());
                if let Some(other) = counted.insert(same, built.build_id.clone()) {
                    bail!("{}", built.mixed(&other));
                }
                for (scenario, sections) in &loads {
                    let code = scenarios.entry(scenario.clone()).or_default();
                    *code = code.and(&moved(sections, &binary, offset));
                }
                module.restored = restored(&loads, &binary, offset)?;
                module.counted = true;
                read.sources.push(source.moved(offset));
            }
            read.modules.push(module);
        }
        Ok(read)
    }
}

/// Returns what ran of a module at the addresses of a file that is not loaded, and higher by `offset`.
fn moved(sections: &[SectionRan], binary: &Binary, offset: u64) -> Ranges {
    let of_section = |section: &SectionRan| {
        let code = binary.section(&section.name)?;
        let size = code.end - code.start;
        let start = code.start + offset;
        let moved = move |ran: &std::ops::Range<u64>| start + ran.start.min(size)..start + ran.end.min(size);
        Some(section.ran.iter().map(moved).collect::<Vec<_>>())
    };
    sections.iter().filter_map(of_section).flatten().collect()
}

/// Returns the code of the init of a module, at the same addresses, if a load does not have it.
fn restored(loads: &[(String, Vec<SectionRan>)], binary: &Binary, offset: u64) -> Result<Ranges> {
    let is_init = |name: &str| name.starts_with(INIT);
    let is_restored = |(_, sections): &(String, Vec<SectionRan>)| {
        !sections.is_empty() && !sections.iter().any(|section| is_init(&section.name))
    };
    let code = if loads.iter().any(is_restored) { binary.code_sections()? } else { Vec::new() };
    let init = code.into_iter().filter(|(name, _)| is_init(name));
    Ok(init.map(|(_, code)| code.start + offset..code.end + offset).collect())
}

impl Built {
    /// Returns its file with DWARF, from the cache or, if it is one of the kernel's own, from the kernel's build.
    fn find(&self, cache: &Cache, kernel: &FoundBuild) -> Result<Option<FoundModule>> {
        if self.sources.is_some() {
            return find_module(cache, &self.name, &self.build_id);
        }
        let is_it = |path: &PathBuf| {
            module_name(path) == self.name && build_id(path).is_ok_and(|id| id == self.build_id)
        };
        let debug = kernel.modules()?.into_iter().find(is_it);
        Ok(debug.map(|debug| FoundModule { debug, sources: BTreeMap::new() }))
    }

    /// Fails if its files are wanted, since they cannot be shown.
    fn check_unwanted(&self, files: &SourceFiles) -> Result<()> {
        let is_wanted = self.sources.as_ref().is_some_and(|directory| files.reach(directory));
        if is_wanted {
            bail!(
                "the build {} of the module {} that was measured is not in the cache; run with `--coverage` again",
                self.build_id,
                self.name
            );
        }
        Ok(())
    }

    /// Describes that there is another build of the same module.
    fn mixed(&self, other: &str) -> String {
        format!(
            "the module {} was measured in the builds {other} and {}, which cannot be added; run with `--coverage` \
             again",
            self.name, self.build_id
        )
    }

    fn measured(&self, found: &FoundModule, loads: &[(String, Vec<SectionRan>)]) -> MeasuredModule {
        let refused = loads.iter().filter(|(_, sections)| sections.is_empty());
        MeasuredModule {
            name: self.name.clone(),
            files: self.sources.as_ref().map(|directory| found.names(directory)).unwrap_or_default(),
            scenarios: loads.iter().map(|(scenario, _)| scenario.clone()).collect(),
            refused: refused.map(|(scenario, _)| scenario.clone()).collect(),
            ..MeasuredModule::default()
        }
    }

    fn source(
        &self,
        found: &FoundModule,
        binary: &Binary,
        kernel: &FoundBuild,
        files: &SourceFiles,
    ) -> Result<Source> {
        let name = |file: String| {
            let name = match &self.sources {
                Some(directory) => found.name_of(directory, file),
                None => file,
            };
            files.has(&name).then_some(name)
        };
        Source::of_module(binary, &kernel.roots(), name)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range of addresses")]
mod tests {
    use super::*;
    use crate::kernel::text::SMALL_MODULE;
    use fs_err as fs;
    use std::path::Path;

    /// The build ID of [`SMALL_MODULE`], and another one.
    const ID: [u8; 4] = [0x4c, 0xf9, 0x57, 0x5f];
    const OTHER_ID: [u8; 4] = [0x4d, 0xf9, 0x57, 0x5f];
    const REST: &str = "294fbf4f19676efc63add72d840c0080";

    const DIRECTORY: &str = "/home/u/src";

    /// Creates a cache with two builds of the module.
    fn cache(root: &Path) -> Cache {
        let cache = Cache::at(root).unwrap();
        let at = SMALL_MODULE.windows(4).position(|bytes| bytes == ID).unwrap();
        for id in [ID, OTHER_ID] {
            let entry = cache.directory("modules").unwrap().join(format!("small-{:x}", id[0]));
            fs::create_dir_all(entry.join("source")).unwrap();
            let mut module = SMALL_MODULE.to_vec();
            module[at..at + 4].copy_from_slice(&id);
            fs::write(entry.join("small.ko.debug"), module).unwrap();
            for name in ["small.c", "small.h"] {
                fs::write(entry.join("source").join(name), "").unwrap();
            }
        }
        cache
    }

    fn load(id: &str, sections: &[(&str, &[std::ops::Range<u64>])]) -> Vec<ModuleRan> {
        let section = |(name, ran): &(&str, &[std::ops::Range<u64>])| SectionRan {
            name: (*name).to_owned(),
            address: 0xffff_8000_7a00_0000,
            ran: ran.iter().cloned().collect(),
        };
        let (name, sources) = ("small".to_owned(), Some(DIRECTORY.to_owned()));
        let build_id = format!("{id}f9575f{REST}");
        vec![ModuleRan { name, build_id, sources, sections: sections.iter().map(section).collect() }]
    }

    fn read(loads: Loads, named: &str) -> Result<(Modules, BTreeMap<String, Ranges>)> {
        let root = tempfile::tempdir()?;
        let kernel = FoundBuild::of_test(Path::new("/build"), root.path());
        let mut scenarios = BTreeMap::new();
        let files = SourceFiles::named(&[named.to_owned()]);
        let read = loads.read(&cache(root.path()), &kernel, &files, &mut scenarios)?;
        Ok((read, scenarios))
    }

    #[test]
    fn loads_at_any_address_run_the_same_lines() {
        let mut loads = Loads::default();
        loads.add("a", load("4c", &[(".text", &[8..0x10]), (".init.text", &[0..0x14])]));
        loads.add("a", load("4c", &[(".text", &[0..8]), (".init.text", &[])]));
        loads.add("restored", load("4c", &[(".text", &[8..0x28])]));
        loads.add("refused", load("4c", &[]));
        let (read, scenarios) = read(loads, DIRECTORY).unwrap();
        let [module] = &read.modules[..] else { panic!("one module") };
        assert_eq!((module.name.as_str(), module.scenarios.len(), module.counted), ("small", 3, true));
        assert_eq!(module.refused, ["refused".to_owned()].into());
        let files: Vec<&String> = module.files.keys().collect();
        assert_eq!(files, ["/home/u/src/small.c", "/home/u/src/small.h"]);
        let source = Source::of_all(read.sources);
        assert_eq!(files, source.files.iter().collect::<Vec<_>>());
        let lines = |code: &Ranges| -> Vec<(usize, u32)> {
            let ran = source.lines.iter().zip(source.lines_in(code)).filter(|(_, ran)| *ran);
            ran.map(|(line, _)| (line.file, line.number)).collect()
        };
        assert_eq!(lines(&scenarios["a"]), [(0, 8), (0, 9), (0, 16), (0, 17), (1, 5)]);
        assert_eq!(lines(&scenarios["restored"]), [(0, 8), (0, 9), (0, 11), (0, 12), (0, 13)]);
        assert_eq!(lines(&scenarios["refused"]), []);
        assert_eq!(lines(&module.restored), [(0, 16), (0, 17), (0, 18)]);
        let functions: Vec<&str> = source.functions.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(functions, ["twice", "small_run", "init_module"]);
        let ways = |scenario: &str| -> Vec<[bool; 2]> {
            source.branches.iter().map(|branch| branch.ways(&scenarios[scenario])).collect()
        };
        assert_eq!((ways("a"), ways("restored")), (vec![[false, false]], vec![[false, true]]));
    }

    #[test]
    fn builds_are_not_mixed() {
        let mixed = |named: &str, ids: &[&str]| {
            let mut loads = Loads::default();
            ids.iter().for_each(|id| loads.add("a", load(id, &[(".text", &[8..0x10])])));
            read(loads, named).map(|(read, _)| read.modules.iter().filter(|module| module.counted).count())
        };
        let check = |named, ids: &[&str], expect: &str| {
            let error = format!("{:#}", mixed(named, ids).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("/home/u", &["4c", "4d"], "was measured in the builds 4cf9575f");
        check(
            "/home/u/src/small.c",
            &["4e"],
            "the build 4ef9575f294fbf4f19676efc63add72d840c0080 of the module small",
        );
        assert_eq!(mixed("/home/u/src/small.h", &["4d"]).unwrap(), 1);
        assert_eq!(mixed("kernel/trace", &["4c", "4d", "4e"]).unwrap(), 0);
    }
}
