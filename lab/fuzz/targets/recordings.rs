//! The stored facts of a scenario, which are judged again.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::recordings, bytes));
