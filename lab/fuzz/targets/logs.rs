//! A kernel log, a console, the output of a selftest.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::logs, bytes));
