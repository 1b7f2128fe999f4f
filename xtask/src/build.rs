//! `cargo xtask lab build`

use crate::{complete, exit, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    guest,
    host::prerequisites::Need,
    kernel::{self, WITHOUT_VMLINUX},
};
use std::path::PathBuf;

/// Build a kernel and its initramfs, and print their paths
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab build 6.12 --yes")]
pub(crate) struct Build {
    /// A kernel of kernels/*.yaml
    #[arg(add = complete::kernels())]
    kernel: String,
    /// Build it from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Look up the current version of its Debian suite or git branch
    #[arg(long)]
    refresh: bool,
    #[command(flatten)]
    setup: Setup,
}

impl Build {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure(Need::Run)?;
        if self.refresh {
            kernel::forget_source(&lab, &self.kernel)?;
        }
        let kernel = kernel::build(&lab, &self.kernel, self.kernel_tree.as_deref())?;
        let guest = guest::build(&lab)?;
        println!("{} {} (source {})", kernel.name, kernel.version, kernel.source_version);
        let (vmlinux, initramfs) = (kernel.vmlinux(), guest.initramfs_for(&kernel, &[])?);
        let vmlinux = vmlinux.map_or_else(|| WITHOUT_VMLINUX.into(), |path| path.display().to_string());
        println!("image      {}\nvmlinux    {vmlinux}", kernel.image().display());
        println!("initramfs  {}", initramfs.display());
        Ok(exit::SUCCESS)
    }
}
