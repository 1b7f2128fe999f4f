//! Sub-buffers of a CPU, under formats that are as they should be.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::pages, bytes));
