//! A scenario file: YAML, with the languages of conditions, probes, paths and prototypes in it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::scenarios, bytes));
