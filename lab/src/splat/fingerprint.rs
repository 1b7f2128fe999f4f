//! Identifies splats by their kind and the functions at the top of their stacks.

use super::Frame;
use crate::words::hex;
use sha2::{Digest, Sha256};

/// The number of functions that count.
const TOP: usize = 4;

/// Functions that report a splat or in which every task waits, and that are not its cause.
const REPORTERS: [&str; 52] = [
    "dump_backtrace",
    "show_stack",
    "dump_stack",
    "dump_stack_lvl",
    "vpanic",
    "panic",
    "nmi_panic",
    "__stack_chk_fail",
    "__warn",
    "__warn_printk",
    "warn_slowpath_fmt",
    "report_bug",
    "die",
    "die_kernel_fault",
    "__do_kernel_fault",
    "do_mem_abort",
    "el1_abort",
    "el1_dbg",
    "el1h_64_sync_handler",
    "el1h_64_sync",
    "__schedule_bug",
    "__might_sleep",
    "__might_resched",
    "print_report",
    "print_circular_bug",
    "check_noncircular",
    "print_usage_bug",
    "mark_lock",
    "__lock_acquire",
    "lock_acquire",
    "lock_release",
    "lockdep_rcu_suspicious",
    "__mutex_lock",
    "mutex_lock_nested",
    "mutex_lock",
    "nmi_cpu_backtrace",
    "print_trailer",
    "object_err",
    "slab_err",
    "__slab_err",
    "check_bytes_and_report",
    "check_object",
    "check_slab",
    "free_debug_processing",
    "alloc_debug_processing",
    "nmi_trigger_cpumask_backtrace",
    "arch_trigger_cpumask_backtrace",
    "__switch_to",
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
];

/// Prefixes of sanitizer functions, both those that the compiler calls and those that report.
const SANITIZERS: [&str; 7] = ["__asan_", "kasan_", "__kasan_", "__ubsan_", "ubsan_", "__tsan_", "kcsan_"];

/// Returns the fingerprint of a splat, twelve hexadecimal digits. Without frames, its title counts instead,
/// without numbers; also for a data race, since either of its two tasks may come first in the report and
/// the title has both.
pub(super) fn of(kind: &str, title: &str, frames: &[Frame]) -> String {
    let mut digest = Sha256::new();
    digest.update(kind);
    let frames = if kind == "KCSAN" { &[] } else { telling(frames) };
    let mut functions = frames.iter().map(|frame| bare(&frame.symbol)).take(TOP).peekable();
    if functions.peek().is_none() {
        digest.update("\n");
        digest.update(without_numbers(title));
    }
    for function in functions {
        digest.update("\n");
        digest.update(function);
    }
    hex(&digest.finalize()[..6])
}

/// Skips the reporting functions at the top of a stack; returns all frames if there are no others.
pub(super) fn telling(frames: &[Frame]) -> &[Frame] {
    let first = frames.iter().position(|frame| !is_reporter(bare(&frame.symbol)));
    &frames[first.unwrap_or_default()..]
}

fn is_reporter(symbol: &str) -> bool {
    REPORTERS.contains(&symbol) || SANITIZERS.iter().any(|begins| symbol.starts_with(begins))
}

/// Removes compiler suffixes from a symbol: `.isra.0`, `.constprop.0`, `.cold`.
fn bare(symbol: &str) -> &str {
    match symbol.find('.') {
        Some(at) if at > 0 => &symbol[..at],
        _ => symbol,
    }
}

/// Returns the words of a title that contain no digits: PIDs, CPUs and addresses differ each time.
fn without_numbers(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_name = |word: &&str| !word.is_empty() && !word.chars().any(|c| c.is_ascii_digit());
    words.filter(is_name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(symbols: &[(&str, u64)]) -> Vec<Frame> {
        let frame = |&(symbol, offset): &(&str, u64)| Frame {
            symbol: symbol.to_owned(),
            offset,
            size: 0x100,
            module: None,
            places: Vec::new(),
        };
        symbols.iter().map(frame).collect()
    }

    #[test]
    fn the_same_bug_has_the_same_fingerprint() {
        let one = of("oops", "at 0", &frames(&[("f.isra.0", 4), ("g", 8), ("h", 1), ("i", 2), ("j", 3)]));
        let two = of("oops", "at 8", &frames(&[("f", 12), ("g", 16), ("h", 1), ("i", 2), ("other", 3)]));
        assert_eq!(one, two);
        assert_eq!(one.len(), 12);
        let reported = of("oops", "", &frames(&[("panic", 1), ("f", 12), ("g", 1), ("h", 1), ("i", 1)]));
        assert_eq!(one, reported);
        let sanitized =
            of("oops", "", &frames(&[("__asan_load4", 1), ("f", 2), ("g", 1), ("h", 1), ("i", 1)]));
        assert_eq!(one, sanitized);
    }

    #[test]
    fn another_bug_has_another() {
        let of_f = of("oops", "t", &frames(&[("f", 4), ("g", 8)]));
        assert_ne!(of_f, of("warning", "t", &frames(&[("f", 4), ("g", 8)])));
        assert_ne!(of_f, of("oops", "t", &frames(&[("f", 4), ("h", 8)])));
        let without = |title| of("panic", title, &[]);
        assert_eq!(without("stuck for 22s! [init:33]"), without("stuck for 27s! [init:1]"));
        assert_ne!(without("Attempted to kill init!"), without("Out of memory"));
    }
}
