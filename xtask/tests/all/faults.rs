//! Nothing is lost, whatever goes wrong: labs that are killed at any system call, full and read-only
//! disks, two labs on one cache, and a clock that is set back. Afterwards nothing is running, older
//! results are as they were, no half-written file has a final name, and the same command works.
