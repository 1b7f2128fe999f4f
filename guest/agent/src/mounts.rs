//! The pseudo-filesystems that the agent, the workloads and a scenario's files need.

use rustix::{
    io::Errno,
    mount::{MountFlags, mount},
};
use std::{fs, os::unix::fs::symlink};

/// Filesystem types and mount points; parents precede what is mounted below them.
const MOUNTS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
];

/// Further mounts inside a whole userland, whose tree must not be written to: the directories in
/// which the lab puts programs and modules.
const MOUNTS_IN_A_TREE: &[(&str, &str)] = &[("tmpfs", "/workloads"), ("tmpfs", "/modules")];

/// Links that programs expect in /dev and that the kernel leaves to user space.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts [`MOUNTS`], and makes [`LINKS`]. A failed mount is reported on the console, nothing more: the
/// request that needs it gets an errno.
pub(crate) fn mount_all() {
    mount_table(MOUNTS);
    for (to, at) in LINKS {
        // It already exists in a whole userland, and cannot be made if /dev could not be mounted.
        let _ = symlink(to, at);
    }
}

/// Like [`mount_all`], in a whole userland whose own init has mounted most of it.
pub(crate) fn mount_in_a_tree() {
    mount_all();
    mount_table(MOUNTS_IN_A_TREE);
}

fn mount_table(table: &[(&str, &str)]) {
    for (kind, at) in table {
        // Below a filesystem that could not be mounted this fails, and so does the mount.
        let _ = fs::create_dir_all(at);
        match mount(*kind, *at, *kind, MountFlags::empty(), None) {
            // Inside a whole userland most of them are already mounted.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(errno) => eprintln!("agent: cannot mount {kind} on `{at}`: {errno}"),
        }
    }
}
