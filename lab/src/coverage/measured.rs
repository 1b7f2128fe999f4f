//! The coverage of a stored run, kernel by kernel.

use super::{
    Function, MeasuredModule, Ran, Ranges, Source, SourceFiles,
    modules::{Loads, Modules},
};
use crate::{
    cache::Cache,
    host::beneath::{directory_beneath, open_beneath, read_beneath},
    kernel::{FoundBuild, distribution_functions, find_builds},
    results::{BOOT_COVERAGE, COVERAGE, EMPTY_COVERAGE, KernelInfo, Results, stored_results},
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The maximum size of a source file, in bytes.
const SOURCE_MAX: u64 = 16 << 20;

/// The coverage of one kernel.
pub struct Measured {
    /// The kernel.
    pub kernel: KernelInfo,
    /// Its build; a distribution kernel has none.
    build: Option<FoundBuild>,
    /// Its lines; of a distribution kernel, only the functions. With those of its modules.
    pub source: Source,
    /// What each scenario ran, by name. Repeats are one.
    pub scenarios: BTreeMap<String, Ranges>,
    /// What the kernel ran until its snapshot was made, with the init of a module in the snapshot.
    pub boot: Ranges,
    /// What an empty scenario ran.
    pub empty: Ranges,
    /// The scenarios of which some of the code that they ran is not known.
    pub incomplete: Vec<String>,
    /// The modules that scenarios loaded, whose code is in `source` and `scenarios` at addresses of its own.
    pub modules: Vec<MeasuredModule>,
}

/// How much of a file ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileCoverage {
    /// The file, relative to the kernel tree.
    pub file: String,
    /// Its lines.
    pub lines: Share,
    /// Its functions.
    pub functions: Share,
    /// The ways of its conditional branches: two for each.
    pub branches: Share,
}

/// A part of a number of things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// Those that ran.
    pub ran: usize,
    /// All.
    pub all: usize,
}

impl Share {
    fn add(&mut self, ran: bool) {
        self.ran += usize::from(ran);
        self.all += 1;
    }

    /// Returns the sum of two.
    pub fn and(self, other: Share) -> Share {
        Share { ran: self.ran + other.ran, all: self.all + other.all }
    }

    /// The part in percent, rounded down; of nothing, all ran.
    pub fn percent(self) -> usize {
        (100 * self.ran).checked_div(self.all).unwrap_or(100)
    }
}

impl FromIterator<bool> for Share {
    /// Counts those that ran.
    fn from_iter<I: IntoIterator<Item = bool>>(ran: I) -> Share {
        let mut share = Share::default();
        ran.into_iter().for_each(|ran| share.add(ran));
        share
    }
}

impl Measured {
    /// Loads the coverage of the kernels of a run.
    ///
    /// # Errors
    /// The run was not measured, a file is corrupt, or the build of a kernel is no longer in the cache.
    pub fn load(run: &Path, cache: &Cache, files: &SourceFiles) -> Result<Vec<Measured>> {
        let results = stored_results(run)?;
        let of_kernel = |kernel| Measured::of_kernel(run, &results, kernel, cache, files).transpose();
        let measured = results.kernels.iter().filter_map(of_kernel).collect::<Result<Vec<_>>>()?;
        if measured.is_empty() {
            bail!("`{}` was not measured; run scenarios with `--coverage`", run.display());
        }
        Ok(measured)
    }

    /// Loads the coverage of one kernel of a run, given the results of the run; `None` if it was not measured.
    ///
    /// # Errors
    /// A file is corrupt, or the build of the kernel is no longer in the cache.
    pub fn of_kernel(
        run: &Path,
        results: &Results,
        kernel: &KernelInfo,
        cache: &Cache,
        files: &SourceFiles,
    ) -> Result<Option<Measured>> {
        let mut scenarios: BTreeMap<String, Ranges> = BTreeMap::new();
        let (mut incomplete, mut build_id) = (Vec::new(), None);
        let mut loads = Loads::default();
        let of_kernel = results.scenarios.iter().filter(|result| result.kernel == kernel.name);
        for result in of_kernel.filter(|result| !result.directory.is_empty()) {
            let Ok(directory) = directory_beneath(run, &result.directory) else { continue };
            let Some(ran) = Ran::load(&directory, COVERAGE)? else { continue };
            if ran.lost > 0 {
                incomplete.push(result.name.clone());
            }
            let code = scenarios.entry(result.name.clone()).or_default();
            *code = code.and(&ran.code);
            loads.add(&result.name, ran.modules);
            match &build_id {
                Some(other) if *other != ran.build_id => bail!(
                    "`{}` has coverage of different builds of {}, which cannot be added",
                    run.display(),
                    kernel.name
                ),
                _ => build_id = Some(ran.build_id),
            }
        }
        let Some(build_id) = build_id else { return Ok(None) };
        let (build, source, modules) = match distribution_functions(cache, &kernel.config_hash)? {
            Some(functions) => (None, Source::of_symbols(&functions)?, Vec::new()),
            None => {
                let build = build_of(cache, kernel, &build_id)?;
                let source = Source::of_vmlinux(&build.vmlinux(), &build.roots(), files)?;
                let Modules { modules, mut sources } = loads.read(cache, &build, files, &mut scenarios)?;
                sources.push(source);
                (Some(build), Source::of_all(sources), modules)
            }
        };
        let of = |name: &str| -> Result<Ranges> {
            let ran = Ran::load(run, &format!("{}/{name}", kernel.name))?;
            Ok(ran.map(|ran| ran.code).unwrap_or_default())
        };
        let (boot, empty) = (of(BOOT_COVERAGE)?, of(EMPTY_COVERAGE)?);
        let boot = modules.iter().fold(boot, |boot, module| boot.and(&module.restored));
        Ok(Some(Measured {
            kernel: kernel.clone(),
            build,
            source,
            scenarios,
            boot,
            empty,
            incomplete,
            modules,
        }))
    }

    /// Returns whether its lines are known; those of a distribution kernel are not.
    pub fn has_lines(&self) -> bool {
        self.build.is_some()
    }

    /// The ELF file with the lines; a distribution kernel has none.
    pub fn vmlinux(&self) -> Option<PathBuf> {
        self.build.as_ref().map(FoundBuild::vmlinux)
    }

    fn roots(&self) -> Vec<PathBuf> {
        self.build.as_ref().map(FoundBuild::roots).unwrap_or_default()
    }

    /// Returns the copy of a module's source file that was built.
    fn copy_of(&self, file: &str) -> Option<&PathBuf> {
        self.modules.iter().find_map(|module| module.files.get(file))
    }

    /// Returns the path of a source file; the file is gone if its tree was removed from the cache.
    pub fn path_of(&self, file: &str) -> PathBuf {
        if let Some(copy) = self.copy_of(file) {
            return copy.clone();
        }
        let mut roots = self.roots().into_iter().map(|root| root.join(file));
        roots.find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(file))
    }

    /// Reads a source file, as it was built. Its name is that of the debug information, and does not lead out of
    /// the tree.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn text_of(&self, file: &str) -> Result<String> {
        if let Some(copy) = self.copy_of(file) {
            return Ok(String::from_utf8_lossy(&fs::read(copy)?).into_owned());
        }
        let roots = self.roots();
        let read = |root: &PathBuf| read_beneath(root, file, SOURCE_MAX).ok();
        let text =
            roots.iter().find_map(read).with_context(|| format!("the source file `{file}` is gone"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns all code that scenarios ran.
    pub fn ran(&self) -> Ranges {
        self.scenarios.values().flat_map(Ranges::iter).cloned().collect()
    }

    /// Returns how much of each file ran, given the code that did.
    pub fn files(&self, ran: &Ranges) -> Vec<FileCoverage> {
        let source = &self.source;
        let mut files: Vec<FileCoverage> = source
            .files
            .iter()
            .map(|file| FileCoverage { file: file.clone(), ..FileCoverage::default() })
            .collect();
        for (line, ran) in source.lines.iter().zip(source.lines_in(ran)) {
            files[line.file].lines.add(ran);
        }
        for function in &source.functions {
            files[function.file].functions.add(ran.meets(&function.code));
        }
        for branch in &source.branches {
            let branches = &mut files[source.lines[branch.line].file].branches;
            branch.ways(ran).into_iter().for_each(|ran| branches.add(ran));
        }
        files
    }

    /// Returns the scenarios that ran a function, apart from what an empty scenario ran.
    pub fn scenarios_of(&self, function: &Function) -> Vec<&str> {
        let ran = |code: &Ranges| code.without(&self.empty).meets(&function.code);
        self.scenarios.iter().filter(|(_, code)| ran(code)).map(|(name, _)| name.as_str()).collect()
    }

    /// Returns for each line the scenarios that ran it, apart from what an empty scenario ran. Those that ran the
    /// least code in total come first.
    pub fn scenarios_of_lines(&self) -> Vec<Vec<&str>> {
        let mut of_lines = vec![Vec::new(); self.source.lines.len()];
        let mut scenarios: Vec<_> = self.scenarios.iter().collect();
        scenarios.sort_by_key(|(_, code)| code.size());
        for (name, code) in scenarios {
            let own = self.source.lines_in(&code.without(&self.empty));
            for (line, _) in own.into_iter().enumerate().filter(|(_, ran)| *ran) {
                of_lines[line].push(name.as_str());
            }
        }
        of_lines
    }
}

/// Returns the run below `results` that measured most scenarios on a kernel; of several, the last one.
///
/// # Errors
/// The directory cannot be read.
pub fn last_measured(results: &Path, kernel: &str) -> Result<Option<PathBuf>> {
    if !results.exists() {
        return Ok(None);
    }
    let runs = fs::read_dir(results)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_measured = |run: &PathBuf| !run.is_symlink() && run.join(kernel).join(EMPTY_COVERAGE).is_file();
    let count = |run: PathBuf| {
        // A run that cannot be read is not a candidate.
        let results = stored_results(&run).ok()?;
        let measured = results
            .scenarios
            .iter()
            .filter(|result| result.kernel == kernel)
            .filter(|result| open_beneath(&run, Path::new(&result.directory).join(COVERAGE)).is_ok());
        Some((measured.count(), run))
    };
    // Their names begin with the time.
    Ok(runs.into_iter().filter(is_measured).filter_map(count).max().map(|(_, run)| run))
}

fn build_of(cache: &Cache, kernel: &KernelInfo, build_id: &str) -> Result<FoundBuild> {
    let builds = find_builds(cache, &kernel.config_hash)?;
    let matching = builds.into_iter().find(|build| build.build_id().is_ok_and(|id| id == build_id));
    let name = &kernel.name;
    matching.with_context(|| {
        format!(
            "the build of {name} that was measured is not in the cache; `cargo xtask lab build {name}` and run \
             with `--coverage` again"
        )
    })
}
