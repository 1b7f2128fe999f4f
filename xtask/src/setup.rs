//! What verbs that build or boot have in common: the host's packages and the cache.

use anyhow::Result;
use clap::Args;
use lab::{
    cache::Cache,
    host::prerequisites::{self, Need},
    progress::Progress,
};
use std::env;

/// Host packages that are missing.
#[derive(Args, Clone, Copy)]
pub(crate) struct Setup {
    /// Install missing host packages (CI=true does so too); without it they are only listed
    #[arg(long)]
    pub(crate) yes: bool,
}

impl Setup {
    /// Makes sure that the host has what is needed, and opens the cache.
    pub(crate) fn ensure(self, need: Need, progress: &Progress) -> Result<Cache> {
        self.ensure_beside(need, &[], progress)
    }

    /// The same, and that it has these programs beside.
    pub(crate) fn ensure_beside(self, need: Need, programs: &[&str], progress: &Progress) -> Result<Cache> {
        prerequisites::ensure_beside(need, programs, self.may_install(), progress)?;
        Cache::open()
    }

    /// Whether the host may be changed.
    pub(crate) fn may_install(self) -> bool {
        self.yes || env::var("CI").is_ok_and(|value| value == "true")
    }
}
