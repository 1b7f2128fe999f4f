//! `kernels/NAME.yaml` → [`Kernel`]: its source, its configuration, its build.

mod build;
mod choose;
mod config;
mod found;
mod gdb_index;
mod kconfig;
mod make;
pub mod slim;
mod source;
mod spec;
mod stamp;
pub mod text;
mod toolchain;
mod tree;
mod version;

pub use build::{Identity, build, forget_source, identify};
pub use choose::{choose, named_version};
pub use config::Config;
pub use found::{FoundBuild, find_builds};
pub use gdb_index::{GDB, indexed_vmlinux};
pub(crate) use make::complaints;
pub use spec::{DebianVersion, KernelSpec, MachineSpec, Memory, SourceSpec, SpecError, list};
pub use version::{KernelVersion, VersionError, VersionReq};

use crate::{cache::Cache, host::process::Tool};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// The kernel that is tested unless another one is named.
pub const DEFAULT: &str = "6.12";

/// A kernel that was built and can be booted.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name of its description, such as `6.12`.
    pub name: String,
    /// What its Makefile says.
    pub version: KernelVersion,
    /// What its origin calls it: a Debian version such as `6.12.107-1`, or a commit.
    pub source_version: String,
    /// Its source tree. Not to be written to.
    pub source: PathBuf,
    /// What it calls itself: `uname -r`, and the name below /lib/modules.
    pub release: String,
    /// SHA-256 of the final `.config`, in hexadecimal.
    pub config_hash: String,
    /// Changes whenever source, fragments or toolchain do; for the keys of what is built for it.
    pub key: String,
    /// Its description.
    pub spec: KernelSpec,
    /// kbuild's output directory, which modules are built against.
    pub directory: PathBuf,
    config: Config,
    cache: PathBuf,
    functions: Arc<OnceLock<String>>,
}

impl Kernel {
    /// What QEMU boots.
    pub fn image(&self) -> PathBuf {
        self.directory.join("arch/arm64/boot/Image")
    }

    /// The ELF file with symbols, DWARF and BTF.
    pub fn vmlinux(&self) -> PathBuf {
        self.directory.join("vmlinux")
    }

    /// Its functions by address, as /proc/kallsyms has them, read from System.map once. They stand
    /// there as they do in a guest, whose kernel is not relocated; a guest would take longer for
    /// this than for most scenarios.
    ///
    /// # Errors
    /// System.map cannot be read.
    pub fn functions(&self) -> Result<&str> {
        if let Some(functions) = self.functions.get() {
            return Ok(functions);
        }
        let functions = found::functions_of(&self.directory)?;
        Ok(self.functions.get_or_init(|| functions))
    }

    /// The final `.config`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The kernel's own modules, as paths of `.ko` files.
    pub fn modules(&self) -> Result<Vec<PathBuf>> {
        modules_of(&self.directory)
    }

    /// The `.ko` file of one of the kernel's own modules. `-` and `_` are the same in a name.
    pub fn find_module(&self, name: &str) -> Result<Option<PathBuf>> {
        Ok(self.modules()?.into_iter().find(|path| module_name(path) == name.replace('-', "_")))
    }

    /// make as this kernel was built with, in a directory of its source, to build what is no part of
    /// the kernel. Nothing may be made in that directory.
    pub fn make_in(&self, directory: &str) -> Tool {
        make::make(&self.cache, &self.source.join(directory))
    }

    /// The cache that it was built in.
    pub fn cache(&self) -> Result<Cache> {
        Cache::at(&self.cache)
    }

    /// make as this kernel was built with, to build modules: add `M=DIRECTORY` and a target.
    pub fn make(&self) -> Tool {
        make::make(&self.cache, &self.directory)
    }
}

/// The modules of the kernel that was built in `directory`.
fn modules_of(directory: &Path) -> Result<Vec<PathBuf>> {
    let path = directory.join("modules.order");
    let order = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(modules_in(&order).map(|module| directory.join(module)).collect())
}

fn functions_in(map: &str) -> String {
    let is_text = |line: &&str| matches!(line.split(' ').nth(1), Some("t" | "T" | "w" | "W"));
    map.lines().filter(is_text).flat_map(|line| [line, "\n"]).collect()
}

/// The `.ko` files a `modules.order` lists; since 6.2 it names their objects.
pub(crate) fn modules_in(order: &str) -> impl Iterator<Item = String> + '_ {
    let stem = |line: &str| line.trim().trim_end_matches(".ko").trim_end_matches(".o").to_owned();
    order.lines().filter(|line| !line.trim().is_empty()).map(move |line| stem(line) + ".ko")
}

pub(crate) fn module_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_what_is_text() {
        let map = "ffff800080000000 T _text\nffff800080900000 D data\nffff800080010000 t f\n";
        assert_eq!(functions_in(map), "ffff800080000000 T _text\nffff800080010000 t f\n");
    }

    #[test]
    fn modules_are_listed_as_files_of_both_formats() {
        let listed: Vec<String> = modules_in("samples/kprobes/kprobe_example.o\nkernel/a-b.ko\n\n").collect();
        assert_eq!(listed, ["samples/kprobes/kprobe_example.ko", "kernel/a-b.ko"]);
        assert_eq!(module_name(Path::new("/x/a-b.ko")), "a_b");
    }
}
