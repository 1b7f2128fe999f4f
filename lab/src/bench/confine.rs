//! `bench confine`: measures the cost of confining builds.

use super::{Figures, median};
use crate::{
    context::Lab,
    guest::module_sources,
    host::confine::{Level, Reach, level},
    kernel::{self, Kernel},
};
use anyhow::{Result, ensure};
use fs_err as fs;
use std::{collections::BTreeMap, path::Path, thread::available_parallelism, time::Instant};

/// The number of builds of the module at each level; the median counts.
const ROUNDS: usize = 5;

/// The module, one of the lab's own.
const MODULE: &str = "ftracehook";

/// Builds the default kernel and a module from scratch, confined and unconfined.
pub fn confine(lab: &Lab) -> Result<Figures> {
    let best = level()?;
    ensure!(best != Level::None, "cannot measure confined builds: this host cannot confine any");
    let kernel = kernel::build(lab, kernel::DEFAULT, None)?;
    let parent = lab.cache.directory("bench")?;
    let seconds = |what: &str, build: &dyn Fn(&Path) -> Result<()>| -> Result<f64> {
        let _task = lab.progress.task(what, None);
        let directory = tempfile::tempdir_in(&parent)?;
        let started = Instant::now();
        build(directory.path())?;
        Ok(started.elapsed().as_secs_f64())
    };
    let module = |level: Level| -> Result<f64> {
        let rounds = (0..ROUNDS).map(|_| {
            seconds(&format!("building a module ({level:?})"), &|into| {
                build_module(lab, &kernel, level, into)
            })
        });
        Ok(median(rounds.collect::<Result<_>>()?))
    };
    let whole = |level: Level| {
        seconds(&format!("building a kernel ({level:?})"), &|into| build_kernel(&kernel, level, into))
    };
    let (module_confined, module_unconfined) = (module(best)?, module(Level::None)?);
    let (confined, unconfined) = (whole(best)?, whole(Level::None)?);
    let figures = [
        ("kernel_confined_seconds", confined),
        ("kernel_unconfined_seconds", unconfined),
        ("kernel_confined_by_unconfined_ratio", confined / unconfined),
        ("module_confined_seconds", module_confined),
        ("module_unconfined_seconds", module_unconfined),
        ("module_confined_by_unconfined_ratio", module_confined / module_unconfined),
    ];
    let figures: BTreeMap<String, f64> =
        figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Figures { bench: "confine".to_owned(), figures, table: String::new() })
}

fn build_kernel(kernel: &Kernel, level: Level, into: &Path) -> Result<()> {
    fs::write(into.join(".config"), kernel.config_text()?)?;
    let make = |targets: &[&str]| {
        let make = kernel.make_in("", Reach::new(into)).level(level);
        make.arg(format!("O={}", into.display())).args(targets).log(into.join("make.log")).run()
    };
    let jobs = format!("-j{}", available_parallelism()?);
    make(&["olddefconfig"])?;
    make(&[&jobs, "Image", "modules"])?;
    Ok(())
}

fn build_module(lab: &Lab, kernel: &Kernel, level: Level, into: &Path) -> Result<()> {
    let all = lab.root.join("guest/modules");
    module_sources::write(&module_sources::own(&all, &all.join(MODULE))?, into)?;
    let make = kernel.make_module(into).level(level);
    make.arg(format!("M={}", into.join(MODULE).display())).arg("modules").log(into.join("make.log")).run()?;
    Ok(())
}
