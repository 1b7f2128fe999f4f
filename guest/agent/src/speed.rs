//! The speed of this guest: a fixed loop, timed for each `Hello`.
//!
//! Arithmetic alone would say little about an emulated machine, which is slowest at memory accesses
//! and system calls, so the loop has some of each.

use std::{hint::black_box, time::Instant};

/// Rounds of arithmetic and memory.
const ROUNDS: u32 = 200_000;

/// Rounds per system call.
const ROUNDS_A_CALL: u32 = 256;

/// Words that are read and written in random order: more than any first-level cache or TLB covers.
const WORDS: usize = 1 << 15;

/// Runs the loop and returns its duration in microseconds, at least 1.
pub(crate) fn loop_micros() -> u32 {
    let mut words = vec![0_u64; WORDS];
    let started = Instant::now();
    let mut number: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..ROUNDS {
        // Each round depends on the previous one, so neither the processor nor the compiler can skip any.
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
