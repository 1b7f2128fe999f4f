//! What the agent sends, and what the lab sends to it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::frames, bytes));
