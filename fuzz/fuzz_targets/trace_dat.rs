//! A whole trace file: opened, decoded, printed.

#![no_main]

use lab::trace::{Item, Trace};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};
use std::{fs::File, io::Write, ops::ControlFlow, os::fd::AsRawFd, path::Path};

fuzz_target!(|bytes: &[u8]| {
    let mut file = File::from(memfd_create("trace", MemfdFlags::CLOEXEC).expect("a file in memory"));
    file.write_all(bytes).expect("room in memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let Ok(trace) = Trace::open(Path::new(&path)) else { return };
    let mut left = 10_000;
    let _ = trace.for_each(|item| {
        if let Item::Event(event) = item {
            let _ = (trace.display(&event), event.fields().count(), event.flags());
        }
        left -= 1;
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
});
