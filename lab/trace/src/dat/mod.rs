//! `trace.dat`, the file format of trace-cmd and KernelShark: reads versions 6 and 7, writes
//! version 6.
//!
//! Little-endian files only. Version 6 is one long header followed by the pages. Version 7 consists
//! of sections that options point to; any of them may be compressed. Both are described in
//! `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)` of trace-cmd.

mod compression;
mod input;
mod pages;
mod reader;
mod sections;
mod writer;

pub(super) use pages::{CpuData, PageReader};
pub(super) use reader::{Times, open};
pub use writer::{Appended, TracefsFiles, Writer};

/// The start of every file.
const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";
/// The maximum number of CPUs of a file: the kernel's limit on both arm64 and x86.
const CPUS_MAX: u32 = 8192;

/// The options of a file, by number.
mod option {
    pub(super) const DONE: u16 = 0;
    pub(super) const DATE: u16 = 1;
    pub(super) const CPUSTAT: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const OFFSET: u16 = 7;
    pub(super) const CPUCOUNT: u16 = 8;
    pub(super) const VERSION: u16 = 9;
    pub(super) const TSC2NSEC: u16 = 14;
    pub(super) const HEADER_INFO: u16 = 16;
    pub(super) const FTRACE_EVENTS: u16 = 17;
    pub(super) const EVENT_FORMATS: u16 = 18;
    pub(super) const KALLSYMS: u16 = 19;
    pub(super) const PRINTK: u16 = 20;
    pub(super) const CMDLINES: u16 = 21;
    pub(super) const BUFFER_TEXT: u16 = 22;
}

#[cfg(test)]
mod tests;
