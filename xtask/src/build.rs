//! `cargo xtask lab build`

use crate::{complete, exit, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    guest,
    host::prerequisites::Need,
    kernel::{self, WITHOUT_VMLINUX},
    progress::Progress,
};
use std::path::PathBuf;

/// Build a kernel and what runs in its guest, and say where they are
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab build 6.12 --yes")]
pub(crate) struct Build {
    /// A kernel of kernels/*.yaml
    #[arg(add = complete::kernels())]
    kernel: String,
    /// Build it from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Ask again what the suite or branch of its source stands for today
    #[arg(long)]
    refresh: bool,
    #[command(flatten)]
    setup: Setup,
}

impl Build {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Run, &progress)?;
        if self.refresh {
            kernel::forget_source(&cache, root(), &self.kernel)?;
        }
        let kernel = kernel::build(&cache, root(), &self.kernel, self.kernel_tree.as_deref(), &progress)?;
        let guest = guest::build(&cache, root(), &progress)?;
        println!("{} {} (source {})", kernel.name, kernel.version, kernel.source_version);
        let (vmlinux, initramfs) = (kernel.vmlinux(), guest.initramfs_for(&kernel, &[])?);
        let vmlinux = vmlinux.map_or_else(|| WITHOUT_VMLINUX.into(), |path| path.display().to_string());
        println!("image      {}\nvmlinux    {vmlinux}", kernel.image().display());
        println!("initramfs  {}", initramfs.display());
        Ok(exit::SUCCESS)
    }
}
