//! [`Lives`] → a site: static pages without scripts, for any directory or server.
//!
//! An overview with what the last night said, trends, flakes and failures; for each kernel a heat map of scenarios and
//! nights; a page for each failure, with its reproducer, and for each scenario. Names are text from other machines:
//! they are escaped, never used as paths, and a policy in each page forbids to load anything.

mod html;
mod pages;

use super::{DenyList, History, Lives};
use crate::results::PendingDirectory;
use anyhow::{Result, bail};
use fs_err as fs;
use std::path::Path;

/// The file that marks a directory as a site, which a new one may replace.
const MARKER: &str = "ftrace-lab-history.txt";

/// Writes the site of a history into a directory, which must be empty or an older site; it appears complete. `lab` is
/// how the command is called.
///
/// # Errors
/// The history has no nights, the directory has something else, or it cannot be written.
pub fn write_site(history: &History, denied: &DenyList, into: &Path, lab: &str) -> Result<()> {
    let lives = Lives::read(history, usize::MAX)?;
    let night = lives.night(None)?;
    fs::create_dir_all(into)?;
    let into = fs::canonicalize(into)?;
    let is_site = into.join(MARKER).is_file();
    if !is_site && fs::read_dir(&into)?.next().is_some() {
        bail!(
            "`{}` is neither empty nor an older site of a history; choose another directory",
            into.display()
        );
    }
    let pending = PendingDirectory::next_to(&into)?;
    let write = |name: &str, text: &str| fs::write(pending.path().join(name), text);
    let site = pages::Site { lives: &lives, night, lab };
    write(MARKER, "Written by `lab history site`, which may replace this directory.\n")?;
    write("index.html", &site.index(denied))?;
    for kernel in site.kernels() {
        write(&html::file("kernel", kernel), &site.kernel(kernel))?;
    }
    for (scenario, lives) in site.scenarios() {
        write(&html::file("scenario", scenario), &site.scenario(scenario, &lives))?;
    }
    for failure in lives.failures() {
        let reproducer = history.reproducer(&failure.fingerprint)?;
        let file = html::file("failure", &failure.fingerprint);
        let yaml = file.replace(".html", ".repro.yaml");
        if let Some(text) = &reproducer {
            write(&yaml, text)?;
        }
        write(&file, &site.failure(&failure, reproducer.is_some().then_some(yaml.as_str())))?;
    }
    if is_site { pending.replace() } else { pending.put() }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
