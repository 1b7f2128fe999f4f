//! One event's format, and a record of it behind a NUL.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::formats, bytes));
