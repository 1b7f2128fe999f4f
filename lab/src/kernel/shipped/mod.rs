//! A kernel as Debian ships it: image, modules and headers of its packages, unpacked in the cache.
//! Nothing of it is built.
//!
//! `builds/KEY/` has the `Image`, its `config`, its `modules`, those of them that the lab's machine
//! cannot boot without in `boot` in the order in which they are loaded, and `packages`, against whose
//! headers modules are built. There is no vmlinux and no source: what needs one of them is not to be
//! had of such a kernel. `System.map`, which the package has not, is written when a guest was asked.

mod compressed;
mod headers;
mod modules;
mod packages;

pub(super) use headers::MAKE_ARGUMENTS;
pub(crate) use modules::unpack as unpack_module;

use super::{
    Identity, Kernel,
    config::Config,
    source::{self, remembered, resolve, version_of, write_atomically},
    spec::{KernelSpec, SourceSpec},
    toolchain,
};
use crate::{
    cache::{Cache, Key, KeyBuilder, hex},
    host::{apt::Apt, deb},
    progress::Progress,
};
use anyhow::{Context, Result, bail, ensure};
use packages::Packages;
use sha2::{Digest, Sha256};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Raised when packages are laid out in another way.
const LAYOUT: &str = "2";

/// What of the packages serves nobody here.
const UNUSED: [&str; 3] = ["boot", "usr/share", "usr/lib/linux-image-*"];

/// What a result knows a configuration by.
fn digest_of(config: &[u8]) -> String {
    hex(&Sha256::digest(config))
}

/// What of a shipped kernel is where.
#[derive(Clone, Debug)]
pub(super) struct Shipped {
    place: PathBuf,
}

impl Shipped {
    /// Whether this is the place of a shipped kernel whose `config` has this digest.
    pub(super) fn has_config(place: &Path, digest: &str) -> bool {
        let config = Shipped { place: place.to_owned() }.config();
        fs::read(config).is_ok_and(|config| digest_of(&config) == digest)
    }

    pub(super) fn image(&self) -> PathBuf {
        self.place.join("Image")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.place.join("config")
    }

    /// Where a guest's answer to what its functions are is kept.
    pub(super) fn symbols(&self) -> PathBuf {
        self.place.join("System.map")
    }

    pub(super) fn modules(&self) -> Result<Vec<PathBuf>> {
        modules::list(&self.place.join("modules"))
    }

    /// What the machine's devices need, in the order in which it is loaded.
    pub(super) fn boot_modules(&self) -> Result<Vec<PathBuf>> {
        let boot = self.place.join("boot");
        let entries = fs::read_dir(&boot).with_context(|| format!("cannot list `{}`", boot.display()))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        Ok(paths)
    }

    /// Keeps the functions of what a guest has in its /proc/kallsyms.
    pub(super) fn learn(&self, kallsyms: &str) -> Result<()> {
        let own: String = kallsyms.split_inclusive('\n').filter(|line| !line.contains('\t')).collect();
        let functions = super::functions_in(&own);
        let hidden = functions.lines().all(|line| line.starts_with("0000000000000000 "));
        ensure!(!hidden, "the guest's /proc/kallsyms has no addresses of functions");
        write_atomically(&self.symbols(), &functions)
    }
}

/// The kernel that `spec` describes, its packages downloaded if they are not in the cache.
pub(super) fn obtain(cache: &Cache, spec: KernelSpec, progress: &Progress) -> Result<Kernel> {
    let (packages, key) = resolved(cache, &spec, progress)?;
    let waiting = || progress.line(format!("another lab is fetching the kernel {}; waiting", spec.name));
    let place = cache
        .entry("builds", &key, waiting, |into| fill(cache, &spec, &packages, into, progress))
        .with_context(|| format!("cannot obtain the kernel `{}`", spec.name))?;
    let directory = headers::directory(&place.join("packages"))?;
    let source = headers::source(&directory)?;
    let config_path = place.join("config");
    let config =
        fs::read(&config_path).with_context(|| format!("cannot read `{}`", config_path.display()))?;
    let toolchain = toolchain::versions(cache)?;
    let of_modules = KeyBuilder::default().input("kernel", key.as_str()).input("toolchain", toolchain);
    Ok(Kernel {
        name: spec.name.clone(),
        version: version_of(&source)?,
        source_version: packages.version,
        source,
        release: packages.release,
        config_hash: digest_of(&config),
        key: of_modules.finish(&spec.name).as_str().to_owned(),
        config: Config::load(&config_path)?,
        spec,
        cache: cache.root().to_owned(),
        functions: Arc::default(),
        types: Arc::default(),
        probeable: Arc::default(),
        directory,
        shipped: Some(Shipped { place }),
    })
}

/// What [`obtain`] would give, of which only versions are looked up.
pub(super) fn identify(cache: &Cache, spec: &KernelSpec, progress: &Progress) -> Result<Identity> {
    let (_, key) = resolved(cache, spec, progress)?;
    Ok(Identity {
        name: spec.name.clone(),
        key: key.as_str().to_owned(),
        source: None,
        remembered: remembered(cache, &spec.source)?,
    })
}

fn resolved(cache: &Cache, spec: &KernelSpec, progress: &Progress) -> Result<(Packages, Key)> {
    let SourceSpec::DebianImage { suite, package, version } = &spec.source else {
        bail!("the kernel `{}` is built, and not shipped", spec.name);
    };
    let look_up = || packages::look_up(&Apt::open(cache, progress)?, suite, package, version.as_ref());
    let known = resolve(cache, &spec.source, look_up)
        .with_context(|| format!("cannot tell the packages of the kernel `{}`", spec.name))?;
    let kept = remembered(cache, &spec.source)?;
    let packages = Packages::parse(&known)
        .with_context(|| format!("a damaged file: remove `{}` and run it again", kept.display()))?;
    let key = KeyBuilder::default().input("layout", LAYOUT).input("image", &packages.image);
    let key = key.input("version", &packages.version).finish(&format!("{}-{}", spec.name, packages.version));
    Ok((packages, key))
}

fn fill(
    cache: &Cache,
    spec: &KernelSpec,
    packages: &Packages,
    into: &Path,
    progress: &Progress,
) -> Result<()> {
    let SourceSpec::DebianImage { suite, .. } = &spec.source else { return Ok(()) };
    let apt = Apt::open(cache, progress)?;
    let (debs, tree, libc) = (into.join("debs"), into.join("packages"), into.join("libc6"));
    fs::create_dir(&debs)?;
    let fetched = packages.fetch(&apt, suite, &debs).or_else(|error| {
        source::forget(cache, &spec.source)?;
        Err(error)
    })?;
    let _task = progress.task(format!("unpacking {}", packages.image), None);
    for package in &fetched.of_kernel {
        deb::unpack(&package.deb, &tree)?;
    }
    deb::unpack(&fetched.libc.deb, &libc)?;
    fs::remove_dir_all(&debs)?;
    let release = &packages.release;
    let found = |places: [String; 2]| {
        let mut paths = places.iter().map(|place| tree.join(place));
        let lacking = || format!("`{}` has neither of {}", packages.image, places.join(", "));
        paths.find(|path| path.exists()).with_context(lacking)
    };
    // Since 7.0 all of it is beside the modules.
    let beside = |name: &str| [format!("boot/{name}-{release}"), format!("usr/lib/modules/{release}/{name}")];
    compressed::image(&found(beside("vmlinuz"))?, &into.join("Image"))?;
    fs::rename(found(beside("config"))?, into.join("config"))?;
    let modules = ["usr/lib", "lib"].map(|lib| format!("{lib}/modules/{release}"));
    fs::rename(found(modules)?, into.join("modules"))?;
    headers::prepare(&tree, &libc, &into.join("libc"))?;
    fs::remove_dir_all(&libc)?;
    for path in UNUSED.iter().flat_map(|unused| matching(&tree, unused)) {
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    modules::for_boot(&Config::load(&into.join("config"))?, &into.join("modules"), &into.join("boot"))
}

/// The directories below `tree` that `pattern` names, whose last part may end in `*`.
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
        let shipped = Shipped { place: directory.path().to_owned() };
        let hidden = "0000000000000000 T _text\n0000000000000000 t f\n";
        assert!(shipped.learn(hidden).unwrap_err().to_string().contains("no addresses"));
        assert!(shipped.learn("").is_err());
        let told = "ffff800080000000 T _text\nffff800080100000 D data\nffff80007a000000 t f\t[virtio_pci]\n";
        shipped.learn(told).unwrap();
        assert_eq!(fs::read_to_string(shipped.symbols()).unwrap(), "ffff800080000000 T _text\n");
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
