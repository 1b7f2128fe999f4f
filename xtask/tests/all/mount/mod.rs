//! Mounts for tests of disks that are full or read-only.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A mount that is unmounted on drop. Constructors return `None` if this user cannot mount.
pub(crate) struct Mount(PathBuf);

impl Mount {
    pub(crate) fn tmpfs(at: &Path, options: &str) -> Option<Mount> {
        Mount::new(Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]), at)
    }

    /// Mounts `from` read-only, for users who cannot reach it by its own path.
    pub(crate) fn bind(from: &Path, at: &Path) -> Option<Mount> {
        Mount::new(Command::new("mount").args(["--bind", "-o", "ro"]).arg(from), at)
    }

    fn new(mount: &mut Command, at: &Path) -> Option<Mount> {
        fs::create_dir_all(at).unwrap();
        let mount = mount.arg(at).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Mount(at.to_owned()));
        }
        eprintln!("unsupported: only root can mount a filesystem");
        None
    }

    pub(crate) fn change(&self, options: &str) {
        let mut mount = Command::new("mount");
        assert!(mount.args(["-o", &format!("remount,{options}")]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Detaches it at once, even if a process still uses it.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
