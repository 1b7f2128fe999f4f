//! A distribution kernel: image, modules and headers of Debian's packages, unpacked in the cache.
//! Nothing of it is built.
//!
//! `builds/KEY/` has the `Image`, its `config`, its `modules`, in `boot` those modules that the lab's
//! machine needs to boot, in load order, and `packages`, against whose headers modules are built. There
//! is no vmlinux and no source, so features that need one of them are not available. `System.map`, which
//! the package lacks, is written after it was read from a guest.

mod compressed;
mod headers;
mod modules;
mod packages;

pub(super) use headers::MAKE_ARGUMENTS;
pub(crate) use modules::unpack as unpack_module;

use super::{
    Kernel,
    compiler::Compiler,
    config::Config,
    lists::functions_in,
    resolved::{forget, remembered, resolve},
    source_tree::version_of,
    spec::{KernelSpec, SourceSpec},
    toolchain,
};
use crate::{
    cache::{Cache, Key, KeyBuilder},
    context::Lab,
    host::{apt::Apt, deb, whole::write_whole},
    words::hex,
};
use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use packages::Packages;
use sha2::{Digest, Sha256};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Raised when the layout of the unpacked packages changes.
const LAYOUT: &str = "2";

/// The file with the debug information.
const VMLINUX: &str = "vmlinux";

/// Directories of the packages that the lab does not need.
const UNUSED: [&str; 3] = ["boot", "usr/share", "usr/lib/linux-image-*"];

/// Returns the digest by which a result identifies a configuration.
fn digest_of(config: &[u8]) -> String {
    hex(&Sha256::digest(config))
}

/// The files of a distribution kernel.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    place: PathBuf,
}

impl Distribution {
    /// Returns the distribution kernel in `place` if its `config` has this digest.
    pub(super) fn with_config(place: &Path, digest: &str) -> Option<Distribution> {
        let found = Distribution { place: place.to_owned() };
        fs::read(found.config()).is_ok_and(|config| digest_of(&config) == digest).then_some(found)
    }

    pub(super) fn place(&self) -> &PathBuf {
        &self.place
    }

    pub(super) fn image(&self) -> PathBuf {
        self.place.join("Image")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.place.join("config")
    }

    /// The vmlinux of its debug package, if it was fetched.
    pub(super) fn vmlinux(&self) -> Option<PathBuf> {
        Some(self.place.join(VMLINUX)).filter(|vmlinux| vmlinux.is_file())
    }

    /// The file for the functions that were read from a guest.
    pub(super) fn symbols(&self) -> PathBuf {
        self.place.join("System.map")
    }

    pub(super) fn modules(&self) -> Result<Vec<PathBuf>> {
        modules::list(&self.place.join("modules"))
    }

    /// The modules for the machine's devices, in load order.
    pub(super) fn boot_modules(&self) -> Result<Vec<PathBuf>> {
        sorted(&self.place.join("boot"))
    }

    /// The modules for the machine's devices and for mounting a userland, in load order. `key` is that of
    /// the packages.
    pub(super) fn userland_modules(&self, cache: &Cache, key: &str) -> Result<Vec<PathBuf>> {
        let key = KeyBuilder::default().input("kernel", key).finish("userland");
        let fill = |into: &Path| {
            modules::for_userland(&Config::load(&self.config())?, &self.place.join("modules"), into)
        };
        sorted(&cache.entry("boot-modules", &key, || {}, fill)?)
    }

    /// Stores the kernel's own functions from a guest's /proc/kallsyms.
    pub(super) fn learn(&self, kallsyms: &str) -> Result<()> {
        let own: String = kallsyms.split_inclusive('\n').filter(|line| !line.contains('\t')).collect();
        let functions = functions_in(&own);
        let hidden = functions.lines().all(|line| line.starts_with("0000000000000000 "));
        ensure!(!hidden, "the guest's /proc/kallsyms has no addresses of functions");
        write_whole(&self.symbols(), &functions)
    }
}

/// Returns the modules in a directory, in the order of their names.
fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = files.filter(|path| path.extension() == Some("ko".as_ref())).collect();
    paths.sort();
    Ok(paths)
}

/// Returns the kernel that `spec` describes; its packages are downloaded unless they are in the cache.
pub(super) fn obtain(lab: &Lab, spec: KernelSpec) -> Result<Kernel> {
    let (packages, key) = resolved(lab, &spec)?;
    let waiting = || {
        lab.progress.line(format!("waiting for another process that is fetching the kernel {}", spec.name));
    };
    let mut made = false;
    let make = |into: &Path| {
        made = true;
        fill(lab, &spec, &packages, into)
    };
    let lease = lab
        .cache
        .leased_entry("builds", &key, waiting, make)
        .with_context(|| format!("cannot obtain the kernel `{}`", spec.name))?;
    if made {
        lab.cache.make_room(&lab.progress);
    }
    let place = lease.path().to_owned();
    let directory = headers::directory(&place.join("packages"))?;
    let source = headers::source(&directory)?;
    let config_path = place.join("config");
    let config = Config::load(&config_path)?;
    let toolchain = toolchain::versions(lab, Compiler::of(&config))?;
    let of_modules = KeyBuilder::default().input("kernel", key.as_str()).input("toolchain", toolchain);
    let key = of_modules.finish(&spec.name).as_str().to_owned();
    let version = version_of(&source)?;
    Ok(Kernel {
        name: spec.name.clone(),
        version,
        source_version: packages.version,
        source,
        release: packages.release,
        config_hash: digest_of(&fs::read(&config_path)?),
        modules_key: key.clone(),
        key,
        config,
        spec: spec.of_version(&version),
        cache: lab.cache.clone(),
        _leases: vec![lease],
        functions: Arc::default(),
        types: Arc::default(),
        probeable: Arc::default(),
        directory,
        distribution: Some(Distribution { place }),
    })
}

/// Returns the cache entry of the kernel that [`obtain`] returns; only versions are looked up.
pub(super) fn identify(lab: &Lab, spec: &KernelSpec) -> Result<Key> {
    Ok(resolved(lab, spec)?.1)
}

fn resolved(lab: &Lab, spec: &KernelSpec) -> Result<(Packages, Key)> {
    let SourceSpec::DebianImage { suite, package, version } = &spec.source else {
        bail!("the kernel `{}` is built from source, expected a debian-image", spec.name);
    };
    let look_up = || packages::look_up(&Apt::open(lab)?, suite, package, version.as_ref());
    let known = resolve(&lab.cache, &spec.source, look_up)
        .with_context(|| format!("cannot determine the packages of the kernel `{}`", spec.name))?;
    let kept = remembered(&lab.cache, &spec.source)?;
    let packages = Packages::parse(&known)
        .with_context(|| format!("corrupt file: remove `{}` and try again", kept.display()))?;
    let key = KeyBuilder::default().input("layout", LAYOUT).input("image", &packages.image);
    let key = key.input("version", &packages.version);
    let key = if spec.debug_package { key.input("with", VMLINUX) } else { key };
    let key = key.finish(&format!("{}-{}", spec.name, packages.version));
    Ok((packages, key))
}

fn fill(lab: &Lab, spec: &KernelSpec, packages: &Packages, into: &Path) -> Result<()> {
    let SourceSpec::DebianImage { suite, .. } = &spec.source else { return Ok(()) };
    let apt = Apt::open(lab)?;
    let (debs, tree, libc) = (into.join("debs"), into.join("packages"), into.join("libc6"));
    fs::create_dir(&debs)?;
    let fetched = packages.fetch(&apt, suite, &debs).or_else(|error| {
        forget(&lab.cache, &spec.source)?;
        Err(error)
    })?;
    if spec.debug_package {
        let debug = packages.fetch_debug(&apt, suite, &debs)?;
        let places = ["boot/vmlinux-", "lib/modules/"]
            .map(|place| format!("./usr/lib/debug/{place}{}", packages.release));
        let [linked, beside] = places;
        deb::unpack_one(&debug.deb, &[&linked, &format!("{beside}/vmlinux")], &into.join(VMLINUX))?;
        fs::remove_file(&debug.deb)?;
    }
    let _task = lab.progress.task(format!("unpacking {}", packages.image), None);
    for package in &fetched.of_kernel {
        deb::unpack(&package.deb, &tree)?;
    }
    deb::unpack(&fetched.libc.deb, &libc)?;
    fs::remove_dir_all(&debs)?;
    let release = &packages.release;
    let found = |places: [String; 2]| {
        let mut paths = places.iter().map(|place| tree.join(place));
        let lacking = || format!("`{}` has none of {}", packages.image, places.join(", "));
        paths.find(|path| path.exists()).with_context(lacking)
    };
    // Since 7.0 both files are next to the modules.
    let beside = |name: &str| [format!("boot/{name}-{release}"), format!("usr/lib/modules/{release}/{name}")];
    compressed::image(&found(beside("vmlinuz"))?, &into.join("Image"))?;
    fs::rename(found(beside("config"))?, into.join("config"))?;
    let modules = ["usr/lib", "lib"].map(|lib| format!("{lib}/modules/{release}"));
    fs::rename(found(modules)?, into.join("modules"))?;
    headers::prepare(&tree, &libc, &into.join("libc"))?;
    fs::remove_dir_all(&libc)?;
    for path in UNUSED.iter().flat_map(|unused| matching(&tree, unused)) {
        fs::remove_dir_all(&path)?;
    }
    modules::for_boot(&Config::load(&into.join("config"))?, &into.join("modules"), &into.join("boot"))
}

/// Returns the directories below `tree` that match `pattern`, whose last component may end in `*`.
fn matching(tree: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = tree.join(pattern);
    let Some(beginning) = pattern.strip_suffix('*').and(path.file_name()) else {
        return Some(path).filter(|path| path.is_dir()).into_iter().collect();
    };
    let beginning = beginning.to_string_lossy().trim_end_matches('*').to_owned();
    let entries = path.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten();
    let begins = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&beginning);
    entries.filter(begins).map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_learnt_without_those_of_modules() {
        let directory = tempfile::tempdir().unwrap();
        let distribution = Distribution { place: directory.path().to_owned() };
        let hidden = "0000000000000000 T _text\n0000000000000000 t f\n";
        assert!(distribution.learn(hidden).unwrap_err().to_string().contains("no addresses"));
        assert!(distribution.learn("").is_err());
        let told = "ffff800080000000 T _text\nffff800080100000 D data\nffff80007a000000 t f\t[virtio_pci]\n";
        distribution.learn(told).unwrap();
        assert_eq!(fs::read_to_string(distribution.symbols()).unwrap(), "ffff800080000000 T _text\n");
    }

    #[test]
    fn directories_are_found_by_how_their_names_begin() {
        let tree = tempfile::tempdir().unwrap();
        for name in ["usr/lib/linux-image-6.1.0-50-arm64", "usr/lib/linux-kbuild-6.1", "boot"] {
            fs::create_dir_all(tree.path().join(name)).unwrap();
        }
        let check = |pattern: &str, expect: &[&str]| {
            let expect: Vec<_> = expect.iter().map(|name| tree.path().join(name)).collect();
            assert_eq!(matching(tree.path(), pattern), expect);
        };
        check("boot", &["boot"]);
        check("usr/share", &[]);
        check("usr/lib/linux-image-*", &["usr/lib/linux-image-6.1.0-50-arm64"]);
    }
}
