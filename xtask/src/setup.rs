//! Common setup of verbs that build or boot: the host's packages and the lab.

use crate::root;
use anyhow::Result;
use clap::Args;
use lab::{
    Lab,
    cache::Cache,
    host::{
        confine,
        prerequisites::{self, Need},
        process::which,
    },
    kernel::GDB,
    progress::Progress,
};
use std::env;

/// What to do about missing host packages.
#[derive(Args, Clone, Copy)]
pub(crate) struct Setup {
    /// Install missing host packages instead of only listing them; implied by CI=true
    #[arg(long)]
    pub(crate) yes: bool,
}

impl Setup {
    /// Checks or installs the prerequisites, and opens the lab.
    pub(crate) fn ensure(self, need: Need) -> Result<Lab> {
        self.ensure_beside(need, &[])
    }

    /// Like [`Setup::ensure`], but also requires these programs.
    pub(crate) fn ensure_beside(self, need: Need, programs: &[&str]) -> Result<Lab> {
        let progress = Progress::new();
        prerequisites::ensure_beside(need, programs, self.may_install(), &progress)?;
        if let Some(gap) = confine::gap()? {
            progress.line(format!("warning: {gap}"));
        }
        let cache = Cache::open(&progress)?;
        Ok(Lab { root: root().to_owned(), cache, progress, may_install: self.may_install() })
    }

    /// Like [`Setup::ensure`] for runs, if crash attaches to a guest: also installs the gdb that makes the index
    /// with which it attaches in half the time. Without permission to install it, says so.
    pub(crate) fn ensure_for_crash(self) -> Result<Lab> {
        let wanted: &[&str] = if self.may_install() { &[GDB] } else { &[] };
        let lab = self.ensure_beside(Need::Run, wanted)?;
        if which(GDB).is_none() {
            let line = format!(
                "`{GDB}` is not installed; with it, which --yes installs, crash attaches in half the time"
            );
            lab.progress.line(line);
        }
        Ok(lab)
    }

    /// Returns whether packages may be installed on the host.
    pub(crate) fn may_install(self) -> bool {
        self.yes || env::var("CI").is_ok_and(|value| value == "true")
    }
}
