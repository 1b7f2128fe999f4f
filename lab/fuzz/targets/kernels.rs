//! The description of a kernel, and a configuration fragment.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::kernels, bytes));
