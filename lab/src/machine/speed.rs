//! How fast a guest is, against the machine that deadlines are written for.
//!
//! The reference is a guest under QEMU 7.2's emulation (TCG, `-cpu max,pauth-impdef=on`) on a 2 GHz
//! x86-64 core with nothing else to do. There the agent's loop, 200,000 rounds of arithmetic and of
//! memory with a system call every 256th, takes [`REFERENCE_MICROS`].
//! A guest that takes twice as long gets twice the time for everything; one that is faster gets no
//! less.

use protocol::Hello;

/// How long the agent's loop takes on the reference machine, in microseconds.
pub const REFERENCE_MICROS: u32 = 10_000;

/// The environment variable by which workloads learn the scale of time: `1.00` or more.
pub const TIME_SCALE: &str = "FTRACE_LAB_TIME_SCALE";

/// No guest gets more time than so many times the reference's: a deadline has to come.
const SCALE_MAX: f64 = 20.0;

/// By how much deadlines are longer for a guest than on the reference machine: 1 to 20.
pub fn time_scale(hello: &Hello) -> f64 {
    (f64::from(hello.loop_micros) / f64::from(REFERENCE_MICROS)).clamp(1.0, SCALE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_guest_gets_more_time_and_a_fast_one_no_less() {
        let check = |loop_micros, expect: f64| {
            let scale = time_scale(&Hello { loop_micros, ..Hello::default() });
            assert!((scale - expect).abs() < 1e-9, "{loop_micros}: {scale}");
        };
        check(REFERENCE_MICROS, 1.0);
        check(3 * REFERENCE_MICROS, 3.0);
        check(REFERENCE_MICROS / 10, 1.0);
        check(0, 1.0);
        check(u32::MAX, 20.0);
    }
}
