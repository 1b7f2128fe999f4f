//! What makes two splats the same: their kind, and the functions at the top of their stacks.

use super::Frame;
use sha2::{Digest, Sha256};

/// How many functions count.
const TOP: usize = 4;

/// Functions that report a splat, or that every task waits in, and are not where it comes from.
const REPORTERS: [&str; 32] = [
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
    "nmi_cpu_backtrace",
    "nmi_trigger_cpumask_backtrace",
    "arch_trigger_cpumask_backtrace",
    "__switch_to",
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
];

/// How the functions begin that compilers call for the sanitizers, and those that report for them.
const SANITIZERS: [&str; 7] = ["__asan_", "kasan_", "__kasan_", "__ubsan_", "ubsan_", "__tsan_", "kcsan_"];

/// Twelve hexadecimal digits of a splat. Where it has no frames, its title counts instead, without
/// numbers.
pub(super) fn of(kind: &str, title: &str, frames: &[Frame]) -> String {
    let mut digest = Sha256::new();
    digest.update(kind);
    let mut functions = telling(frames).iter().map(|frame| bare(&frame.symbol)).take(TOP).peekable();
    if functions.peek().is_none() {
        digest.update("\n");
        digest.update(without_numbers(title));
    }
    for function in functions {
        digest.update("\n");
        digest.update(function);
    }
    digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// The frames from the first on that says something; all of them if none does.
pub(super) fn telling(frames: &[Frame]) -> &[Frame] {
    let first = frames.iter().position(|frame| !is_reporter(bare(&frame.symbol)));
    &frames[first.unwrap_or_default()..]
}

fn is_reporter(symbol: &str) -> bool {
    REPORTERS.contains(&symbol) || SANITIZERS.iter().any(|begins| symbol.starts_with(begins))
}

/// A symbol without what a compiler put behind it: `.isra.0`, `.constprop.0`, `.cold`.
fn bare(symbol: &str) -> &str {
    match symbol.find('.') {
        Some(at) if at > 0 => &symbol[..at],
        _ => symbol,
    }
}

/// A title without numbers, addresses and what is in brackets: processes and CPUs differ each time.
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
