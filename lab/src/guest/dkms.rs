//! A Debian package of module sources × a kernel → its modules.

use super::{
    STRIP_DEBUG,
    modules::sources::{self, Files},
    strip,
};
use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::{
        apt::Apt,
        beneath::{open_beneath, read_beneath},
        deb,
    },
    kernel::{Kernel, modules_in},
    scenario::{Dkms, ModuleName},
};
use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread::available_parallelism,
};

/// The file of an entry in the cache that says why the package cannot be built for the kernel.
pub(super) const UNBUILDABLE: &str = "unbuildable";

/// Raised when entries must be rebuilt for a reason that the rest of the key does not cover.
const LAYOUT: &str = "2";

/// The maximum size of the list of a package's modules, and the maximum number of its modules.
const ORDER_LIMIT_BYTES: u64 = 1 << 20;
const MODULES_MAX: usize = 200;

/// The number of the compiler's errors that a reason quotes.
const ERRORS_MAX: usize = 2;

/// Modules by their names in the guest, or why they cannot be built for the kernel.
pub(super) type Built = Result<Vec<(String, PathBuf)>, String>;

/// A package and how it is built.
pub(super) struct Package<'a> {
    pub(super) suite: &'a str,
    pub(super) name: &'a str,
    pub(super) wanted: &'a Dkms,
}

impl Package<'_> {
    /// Returns the package's modules, built unless they are in the cache. So is the outcome if its sources
    /// do not compile: trying takes minutes.
    pub(super) fn build(&self, lab: &Lab, kernel: &Kernel) -> Result<Built> {
        let apt = Apt::open(lab)?;
        let name = self.name;
        let version = apt.version(self.suite, name)?;
        let without: Vec<&str> = self.wanted.without.iter().map(ModuleName::as_str).collect();
        let key = KeyBuilder::default()
            .input("kernel", &kernel.modules_key)
            .input("package", format!("{name}={version}"))
            .input("config", self.config().join(" "))
            .input("define", self.defines())
            .input("without", without.join(" "))
            .input("layout", LAYOUT)
            .finish(name);
        let waiting = || {
            lab.progress.line(format!("waiting for another process that is building the modules of {name}"));
        };
        let entry = lab.cache.entry("dkms", &key, waiting, |into| {
            let task = format!("building the modules of {name} for {}", kernel.name);
            let files = self.sources(&apt, &version, into)?;
            let _task = lab.progress.task(task, None);
            self.make(kernel, &files, into)
        })?;
        outcome(&entry, &format!("{name} {version}"), kernel)
    }

    /// Downloads the package and reads its sources.
    fn sources(&self, apt: &Apt, version: &str, into: &Path) -> Result<Files> {
        let place = tempfile::tempdir_in(into)?;
        let fetched = apt.fetch(self.suite, &[&format!("{}={version}", self.name)], place.path())?;
        let package = fetched.first().context("apt downloaded nothing")?;
        let tree = place.path().join("tree");
        deb::unpack(&package.deb, &tree)?;
        let entries = fs::read_dir(tree.join("usr/src")).into_iter().flatten().flatten();
        let mut found = entries.map(|entry| entry.path()).filter(|path| path.join("dkms.conf").is_file());
        let (Some(source), None) = (found.next(), found.next()) else {
            bail!("the package `{}` has no or several `dkms.conf` below /usr/src", self.name);
        };
        let mut files = sources::foreign(&source)?;
        leave_out(&mut files, &self.wanted.without)
            .with_context(|| format!("cannot change the sources of the package `{}`", self.name))?;
        Ok(files)
    }

    fn config(&self) -> Vec<String> {
        self.wanted.config.iter().map(|symbol| format!("CONFIG_{symbol}=m")).collect()
    }

    fn defines(&self) -> String {
        self.wanted.define.iter().map(|name| format!(" -D{name}=")).collect()
    }

    fn make(&self, kernel: &Kernel, files: &Files, into: &Path) -> Result<()> {
        let (copy, log) = (into.join("build"), into.join("make.log"));
        sources::write(files, &copy)?;
        for (path, _) in files.iter().filter(|(_, data)| data.starts_with(b"#!")) {
            fs::set_permissions(copy.join(path), Permissions::from_mode(0o755))?;
        }
        let made = kernel
            .make_module(&copy)
            .arg(format!("-j{}", available_parallelism().map_or(1, usize::from)))
            .arg(format!("M={}", copy.display()))
            // The copy's path differs each time and must not appear in the modules.
            .arg(format!("KCFLAGS=-ffile-prefix-map={}={}{}", copy.display(), self.name, self.defines()))
            .args(self.config())
            .arg("modules")
            .log(&log)
            .run();
        if let Err(error) = made {
            let text = fs::read(&log).unwrap_or_default();
            let said = errors(&String::from_utf8_lossy(&text)).replace(&format!("{}/", copy.display()), "");
            ensure_compiler_complained(&said, error)?;
            fs::write(into.join(UNBUILDABLE), said)?;
        } else {
            take(&copy, into)?;
        }
        fs::remove_dir_all(&copy)?;
        Ok(fs::remove_file(&log)?)
    }
}

/// Returns the error of a build, unless it is due to the sources.
pub(super) fn ensure_compiler_complained(said: &str, error: anyhow::Error) -> Result<()> {
    if said.is_empty() { Err(error) } else { Ok(()) }
}

/// Returns the first errors of compiler and modpost in a log: those that the sources cause.
pub(super) fn errors(log: &str) -> String {
    let of_sources = |line: &&str| {
        (line.contains(" error: ") && !line.contains("fatal error: Killed"))
            || line.starts_with("ERROR: modpost: ")
    };
    log.lines().filter(of_sources).take(ERRORS_MAX).collect::<Vec<_>>().join("; ")
}

/// Returns what an entry of the cache has.
pub(super) fn outcome(entry: &Path, what: &str, kernel: &Kernel) -> Result<Built> {
    if let Ok(said) = fs::read_to_string(entry.join(UNBUILDABLE)) {
        return Ok(Err(format!("{what} does not compile for {}: {said}", kernel.version)));
    }
    let files = fs::read_dir(entry)?.flatten().map(|file| file.path());
    let modules = files.filter(|path| path.extension() == Some("ko".as_ref()));
    let named = modules.map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into(), path));
    let mut named: Vec<(String, PathBuf)> = named.collect();
    named.sort();
    Ok(Ok(named))
}

/// Removes the lines of makefiles that build these modules.
fn leave_out(files: &mut Files, modules: &[ModuleName]) -> Result<()> {
    for module in modules {
        let object = format!("{module}.o");
        let builds = |line: &str| {
            line.trim_start().starts_with("obj-") && line.split_whitespace().any(|word| word == object)
        };
        let mut lines = 0;
        for (path, data) in &mut *files {
            if !["Kbuild", "Makefile"].iter().any(|name| path.ends_with(name)) {
                continue;
            }
            let text = String::from_utf8_lossy(data).into_owned();
            let kept: String = text.split_inclusive('\n').filter(|line| !builds(line)).collect();
            if kept.len() < text.len() {
                lines += 1;
                *data = kept.into_bytes();
            }
        }
        ensure!(lines > 0, "no makefile builds `{object}`");
    }
    Ok(())
}

/// Strips the modules that were built in `copy` into the directory `into`. The list and the modules are
/// whatever the code that was built wrote.
fn take(copy: &Path, into: &Path) -> Result<()> {
    let order = read_beneath(copy, "modules.order", ORDER_LIMIT_BYTES)?;
    let order = String::from_utf8_lossy(&order);
    let modules: Vec<String> = modules_in(&order).collect();
    ensure!(modules.len() <= MODULES_MAX, "it has {} modules, expected at most {MODULES_MAX}", modules.len());
    for module in &modules {
        let path = Path::new(module);
        let path = path.strip_prefix(copy).unwrap_or(path);
        open_beneath(copy, path).context("it built an unusable module")?;
        let name = path.file_name().context("it built a module without a name")?;
        strip(&STRIP_DEBUG, &copy.join(path), &into.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FromText;

    #[test]
    fn a_module_is_left_out_of_its_makefile() {
        let kbuild = "obj-$(CONFIG_A) += a.o\nobj-$(CONFIG_A) += aa.o\naa-objs := a.o b.o\n";
        let mut files = Files::from([("src/Kbuild".into(), kbuild.into()), ("a.c".into(), "a.o".into())]);
        let name = |text| ModuleName::from_text(text).unwrap();
        leave_out(&mut files, &[name("a")]).unwrap();
        let kept = String::from_utf8_lossy(&files[Path::new("src/Kbuild")]).into_owned();
        assert_eq!(kept, "obj-$(CONFIG_A) += aa.o\naa-objs := a.o b.o\n");
        let error = leave_out(&mut files, &[name("c")]).unwrap_err();
        assert_eq!(error.to_string(), "no makefile builds `c.o`");
    }

    #[test]
    fn only_the_errors_of_sources_count() {
        let check = |log: &str, expect: &str| assert_eq!(errors(log), expect);
        check("a.c:1:2: error: conflicting types\nmake: *** Error 2", "a.c:1:2: error: conflicting types");
        check(
            "ERROR: modpost: \"relay_open\" [x.ko] undefined!",
            "ERROR: modpost: \"relay_open\" [x.ko] undefined!",
        );
        check("gcc: fatal error: Killed signal terminated program cc1", "");
        check("/bin/sh: 1: gcc: not found\nmake: *** Error 127", "");
    }
}
