//! Builds a kernel out of tree, in the cache; or finds that it is there.
//!
//! `builds/KEY/` has make's output directory, its log and, once all is well, a stamp. KEY is a
//! digest of source, fragments and toolchain, known before make ever runs: what was built is
//! found without it. A build that was broken off goes on where it stopped. A working tree has one
//! directory for all its states, so that a change costs what kbuild rebuilds for it.

use super::{
    Kernel, KernelVersion,
    config::{self, Asked, Config},
    kconfig::Kconfig,
    make::{Follower, complaints, make},
    patches::{self, Patch},
    shipped,
    source::{self, Source},
    spec::{KernelSpec, SourceSpec},
    stamp::{Output, Stamp},
    toolchain,
};
use crate::{
    cache::{Cache, Key, KeyBuilder, hex},
    host::interrupt::{self, Interrupted},
    progress::Progress,
};
use anyhow::{Context, Error, Result, bail};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread::available_parallelism,
    time::Instant,
};

/// Raised when builds of the same key are laid out or made in another way.
const LAYOUT: &str = "1";

/// How many objects a first build is expected to have.
const OBJECTS_EXPECTED: u64 = 900;

/// What has to be there after make, relative to the build directory, beside the modules.
const OUTPUTS: [&str; 6] =
    ["arch/arm64/boot/Image", "vmlinux", "System.map", ".config", "Module.symvers", "modules.order"];

/// The kernel `name`, built if it is not in the cache as its files below `root`, the checkout,
/// describe it. `tree` is built instead of the source it names.
pub fn build(
    cache: &Cache,
    root: &Path,
    name: &str,
    tree: Option<&Path>,
    progress: &Progress,
) -> Result<Kernel> {
    let mut spec = KernelSpec::load(root, name)?;
    match tree {
        Some(_) if matches!(spec.source, SourceSpec::DebianImage { .. }) => bail!(
            "the kernel `{name}` is as it was shipped and has no fragments to build a tree with; name \
             another one, such as `{}`",
            super::DEFAULT
        ),
        Some(tree) => {
            // Nothing is known of that one.
            spec.bugs.clear();
            of_source(cache, root, spec, &SourceSpec::Tree(std::path::absolute(tree)?), progress)
        }
        None => build_spec(cache, root, spec, progress),
    }
}

/// The same of exactly this version of its Debian package, or this commit, whatever its suite or branch
/// stands for by now. Other sources are what they are.
pub fn build_exactly(
    cache: &Cache,
    root: &Path,
    name: &str,
    version: &str,
    progress: &Progress,
) -> Result<Kernel> {
    let mut spec = KernelSpec::load(root, name)?;
    spec.source = spec.source.exactly(version).map_err(Error::msg)?;
    build_spec(cache, root, spec, progress)
}

/// The kernel that `spec` describes, which may differ from the file of its name; as [`build`].
pub fn build_spec(cache: &Cache, root: &Path, spec: KernelSpec, progress: &Progress) -> Result<Kernel> {
    if matches!(spec.source, SourceSpec::DebianImage { .. }) {
        return shipped::obtain(cache, spec, progress);
    }
    let wanted = spec.source.clone();
    of_source(cache, root, spec, &wanted, progress)
}

/// What [`build_exactly`] builds this kernel again from: the version of its package or its whole commit.
pub fn exact_version(cache: &Cache, kernel: &Kernel) -> Result<String> {
    let known = source::known(cache, &kernel.spec.source)?;
    // A commit is shown shortened.
    let known = known.filter(|known| known.starts_with(&kernel.source_version));
    Ok(known.unwrap_or_else(|| kernel.source_version.clone()))
}

fn of_source(
    cache: &Cache,
    root: &Path,
    spec: KernelSpec,
    wanted: &SourceSpec,
    progress: &Progress,
) -> Result<Kernel> {
    let name = spec.name.as_str();
    let patches = Patch::load_all(root, &spec.patches)?;
    let source = patches::obtain(cache, root, wanted, &patches, progress)
        .with_context(|| format!("cannot obtain the source of the kernel `{name}`"))?;
    let asked = config::ask(root, &spec.fragments, &source.version)?;
    let toolchain = toolchain::versions(cache)?;
    let key = key(name, &source.key, &source.version, &asked, &toolchain);
    let place = if source.mutable {
        let tree = source.directory.as_os_str().as_encoded_bytes();
        let place = KeyBuilder::default().input("layout", LAYOUT).input("tree", tree);
        place.input("toolchain", &toolchain).finish(&format!("{name}-tree"))
    } else {
        key.clone()
    };
    let build = Build {
        cache,
        progress,
        spec,
        source,
        asked,
        key,
        place: cache.directory("builds")?.join(place.as_str()),
    };
    build.found_or_made(&place)
}

/// What a kernel's build is called in the cache, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kernel's name.
    pub name: String,
    /// Its build, below `builds`.
    pub key: String,
    /// Its source, below `sources`; another one may share it. One that was shipped has none.
    pub source: Option<String>,
    /// The file in which is kept what its suite or branch stood for; not every source has one.
    pub remembered: PathBuf,
}

/// What the build of the kernel `name` is called, whether it is there or not. Where the source is a
/// Debian package, this needs its version and not the package.
pub fn identify(cache: &Cache, root: &Path, name: &str, progress: &Progress) -> Result<Identity> {
    let spec = KernelSpec::load(root, name)?;
    if matches!(spec.source, SourceSpec::DebianImage { .. }) {
        return shipped::identify(cache, &spec, progress);
    }
    let patches = Patch::load_all(root, &spec.patches)?;
    let source = patches::identify(cache, root, &spec.source, &patches, progress)
        .with_context(|| format!("cannot tell the source of the kernel `{name}`"))?;
    let asked = config::ask(root, &spec.fragments, &source.version)?;
    let key = key(name, &source.key, &source.version, &asked, &toolchain::versions(cache)?);
    let remembered = source::remembered(cache, &spec.source)?;
    Ok(Identity { name: name.to_owned(), key: key.as_str().to_owned(), source: Some(source.key), remembered })
}

fn key(name: &str, source: &str, version: &KernelVersion, asked: &[Asked], toolchain: &str) -> Key {
    KeyBuilder::default()
        .input("layout", LAYOUT)
        .input("source", source)
        .input("config", config::allconfig(asked))
        .input("toolchain", toolchain)
        .finish(&format!("{name}-{version}"))
}

/// Forgets what the suite or branch of the kernel `name` stood for: the next build looks again.
pub fn forget_source(cache: &Cache, root: &Path, name: &str) -> Result<()> {
    source::forget(cache, &KernelSpec::load(root, name)?.source)
}

struct Build<'a> {
    cache: &'a Cache,
    progress: &'a Progress,
    spec: KernelSpec,
    source: Source,
    asked: Vec<Asked>,
    key: Key,
    place: PathBuf,
}

impl Build<'_> {
    fn directory(&self) -> PathBuf {
        self.place.join("output")
    }

    fn stamp(&self) -> PathBuf {
        self.place.join("stamp.json")
    }

    fn log(&self) -> PathBuf {
        self.place.join("make.log")
    }

    fn found_or_made(self, place: &Key) -> Result<Kernel> {
        if let Some(stamp) = self.found() {
            return self.kernel(stamp);
        }
        let waiting =
            || self.progress.line(format!("another lab is building the kernel {}; waiting", self.spec.name));
        let _lock = self.cache.lock(&format!("builds-{}", place.as_str()), waiting)?;
        match self.found() {
            Some(stamp) => self.kernel(stamp),
            None => {
                let stamp = self.make()?;
                self.kernel(stamp)
            }
        }
    }

    fn found(&self) -> Option<Stamp> {
        let stamp = Stamp::load(&self.stamp())?;
        (stamp.key == self.key.as_str() && stamp.is_whole(&self.directory())).then_some(stamp)
    }

    fn kernel(self, stamp: Stamp) -> Result<Kernel> {
        let directory = self.directory();
        Ok(Kernel {
            name: self.spec.name.clone(),
            version: self.source.version,
            source_version: self.source.label,
            source: self.source.directory,
            release: stamp.release,
            config_hash: stamp.config_hash,
            key: self.key.as_str().to_owned(),
            config: Config::load(&directory.join(".config"))?,
            spec: self.spec,
            cache: self.cache.root().to_owned(),
            functions: Arc::default(),
            types: Arc::default(),
            probeable: Arc::default(),
            shipped: None,
            directory,
        })
    }

    fn make(&self) -> Result<Stamp> {
        let directory = self.directory();
        fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
        let earlier = Stamp::load(&self.stamp());
        if let Some(stamp) = &earlier {
            stamp.remove_damaged(&directory);
            fs::remove_file(self.stamp())?;
        }
        if let Err(error) = self.configure() {
            // Nothing was compiled here, and a corrected configuration gets another key.
            if !self.log().exists() {
                let _ = fs::remove_dir_all(&self.place);
            }
            return Err(error);
        }
        let before = if earlier.is_none() { objects_in(&directory) } else { 0 };
        let started = Instant::now();
        let objects = self.compile(before)?;
        let seconds = started.elapsed().as_secs_f64();
        // What was left by a broken-off build is known only roughly.
        if earlier.is_none() && before == 0 && objects > 0 {
            source::write_atomically(&self.expected_path()?, &format!("{}\n", before + objects))?;
        }
        let stamp = self.stamp_of(seconds, before + objects).with_context(|| self.advice())?;
        stamp.store(&self.stamp())?;
        Ok(stamp)
    }

    /// allnoconfig plus what the fragments ask for, all of which has to come out.
    fn configure(&self) -> Result<()> {
        let task = self.progress.task(format!("configuring the kernel {}", self.spec.name), None);
        let allconfig = self.place.join("asked.config");
        source::write_atomically(&allconfig, &config::allconfig(&self.asked))?;
        let log = self.place.join("configure.log");
        make(self.cache.root(), &self.source.directory)
            .arg(output_argument(&self.directory()))
            .arg("allnoconfig")
            .env("KCONFIG_ALLCONFIG", &allconfig)
            .log(&log)
            .run()
            .map_err(|error| self.explain(error, &log, "cannot configure"))?;
        let config = Config::load(&self.directory().join(".config"))?;
        let misses = config.misses(&self.asked);
        if misses.is_empty() {
            return Ok(());
        }
        task.note("reading Kconfig, to say why a symbol is missing");
        let kconfig = Kconfig::load(&self.source.directory);
        let mut message = format!(
            "the kernel `{}` ({}) cannot be configured as asked: {} of {} symbols did not come out",
            self.spec.name,
            self.source.version,
            misses.len(),
            self.asked.len()
        );
        for asked in misses {
            let why = match &kconfig {
                Ok(kconfig) => kconfig.explain(asked, &config),
                Err(error) => format!("no reason known: {error}"),
            };
            write!(message, "\n    {}: {asked}: {why}", asked.origin)?;
        }
        bail!(message);
    }

    /// Runs make, and gives back how many objects it compiled.
    fn compile(&self, before: u64) -> Result<u64> {
        let expected = self.expected_objects().max(before);
        let what = format!("building the kernel {} ({})", self.spec.name, self.source.version);
        let task = self.progress.task(what, Some(expected));
        let jobs = available_parallelism().map_or(1, |jobs| jobs.get());
        let log = self.log();
        // A log from earlier would be counted until make starts its own.
        let _ = fs::remove_file(&log);
        let mut follower = Follower::new(&log);
        make(self.cache.root(), &self.source.directory)
            .arg(output_argument(&self.directory()))
            .arg(format!("-j{jobs}"))
            .args(["Image", "modules"])
            .log(&log)
            .run_watched(|| follower.show(&task, before, expected))
            .map_err(|error| self.explain(error, &log, "cannot build"))?;
        follower.show(&task, before, expected);
        Ok(follower.objects)
    }

    fn stamp_of(&self, seconds: f64, objects: u64) -> Result<Stamp> {
        let directory = self.directory();
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).with_context(|| format!("make left no `{}`", path.display()))
        };
        let mut outputs = OUTPUTS.map(str::to_owned).to_vec();
        outputs.extend(super::modules_in(&read("modules.order")?));
        let outputs = outputs.iter().map(|path| Output::of(&directory, path)).collect::<Result<_>>()?;
        Ok(Stamp {
            key: self.key.as_str().to_owned(),
            release: read("include/config/kernel.release")?.trim().to_owned(),
            config_hash: hex(&Sha256::digest(read(".config")?)),
            seconds,
            objects,
            outputs,
        })
    }

    /// make's failure, with what the compiler said in front of it.
    fn explain(&self, error: anyhow::Error, log: &Path, operation: &str) -> anyhow::Error {
        if error.is::<Interrupted>() || interrupt::check().is_err() {
            return Interrupted.into();
        }
        let complaints = complaints(&String::from_utf8_lossy(&fs::read(log).unwrap_or_default()));
        let next = match complaints.contains("No space left on device") {
            true => format!(
                "free some space for `{}`; the build goes on where it stopped",
                self.cache.root().display()
            ),
            false => self.advice(),
        };
        let complaints: String = complaints.lines().map(|line| format!("\n    {line}")).collect();
        error.context(format!("{operation} the kernel `{}`: {next}{complaints}", self.spec.name))
    }

    fn advice(&self) -> String {
        format!("if nothing is wrong with the source, remove `{}` and run it again", self.place.display())
    }

    /// Where the number of objects of the last whole build is kept.
    fn expected_path(&self) -> Result<PathBuf> {
        Ok(self.cache.directory("builds")?.join(format!("{}.objects", self.spec.name)))
    }

    fn expected_objects(&self) -> u64 {
        let known = self.expected_path().ok().and_then(|path| fs::read_to_string(path).ok());
        known.and_then(|text| text.trim().parse().ok()).unwrap_or(OBJECTS_EXPECTED)
    }
}

fn output_argument(directory: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from("O=");
    argument.push(directory);
    argument
}

/// How many objects are there from a build that was broken off.
fn objects_in(directory: &Path) -> u64 {
    let mut count = 0;
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            // `scripts` and `tools` have the host's own.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !matches!(entry.file_name().to_str(), Some("scripts" | "tools")) {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "o") {
                count += 1;
            }
        }
    }
    count
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
