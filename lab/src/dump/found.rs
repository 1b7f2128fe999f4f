//! A result → its dump, with the build of the kernel that it is of.
//!
//! The build is found by the digest of its configuration, which the result names, and is believed only
//! if its build id is the one in the dump: every address of another build would be wrong.

use super::Dump;
use crate::{
    cache::{Cache, hex},
    kernel::{FoundBuild, find_builds, module_name, was_shipped},
    machine::VMCORE,
    report::{KernelInfo, Results},
};
use anyhow::{Context, Result, bail};
use object::{
    LittleEndian as LE, Object, ReadCache,
    elf::FileHeader64,
    read::elf::{FileHeader, ProgramHeader},
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

/// A dump of a result.
#[derive(Clone, Debug)]
pub struct FoundDump {
    /// The dump, with its kernel and every module of the cache.
    pub dump: Dump,
    /// Its kernel, as the result names it.
    pub kernel: KernelInfo,
    /// The build of its kernel.
    pub build: FoundBuild,
    /// The directory of the scenario.
    pub directory: PathBuf,
}

/// The dump of the scenario whose files are in `directory`; of a whole run, that of the only one that
/// left a dump.
pub fn find(cache: &Cache, directory: &Path) -> Result<FoundDump> {
    let given = directory.canonicalize().with_context(|| format!("cannot open `{}`", directory.display()))?;
    let (directory, kernel) = result_of(&given)?;
    let vmcore = directory.join(VMCORE);
    let build = build_of(cache, &kernel, &vmcore)?;
    let modules = modules(cache, &build)?;
    Ok(FoundDump { dump: Dump { vmcore, vmlinux: build.vmlinux(), modules }, kernel, build, directory })
}

/// The directory of the scenario with the dump, and its kernel.
fn result_of(given: &Path) -> Result<(PathBuf, KernelInfo)> {
    let run = given.ancestors().find(|directory| directory.join("results.json").is_file());
    let Some(run) = run else {
        bail!("neither `{}` nor a directory above it has a `results.json`: it is no result", given.display());
    };
    let path = run.join("results.json");
    let json = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let results: Results =
        serde_json::from_slice(&json).with_context(|| format!("`{}` is damaged", path.display()))?;
    let below = given.strip_prefix(run).unwrap_or(Path::new(""));
    let of_given = results.scenarios.iter().filter(|one| match below == Path::new("") {
        true => one.vmcore.is_some(),
        false => Path::new(&one.directory) == below,
    });
    let found: Vec<_> = of_given.collect();
    let scenario = match found.as_slice() {
        [scenario] => *scenario,
        [] if below == Path::new("") => bail!("no scenario of `{}` left a `{VMCORE}`", given.display()),
        [] => bail!("`{}` has no result for `{}`", path.display(), below.display()),
        several => {
            let names: Vec<&str> = several.iter().map(|scenario| scenario.directory.as_str()).collect();
            bail!("several scenarios left a `{VMCORE}`: name one of {}", names.join(", "));
        }
    };
    if scenario.vmcore.is_none() {
        bail!(
            "`{}` has no `{VMCORE}`: a kernel that panics leaves one, and any with `dump: true`",
            given.display()
        );
    }
    let kernel = results.kernels.iter().find(|kernel| kernel.name == scenario.kernel);
    let kernel =
        kernel.with_context(|| format!("`{}` lacks its kernel `{}`", path.display(), scenario.kernel))?;
    // Whatever the result calls its directory, it is this one or one below.
    let directory =
        if below == Path::new("") { checked(run, &scenario.directory)? } else { given.to_owned() };
    Ok((directory, kernel.clone()))
}

/// `name` below `run`, and nowhere else.
fn checked(run: &Path, name: &str) -> Result<PathBuf> {
    let directory = run.join(name).canonicalize().with_context(|| format!("cannot open `{name}`"))?;
    match directory.starts_with(run) {
        true => Ok(directory),
        false => bail!("the result `{name}` is outside of its run"),
    }
}

/// The build in the cache that was dumped.
fn build_of(cache: &Cache, kernel: &KernelInfo, vmcore: &Path) -> Result<FoundBuild> {
    let KernelInfo { name, source_version, config_hash } = kernel;
    let dumped = dumped_build_id(vmcore).with_context(|| format!("cannot read `{}`", vmcore.display()))?;
    let what = format!(
        "{name}, of source {source_version} and configuration {}",
        config_hash.get(..12).unwrap_or(config_hash)
    );
    let builds = find_builds(cache, config_hash)?;
    if builds.is_empty() && was_shipped(cache, config_hash)? {
        bail!(
            "the kernel of this result, {what}, was shipped without the debug information by which its memory \
             is read; run the scenario on one that the lab builds"
        );
    }
    if builds.is_empty() {
        bail!(
            "the kernel of this result, {what}, is not in the cache; `cargo xtask lab build {name}` builds it"
        );
    }
    let mut ids = Vec::new();
    for build in builds {
        match build_id(&build.vmlinux()) {
            Ok(id) if id == dumped => return Ok(build),
            Ok(id) => ids.push(id),
            Err(error) => ids.push(format!("none ({error:#})")),
        }
    }
    bail!(
        "the kernel of this result, {what}, is not in the cache, only another build of it: its build id is {}, \
         and the dump's {dumped}",
        ids.join(", ")
    );
}

/// The build id of an ELF file.
fn build_id(path: &Path) -> Result<String> {
    let file = ReadCache::new(File::open(path)?);
    let id = object::File::parse(&file)?.build_id()?.map(hex);
    id.context("it has none")
}

/// The build id of the kernel that a dump is of, from the note that the kernel wrote for such readers.
fn dumped_build_id(vmcore: &Path) -> Result<String> {
    let file = ReadCache::new(File::open(vmcore)?);
    let header = FileHeader64::<LE>::parse(&file).context("it is no ELF file")?;
    for segment in header.program_headers(LE, &file)? {
        let Some(mut notes) = segment.notes(LE, &file)? else { continue };
        while let Some(note) = notes.next()? {
            let text = String::from_utf8_lossy(note.desc());
            let id = text.lines().find_map(|line| line.strip_prefix("BUILD-ID="));
            if let (b"VMCOREINFO", Some(id)) = (note.name(), id) {
                return Ok(id.to_owned());
            }
        }
    }
    bail!("it does not say which kernel it is of")
}

/// Every module with DWARF that may have been loaded: those of the cache, and the kernel's own.
fn modules(cache: &Cache, build: &FoundBuild) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let entries =
        fs::read_dir(cache.directory("modules")?).context("cannot list the modules of the cache")?;
    let files =
        entries.flatten().flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten());
    let debug = files.filter_map(|file| {
        let path = file.path();
        let name = path.file_name()?.to_str()?.strip_suffix(".ko.debug")?.replace('-', "_");
        Some((name, path))
    });
    let own = build.modules()?.into_iter().map(|path| (module_name(&path), path));
    for (name, path) in debug.chain(own) {
        found.entry(name).or_default().push(path);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::fixture::{result, results},
        verdict::Status,
    };

    /// A run with scenarios, of which those in `dumped` left a dump.
    fn run(scenarios: &[&str], dumped: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let one = |name: &&str| {
            let mut one = result(name, Status::Panic);
            one.directory = format!("{}/{name}", one.kernel);
            one.vmcore = dumped.contains(name).then(|| VMCORE.to_owned());
            fs::create_dir_all(directory.path().join(&one.directory)).unwrap();
            one
        };
        let mut results = results(scenarios.iter().map(one).collect());
        let kernel = results.scenarios[0].kernel.clone();
        results.kernels = vec![KernelInfo {
            name: kernel,
            source_version: "1".into(),
            config_hash: "0123456789abcdef".into(),
        }];
        fs::write(directory.path().join("results.json"), serde_json::to_vec(&results).unwrap()).unwrap();
        directory
    }

    #[test]
    fn a_result_is_found_by_its_directory() {
        let check = |run: &tempfile::TempDir, below: &str, expect: Result<&str, &str>| {
            let root = run.path().canonicalize().unwrap();
            match (result_of(&root.join(below)), expect) {
                (Ok((found, _)), Ok(expect)) => assert_eq!(found, root.join(expect)),
                (Err(found), Err(expect)) if found.to_string().contains(expect) => {}
                (found, expect) => panic!("{below}: {found:?}, expected {expect:?}"),
            }
        };
        let one = run(&["a", "b"], &["b"]);
        let kernel = result("a", Status::Panic).kernel;
        let (a, b) = (format!("{kernel}/a"), format!("{kernel}/b"));
        check(&one, &b, Ok(&b));
        check(&one, "", Ok(&b));
        check(&one, &a, Err("has no `vmcore`: a kernel that panics leaves one"));
        check(&one, &kernel, Err("has no result for"));
        check(&run(&["a", "b"], &["a", "b"]), "", Err("name one of"));
        check(&run(&["a"], &[]), "", Err("no scenario of"));
        let none = tempfile::tempdir().unwrap();
        check(&none, "", Err("it is no result"));
    }

    #[test]
    fn a_kernel_that_is_not_in_the_cache_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let kernel = KernelInfo {
            name: "6.12".into(),
            source_version: "6.12.1".into(),
            config_hash: "0123456789abcdef".into(),
        };
        let vmcore = directory.path().join(VMCORE);
        fs::write(&vmcore, "no ELF").unwrap();
        let error = build_of(&cache, &kernel, &vmcore).unwrap_err();
        assert!(format!("{error:#}").contains("it is no ELF file"), "{error:#}");
    }
}
