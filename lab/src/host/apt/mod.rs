//! Fetches packages of any Debian suite through a private apt root in the cache: nothing is
//! installed on the host, and root privileges are not needed.
//!
//! Each suite has its own root below `apt/`, with the host's mirror and keyring as its only source.
//! Its package lists are fetched on demand if they are missing, older than a day, or lack a
//! requested package. Without a network, older lists are used, with a warning.

mod choose;
mod download;
mod hints;
mod root;
mod versions;

pub use choose::{Choice, Side};
pub use versions::compare_versions;

use super::{process::Tool, sources::Archive};
use crate::context::Lab;
use anyhow::{Context, Result, anyhow};
use download::Download;
use hints::explain;
use root::Root;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Private apt roots, one per suite.
#[derive(Clone, Debug)]
pub struct Apt {
    lab: Lab,
    archive: Archive,
    architecture: String,
}

/// A downloaded package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name, such as `linux-source-6.12`.
    pub name: String,
    /// Its Debian version, such as `6.12.107-1`.
    pub version: String,
    /// `amd64`, `arm64`, or `all`.
    pub architecture: String,
    /// The `.deb` file.
    pub deb: PathBuf,
}

impl Apt {
    /// Finds the archive and the host's architecture. Accesses neither network nor cache.
    pub fn open(lab: &Lab) -> Result<Apt> {
        let architecture = Tool::new("dpkg").arg("--print-architecture").run().context(
            "cannot determine this host's Debian architecture; packages are fetched with apt and dpkg",
        )?;
        Ok(Apt {
            lab: lab.clone(),
            archive: Archive::of_host()?,
            architecture: architecture.trim().to_owned(),
        })
    }

    /// Returns the version of `package` in `suite`. A package is `name` or `name:arm64`.
    pub fn version(&self, suite: &str, package: &str) -> Result<String> {
        let shown = self.show(suite, package)?;
        let version = shown.lines().find_map(|line| line.strip_prefix("Version: "));
        version.map(str::to_owned).ok_or_else(|| anyhow!("apt-cache reported no version for `{package}`"))
    }

    /// Returns the entry of `package` in `suite`, a paragraph of deb-control(5). `=VERSION` selects
    /// a version.
    pub fn show(&self, suite: &str, package: &str) -> Result<String> {
        let root = self.root(suite)?;
        let show = || root.tool("apt-cache").args(["show", "--no-all-versions", package]).run();
        root.again_with_new_lists(show)
            .with_context(|| format!("no package `{package}` in Debian `{suite}` of `{}`", self.archive.uri))
    }

    /// Downloads packages into the directory `into`. A package is `name` or `name:arm64`,
    /// optionally with `=VERSION`. Returns them in the order of their file names. apt verifies each
    /// against its hash in the signed lists.
    pub fn fetch(&self, suite: &str, packages: &[&str], into: &Path) -> Result<Vec<Package>> {
        let root = self.root(suite)?;
        let plan = || -> Result<Vec<Download>> {
            let uris = root.tool("apt-get").args(["download", "--print-uris"]).args(packages).run()?;
            uris.lines().filter(|line| line.starts_with('\'')).map(Download::parse).collect()
        };
        let names = packages.join(" ");
        let plan = root.again_with_new_lists(plan).with_context(|| {
            format!("cannot find all of `{names}` in Debian `{suite}` of `{}`", self.archive.uri)
        })?;
        let temporary = tempfile::Builder::new()
            .prefix(".downloading-")
            .tempdir_in(into)
            .with_context(|| format!("cannot create a directory in `{}`", into.display()))?;
        let total_bytes: u64 = plan.iter().map(|download| download.size_bytes).sum();
        let megabytes = total_bytes.div_ceil(1_000_000);
        let task = self
            .lab
            .progress
            .task(format!("downloading {}, {megabytes} MB", choose::briefly(packages)), Some(megabytes));
        root.tool("apt-get")
            .args(["download", "--quiet"])
            .args(packages)
            .directory(temporary.path())
            .run_watched(|| task.set(size_bytes_of(temporary.path()) / 1_000_000))
            .map_err(|error| {
                let uri = &self.archive.uri;
                explain(error, &format!("cannot download `{names}` of Debian `{suite}` from `{uri}`"), |_| {
                    true
                })
            })?;
        plan.into_iter().map(|download| download.put_in_place(temporary.path(), into)).collect()
    }

    /// Opens the root of `suite`, with package lists that are not old.
    fn root(&self, suite: &str) -> Result<Root<'_>> {
        let root = Root::open(self, suite)?;
        root.refresh(false)?;
        Ok(root)
    }
}

fn size_bytes_of(directory: &Path) -> u64 {
    let Ok(files) = fs::read_dir(directory) else { return 0 };
    files.flatten().filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}
