//! Finds the dump of a result, and the build of its kernel.
//!
//! The build is found by the hash of its configuration in the result, and used only if its build ID is
//! the one in the dump: with a different build, every address would be wrong.

use super::Dump;
use crate::{
    cache::Cache,
    host::beneath::{directory_beneath, open_beneath},
    kernel::{FoundBuild, find_builds, module_name, was_distribution},
    machine::VMCORE,
    results::{KernelInfo, stored_results},
};
use anyhow::{Context, Result, bail};
use fs_err::{self as fs, File};
use object::{
    LittleEndian as LE, ReadCache,
    elf::FileHeader64,
    read::elf::{FileHeader, ProgramHeader},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// A dump of a result.
#[derive(Clone, Debug)]
pub struct FoundDump {
    /// The dump, with the files of its kernel and all modules of the cache.
    pub dump: Dump,
    /// Its kernel, as named in the result.
    pub kernel: KernelInfo,
    /// The build of its kernel.
    pub build: FoundBuild,
    /// The directory of the scenario.
    pub directory: PathBuf,
}

/// Returns the dump of the scenario whose files are in `directory`. For the directory of a run, exactly
/// one of its scenarios must have a dump.
pub fn find(cache: &Cache, directory: &Path) -> Result<FoundDump> {
    let given = fs::canonicalize(directory)?;
    let (directory, kernel) = result_of(&given)?;
    let vmcore = directory.join(VMCORE);
    // Others open it by its name.
    open_beneath(&directory, VMCORE)?;
    let build = build_of(cache, &kernel, &vmcore)?;
    let modules = modules(cache, &build)?;
    Ok(FoundDump { dump: Dump { vmcore, vmlinux: build.vmlinux(), modules }, kernel, build, directory })
}

/// Returns the directory of the scenario with the dump, and its kernel.
fn result_of(given: &Path) -> Result<(PathBuf, KernelInfo)> {
    let run = given.ancestors().find(|directory| directory.join("results.json").is_file());
    let Some(run) = run else {
        bail!("neither `{}` nor a directory above it has a `results.json`: not a result", given.display());
    };
    let path = run.join("results.json");
    let results = stored_results(run)?;
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
            "`{}` has no `{VMCORE}`: a kernel that panics leaves one, as does any with `dump: true`",
            given.display()
        );
    }
    let kernel = results.kernels.iter().find(|kernel| kernel.name == scenario.kernel);
    let kernel = kernel
        .with_context(|| format!("`{}` does not list the kernel `{}`", path.display(), scenario.kernel))?;
    // The directory in the result is not trusted: it must be the given one or below the run.
    let directory =
        if below == Path::new("") { directory_beneath(run, &scenario.directory)? } else { given.to_owned() };
    Ok((directory, kernel.clone()))
}

/// Finds the build of the dumped kernel in the cache.
fn build_of(cache: &Cache, kernel: &KernelInfo, vmcore: &Path) -> Result<FoundBuild> {
    let KernelInfo { name, source_version, config_hash } = kernel;
    let dumped = dumped_build_id(vmcore).with_context(|| format!("cannot read `{}`", vmcore.display()))?;
    let what = format!(
        "{name}, of source {source_version} and configuration {}",
        config_hash.get(..12).unwrap_or(config_hash)
    );
    let builds = find_builds(cache, config_hash)?;
    if builds.is_empty() && was_distribution(cache, config_hash)? {
        bail!(
            "the kernel of this result, {what}, is a distribution kernel without debug information, which \
             reading its memory needs; run the scenario on a kernel that the lab builds"
        );
    }
    if builds.is_empty() {
        bail!(
            "the kernel of this result, {what}, is not in the cache; `cargo xtask lab build {name}` builds it"
        );
    }
    let mut ids = Vec::new();
    for build in builds {
        match build.build_id() {
            Ok(id) if id == dumped => return Ok(build),
            Ok(id) => ids.push(id),
            Err(error) => ids.push(format!("none ({error:#})")),
        }
    }
    bail!(
        "no build of the kernel {what} in the cache matches the dump: build IDs {}, dump {dumped}",
        ids.join(", ")
    );
}

/// Returns the build ID of the kernel in a dump, from its VMCOREINFO note.
pub fn dumped_build_id(vmcore: &Path) -> Result<String> {
    let file = ReadCache::new(File::open(vmcore)?);
    let header = FileHeader64::<LE>::parse(&file).context("it is not an ELF file")?;
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
    bail!("it does not contain the build ID of its kernel")
}

/// Returns every module with DWARF that may have been loaded: those in the cache, and the kernel's own.
fn modules(cache: &Cache, build: &FoundBuild) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let entries = fs::read_dir(cache.directory("modules")?)?;
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
    use crate::results::{
        Status,
        fixture::{result, results},
    };
    use std::os::unix::fs::symlink;

    /// Creates a run of scenarios, of which those in `dumped` left a dump.
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
        check(&none, "", Err("not a result"));
    }

    #[test]
    fn a_link_in_a_result_is_not_followed() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(VMCORE), "secret").unwrap();
        let cache = Cache::at(elsewhere.path().join("cache")).unwrap();
        let run = run(&["a"], &["a"]);
        let place = run.path().join(&result_of(run.path()).unwrap().0);
        symlink(elsewhere.path().join(VMCORE), place.join(VMCORE)).unwrap();
        let error = find(&cache, run.path()).unwrap_err().to_string();
        assert!(error.contains("vmcore`: it is a link"), "{error}");
        fs::remove_dir_all(&place).unwrap();
        symlink(elsewhere.path(), &place).unwrap();
        let error = find(&cache, run.path()).unwrap_err().to_string();
        assert!(error.contains("a`: it is a link"), "{error}");
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
        assert!(format!("{error:#}").contains("it is not an ELF file"), "{error:#}");
    }
}
