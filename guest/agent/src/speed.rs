//! How fast this guest is: a fixed loop, timed whenever the lab says hello.
//!
//! Arithmetic alone would say little of an emulated machine, which is slowest at memory and at the
//! way into the kernel and back, so the loop has some of each.

use std::{hint::black_box, time::Instant};

/// Rounds of arithmetic and memory.
const ROUNDS: u32 = 200_000;

/// A system call every so many rounds.
const ROUNDS_A_CALL: u32 = 256;

/// Words that are read and written, in no order: more than a first cache or TLB of anything holds.
const WORDS: usize = 1 << 15;

/// How long the loop takes here and now, in microseconds, at least 1.
pub(crate) fn loop_micros() -> u32 {
    let mut words = vec![0_u64; WORDS];
    let started = Instant::now();
    let mut number: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..ROUNDS {
        // Each round needs the one before, so no processor and no compiler skips any.
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        let word = &mut words[number as usize % WORDS];
        *word = word.wrapping_add(number);
        number = number.wrapping_add(*word >> 60);
        if round % ROUNDS_A_CALL == 0 {
            black_box(rustix::process::getppid());
        }
    }
    black_box((number, words));
    u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX).max(1)
}
