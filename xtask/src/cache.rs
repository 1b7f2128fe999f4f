//! `cargo xtask lab cache`

use crate::{
    Usage, complete, exit,
    json::{self, Json},
    root,
    setup::Setup,
};
use anyhow::Result;
use clap::{Args, Subcommand};
use lab::{
    cache::{Cache, LIMIT_VARIABLE, LIMITED},
    host::{oci::Repository, prerequisites::Need},
    kernel::{
        self,
        prune::{Sizes, prune, sizes},
    },
    progress::Progress,
    publish,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Show the size of the cache, prune it to what some kernels need, or share its kernels
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    cargo xtask lab cache                              show what is in it\n  \
    cargo xtask lab cache --keep 6.12 --keep 7.2       remove other kernels, and object files\n  \
    cargo xtask lab cache push oci://HOST/kernels --kernel 6.12    store a built kernel in a registry\n  \
    cargo xtask lab cache pull oci://HOST/kernels --kernel 6.12    take it from there, on another machine\n\n\
    When a kernel is built or its source is fetched, the builds and sources that were not used for the \
    longest time are removed until the rest takes at most 60 GB, or FTRACE_LAB_CACHE_MAX: a size such as \
    40G, or `none`. Those that a running lab uses stay."
)]
pub(crate) struct Show {
    #[command(subcommand)]
    transfer: Option<Transfer>,
    /// Keep the build and source of this kernel, and remove those of all others, object files and
    /// snapshots: a name of kernels/*.yaml, `all`, or a version range of plain kernels such as '>=6.1'
    /// (repeatable). Fails if another process uses the cache
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    keep: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
    #[command(flatten)]
    setup: Setup,
}

#[derive(Subcommand)]
enum Transfer {
    /// Build kernels, boot each, and store them in a registry of OCI artifacts
    Push(Kernels),
    /// Take kernels from a registry instead of building them
    Pull(Kernels),
}

#[derive(Args)]
struct Kernels {
    /// The repository: oci://REGISTRY/NAME; to pull, one artifact of it, too: oci://REGISTRY/NAME@sha256:DIGEST
    #[arg(value_name = "REPOSITORY")]
    repository: String,
    /// A name of kernels/*.yaml, `all`, or a version range of plain kernels such as '>=6.1' (repeatable)
    /// [default: 6.12]
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    #[command(flatten)]
    setup: Setup,
}

impl Transfer {
    fn run(self) -> Result<u8> {
        let (Transfer::Push(wanted) | Transfer::Pull(wanted)) = &self;
        let repository: Repository =
            wanted.repository.parse().map_err(|error| Usage(format!("{error:#}")))?;
        let kernels = match wanted.kernels.as_slice() {
            [] => vec![kernel::DEFAULT.to_owned()],
            named => kernel::choose(root(), named)?,
        };
        let lab = wanted.setup.ensure(Need::Run)?;
        for name in &kernels {
            match &self {
                Transfer::Push(_) => {
                    let pushed = publish::push(&lab, name, &repository)?;
                    println!("{name}: {} MB, {repository}@{}", megabytes(pushed.bytes as u64), pushed.digest);
                }
                Transfer::Pull(_) => {
                    let pulled = kernel::pull(&lab, name, &repository)?;
                    println!("{name} {} ({})", pulled.version, pulled.key);
                }
            }
        }
        Ok(exit::SUCCESS)
    }
}

/// The cache.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Cached<'a> {
    directory: &'a Path,
    /// The most that builds and sources may take together; null if there is no limit.
    limit_bytes: Option<u64>,
    entries: Vec<Entry<'a>>,
    /// What --keep removed.
    removed: Vec<Entry<'a>>,
}

/// A part of the cache.
#[derive(Serialize, JsonSchema)]
struct Entry<'a> {
    /// Relative to the directory of the cache.
    path: &'a Path,
    bytes: u64,
}

impl Show {
    pub(crate) fn run(self) -> Result<u8> {
        if let Some(transfer) = self.transfer {
            return transfer.run();
        }
        if self.keep.is_empty() {
            let cache = Cache::open(&Progress::new())?;
            let sizes = sizes(&cache)?;
            if self.json.wanted {
                json::print(&cached(&cache, &sizes, &Sizes::new()))?;
                return Ok(exit::SUCCESS);
            }
            show(&cache, "in", &sizes);
            println!("{}", limit(&cache, &sizes));
            return Ok(exit::SUCCESS);
        }
        let kernels = kernel::choose(root(), &self.keep)?;
        let lab = self.setup.ensure(Need::Run)?;
        let kernels = kernels.iter().map(|name| kernel::identify(&lab, name));
        let pruned = prune(&lab.cache, &kernels.collect::<Result<Vec<_>>>()?)?;
        if self.json.wanted {
            json::print(&cached(&lab.cache, &pruned.kept, &pruned.removed))?;
            return Ok(exit::SUCCESS);
        }
        show(&lab.cache, "removed from", &pruned.removed);
        show(&lab.cache, "kept in", &pruned.kept);
        println!("{}", limit(&lab.cache, &pruned.kept));
        Ok(exit::SUCCESS)
    }
}

fn cached<'a>(cache: &'a Cache, kept: &'a Sizes, removed: &'a Sizes) -> Cached<'a> {
    let entries =
        |sizes: &'a Sizes| sizes.iter().map(|(path, bytes)| Entry { path, bytes: *bytes }).collect();
    let limit_bytes = cache.limit().filter(|_| cache.check_own().is_ok());
    Cached { directory: cache.root(), limit_bytes, entries: entries(kept), removed: entries(removed) }
}

fn show(cache: &Cache, what: &str, sizes: &Sizes) {
    println!("{what} {}:", cache.root().display());
    let mut sizes: Vec<_> = sizes.iter().collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    for (path, bytes) in &sizes {
        println!("  {:>6} MB  {}", megabytes(**bytes), path.display());
    }
    println!("  {:>6} MB  total", megabytes(sizes.iter().map(|(_, bytes)| **bytes).sum()));
}

/// Describes how much of the limit is used.
fn limit(cache: &Cache, sizes: &Sizes) -> String {
    let is_limited = |path: &Path| LIMITED.iter().any(|kind| path.starts_with(kind));
    let used = sizes.iter().filter(|(path, _)| is_limited(path)).map(|(_, bytes)| *bytes).sum();
    let of = match (cache.limit(), cache.check_own()) {
        (None, _) => format!("without a limit ({LIMIT_VARIABLE})"),
        (Some(_), Err(error)) => format!("without a limit: {error:#}"),
        (Some(limit), Ok(())) => format!("of at most {} MB ({LIMIT_VARIABLE})", megabytes(limit)),
    };
    format!("  {:>6} MB  {}, {of}", megabytes(used), LIMITED.join(" and "))
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}
