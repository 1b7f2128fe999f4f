//! The format of an event and, after a NUL, a record of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::formats, bytes));
