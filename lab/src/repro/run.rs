//! Runs a [`Reproducer`] on a kernel: unpacks its files into a directory, builds them, and runs them like
//! a checkout.

use super::Outcome;
use crate::{
    context::Lab,
    guest,
    host::{interrupt, scratch::Scratch},
    kernel::{self, Kernel, KernelSpec},
    machine::{Snapshots, measured},
    progress::Progress,
    reproducer::{Broken, ExternalFile, Failure, MODULES, Origin, Reproducer, check_trust},
    results::{Results, ScenarioResult, Status},
    run::{self, Attempt, CAT_SOURCE, Event, Options, Prepared, schedule::Rounds, select::Selection},
    scenario::{Scenario, ScenarioFile},
    words::{hex, printable},
};
use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The scenario's file in the directory of an unpacked reproducer.
const SCENARIO: &str = "scenario.yaml";

/// A reproducer whose kernel, modules and workloads are built.
pub struct Ready {
    /// Its unpacked files.
    place: Scratch,
    prepared: Prepared,
    found: ScenarioFile,
    scenario: Scenario,
    reproducer: Reproducer,
    pub(super) progress: Progress,
}

impl Ready {
    /// Unpacks a reproducer, and builds what is not in the cache.
    pub fn new(lab: &Lab, reproducer: &Reproducer, kernel: Option<&Kernel>) -> Result<Ready> {
        let place = Scratch::new(&lab.cache)?;
        put(reproducer.files.iter(), place.path())?;
        for left_out in &reproducer.left_out {
            take(left_out, &lab.root, place.path())?;
        }
        // They are empty if the scenario needs none of their files.
        for directory in ["guest/workloads", "guest/modules"] {
            fs::create_dir_all(place.path().join(directory))?;
        }
        bring_reader(&lab.root, place.path())?;
        let mut kernel = match kernel {
            Some(kernel) => {
                describe(kernel, &lab.root, place.path());
                kernel.clone()
            }
            None => own_kernel(&lab.at(place.path()), reproducer)?,
        };
        // A known bug counts as a failure here.
        kernel.spec.bugs.clear();
        let snapshots = Snapshots::new(lab)?;
        let path = place.path().join(SCENARIO);
        fs::write(&path, &reproducer.scenario)?;
        let scenario = reproducer.scenario(&path)?;
        let guest = guest::build_beside(lab, &place.path().join("guest"))?;
        let guest = measured(lab, guest, false, [&scenario])?;
        let found = ScenarioFile { name: reproducer.name.clone(), path };
        let mut prepared = Prepared { kernels: Vec::new(), guest, snapshots, lab: lab.clone() };
        prepared.replace_kernels(kernel, &lab.progress);
        let (reproducer, progress) = (reproducer.clone(), lab.progress.clone());
        Ok(Ready { place, prepared, found, scenario, reproducer, progress })
    }

    /// The kernel it runs on.
    pub fn kernel(&self) -> &Kernel {
        &self.prepared.kernels[0]
    }

    /// Returns the differences to the kernel it failed on, one sentence each.
    pub fn differences(&self) -> Vec<String> {
        let (kernel, then) = (self.kernel(), &self.reproducer.kernel);
        let mut different = Vec::new();
        let mut compare = |what: &str, now: &str, then: &str| {
            if now != then {
                different.push(printable(format!("{what} is {now}, was {then}")));
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

    /// Replaces the scenario to run.
    pub(super) fn change(&mut self, scenario: &str) -> Result<()> {
        self.scenario = Scenario::parse(&self.found.path, scenario)?;
        scenario.clone_into(&mut self.reproducer.scenario);
        Ok(fs::write(&self.found.path, scenario)?)
    }

    /// Runs it once. Returns the outcome, and the failure if it failed.
    pub(super) fn once(&self) -> Result<(Outcome, Option<Failure>)> {
        let results = self.place.path().join("results");
        let Prepared { guest, snapshots, .. } = &self.prepared;
        let attempt = Attempt {
            kernel: self.kernel(),
            guest,
            found: &self.found,
            scenario: &self.scenario,
            repeat: None,
            run: &results,
        };
        let result = attempt.execute(snapshots)?;
        interrupt::check()?;
        fs::remove_dir_all(&results).or_else(|error| match error.kind() {
            // Nothing was run.
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        Ok((self.outcome(&result)?, Failure::of(&result, &self.reproducer.scenario)))
    }

    /// Runs it like any scenario and keeps the results; with `until_fail` only until it does not pass.
    pub fn run(
        &self,
        results: &Path,
        rounds: Rounds,
        until_fail: bool,
        report: impl FnMut(Event<'_>) + Send,
    ) -> Result<(Results, PathBuf)> {
        let scenarios = vec![(self.found.clone(), self.scenario.clone())];
        let selection = Selection::all(vec![self.kernel().name.clone()], scenarios);
        let options = Options {
            // One at a time, so that load from other runs does not change a race.
            jobs: 1,
            rounds,
            fail_fast: until_fail,
            forget_passes: until_fail,
            ..Options::new(self.place.path(), selection, results)
        };
        run::run(&self.prepared, &options, report)
    }

    /// Compares a result of it with the failure.
    ///
    /// # Errors
    /// The result is a lab error.
    pub fn outcome(&self, result: &ScenarioResult) -> Result<Outcome> {
        Ok(match Failure::of(result, &self.reproducer.scenario) {
            Some(now) if now.is_same(&self.reproducer.verdict) => Outcome::Reproduced,
            Some(now) => Outcome::FailsDifferently(differs(&self.reproducer.verdict, &now)),
            None => match result.status {
                Status::Passed => Outcome::Passes,
                Status::Unsupported => Outcome::Unsupported(result.reason.clone()),
                _ => bail!("cannot run `{}`: {}", result.name, result.reason),
            },
        })
    }
}

/// Adds the workload by which the lab reads long files of a guest, unless the reproducer contains it.
fn bring_reader(root: &Path, place: &Path) -> Result<()> {
    let (from, to) = (root.join(CAT_SOURCE), place.join(CAT_SOURCE));
    if !to.exists() {
        fs::copy(&from, &to)?;
    }
    Ok(())
}

/// How a failure differs from what it was.
fn differs(then: &Failure, now: &Failure) -> String {
    let text = |broken: &Broken| match broken {
        Broken::Expectation(item) | Broken::Step(item) => item.text.clone(),
        Broken::Splat { title, .. } => title.clone(),
        Broken::Run => String::new(),
    };
    let (was, is) = (&then.finding, &now.finding);
    let said = if then.status != now.status {
        format!("was {}, now {}: {is}", then.status, now.status)
    } else if text(&then.broken) == text(&now.broken) {
        format!("the same check fails differently: was {was}, now {is}")
    } else {
        format!("was {}, now {}: {is}", then.broken, now.broken)
    };
    printable(&said)
}

/// Writes files below `place`. Their paths were checked when the reproducer was read.
pub(super) fn put<'a>(files: impl Iterator<Item = (&'a String, &'a String)>, place: &Path) -> Result<()> {
    for (path, text) in files {
        write(&place.join(path), text.as_bytes())?;
    }
    Ok(())
}

fn write(path: &Path, data: &[u8]) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    Ok(fs::write(path, data)?)
}

/// Copies a file that was not inlined from the checkout, if it is identical there.
fn take(file: &ExternalFile, root: &Path, place: &Path) -> Result<()> {
    let ExternalFile { path, why, .. } = file;
    ensure!(
        !path.starts_with(MODULES),
        "the reproducer does not contain `{}`: {why}; it is not available elsewhere",
        path.escape_debug()
    );
    let own = root.join(path);
    let lacking = || format!("the reproducer does not contain `{}`: {why}", path.escape_debug());
    let size = fs::metadata(&own).with_context(lacking)?.len();
    ensure!(size == file.bytes, "{}; in the checkout it has {size} bytes, not {}", lacking(), file.bytes);
    let data = fs::read(&own).with_context(lacking)?;
    ensure!(
        hex(&Sha256::digest(&data)) == file.sha256,
        "{}; in the checkout it is different; check out a commit with its SHA-256 {}",
        lacking(),
        file.sha256.escape_debug()
    );
    write(&place.join(path), &data)
}

/// Adds the description of a kernel that the reproducer does not contain, for the reproducer of a new
/// failure. Without a description that one is not written, and a note says so.
fn describe(kernel: &Kernel, root: &Path, place: &Path) {
    for name in kernel.spec.files() {
        if let Ok(data) = fs::read(root.join("kernels").join(&name)) {
            let _ = write(&place.join("kernels").join(&name), &data);
        }
    }
}

/// The advice if the kernel of a reproducer cannot be used.
const OTHER_KERNEL: &str =
    "the kernel that it failed on is not available; run it on a different one with --kernel";

/// Returns the description of the kernel that a reproducer names, from its files below `root`.
pub(super) fn own_kernel_spec(root: &Path, reproducer: &Reproducer) -> Result<KernelSpec> {
    if let Origin::Tree(label) = &reproducer.kernel.source {
        bail!("{OTHER_KERNEL} or --kernel-tree: it was built from a working tree ({})", label.escape_debug());
    }
    let spec = KernelSpec::load(root, &reproducer.kernel.name)?;
    check_trust(&spec).context(OTHER_KERNEL)?;
    Ok(spec)
}

/// Builds the kernel that a reproducer names, by its description in the lab's checkout.
fn own_kernel(lab: &Lab, reproducer: &Reproducer) -> Result<Kernel> {
    let spec = own_kernel_spec(&lab.root, reproducer)?;
    let (Origin::Pinned(version) | Origin::Tree(version)) = &reproducer.kernel.source;
    kernel::build_exactly(lab, &spec.name, version).context(OTHER_KERNEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_inlined_has_to_be_the_same_in_the_checkout() {
        let (root, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = root.path().join("guest/big");
        let left_out = |path: &str| ExternalFile {
            path: path.into(),
            bytes: 1,
            sha256: "e7f6c011776e8db7cd330b54174fd76f7d0216b612387a5ffcfb81e6f0919683".into(),
            why: "it is large".into(),
        };
        let check = |path: &str, expect: &str| {
            let error = format!("{:#}", take(&left_out(path), root.path(), place.path()).unwrap_err());
            assert!(error.contains(expect) && error.contains(": it is large"), "{error}");
        };
        check("guest/big", "No such file");
        fs::create_dir(root.path().join("guest")).unwrap();
        fs::write(&path, "12").unwrap();
        check("guest/big", "in the checkout it has 2 bytes, not 1");
        fs::write(&path, "7").unwrap();
        check("guest/big", "in the checkout it is different");
        check("modules/mine/big", "not available elsewhere");
        fs::write(&path, "6").unwrap();
        take(&left_out("guest/big"), root.path(), place.path()).unwrap();
        assert_eq!(fs::read(place.path().join("guest/big")).unwrap(), b"6");
    }
}
