//! The layout of a sub-buffer, as the kernel prints it, and a page after a NUL.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::layouts, bytes));
