//! The selftests of a kernel's own tree, made ready for a guest: scripts as they are, C programs and
//! modules built for that kernel.
//!
//! The tree is only read. What is built is an entry of the cache, keyed by the kernel. A tree is
//! other people's: its files are counted and may not lead out of it.

use super::{
    Module, Modules,
    modules::{sources, strip},
};
use crate::{
    cache::{Cache, KeyBuilder},
    kernel::{Kernel, complaints},
    progress::Progress,
    scenario::{Scenario, SelftestPath, nearest},
    selftest::{Collection, Entry, Kind, Known},
};
use anyhow::{Context, Result, anyhow, bail};
use sources::Files;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Raised when an entry has to be made anew for a reason that nothing else in its key shows.
const LAYOUT: &str = "1";

/// Where a kernel tree has them.
const SELFTESTS: &str = "tools/testing/selftests";

/// The runner of ftrace's tests.
const FTRACETEST: &str = "ftracetest";

/// The directory of livepatch's modules.
const TEST_MODULES: &str = "test_modules";

/// A collection of selftests, ready for a guest.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Which one it is.
    pub collection: &'static Collection,
    /// What its directory in the guest has, by the path in it.
    pub files: Vec<(String, Content)>,
    /// Its tests, as paths below `tools/testing/selftests`, sorted.
    pub tests: Vec<String>,
    /// The kernel's modules that its tests load by name.
    pub modules: Vec<Module>,
    /// Whether its runner speaks KTAP.
    pub ktap: bool,
    /// What is known of its tests on this kernel.
    pub known: Vec<Entry>,
}

/// A file for the guest.
#[derive(Clone, Debug)]
pub enum Content {
    /// A script, or what goes with one.
    Text(Vec<u8>),
    /// Something that was built.
    File(PathBuf),
}

impl Suite {
    /// The tests that `path` names.
    ///
    /// # Errors
    /// It names none.
    pub fn select(&self, path: &SelftestPath) -> Result<Vec<&str>> {
        let tests: Vec<&str> =
            self.tests.iter().map(String::as_str).filter(|test| path.selects(test)).collect();
        if tests.is_empty() {
            let directories = self.tests.iter().filter_map(|test| Some(test.rsplit_once('/')?.0));
            let near = nearest(path.as_str(), self.tests.iter().map(String::as_str).chain(directories));
            let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
            bail!("the kernel's tree has no test `{path}`{near}");
        }
        Ok(tests)
    }
}

/// Where selftests come from.
#[derive(Clone, Debug)]
pub struct Selftests {
    cache: Cache,
    /// The list of those that are known not to pass.
    known: PathBuf,
    modules: Modules,
    progress: Progress,
}

impl Selftests {
    /// Those of any kernel; `directory` is `guest/selftests`.
    pub fn new(cache: &Cache, directory: &Path, modules: &Modules, progress: &Progress) -> Selftests {
        let known = directory.join("known.yaml");
        Selftests { cache: cache.clone(), known, modules: modules.clone(), progress: progress.clone() }
    }

    /// Builds all that a scenario runs, before there is a machine that would wait for it.
    pub fn prepare(&self, scenario: &Scenario, kernel: &Kernel) -> Result<()> {
        scenario.selftests().into_iter().try_for_each(|name| self.suite(kernel, name).map(drop))
    }

    /// The collection `name` of this kernel, built if need be.
    pub fn suite(&self, kernel: &Kernel, name: &str) -> Result<Suite> {
        let collection =
            Collection::find(name).with_context(|| format!("no selftests are called `{name}`"))?;
        let directory = kernel.source.join(SELFTESTS).join(name);
        if !directory.is_dir() {
            bail!("{} has no selftests `{name}`", kernel.version);
        }
        let text = |(path, data): (PathBuf, Vec<u8>)| Some((path.to_str()?.to_owned(), Content::Text(data)));
        let mut ktap = false;
        let mut files: Vec<(String, Content)> = match collection.kind {
            Kind::Programs => Vec::new(),
            Kind::Ftrace | Kind::Scripts => {
                let files = sources::selftests(&directory)?;
                let runner = files.get(Path::new(FTRACETEST));
                ktap = runner.is_some_and(|data| String::from_utf8_lossy(data).contains("--ktap"));
                files.into_iter().filter_map(text).collect()
            }
        };
        let scripts: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
        let has = |path: &str| scripts.iter().any(|script| script == path);
        let makes = match collection.kind {
            Kind::Ftrace => false,
            Kind::Scripts => String::from_utf8_lossy(&makefile(&directory)?).contains("TEST_GEN_FILES"),
            Kind::Programs => true,
        };
        let mut built = if makes { self.programs(kernel, name)? } else { Vec::new() };
        let programs: Vec<String> = built.iter().map(|(name, _)| name.clone()).collect();
        if has(&format!("{TEST_MODULES}/Makefile")) {
            built.extend(self.test_modules(kernel, &directory.join(TEST_MODULES))?);
        }
        files.retain(|(path, _)| !path.ends_with(".c") && !path.ends_with("Makefile"));
        files.extend(built.into_iter().map(|(path, file)| (path, Content::File(file))));
        let all = if collection.kind == Kind::Programs { programs } else { scripts };
        let mut tests: Vec<String> = all
            .iter()
            .filter(|path| is_test(collection.kind, path))
            .map(|path| format!("{name}/{path}"))
            .collect();
        tests.sort();
        let known = Known::load(&self.known)?.of(name, &kernel.version, &tests)?;
        let modules = self.kernels_modules(kernel, collection)?;
        Ok(Suite { collection, files, tests, modules, ktap, known })
    }

    /// Those modules of a collection that this kernel has.
    fn kernels_modules(&self, kernel: &Kernel, collection: &Collection) -> Result<Vec<Module>> {
        let mut modules = Vec::new();
        for name in collection.modules {
            if kernel.find_module(name)?.is_some() {
                modules.push(self.modules.find(kernel, name)?);
            }
        }
        Ok(modules)
    }

    /// The C programs of a collection by name, as its own Makefile builds them.
    fn programs(&self, kernel: &Kernel, name: &str) -> Result<Vec<(String, PathBuf)>> {
        let headers = self.headers(kernel)?;
        let key =
            KeyBuilder::default().input("layout", LAYOUT).input("kernel", &kernel.key).input("name", name);
        let waiting = || self.progress.line(format!("another lab is building the selftests {name}; waiting"));
        let entry = self.cache.entry("selftests", &key.finish(name), waiting, |into| {
            let _task =
                self.progress.task(format!("building the selftests {name} for {}", kernel.name), None);
            let log = into.join("make.log");
            let made = into.join("made");
            fs::create_dir(&made)?;
            let make = kernel
                .make_in(&format!("{SELFTESTS}/{name}"))
                .arg(format!("OUTPUT={}", made.display()))
                .arg(format!("KHDR_INCLUDES=-isystem {}", headers.display()))
                // Modules are built elsewhere, and programs of them have no rule but the default one.
                .arg("TEST_GEN_MODS_DIR=")
                // A guest may have no libc of its own. By the environment, for Makefiles add to it.
                .env("CFLAGS", format!("-isystem {} -O2", headers.display()))
                .env("LDFLAGS", "-static")
                .log(&log);
            make.run()
                .map_err(|error| said(error, &log))
                .with_context(|| format!("cannot build the selftests `{name}` of {}", kernel.version))?;
            for (name, program) in executables(&made)? {
                let stripped = into.join(&name);
                strip(&program, &stripped)?;
                fs::set_permissions(&stripped, fs::Permissions::from_mode(0o755))?;
            }
            fs::remove_dir_all(&made)?;
            fs::remove_file(&log)?;
            Ok(())
        })?;
        executables(&entry)
    }

    /// The kernel's headers for programs.
    fn headers(&self, kernel: &Kernel) -> Result<PathBuf> {
        let key =
            KeyBuilder::default().input("layout", LAYOUT).input("kernel", &kernel.key).finish("headers");
        let waiting = || self.progress.line("another lab is making the kernel's headers; waiting");
        let entry = self.cache.entry("selftests", &key, waiting, |into| {
            let _task = self.progress.task(format!("making the headers of {}", kernel.name), None);
            let (made, log) = (into.join("made"), into.join("make.log"));
            fs::create_dir(&made)?;
            let make = kernel.make_in("").arg(format!("O={}", made.display())).arg("headers").log(&log);
            make.run()
                .map_err(|error| said(error, &log))
                .with_context(|| format!("cannot make the headers of {}", kernel.version))?;
            fs::rename(made.join("usr/include"), into.join("include"))?;
            fs::remove_dir_all(&made)?;
            fs::remove_file(&log)?;
            Ok(())
        })?;
        Ok(entry.join("include"))
    }

    /// The modules that a collection brings for its scripts to load.
    fn test_modules(&self, kernel: &Kernel, source: &Path) -> Result<Vec<(String, PathBuf)>> {
        let files: Files = sources::selftests(source)?;
        let mut key = KeyBuilder::default().input("layout", LAYOUT).input("kernel", &kernel.key);
        for (path, data) in &files {
            key = key.input(&path.to_string_lossy(), data);
        }
        let waiting = || self.progress.line("another lab is building the modules of selftests; waiting");
        let entry = self.cache.entry("selftests", &key.finish("modules"), waiting, |into| {
            let _task =
                self.progress.task(format!("building modules of selftests for {}", kernel.name), None);
            let (copy, log) = (into.join("made"), into.join("make.log"));
            sources::write(&files, &copy)?;
            let make = kernel.make().arg(format!("M={}", copy.display())).arg("modules").log(&log);
            make.env("CCACHE_DISABLE", "1")
                .run()
                .map_err(|error| said(error, &log))
                .with_context(|| format!("cannot build `{}`", source.display()))?;
            for file in listed(&copy)?.iter().filter(|file| file.extension().is_some_and(|end| end == "ko")) {
                strip(file, &into.join(file.file_name().unwrap_or_default()))?;
            }
            fs::remove_dir_all(&copy)?;
            fs::remove_file(&log)?;
            Ok(())
        })?;
        let modules =
            listed(&entry)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "ko"));
        Ok(modules.map(|file| (format!("{TEST_MODULES}/{}", name_of(&file)), file)).collect())
    }
}

/// Whether a file of a collection is one of its tests.
fn is_test(kind: Kind, path: &str) -> bool {
    match kind {
        // Those of `samples/` are for the runner's own sake, and five of six do not pass.
        Kind::Ftrace => path.starts_with("test.d/") && path.ends_with(".tc"),
        Kind::Scripts => !path.contains('/') && path.starts_with("test") && path.ends_with(".sh"),
        Kind::Programs => true,
    }
}

fn makefile(directory: &Path) -> Result<Vec<u8>> {
    let path = directory.join("Makefile");
    fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// What the compiler complained of, else the error as it is.
fn said(error: anyhow::Error, log: &Path) -> anyhow::Error {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let said = complaints(&text);
    if said.is_empty() { error } else { anyhow!(said) }
}

fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot list `{}`", directory.display());
    let entries = fs::read_dir(directory).with_context(failed)?;
    entries.map(|entry| Ok(entry.with_context(failed)?.path())).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The programs in a directory by name, sorted.
fn executables(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    let mut found: Vec<_> =
        listed(directory)?.into_iter().filter(is_program).map(|path| (name_of(&path), path)).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_from_what_goes_with_them() {
        let check = |kind, path, expect| assert_eq!(is_test(kind, path), expect, "{path}");
        check(Kind::Ftrace, "test.d/kprobe/profile.tc", true);
        check(Kind::Ftrace, "samples/fail.tc", false);
        check(Kind::Ftrace, "test.d/functions", false);
        check(Kind::Ftrace, "ftracetest", false);
        check(Kind::Scripts, "test-livepatch.sh", true);
        check(Kind::Scripts, "functions.sh", false);
        check(Kind::Scripts, "test_modules/test.sh", false);
    }

    #[test]
    fn a_selection_that_is_empty_names_what_is_near() {
        let suite = Suite {
            collection: Collection::find("ftrace").unwrap(),
            files: Vec::new(),
            tests: ["ftrace/test.d/kprobe/a.tc", "ftrace/test.d/kprobe/b.tc"].map(str::to_owned).into(),
            modules: Vec::new(),
            ktap: true,
            known: Vec::new(),
        };
        let select = |path: &str| {
            let path: SelftestPath = serde_yaml::from_str(path).unwrap();
            suite.select(&path).map(|tests| tests.len()).map_err(|error| error.to_string())
        };
        assert_eq!(select("ftrace"), Ok(2));
        assert_eq!(select("ftrace/test.d/kprobe/b.tc"), Ok(1));
        let error = select("ftrace/test.d/kprobes").unwrap_err();
        assert!(
            error.ends_with("no test `ftrace/test.d/kprobes`; the nearest is `ftrace/test.d/kprobe`"),
            "{error}"
        );
    }
}
