//! A scenario's file: YAML, and in it the languages of conditions, probes, paths and prototypes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::scenarios, bytes));
