//! The speed of a guest, relative to the machine that deadlines are written for.
//!
//! The reference is a guest under QEMU 7.2's emulation (TCG, `-cpu max,pauth-impdef=on`) on an
//! otherwise idle 2 GHz x86-64 core. There the agent's loop, 200,000 rounds of arithmetic and
//! memory accesses with a system call every 256th round, takes [`REFERENCE_MICROS`]. A guest that
//! takes twice as long gets twice the time for everything; a faster guest does not get less time.

use protocol::Hello;

/// The time that the agent's loop takes on the reference machine, in microseconds.
pub const REFERENCE_MICROS: u32 = 10_000;

/// The environment variable that passes the time scale to workloads: `1.00` or more.
pub const TIME_SCALE: &str = "FTRACE_LAB_TIME_SCALE";

/// The maximum time scale: even on a slow guest, a deadline must pass eventually.
const SCALE_MAX: f64 = 20.0;

/// Returns the factor by which deadlines are extended for a guest: 1 to 20.
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
