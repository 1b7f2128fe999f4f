//! The dump of a guest's memory, the kernel that it is of, and what drgn answers about it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::within(fuzz::bodies::vmcore, bytes));
