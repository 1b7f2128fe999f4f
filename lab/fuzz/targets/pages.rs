//! Sub-buffers of a CPU, with valid formats.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::pages, bytes));
