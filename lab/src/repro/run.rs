//! [`Reproducer`] × kernel → [`Outcome`]: what the file brings is put into a directory, built, and run
//! as a checkout would be.

use super::{
    Outcome, Reproducer,
    file::{LeftOut, MODULES, Origin},
    fingerprint::{Broken, Failure},
    trust,
};
use crate::{
    cache::{Cache, hex},
    guest,
    host::interrupt,
    kernel::{self, Kernel, KernelSpec},
    machine::Snapshots,
    progress::Progress,
    report::{Results, ScenarioResult, printable},
    run::{self, CAT_SOURCE, Options, Prepared, schedule::Rounds, select::Selection},
    scenario::{Found, Scenario},
    verdict::Status,
};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The scenario's file in the directory of what a reproducer brings.
const SCENARIO: &str = "scenario.yaml";

/// In that directory as long as it is used.
const LOCK: &str = ".used";

/// Runs a reproducer once, on its own kernel or on another one. `root` is the checkout of this lab. What
/// the run leaves is removed.
///
/// # Errors
/// The lab cannot do its part: the kernel cannot be had any more, or a module does not build.
pub fn reproduce(
    cache: &Cache,
    root: &Path,
    reproducer: &Reproducer,
    kernel: Option<&Kernel>,
    progress: &Progress,
) -> Result<Outcome> {
    Ok(Ready::new(cache, root, reproducer, kernel, progress)?.once()?.0)
}

/// The kernel that a reproducer names, built if it is not in the cache.
pub fn kernel_of(cache: &Cache, reproducer: &Reproducer, progress: &Progress) -> Result<Kernel> {
    let place = Place::new(cache)?;
    put(reproducer.files.iter().filter(|(path, _)| path.starts_with("kernels/")), place.path())?;
    own_kernel(cache, reproducer, place.path(), progress)
}

/// A reproducer whose kernel, modules and workloads are built.
pub struct Ready {
    /// What it brought.
    place: Place,
    prepared: Prepared,
    found: Found,
    scenario: Scenario,
    reproducer: Reproducer,
}

impl Ready {
    /// Builds what is not built yet.
    pub fn new(
        cache: &Cache,
        root: &Path,
        reproducer: &Reproducer,
        kernel: Option<&Kernel>,
        progress: &Progress,
    ) -> Result<Ready> {
        let place = Place::new(cache)?;
        put(reproducer.files.iter(), place.path())?;
        for left_out in &reproducer.left_out {
            take(left_out, root, place.path())?;
        }
        // Empty ones, where the scenario needs none.
        for directory in ["guest/workloads", "guest/modules"] {
            fs::create_dir_all(place.path().join(directory))?;
        }
        bring_reader(root, place.path())?;
        let mut kernel = match kernel {
            Some(kernel) => {
                describe(kernel, root, place.path());
                kernel.clone()
            }
            None => own_kernel(cache, reproducer, place.path(), progress)?,
        };
        // Whether it is a known bug is not what is asked.
        kernel.spec.bugs.clear();
        let guest = guest::build_beside(cache, root, &place.path().join("guest"), progress)?;
        let snapshots = Snapshots::new(cache, progress)?;
        let path = place.path().join(SCENARIO);
        fs::write(&path, &reproducer.scenario)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        let scenario = reproducer.scenario(&path)?;
        let found = Found { name: reproducer.name.clone(), path };
        let mut prepared = Prepared { kernels: Vec::new(), guest, snapshots, cache: cache.clone() };
        prepared.replace_kernels(kernel, progress);
        Ok(Ready { place, prepared, found, scenario, reproducer: reproducer.clone() })
    }

    /// The kernel it runs on.
    pub fn kernel(&self) -> &Kernel {
        &self.prepared.kernels[0]
    }

    /// What is not as it was when it failed, a sentence each.
    pub fn differences(&self) -> Vec<String> {
        let (kernel, then) = (self.kernel(), &self.reproducer.kernel);
        let mut different = Vec::new();
        let mut compare = |what: &str, now: &str, then: &str| {
            if now != then {
                different.push(printable(&format!("{what} is {now}, it was {then}")));
            }
        };
        compare("the kernel", &kernel.name, &then.name);
        compare("the kernel's version", &kernel.version.to_string(), &then.version);
        if kernel.name == then.name {
            let digest = |hash: &str| hash.chars().take(12).collect::<String>();
            compare("its configuration", &digest(&kernel.config_hash), &digest(&then.config_hash));
        }
        different
    }

    /// Has another scenario run in the place of the file's.
    pub(super) fn change(&mut self, scenario: &str) -> Result<()> {
        self.scenario = Scenario::parse(&self.found.path, scenario)?;
        scenario.clone_into(&mut self.reproducer.scenario);
        fs::write(&self.found.path, scenario)
            .with_context(|| format!("cannot write `{}`", self.found.path.display()))
    }

    /// Runs it once. How it failed comes with the outcome, if it did.
    pub(super) fn once(&self) -> Result<(Outcome, Option<Failure>)> {
        let results = self.place.path().join("results");
        let Prepared { guest, snapshots, .. } = &self.prepared;
        let result = run::one(self.kernel(), guest, snapshots, &self.found, &self.scenario, &results)?;
        interrupt::check()?;
        fs::remove_dir_all(&results).or_else(|error| match error.kind() {
            // Nothing was run.
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        Ok((self.outcome(&result)?, Failure::of(&result, &self.reproducer.scenario)))
    }

    /// Runs it as any scenario, with results that stay; until it does not pass, if `until_fail` is set.
    pub fn run(
        &self,
        results: &Path,
        rounds: Rounds,
        until_fail: bool,
        progress: &Progress,
        finished: impl FnMut(&ScenarioResult, &Path) + Send,
    ) -> Result<(Results, PathBuf)> {
        let scenarios = vec![(self.found.clone(), self.scenario.clone())];
        let options = Options {
            root: self.place.path().to_owned(),
            selection: Selection::all(vec![self.kernel().name.clone()], scenarios),
            kernel_tree: None,
            // One at a time: what fails by a race is not to race with itself.
            jobs: 1,
            results: results.to_owned(),
            rounds,
            fail_fast: until_fail,
            forget_passes: until_fail,
            shuffle: None,
            shard: None,
            cases: None,
        };
        run::run(&self.prepared, &options, progress, finished)
    }

    /// What a result of it means.
    ///
    /// # Errors
    /// The lab could not do its part.
    pub fn outcome(&self, result: &ScenarioResult) -> Result<Outcome> {
        Ok(match Failure::of(result, &self.reproducer.scenario) {
            Some(now) if now.is_same(&self.reproducer.verdict) => Outcome::Reproduced,
            Some(now) => Outcome::FailsOtherwise(differs(&self.reproducer.verdict, &now)),
            None => match result.status {
                Status::Passed => Outcome::Passes,
                Status::Unsupported => Outcome::Unsupported(result.reason.clone()),
                _ => bail!("`{}` could not be run: {}", result.name, result.reason),
            },
        })
    }
}

/// What the lab itself reads a guest's long files by, unless the file has one of its own.
fn bring_reader(root: &Path, place: &Path) -> Result<()> {
    let (from, to) = (root.join(CAT_SOURCE), place.join(CAT_SOURCE));
    if !to.exists() {
        fs::copy(&from, &to).with_context(|| format!("cannot copy `{}`", from.display()))?;
    }
    Ok(())
}

/// How a failure differs from what it was.
pub fn differs(then: &Failure, now: &Failure) -> String {
    let text = |broken: &Broken| match broken {
        Broken::Expectation(item) | Broken::Step(item) => item.text.clone(),
        Broken::Splat { title, .. } => title.clone(),
        Broken::Run => String::new(),
    };
    let (was, is) = (&then.finding, &now.finding);
    let said = if then.status != now.status {
        format!("it was {}, and is {}: {is}", then.status, now.status)
    } else if text(&then.broken) == text(&now.broken) {
        format!("the same is broken, but otherwise: it was {was}, and is {is}")
    } else {
        format!("broken was {}, and is {}: {is}", then.broken, now.broken)
    };
    printable(&said)
}

/// A directory for what a reproducer brings; it goes when it is dropped.
struct Place {
    directory: TempDir,
    /// Locked as long as this lab lives.
    _lock: File,
}

impl Place {
    /// A new one in the cache. What labs left there that were killed goes now.
    fn new(cache: &Cache) -> Result<Place> {
        let parent = cache.directory("repro")?;
        for left in fs::read_dir(&parent).into_iter().flatten().flatten() {
            let lock = File::open(left.path().join(LOCK));
            if lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
                // What cannot be removed is in nobody's way.
                let _ = fs::remove_dir_all(left.path());
            }
        }
        let failed = || format!("cannot make a directory in `{}`", parent.display());
        let directory = tempfile::tempdir_in(&parent).with_context(failed)?;
        let lock = directory.path().join(LOCK);
        // It gets its name when it is locked, so that nobody finds it before.
        let file = tempfile::NamedTempFile::new_in(directory.path()).with_context(failed)?;
        flock(file.as_file(), FlockOperation::NonBlockingLockExclusive).with_context(failed)?;
        let lock = file.persist(lock).with_context(failed)?;
        Ok(Place { directory, _lock: lock })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Writes files below `place`. Where they go was checked when they were read.
fn put<'a>(files: impl Iterator<Item = (&'a String, &'a String)>, place: &Path) -> Result<()> {
    for (path, text) in files {
        write(&place.join(path), text.as_bytes())?;
    }
    Ok(())
}

fn write(path: &Path, data: &[u8]) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
    fs::write(path, data).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Takes a file that was not inlined from the checkout, if it is the same there.
fn take(file: &LeftOut, root: &Path, place: &Path) -> Result<()> {
    let LeftOut { path, why, .. } = file;
    ensure!(
        !path.starts_with(MODULES),
        "the reproducer has no `{}`, since {why}; it cannot be had from elsewhere",
        path.escape_debug()
    );
    let own = root.join(path);
    let lacking = || format!("the reproducer has no `{}`, since {why}", path.escape_debug());
    let size = fs::metadata(&own).with_context(lacking)?.len();
    ensure!(size == file.bytes, "{}, and here it has {size} bytes, not {}", lacking(), file.bytes);
    let data = fs::read(&own).with_context(lacking)?;
    ensure!(
        hex(&Sha256::digest(&data)) == file.sha256,
        "{}, and here it is another one; check out what its SHA-256 is {} in",
        lacking(),
        file.sha256.escape_debug()
    );
    write(&place.join(path), &data)
}

/// Puts the description of a kernel that the file does not bring beside the others, for the reproducer of
/// what fails now. Where it has none, that one is not written, and a note says so.
fn describe(kernel: &Kernel, root: &Path, place: &Path) {
    for name in kernel.spec.files() {
        if let Ok(data) = fs::read(root.join("kernels").join(&name)) {
            let _ = write(&place.join("kernels").join(&name), &data);
        }
    }
}

fn own_kernel(cache: &Cache, reproducer: &Reproducer, place: &Path, progress: &Progress) -> Result<Kernel> {
    let name = &reproducer.kernel.name;
    let other = "the kernel that it failed on cannot be had; run it on another one with --kernel";
    let version = match &reproducer.kernel.source {
        Origin::Exactly(version) => version,
        Origin::Tree(label) => {
            bail!("{other} or --kernel-tree: it was built from a working tree ({})", label.escape_debug())
        }
    };
    let spec = KernelSpec::load(place, name)?;
    trust::check(&spec).context(other)?;
    kernel::build_exactly(cache, place, name, version, progress).context(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_lab_left_goes_and_what_is_used_stays() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let left = cache.directory("repro").unwrap().join("left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        let used = Place::new(&cache).unwrap();
        assert!(!left.exists());
        let path = used.path().to_owned();
        let other = Place::new(&cache).unwrap();
        assert!(path.exists() && path != other.path());
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_not_inlined_has_to_be_the_same_in_the_checkout() {
        let (root, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = root.path().join("guest/big");
        let left_out = |path: &str| LeftOut {
            path: path.into(),
            bytes: 1,
            sha256: "e7f6c011776e8db7cd330b54174fd76f7d0216b612387a5ffcfb81e6f0919683".into(),
            why: "it is large".into(),
        };
        let check = |path: &str, expect: &str| {
            let error = format!("{:#}", take(&left_out(path), root.path(), place.path()).unwrap_err());
            assert!(error.contains(expect) && error.contains("since it is large"), "{error}");
        };
        check("guest/big", "No such file");
        fs::create_dir(root.path().join("guest")).unwrap();
        fs::write(&path, "12").unwrap();
        check("guest/big", "here it has 2 bytes, not 1");
        fs::write(&path, "7").unwrap();
        check("guest/big", "here it is another one");
        check("modules/mine/big", "cannot be had from elsewhere");
        fs::write(&path, "6").unwrap();
        take(&left_out("guest/big"), root.path(), place.path()).unwrap();
        assert_eq!(fs::read(place.path().join("guest/big")).unwrap(), b"6");
    }
}
