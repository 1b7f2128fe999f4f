//! `bench resolve`: measures the resolution of struct paths of probes.

use super::{Figures, median};
use crate::{
    context::Lab,
    fit::{ProbeLocation, Resolver},
    kernel::{self, Types, WITHOUT_VMLINUX},
};
use anyhow::{Context, Result};
use std::{collections::BTreeMap, time::Instant};

/// The number of measurements; the median counts.
const ROUNDS: usize = 5;

/// The number of paths that are resolved together.
const PATHS: usize = 100;

/// Functions, and a path for each.
const PROBES: [(&str, &str); 5] = [
    ("vfs_read", "file->f_inode->i_sb->s_type->name"),
    ("do_sys_openat2", "how->flags"),
    ("wake_up_process", "p->se.load.weight"),
    ("__netif_receive_skb", "skb->dev->perm_addr:x8[6]"),
    ("eventfd_write", "*(u64 *)buf"),
];

/// Measures one path from scratch, including opening vmlinux and finding the function and its
/// types; and many paths together.
pub fn resolve(lab: &Lab) -> Result<Figures> {
    let kernel = kernel::build(lab, kernel::DEFAULT, None)?;
    let vmlinux = kernel.vmlinux().context(WITHOUT_VMLINUX)?;
    let resolved = |count: usize| -> Result<f64> {
        let started = Instant::now();
        let types = Types::of_vmlinux(&vmlinux)?;
        for (function, path) in PROBES.iter().cycle().take(count) {
            let resolver = Resolver::new(&types, function, ProbeLocation::Entry)?;
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
