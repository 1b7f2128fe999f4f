//! `cargo xtask lab cache`

use crate::{complete, exit, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    cache::Cache,
    host::prerequisites::Need,
    kernel::{
        self,
        slim::{Sizes, sizes, slim},
    },
    progress::Progress,
};

/// Show what the cache weighs, or remove what runs on some kernels do not need
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab cache                              what is in it\n  \
    cargo xtask lab cache --keep 6.12 --keep 7.2       no other kernels, and no object files")]
pub(crate) struct Show {
    /// Remove builds and sources of all other kernels than this one, object files and snapshots: a name
    /// of kernels/*.yaml, `all`, or plain versions such as '>=6.1'; may be given several times
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    keep: Vec<String>,
    #[command(flatten)]
    setup: Setup,
}

impl Show {
    pub(crate) fn run(self) -> Result<u8> {
        if self.keep.is_empty() {
            let cache = Cache::open()?;
            show(&cache, "in", &sizes(&cache)?);
            return Ok(exit::SUCCESS);
        }
        let kernels = kernel::choose(root(), &self.keep)?;
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let kernels = kernels.iter().map(|name| kernel::identify(&cache, root(), name, &progress));
        let slimmed = slim(&cache, &kernels.collect::<Result<Vec<_>>>()?)?;
        show(&cache, "removed from", &slimmed.removed);
        show(&cache, "kept in", &slimmed.kept);
        Ok(exit::SUCCESS)
    }
}

fn show(cache: &Cache, what: &str, sizes: &Sizes) {
    println!("{what} {}:", cache.root().display());
    let mut sizes: Vec<_> = sizes.iter().collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    for (path, bytes) in &sizes {
        println!("  {:>6} MB  {}", megabytes(**bytes), path.display());
    }
    println!("  {:>6} MB  together", megabytes(sizes.iter().map(|(_, bytes)| **bytes).sum()));
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}
