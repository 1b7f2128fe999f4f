//! `kernels/NAME.yaml` → [`Kernel`]: its source, its configuration, its build.
//!
//! Imports of these files go one way, apart from `Kernel` itself. From below: `small_file`, `version`,
//! `config`, `kconfig`, `compiler`, `spec`; the source by `source_tree`, `working_tree`, `resolved`, `source`, `patches`; descriptions by
//! `bugs`, `catalog`, `choose`; the build by `toolchain`, `make`, `lists`, `stamp`,
//! `kbuild`, or `distribution` for a distribution kernel; `portable`, a build in a registry; `build`, which decides
//! between these; and `working_copy`.

mod bugs;
mod build;
mod catalog;
mod choose;
mod compiler;
mod config;
mod distribution;
mod found_build;
mod functions;
mod gdb_index;
mod kbuild;
mod kconfig;
mod lists;
mod make;
mod patches;
mod portable;
pub mod prune;
mod resolved;
mod selftests;
mod small_file;
mod source;
mod source_tree;
mod spec;
mod stamp;
pub mod text;
mod toolchain;
pub(crate) mod types;
mod version;
mod working_copy;
mod working_tree;

pub use build::{
    Identity, build, build_exactly, build_spec, exact_version, forget_source, identify, pack, pull,
};
pub use catalog::list;
pub use choose::{choose, named_version};
pub use compiler::Compiler;
pub use config::Config;
#[doc(hidden)]
pub use config::ask as requested_symbols;
pub(crate) use distribution::unpack_module;
pub(crate) use found_build::build_id;
pub use found_build::{FoundBuild, distribution_functions, find_builds, was_distribution};
pub use functions::{Functions, Obstacle, Want};
pub(crate) use functions::{Omitted, inlined, inlined_reason, omitted};
pub use gdb_index::{GDB, indexed_vmlinux};
pub(crate) use lists::{module_name, modules_in};
pub(crate) use make::complaints;
pub use portable::{Packed, REGISTRY_VARIABLE};
pub use selftests::{SELFTEST_COLLECTIONS, SelftestCollection, SelftestKind};
pub(crate) use spec::check_name;
pub use spec::{DebianVersion, KernelSpec, MachineSpec, Memory, SourceSpec, SpecError};
pub use types::Types;
pub use version::{KernelVersion, VersionError, VersionReq};
pub use working_copy::WorkingCopy;

use crate::{
    cache::{Cache, Lease},
    host::{confine::Reach, process::Tool},
};
use anyhow::Result;
use distribution::Distribution;
use fs_err as fs;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// The kernel that is tested by default.
pub const DEFAULT: &str = "6.12";

/// The reason given wherever a distribution kernel would need its debug information.
pub const WITHOUT_VMLINUX: &str =
    "this distribution kernel has no debug information; `debug_package: true` fetches it";

/// A built or distribution kernel, ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name of its description in `kernels/`, such as `6.12`.
    pub name: String,
    /// The version in its Makefile.
    pub version: KernelVersion,
    /// The version of its source: a Debian version such as `6.12.107-1`, or a commit.
    pub source_version: String,
    /// Its source tree; of a distribution kernel, only the headers. Must not be written to.
    pub source: PathBuf,
    /// Its release: `uname -r`, and the directory below /lib/modules.
    pub release: String,
    /// SHA-256 of the final `.config`, in hexadecimal.
    pub config_hash: String,
    /// Changes with source or packages, fragments and toolchain. Part of the cache keys of what is built
    /// for it.
    pub key: String,
    /// The same for modules and selftests, which are built from headers and scripts of the source: an edit of a
    /// working tree only changes it if it concerns these.
    pub modules_key: String,
    /// Its description.
    pub spec: KernelSpec,
    /// kbuild's output directory, or the packaged headers: modules are built against it.
    pub directory: PathBuf,
    config: Config,
    cache: Cache,
    /// Its build and its source stay in the cache while it is used.
    _leases: Vec<Lease>,
    functions: Arc<OnceLock<String>>,
    types: Arc<OnceLock<Types>>,
    probeable: Arc<OnceLock<Functions>>,
    distribution: Option<Distribution>,
}

impl Kernel {
    /// The image that QEMU boots.
    pub fn image(&self) -> PathBuf {
        match &self.distribution {
            Some(distribution) => distribution.image(),
            None => self.directory.join("arch/arm64/boot/Image"),
        }
    }

    /// The ELF file with symbols, DWARF and BTF; `None` for a distribution kernel without its debug package, see
    /// [`WITHOUT_VMLINUX`].
    pub fn vmlinux(&self) -> Option<PathBuf> {
        match &self.distribution {
            Some(distribution) => distribution.vmlinux(),
            None => Some(self.directory.join("vmlinux")),
        }
    }

    /// The directories of its output and its source: the prefixes of source file names in debug information. A kernel
    /// from a registry also has those of the machine that built it.
    pub fn roots(&self) -> Vec<PathBuf> {
        let place = self.directory.parent().unwrap_or(&self.directory);
        [self.directory.clone(), self.source.clone()].into_iter().chain(portable::roots(place)).collect()
    }

    /// Returns whether it was pulled from a registry, with only as much source as modules and selftests need.
    pub fn is_pulled(&self) -> bool {
        self.directory.parent().is_some_and(portable::is_pulled)
    }

    /// Returns whether it is a distribution kernel, without source.
    pub fn is_distribution(&self) -> bool {
        self.distribution.is_some()
    }

    /// The modules that the lab's machine needs to boot, in load order.
    pub fn boot_modules(&self) -> Result<Vec<PathBuf>> {
        self.distribution.as_ref().map_or_else(|| Ok(Vec::new()), Distribution::boot_modules)
    }

    /// Returns whether the kernel mounts a userland itself. For others, the init of an initramfs does.
    pub fn mounts_userland(&self) -> bool {
        // mount_root() supports filesystems without a block device since 5.15.
        let supports = (self.version.major, self.version.minor) >= (5, 15) || self.config().is_set("BLOCK");
        supports && !self.is_distribution()
    }

    /// The modules with which a machine with a userland boots, in load order.
    pub fn userland_modules(&self) -> Result<Vec<PathBuf>> {
        let modules = |found: &Distribution| found.userland_modules(&self.cache, &self.key);
        self.distribution.as_ref().map_or_else(|| Ok(Vec::new()), modules)
    }

    /// Returns whether [`Kernel::functions`] is available, or must first be read from a guest.
    pub fn knows_functions(&self) -> bool {
        self.distribution.as_ref().is_none_or(|distribution| distribution.symbols().is_file())
    }

    /// Stores the functions in a guest's /proc/kallsyms, for a kernel without a System.map.
    pub fn learn_functions(&self, kallsyms: &str) -> Result<()> {
        self.distribution.as_ref().map_or(Ok(()), |distribution| distribution.learn(kallsyms))
    }

    /// Its functions by address, in the format of /proc/kallsyms, read from System.map once. The
    /// addresses are those of the guest, whose kernel is not relocated; reading them from a guest would
    /// take longer than most scenarios.
    ///
    /// # Errors
    /// System.map cannot be read.
    pub fn functions(&self) -> Result<&str> {
        if let Some(functions) = self.functions.get() {
            return Ok(functions);
        }
        let map = match &self.distribution {
            Some(distribution) => distribution.symbols(),
            None => self.directory.join("System.map"),
        };
        let functions = lists::functions_in_file(&map)?;
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

    /// Its functions and what can be probed and traced of them, read once.
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

    /// Reads the text of the final `.config`.
    pub fn config_text(&self) -> Result<String> {
        let path = match &self.distribution {
            Some(distribution) => distribution.config(),
            None => self.directory.join(".config"),
        };
        Ok(fs::read_to_string(&path)?)
    }

    /// The final `.config`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The kernel's own modules, as paths of `.ko` files, which may be compressed in a distribution kernel.
    pub fn modules(&self) -> Result<Vec<PathBuf>> {
        match &self.distribution {
            Some(distribution) => distribution.modules(),
            None => lists::modules_of(&self.directory),
        }
    }

    /// Finds the `.ko` file of one of the kernel's own modules. `-` and `_` are equal in a name.
    pub fn find_module(&self, name: &str) -> Result<Option<PathBuf>> {
        Ok(self.modules()?.into_iter().find(|path| module_name(path) == name.replace('-', "_")))
    }

    /// Returns make, run in a directory of its source, to build headers or programs of user space. It can only
    /// write to the directory of `reach`.
    pub fn make_in(&self, directory: &str, reach: Reach) -> Tool {
        let reach = reach.reading([&self.source, self.tree()]);
        make::make(Compiler::Gcc, &self.source.join(directory), reach)
    }

    /// The directory that contains everything modules are built against, besides the source.
    fn tree(&self) -> &PathBuf {
        self.distribution.as_ref().map_or(&self.directory, Distribution::place)
    }

    /// The compiler that it was built with.
    pub fn compiler(&self) -> Compiler {
        Compiler::of(&self.config)
    }

    /// The cache that it was built in.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns make as this kernel was built with, to build modules in the directory that it can write to:
    /// add a target.
    pub fn make_module(&self, directory: &Path) -> Tool {
        make::make(self.compiler(), &self.directory, self.reach(directory)).args(self.own_arguments())
    }

    /// Returns a shell that builds modules with `command` in a directory that it can write to. Each make that it
    /// runs has the variables of this kernel's, and `flag`.
    pub(crate) fn shell(&self, directory: &Path, command: &str, flag: &str) -> Tool {
        let variables =
            [vec!["ARCH=arm64".to_owned()], self.module_arguments(), vec![flag.to_owned()]].concat();
        let shell =
            Tool::new("sh").confined(self.reach(directory)).args(["-c", command]).directory(directory);
        shell.env("kernel", &self.directory).env("MAKEFLAGS", variables.join(" "))
    }

    /// Returns the arguments of make with which a tool that runs make itself builds modules.
    pub(crate) fn module_arguments(&self) -> Vec<String> {
        let own = self.own_arguments().iter().map(|&argument| argument.to_owned());
        self.compiler().arguments().into_iter().chain(own).collect()
    }

    fn own_arguments(&self) -> &'static [&'static str] {
        if self.is_distribution() { &distribution::MAKE_ARGUMENTS } else { &[] }
    }

    /// Returns the reach of a tool that builds modules in a directory.
    pub(crate) fn reach(&self, directory: &Path) -> Reach {
        Reach::new(directory).reading([&self.source, self.tree()])
    }
}
