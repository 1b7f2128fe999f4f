//! The pseudo file systems that the agent, the workloads and a scenario's files need.

use rustix::{
    io::Errno,
    mount::{MountFlags, mount},
};
use std::{fs, os::unix::fs::symlink};

/// Type, and where; in this order, for some lie below others.
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

/// As [`MOUNTS`], inside a whole userland, whose tree is not to be written to: where the lab puts
/// programs and modules.
const MOUNTS_IN_A_TREE: &[(&str, &str)] = &[("tmpfs", "/workloads"), ("tmpfs", "/modules")];

/// Names that programs expect in /dev and the kernel leaves to user space.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts the table, and makes the links. A kernel without one of them is told of on the console and
/// lived with: the request that needs it gets an errno.
pub(crate) fn mount_all() {
    mount_table(MOUNTS);
    for (to, at) in LINKS {
        // It is there in a whole userland, and cannot be made where /dev could not be mounted.
        let _ = symlink(to, at);
    }
}

/// As [`mount_all`], where a whole userland's own init has mounted most of it.
pub(crate) fn mount_in_a_tree() {
    mount_all();
    mount_table(MOUNTS_IN_A_TREE);
}

fn mount_table(table: &[(&str, &str)]) {
    for (kind, at) in table {
        // Below a file system that could not be mounted this fails, and so does the mount.
        let _ = fs::create_dir_all(at);
        match mount(*kind, *at, *kind, MountFlags::empty(), None) {
            // Inside a whole userland most of them are there.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(errno) => eprintln!("agent: cannot mount {kind} on `{at}`: {errno}"),
        }
    }
}
