//! Configures and compiles a kernel by kbuild, in a directory of the cache.
//!
//! `builds/KEY/` has make's output directory, its log and, after success, a stamp. An interrupted build
//! resumes where it stopped.

use super::{
    Kernel,
    config::{self, Config, RequestedSymbol},
    kconfig::Kconfig,
    lists::modules_in,
    make::{Follower, complaints, make},
    source_tree::Source,
    spec::KernelSpec,
    stamp::{Output, Stamp},
    working_tree::{files_digest, files_of},
};
use crate::{
    cache::{Key, KeyBuilder, Lease},
    context::Lab,
    host::{
        beneath::read_beneath,
        confine::Reach,
        debian_rust::{self, FOR_KERNELS},
        interrupt::{self, Interrupted},
        outage::is_outage,
        process::Tool,
        whole::write_whole,
    },
    words::hex,
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    thread::available_parallelism,
    time::{Duration, Instant},
};

/// The number of objects that a first build is expected to compile.
const OBJECTS_EXPECTED: u64 = 900;

/// The files that make must produce, besides the modules, relative to the build directory.
const OUTPUTS: [&str; 6] =
    ["arch/arm64/boot/Image", "vmlinux", "System.map", CONFIG, EXPORTS, "modules.order"];

/// The final configuration.
const CONFIG: &str = ".config";

/// The symbols that the kernel exports. Each build writes it again.
const EXPORTS: &str = "Module.symvers";

/// The other files, besides headers, that kbuild makes and the build of a module reads.
const READ_BY_MODULES: [&str; 2] = ["include/config/auto.conf", "scripts/module.lds"];

/// The directories of the headers that kbuild makes.
const GENERATED_HEADERS: [&str; 2] = ["include/generated", "arch/arm64/include/generated"];

/// The lists of modules of an allmodconfig have 500 kB.
const LIST_LIMIT_BYTES: u64 = 16 << 20;

/// The time that a tool may take to write a file.
const UNFINISHED: Duration = Duration::from_secs(2);

/// A kernel to build.
pub(super) struct Build<'a> {
    pub(super) lab: &'a Lab,
    pub(super) spec: KernelSpec,
    pub(super) source: Source,
    /// The symbols that its fragments request.
    pub(super) asked: Vec<RequestedSymbol>,
    /// The key of all inputs.
    pub(super) key: Key,
    /// Its directory in `builds/`.
    pub(super) place: PathBuf,
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

    /// Returns the kernel, made unless its directory has it. `place` names the directory.
    pub(super) fn found_or_made(self, place: &Key) -> Result<Kernel> {
        if let Some((stamp, lease)) = self.found()? {
            return self.kernel(stamp, lease);
        }
        let Build { lab, spec, .. } = &self;
        let waiting = || {
            lab.progress
                .line(format!("waiting for another process that is building the kernel {}", spec.name));
        };
        let _lock = lab.cache.lock(&format!("builds-{}", place.as_str()), waiting)?;
        if let Some((stamp, lease)) = self.found()? {
            return self.kernel(stamp, lease);
        }
        let lease = self.leased()?;
        let is_new = !self.stamp().exists();
        let stamp = self.make()?;
        if is_new {
            lab.cache.make_room(&lab.progress);
        }
        self.kernel(stamp, lease)
    }

    /// Returns the kernel if its directory has it.
    pub(super) fn if_found(self) -> Result<Option<Kernel>> {
        self.found()?.map(|(stamp, lease)| self.kernel(stamp, lease)).transpose()
    }

    fn found(&self) -> Result<Option<(Stamp, Lease)>> {
        // Leased before it is read: afterwards, it is not evicted.
        let Some(lease) = Lease::take(&self.place)? else { return Ok(None) };
        let stamp = Stamp::load(&self.stamp());
        let is_current = |stamp: &Stamp| stamp.key == self.key.as_str() && stamp.is_whole(&self.directory());
        Ok(stamp.filter(is_current).map(|stamp| (stamp, lease)))
    }

    /// Returns a lease of the directory, creating it if necessary.
    fn leased(&self) -> Result<Lease> {
        loop {
            fs::create_dir_all(&self.place)?;
            // Another process may evict what an interrupted build left in it.
            if let Some(lease) = Lease::take(&self.place)? {
                return Ok(lease);
            }
        }
    }

    fn kernel(self, stamp: Stamp, lease: Lease) -> Result<Kernel> {
        let directory = self.directory();
        let config = Config::load(&directory.join(CONFIG))?;
        let modules_key = self.modules_key(&config)?;
        Ok(Kernel {
            name: self.spec.name.clone(),
            version: self.source.version,
            source_version: self.source.label,
            source: self.source.directory,
            release: stamp.release,
            config_hash: stamp.config_hash,
            key: self.key.as_str().to_owned(),
            modules_key,
            config,
            spec: self.spec.of_version(&self.source.version),
            cache: self.lab.cache.clone(),
            _leases: [lease].into_iter().chain(self.source.lease).collect(),
            functions: Arc::default(),
            types: Arc::default(),
            probeable: Arc::default(),
            distribution: None,
            directory,
        })
    }

    /// Returns the key of modules for this kernel, which is built.
    fn modules_key(&self, config: &Config) -> Result<String> {
        let headers = match &self.source.headers {
            // The types of a module are numbered after those of vmlinux.
            Some(headers) if !config.is_set("DEBUG_INFO_BTF_MODULES") => headers,
            _ => return Ok(self.key.as_str().to_owned()),
        };
        let directory = self.directory();
        let made = |names: &[&str]| -> Vec<PathBuf> {
            // Not every version makes each.
            names.iter().map(|name| directory.join(name)).filter(|path| path.exists()).collect()
        };
        let mut read = made(&READ_BY_MODULES);
        for generated in made(&GENERATED_HEADERS) {
            read.extend(files_of(&generated)?);
        }
        let key = KeyBuilder::default().input("place", self.place.as_os_str().as_encoded_bytes());
        let key = key.input("headers", headers).input("generated", files_digest(read)?);
        let key = key.input("exports", read_beneath(&directory, EXPORTS, LIST_LIMIT_BYTES)?);
        Ok(key.finish(&self.spec.name).as_str().to_owned())
    }

    /// Returns a digest of what the kernel is configured from.
    fn configured_from(&self) -> String {
        let source = self.source.headers.as_ref().unwrap_or(&self.source.key);
        let key = KeyBuilder::default().input("asked", config::allconfig(&self.asked));
        key.input("source", source).finish("config").as_str().to_owned()
    }

    /// Exists while make runs, and after make was killed.
    fn running(&self) -> PathBuf {
        self.place.join("running")
    }

    fn make(&self) -> Result<Stamp> {
        let directory = self.directory();
        fs::create_dir_all(&directory)?;
        let earlier = Stamp::load(&self.stamp());
        if let Some(stamp) = &earlier {
            stamp.remove_damaged(&directory);
            fs::remove_file(self.stamp())?;
        }
        if self.running().exists() {
            remove_unfinished(&directory)?;
        }
        let is_configured = earlier.as_ref().is_some_and(|stamp| self.is_configured(stamp));
        if !is_configured && let Err(error) = self.configure() {
            // Nothing was compiled here, and a corrected configuration gets a different key.
            if !self.log().exists() {
                let _ = fs::remove_dir_all(&self.place);
            }
            return Err(error);
        }
        let before = if earlier.is_none() { objects_in(&directory) } else { 0 };
        let started = Instant::now();
        let objects = self.compile(before)?;
        let seconds = started.elapsed().as_secs_f64();
        // After an interrupted build, the number of objects is only approximate.
        if earlier.is_none() && before == 0 && objects > 0 {
            write_whole(&self.expected_path()?, format!("{}\n", before + objects))?;
        }
        let stamp = self.stamp_of(seconds, before + objects).with_context(|| self.advice())?;
        stamp.store(&self.stamp())?;
        Ok(stamp)
    }

    /// Returns whether it was configured from the same before.
    fn is_configured(&self, earlier: &Stamp) -> bool {
        let config = read_beneath(&self.directory(), CONFIG, LIST_LIMIT_BYTES);
        earlier.configured == self.configured_from()
            && config.is_ok_and(|config| hex(&Sha256::digest(config)) == earlier.config_hash)
    }

    /// Configures allnoconfig plus the symbols of the fragments, all of which must be in the result.
    fn configure(&self) -> Result<()> {
        let task = self.lab.progress.task(format!("configuring the kernel {}", self.spec.name), None);
        let allconfig = self.place.join("asked.config");
        write_whole(&allconfig, config::allconfig(&self.asked))?;
        let log = self.place.join("configure.log");
        self.make_tool()?
            .arg("allnoconfig")
            .env("KCONFIG_ALLCONFIG", &allconfig)
            .log(&log)
            .run()
            .map_err(|error| self.explain(error, &log, "cannot configure"))?;
        let config = Config::load(&self.directory().join(CONFIG))?;
        let misses = config.misses(&self.asked);
        if misses.is_empty() {
            return Ok(());
        }
        task.note("reading Kconfig files, to explain missing symbols");
        let kconfig = Kconfig::load(&self.source.directory);
        let mut message = format!(
            "cannot configure the kernel `{}` ({}): {} of {} requested symbols are missing from the \
             final .config or have another value",
            self.spec.name,
            self.source.version,
            misses.len(),
            self.asked.len()
        );
        for asked in misses {
            let why = match &kconfig {
                Ok(kconfig) => kconfig.explain(asked, &config),
                Err(error) => format!("reason unknown: {error}"),
            };
            write!(message, "\n    {}: {asked}: {why}", asked.origin)?;
        }
        bail!(message);
    }

    /// Returns make in the source, which can only write to the build directory.
    fn make_tool(&self) -> Result<Tool> {
        let (source, output) = (&self.source.directory, self.directory());
        let mut reach = Reach::new(&output).reading([source, &self.place]);
        let mut rust_paths = Vec::new();
        if self.spec.rust {
            let rust = debian_rust::obtain(self.lab, &FOR_KERNELS)?;
            rust_paths.push(("RUSTC", rust.program("rustc")));
            rust_paths.push(("BINDGEN", rust.program("bindgen")));
            rust_paths.push(("RUST_LIB_SRC", rust.library_source()?));
            reach = reach.reading([&rust.directory]);
        }
        // Of several with the same name, the last one counts.
        let rust_paths = rust_paths.iter().map(|(name, path)| format!("{name}={}", path.display()));
        Ok(make(self.spec.compiler, source, reach).args(rust_paths).arg(output_argument(&output)))
    }

    /// Runs make and returns the number of objects it compiled.
    fn compile(&self, before: u64) -> Result<u64> {
        let expected = self.expected_objects().max(before);
        let what = format!("building the kernel {} ({})", self.spec.name, self.source.version);
        let task = self.lab.progress.task(what, Some(expected));
        let jobs = available_parallelism().map_or(1, |jobs| jobs.get());
        let log = self.log();
        // An earlier log would be counted until make starts its own.
        let _ = fs::remove_file(&log);
        let mut follower = Follower::new(&log);
        fs::write(self.running(), "")?;
        let made = self
            .make_tool()?
            .arg(format!("-j{jobs}"))
            .args(["Image", "modules"])
            .log(&log)
            .run_watched(|| follower.show(&task, before, expected));
        if interrupt::check().is_ok() {
            fs::remove_file(self.running())?;
        }
        made.map_err(|error| self.explain(error, &log, "cannot build"))?;
        follower.show(&task, before, expected);
        Ok(follower.objects)
    }

    fn stamp_of(&self, seconds: f64, objects: u64) -> Result<Stamp> {
        let directory = self.directory();
        let read = |name: &str| -> Result<String> {
            let bytes = read_beneath(&directory, name, LIST_LIMIT_BYTES);
            Ok(String::from_utf8(bytes.with_context(|| format!("make left no usable `{name}`"))?)?)
        };
        let mut outputs = OUTPUTS.map(str::to_owned).to_vec();
        outputs.extend(modules_in(&read("modules.order")?));
        let outputs = outputs.iter().map(|path| Output::of(&directory, path)).collect::<Result<_>>()?;
        Ok(Stamp {
            key: self.key.as_str().to_owned(),
            release: read("include/config/kernel.release")?.trim().to_owned(),
            config_hash: hex(&Sha256::digest(read(CONFIG)?)),
            configured: self.configured_from(),
            seconds,
            objects,
            outputs,
        })
    }

    /// Adds the compiler's errors and the next step to a failure of make.
    fn explain(&self, error: anyhow::Error, log: &Path, operation: &str) -> anyhow::Error {
        if error.is::<Interrupted>() || interrupt::check().is_err() {
            return Interrupted.into();
        }
        let complaints = complaints(&String::from_utf8_lossy(&fs::read(log).unwrap_or_default()));
        let next = match is_outage(&error) {
            true => format!(
                "free some space for `{}`; the build resumes where it stopped",
                self.lab.cache.root().display()
            ),
            false => self.advice(),
        };
        let complaints: String = complaints.lines().map(|line| format!("\n    {line}")).collect();
        error.context(format!("{operation} the kernel `{}`{complaints}\n    {next}", self.spec.name))
    }

    fn advice(&self) -> String {
        format!("if the source is intact, remove `{}` and try again", self.place.display())
    }

    /// The file with the number of objects of the last complete build.
    fn expected_path(&self) -> Result<PathBuf> {
        Ok(self.lab.cache.directory("builds")?.join(format!("{}.objects", self.spec.name)))
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

/// Removes the files that a killed build wrote last. make would take an incomplete one for up to date.
fn remove_unfinished(directory: &Path) -> Result<()> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let data = fs::symlink_metadata(entry.path())?;
            if data.is_dir() {
                directories.push(entry.path());
            } else {
                files.push((data.modified()?, entry.path()));
            }
        }
    }
    let newest = files.iter().map(|(modified, _)| *modified).max();
    let Some(from) = newest.and_then(|newest| newest.checked_sub(UNFINISHED)) else { return Ok(()) };
    files
        .iter()
        .filter(|(modified, _)| *modified >= from)
        .try_for_each(|(_, path)| Ok(fs::remove_file(path)?))
}

/// Counts the objects that an interrupted build left.
fn objects_in(directory: &Path) -> u64 {
    let mut count = 0;
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            // Objects in `scripts` and `tools` are for the host.
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
