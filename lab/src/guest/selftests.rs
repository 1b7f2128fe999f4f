//! The selftests of a kernel's tree, prepared for a guest: scripts unchanged, C programs and modules built
//! for that kernel.
//!
//! The tree is only read; builds are entries of the cache, keyed by the kernel. The tree is not trusted:
//! the number of its files is limited, and links must not lead out of it.

use super::{Module, Modules, STRIP_DEBUG, modules::sources, strip};
use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::{beneath::directory_beneath, confine::Reach},
    kernel::{Kernel, SelftestCollection, SelftestKind, complaints},
    scenario::{Scenario, SelftestPath},
    selftest::{Entry, Known},
    words::nearest_is,
};
use anyhow::{Context, Result, anyhow, bail};
use fs_err as fs;
use sources::Files;
use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Raised when entries must be rebuilt for a reason that the rest of the key does not cover.
const LAYOUT: &str = "1";

/// The directory of selftests in a kernel tree.
const SELFTESTS: &str = "tools/testing/selftests";

/// The runner of ftrace's tests.
const FTRACETEST: &str = "ftracetest";

/// The directory of livepatch's modules.
const TEST_MODULES: &str = "test_modules";

/// A collection of selftests, ready for a guest.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The collection.
    pub collection: &'static SelftestCollection,
    /// The files of its directory in the guest, by their path in it.
    pub files: Vec<(String, Content)>,
    /// Its tests, as paths below `tools/testing/selftests`, sorted.
    pub tests: Vec<String>,
    /// The kernel's modules that its tests load by name.
    pub modules: Vec<Module>,
    /// Whether its runner can print KTAP.
    pub ktap: bool,
    /// The tests that are known not to pass on this kernel.
    pub known: Vec<Entry>,
}

/// A file for the guest.
#[derive(Clone, Debug)]
pub enum Content {
    /// A script, or a file that scripts need.
    Text(Vec<u8>),
    /// A built program or module.
    File(PathBuf),
}

impl Suite {
    /// Returns the tests that `path` selects.
    ///
    /// # Errors
    /// It selects none.
    pub fn select(&self, path: &SelftestPath) -> Result<Vec<&str>> {
        let tests: Vec<&str> =
            self.tests.iter().map(String::as_str).filter(|test| path.selects(test)).collect();
        if tests.is_empty() {
            let directories = self.tests.iter().filter_map(|test| Some(test.rsplit_once('/')?.0));
            let near = nearest_is(path.as_str(), self.tests.iter().map(String::as_str).chain(directories));
            bail!("the kernel's tree has no test `{path}`{near}");
        }
        Ok(tests)
    }
}

/// The selftests of all kernels.
#[derive(Clone, Debug)]
pub struct Selftests {
    lab: Lab,
    /// The list of the tests that are known not to pass.
    known: PathBuf,
    modules: Modules,
}

impl Selftests {
    /// Prepares selftests of any kernel; `directory` is `guest/selftests`.
    pub fn new(lab: &Lab, directory: &Path, modules: &Modules) -> Selftests {
        let known = directory.join("known.yaml");
        Selftests { lab: lab.clone(), known, modules: modules.clone() }
    }

    /// Builds all selftests that a scenario runs, before a machine would have to wait for them.
    pub fn prepare(&self, scenario: &Scenario, kernel: &Kernel) -> Result<()> {
        scenario.selftests().into_iter().try_for_each(|name| self.suite(kernel, name).map(drop))
    }

    /// Returns the collection `name` of this kernel, built if necessary.
    pub fn suite(&self, kernel: &Kernel, name: &str) -> Result<Suite> {
        let collection =
            SelftestCollection::find(name).with_context(|| format!("unknown selftests `{name}`"))?;
        let directory = directory_beneath(&kernel.source, Path::new(SELFTESTS).join(name))
            .with_context(|| format!("{} has no selftests `{name}`", kernel.version))?;
        let text = |(path, data): (PathBuf, Vec<u8>)| Some((path.to_str()?.to_owned(), Content::Text(data)));
        let mut ktap = false;
        let mut files: Vec<(String, Content)> = match collection.kind {
            SelftestKind::Programs => Vec::new(),
            SelftestKind::Ftrace | SelftestKind::Scripts => {
                let files = sources::selftests(&directory)?;
                let runner = files.get(Path::new(FTRACETEST));
                ktap = runner.is_some_and(|data| String::from_utf8_lossy(data).contains("--ktap"));
                files.into_iter().filter_map(text).collect()
            }
        };
        let scripts: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
        let has = |path: &str| scripts.iter().any(|script| script == path);
        let makes = match collection.kind {
            SelftestKind::Ftrace => false,
            SelftestKind::Scripts => {
                String::from_utf8_lossy(&makefile(&directory)?).contains("TEST_GEN_FILES")
            }
            SelftestKind::Programs => true,
        };
        let mut built = if makes { self.programs(kernel, name)? } else { Vec::new() };
        let programs: Vec<String> = built.iter().map(|(name, _)| name.clone()).collect();
        if has(&format!("{TEST_MODULES}/Makefile")) {
            built.extend(self.test_modules(kernel, &directory.join(TEST_MODULES))?);
        }
        files.retain(|(path, _)| !path.ends_with(".c") && !path.ends_with("Makefile"));
        files.extend(built.into_iter().map(|(path, file)| (path, Content::File(file))));
        let all = if collection.kind == SelftestKind::Programs { programs } else { scripts };
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

    /// Returns the modules of a collection that this kernel has.
    fn kernels_modules(&self, kernel: &Kernel, collection: &SelftestCollection) -> Result<Vec<Module>> {
        let mut modules = Vec::new();
        for name in collection.modules {
            if kernel.find_module(name)?.is_some() {
                modules.push(self.modules.find(kernel, name)?);
            }
        }
        Ok(modules)
    }

    /// Builds the C programs of a collection with its own Makefile. Returns them by name.
    fn programs(&self, kernel: &Kernel, name: &str) -> Result<Vec<(String, PathBuf)>> {
        let headers = self.headers(kernel)?;
        let key = KeyBuilder::default()
            .input("layout", LAYOUT)
            .input("kernel", &kernel.modules_key)
            .input("name", name);
        let waiting = || {
            self.lab
                .progress
                .line(format!("waiting for another process that is building the selftests {name}"));
        };
        let entry = self.lab.cache.entry("selftests", &key.finish(name), waiting, |into| {
            let _task =
                self.lab.progress.task(format!("building the selftests {name} for {}", kernel.name), None);
            let log = into.join("make.log");
            let made = into.join("made");
            fs::create_dir(&made)?;
            let make = kernel
                .make_in(&format!("{SELFTESTS}/{name}"), Reach::new(&made).reading([&headers]))
                .arg(format!("OUTPUT={}", made.display()))
                .arg(format!("KHDR_INCLUDES=-isystem {}", headers.display()))
                // The lab builds modules separately; here make would apply its default rule to them.
                .arg("TEST_GEN_MODS_DIR=")
                // A guest may have no libc. Set in the environment, because Makefiles append to it.
                .env("CFLAGS", format!("-isystem {} -O2", headers.display()))
                .env("LDFLAGS", "-static")
                .log(&log);
            make.run()
                .map_err(|error| said(error, &log))
                .with_context(|| format!("cannot build the selftests `{name}` of {}", kernel.version))?;
            for (name, program) in executables(&made)? {
                let stripped = into.join(&name);
                strip(&STRIP_DEBUG, &program, &stripped)?;
                fs::set_permissions(&stripped, Permissions::from_mode(0o755))?;
            }
            fs::remove_dir_all(&made)?;
            fs::remove_file(&log)?;
            Ok(())
        })?;
        executables(&entry)
    }

    /// Returns the kernel's headers for user space.
    fn headers(&self, kernel: &Kernel) -> Result<PathBuf> {
        let key = KeyBuilder::default()
            .input("layout", LAYOUT)
            .input("kernel", &kernel.modules_key)
            .finish("headers");
        let waiting =
            || self.lab.progress.line("waiting for another process that is making the kernel's headers");
        let entry = self.lab.cache.entry("selftests", &key, waiting, |into| {
            let _task = self.lab.progress.task(format!("making the headers of {}", kernel.name), None);
            let (made, log) = (into.join("made"), into.join("make.log"));
            fs::create_dir(&made)?;
            let make = kernel.make_in("", Reach::new(&made)).arg(format!("O={}", made.display()));
            make.arg("headers")
                .log(&log)
                .run()
                .map_err(|error| said(error, &log))
                .with_context(|| format!("cannot make the headers of {}", kernel.version))?;
            fs::rename(directory_beneath(&made, "usr/include")?, into.join("include"))?;
            fs::remove_dir_all(&made)?;
            fs::remove_file(&log)?;
            Ok(())
        })?;
        Ok(entry.join("include"))
    }

    /// Builds the modules that a collection contains for its scripts to load.
    fn test_modules(&self, kernel: &Kernel, source: &Path) -> Result<Vec<(String, PathBuf)>> {
        let files: Files = sources::selftests(source)?;
        let mut key = KeyBuilder::default().input("layout", LAYOUT).input("kernel", &kernel.modules_key);
        for (path, data) in &files {
            key = key.input(&path.to_string_lossy(), data);
        }
        let waiting = || {
            self.lab.progress.line("waiting for another process that is building the modules of selftests");
        };
        let entry = self.lab.cache.entry("selftests", &key.finish("modules"), waiting, |into| {
            let _task =
                self.lab.progress.task(format!("building modules of selftests for {}", kernel.name), None);
            let (copy, log) = (into.join("made"), into.join("make.log"));
            sources::write(&files, &copy)?;
            let make = kernel.make_module(&copy).arg(format!("M={}", copy.display())).arg("modules");
            make.log(&log)
                .run()
                .map_err(|error| said(error, &log))
                .with_context(|| format!("cannot build `{}`", source.display()))?;
            for file in modules_below(&copy)? {
                strip(&STRIP_DEBUG, &file, &into.join(file.file_name().unwrap_or_default()))?;
            }
            fs::remove_dir_all(&copy)?;
            fs::remove_file(&log)?;
            Ok(())
        })?;
        Ok(modules_below(&entry)?
            .into_iter()
            .map(|file| (format!("{TEST_MODULES}/{}", name_of(&file)), file))
            .collect())
    }
}

/// Returns whether a file of a collection is one of its tests.
fn is_test(kind: SelftestKind, path: &str) -> bool {
    match kind {
        // Tests in `samples/` test the runner itself, and five of six do not pass.
        SelftestKind::Ftrace => path.starts_with("test.d/") && path.ends_with(".tc"),
        SelftestKind::Scripts => !path.contains('/') && path.starts_with("test") && path.ends_with(".sh"),
        SelftestKind::Programs => true,
    }
}

fn makefile(directory: &Path) -> Result<Vec<u8>> {
    Ok(fs::read(directory.join("Makefile"))?)
}

/// Returns the errors of the compiler, or else `error` unchanged.
fn said(error: anyhow::Error, log: &Path) -> anyhow::Error {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let said = complaints(&text);
    if said.is_empty() { error } else { anyhow!(said) }
}

fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}

/// Returns the `.ko` files in a directory. Links are left out: the code that is built could have made them.
fn modules_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let is_module = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "ko")
            && path.symlink_metadata().is_ok_and(|data| data.is_file())
    };
    Ok(listed(directory)?.into_iter().filter(is_module).collect())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the programs in a directory by name, sorted, without links.
fn executables(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let is_program = |path: &PathBuf| {
        path.symlink_metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
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
        check(SelftestKind::Ftrace, "test.d/kprobe/profile.tc", true);
        check(SelftestKind::Ftrace, "samples/fail.tc", false);
        check(SelftestKind::Ftrace, "test.d/functions", false);
        check(SelftestKind::Ftrace, "ftracetest", false);
        check(SelftestKind::Scripts, "test-livepatch.sh", true);
        check(SelftestKind::Scripts, "functions.sh", false);
        check(SelftestKind::Scripts, "test_modules/test.sh", false);
    }

    #[test]
    fn a_selection_that_is_empty_names_what_is_near() {
        let suite = Suite {
            collection: SelftestCollection::find("ftrace").unwrap(),
            files: Vec::new(),
            tests: ["ftrace/test.d/kprobe/a.tc", "ftrace/test.d/kprobe/b.tc"].map(str::to_owned).into(),
            modules: Vec::new(),
            ktap: true,
            known: Vec::new(),
        };
        let select = |path: &str| {
            let path: SelftestPath = crate::yaml::from_str(path).unwrap();
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
