//! Nothing is lost, whatever goes wrong: labs that are killed at any system call, full and read-only
//! disks, two labs on one cache, and a clock that is set back. Afterwards nothing is running, older
//! results are as they were, no half-written file has a final name, and the same command works.

mod clock;
mod kernel_commits;
mod killed_anywhere;
#[expect(dead_code, reason = "only other tests mount what users cannot reach")]
mod mount;
mod no_room;
mod one_cache;
mod patience;
#[expect(dead_code, reason = "only other tests compare the names of results")]
mod stage;
mod traced;
mod tree;
mod watched;
