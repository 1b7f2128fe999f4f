//! How a sub-buffer is laid out, in the kernel's words, and a page behind a NUL.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::layouts, bytes));
