//! A SystemTap script × a kernel → its module, which `staprun` loads in a guest.
//!
//! The host's own packages are not used: `stap` is that of the userland's suite, from a tree in the cache
//! and with the libraries there, since the two must have the same version.

use super::{
    STRIP_DEBUG, cross_gcc_version,
    dkms::{Built, UNBUILDABLE, ensure_compiler_complained, errors, outcome},
    strip,
    userland::Userlands,
};
use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::{
        beneath::{open_beneath, read_beneath},
        process::Tool,
    },
    kernel::Kernel,
    scenario::{ModuleName, Script},
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// Raised when modules must be compiled again for a reason that the rest of the key does not cover.
const LAYOUT: &str = "2";

/// The maximum size of the file with the release of the headers.
const RELEASE_LIMIT_BYTES: u64 = 256;

/// The package with the translator.
const PACKAGE: &str = "systemtap";

/// The number of lines of the log that a failure other than one of the compiler shows.
const LOG_LINES: usize = 12;

/// The first version of the kernel without `uprobe_unregister`. Each module that SystemTap 5.1 makes looks it
/// up and does not start without it, even if no probe needs it, unless it seems to be exported.
const WITHOUT_UPROBE_UNREGISTER: (u32, u32) = (6, 12);
const NO_LOOK_UP: &str = "-DSTAPCONF_UPROBE_UNREGISTER_EXPORTED=1";

/// A script of a scenario.
pub(super) struct Probes<'a> {
    pub(super) suite: &'a str,
    pub(super) name: &'a ModuleName,
    pub(super) script: &'a Script,
}

impl Probes<'_> {
    /// Returns the script's module, compiled unless it is in the cache.
    pub(super) fn compile(&self, lab: &Lab, userlands: &Userlands, kernel: &Kernel) -> Result<Built> {
        let tree = userlands.host_tree(self.suite, PACKAGE)?;
        let key = KeyBuilder::default()
            .input("kernel", &kernel.modules_key)
            // The path of the tree identifies its contents.
            .input("tree", tree.as_os_str().as_encoded_bytes())
            .input("compiler", cross_gcc_version()?)
            .input("script", self.script.as_str())
            .input("layout", LAYOUT)
            .finish(self.name);
        let waiting = || {
            let name = self.name;
            lab.progress.line(format!("waiting for another process that is compiling the probes {name}"));
        };
        let entry = lab.cache.entry("systemtap", &key, waiting, |into| {
            let task = format!("compiling the SystemTap script {} for {}", self.name, kernel.name);
            let _task = lab.progress.task(task, None);
            self.translate(kernel, &tree, into)
        })?;
        outcome(&entry, &format!("what SystemTap makes of `{}`", self.name), kernel)
    }

    fn translate(&self, kernel: &Kernel, tree: &Path, into: &Path) -> Result<()> {
        let (build, log) = (into.join("build"), into.join("stap.log"));
        // Without debug information, stap reads the functions from here.
        let boot = build.join("sysroot/boot");
        fs::create_dir_all(&boot)?;
        // Not always that of the guest: Debian 12's headers have 6.1.176 for 6.1.0-50-arm64.
        let release = read_beneath(&kernel.directory, "include/config/kernel.release", RELEASE_LIMIT_BYTES)?;
        let release = String::from_utf8_lossy(&release);
        fs::write(boot.join(format!("System.map-{}", release.trim())), kernel.functions()?)?;
        let script = build.join("script.stp");
        fs::write(&script, self.script.as_str())?;
        let (loader, libraries) = loader(tree)?;
        let share = tree.join("usr/share/systemtap");
        let version = (kernel.version.major, kernel.version.minor);
        let macros = (version >= WITHOUT_UPROBE_UNREGISTER).then_some(NO_LOOK_UP);
        let run = Tool::new(loader)
            .arg("--library-path")
            .arg(libraries)
            .arg(tree.join("usr/bin/stap"))
            .args(["-p4", "-v", "-a", "arm64", "-m", self.name])
            .arg(format!("--sysroot={}", build.join("sysroot").display()))
            .arg("-r")
            .arg(&kernel.directory)
            .args(kernel.module_arguments().iter().flat_map(|argument| ["-B", argument]))
            .args(macros)
            .arg(&script)
            .env("SYSTEMTAP_TAPSET", share.join("tapset"))
            .env("SYSTEMTAP_RUNTIME", share.join("runtime"))
            .confined(kernel.reach(&build).reading([tree]))
            .log(&log)
            .run();
        if let Err(error) = run {
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            // An error of an earlier pass is one of the script.
            let said =
                if text.contains("Pass 4: compilation failed") { errors(&text) } else { String::new() };
            let tail: Vec<&str> = text.lines().rev().take(LOG_LINES).collect();
            let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
            ensure_compiler_complained(&said, error.context(tail))
                .with_context(|| format!("cannot compile the SystemTap script `{}`", self.name))?;
            fs::write(into.join(UNBUILDABLE), said)?;
        } else {
            let module = format!("{}.ko", self.name);
            open_beneath(&build, &module).context("SystemTap made no module")?;
            strip(&STRIP_DEBUG, &build.join(&module), &into.join(&module))?;
        }
        fs::remove_dir_all(&build)?;
        Ok(fs::remove_file(&log)?)
    }
}

/// Returns the dynamic loader of a tree for the host, and the directory of its libraries.
fn loader(tree: &Path) -> Result<(PathBuf, PathBuf)> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut directories = entries(&tree.join("usr/lib")).filter(|path| path.join("libc.so.6").exists());
    let libraries = directories.next().context("the tree has no libc")?;
    let is_loader =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"));
    let loader = entries(&libraries).find(is_loader).context("the tree has no dynamic loader")?;
    Ok((loader, libraries))
}
