//! The fuzzer: `FUZZ_TARGET` names what to do with the inputs.

#![no_main]

mod bodies;
mod capped;

use std::{env, sync::LazyLock};

static BODY: LazyLock<bodies::Body> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").expect("FUZZ_TARGET names no target");
    let target = bodies::TARGETS.into_iter().find(|(target, _)| *target == name);
    target.unwrap_or_else(|| panic!("no fuzz target is `{name}`")).1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| BODY(bytes));
