//! Frames between the agent and the lab, in either direction.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::frames, bytes));
