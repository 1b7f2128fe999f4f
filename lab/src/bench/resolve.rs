//! `bench resolve`: what it costs to write a probe as C would.

use super::{Figures, median};
use crate::{
    cache::Cache,
    kernel::{self, WITHOUT_VMLINUX},
    probe::{Place, Resolver, Types},
    progress::Progress,
};
use anyhow::{Context, Result};
use std::{collections::BTreeMap, path::Path, time::Instant};

/// How often each is measured; the median counts.
const ROUNDS: usize = 5;

/// How many paths are resolved together.
const PATHS: usize = 100;

/// Functions, and a path that begins at each.
const PROBES: [(&str, &str); 5] = [
    ("vfs_read", "file->f_inode->i_sb->s_type->name"),
    ("do_sys_openat2", "how->flags"),
    ("wake_up_process", "p->se.load.weight"),
    ("__netif_receive_skb", "skb->dev->perm_addr:x8[6]"),
    ("eventfd_write", "*(u64 *)buf"),
];

/// One path from nothing, with opening vmlinux and finding the function and its types; and many together.
pub fn resolve(cache: &Cache, root: &Path, progress: &Progress) -> Result<Figures> {
    let kernel = kernel::build(cache, root, kernel::DEFAULT, None, progress)?;
    let vmlinux = kernel.vmlinux().context(WITHOUT_VMLINUX)?;
    let resolved = |count: usize| -> Result<f64> {
        let started = Instant::now();
        let types = Types::of_vmlinux(&vmlinux)?;
        for (function, path) in PROBES.iter().cycle().take(count) {
            let resolver = Resolver::new(&types, function, Place::Entry)?;
            resolver.resolve(path).with_context(|| format!("cannot resolve `{path}` of `{function}`"))?;
        }
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    let measured = |count| -> Result<f64> {
        let rounds = (0..ROUNDS).map(|_| resolved(count));
        Ok(median(rounds.collect::<Result<Vec<_>>>()?))
    };
    let figures = [("one_path_milliseconds", measured(1)?), ("hundred_paths_milliseconds", measured(PATHS)?)];
    let figures: BTreeMap<String, f64> =
        figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Figures { bench: "resolve".to_owned(), figures, table: String::new() })
}
