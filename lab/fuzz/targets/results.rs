//! A `results.json`, another one to compare it with, and a kernel log.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::results, bytes));
