//! `kernels/NAME.yaml` → [`Kernel`]: its source, its configuration, its build.

mod bugs;
mod build;
mod choose;
mod config;
mod found;
mod gdb_index;
mod kconfig;
mod make;
mod patches;
mod shipped;
pub mod slim;
mod source;
mod spec;
mod stamp;
pub mod text;
mod toolchain;
mod tree;
mod version;

pub use build::{Identity, build, build_exactly, build_spec, exact_version, forget_source, identify};
pub use choose::{choose, named_version};
pub use config::Config;
pub use found::{FoundBuild, find_builds, was_shipped};
pub use gdb_index::{GDB, indexed_vmlinux};
pub(crate) use make::complaints;
pub(crate) use shipped::unpack_module;
pub(crate) use spec::check_name;
pub use spec::{DebianVersion, KernelSpec, MachineSpec, Memory, SourceSpec, SpecError, list};
pub use version::{KernelVersion, VersionError, VersionReq};

use crate::{
    cache::Cache,
    host::process::Tool,
    probe::{Functions, Types},
};
use anyhow::{Context, Result};
use shipped::Shipped;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// The kernel that is tested unless another one is named.
pub const DEFAULT: &str = "6.12";

/// What is said of a kernel that only its own debug information could serve.
pub const WITHOUT_VMLINUX: &str = "this kernel was shipped without its debug information";

/// A kernel that was built, or that is as it was shipped, and can be booted.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name of its description, such as `6.12`.
    pub name: String,
    /// What its Makefile says.
    pub version: KernelVersion,
    /// What its origin calls it: a Debian version such as `6.12.107-1`, or a commit.
    pub source_version: String,
    /// Its source tree, of one that was shipped only the headers. Not to be written to.
    pub source: PathBuf,
    /// What it calls itself: `uname -r`, and the name below /lib/modules.
    pub release: String,
    /// SHA-256 of the final `.config`, in hexadecimal.
    pub config_hash: String,
    /// Changes whenever source or packages, fragments or toolchain do; for the keys of what is built for it.
    pub key: String,
    /// Its description.
    pub spec: KernelSpec,
    /// kbuild's output directory, or headers that were shipped, which modules are built against.
    pub directory: PathBuf,
    config: Config,
    cache: PathBuf,
    functions: Arc<OnceLock<String>>,
    types: Arc<OnceLock<Types>>,
    probeable: Arc<OnceLock<Functions>>,
    shipped: Option<Shipped>,
}

impl Kernel {
    /// What QEMU boots.
    pub fn image(&self) -> PathBuf {
        match &self.shipped {
            Some(shipped) => shipped.image(),
            None => self.directory.join("arch/arm64/boot/Image"),
        }
    }

    /// The ELF file with symbols, DWARF and BTF, which is not to be had of a kernel that was shipped:
    /// [`WITHOUT_VMLINUX`].
    pub fn vmlinux(&self) -> Option<PathBuf> {
        self.shipped.is_none().then(|| self.directory.join("vmlinux"))
    }

    /// Whether it is as its distribution ships it, without source and vmlinux.
    pub fn is_shipped(&self) -> bool {
        self.shipped.is_some()
    }

    /// Modules without which the lab's machine does not boot, in the order in which they are loaded.
    pub fn boot_modules(&self) -> Result<Vec<PathBuf>> {
        self.shipped.as_ref().map_or_else(|| Ok(Vec::new()), Shipped::boot_modules)
    }

    /// Whether [`Kernel::functions`] are there, or a guest has to be asked first.
    pub fn knows_functions(&self) -> bool {
        self.shipped.as_ref().is_none_or(|shipped| shipped.symbols().is_file())
    }

    /// Keeps what a guest has in its /proc/kallsyms.
    pub fn learn_functions(&self, kallsyms: &str) -> Result<()> {
        self.shipped.as_ref().map_or(Ok(()), |shipped| shipped.learn(kallsyms))
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
        let map = match &self.shipped {
            Some(shipped) => shipped.symbols(),
            None => self.directory.join("System.map"),
        };
        let functions = found::functions_in_file(&map)?;
        Ok(self.functions.get_or_init(|| functions))
    }

    /// Its types and prototypes, read once.
    ///
    /// # Errors
    /// It was built without CONFIG_DEBUG_INFO_BTF, or its BTF cannot be read.
    pub fn types(&self) -> Result<&Types> {
        if let Some(types) = self.types.get() {
            return Ok(types);
        }
        let types = match self.vmlinux() {
            Some(vmlinux) => Types::of_vmlinux(&vmlinux)?,
            None => Types::of_image(&self.image())?,
        };
        Ok(self.types.get_or_init(|| types))
    }

    /// What of its functions can be probed and traced, read once.
    ///
    /// # Errors
    /// System.map or vmlinux cannot be read.
    pub fn probeable(&self) -> Result<&Functions> {
        if let Some(functions) = self.probeable.get() {
            return Ok(functions);
        }
        let functions = Functions::of(self)?;
        Ok(self.probeable.get_or_init(|| functions))
    }

    /// The text of the final `.config`.
    pub fn config_text(&self) -> Result<String> {
        let path = match &self.shipped {
            Some(shipped) => shipped.config(),
            None => self.directory.join(".config"),
        };
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))
    }

    /// The final `.config`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The kernel's own modules, as paths of `.ko` files; of one that was shipped they may be packed.
    pub fn modules(&self) -> Result<Vec<PathBuf>> {
        match &self.shipped {
            Some(shipped) => shipped.modules(),
            None => modules_of(&self.directory),
        }
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
        let make = make::make(&self.cache, &self.directory);
        if self.is_shipped() { make.args(shipped::MAKE_ARGUMENTS) } else { make }
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
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
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
        assert_eq!(module_name(Path::new("/x.ko/a-b.ko.xz")), "a_b");
    }
}
