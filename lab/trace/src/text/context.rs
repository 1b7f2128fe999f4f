//! The part of a line before the event: task, CPU, state, time.

use super::{
    Source,
    line::{Line, Since},
};
use crate::Event;
use std::collections::BTreeSet;

/// The CPUs whose buffer has begun in the text.
#[derive(Debug, Default)]
pub(super) struct Started(BTreeSet<u32>);

/// The factors from a nanosecond to each mark of a long time.
const MARKS: [(u64, char); 6] = [
    (1_000_000_000, '$'),
    (100_000_000, '@'),
    (10_000_000, '*'),
    (1_000_000, '#'),
    (100_000, '!'),
    (10_000, '+'),
];

const IRQS_OFF: u8 = 0x01;
/// No support for interrupts off before 6.13; since then, a lazy reschedule is due.
const NO_SUPPORT_OR_LAZY: u8 = 0x02;
const NEED_RESCHED: u8 = 0x04;
const HARDIRQ: u8 = 0x08;
const SOFTIRQ: u8 = 0x10;
const PREEMPT_RESCHED: u8 = 0x20;
const NMI: u8 = 0x40;
const BH_OFF: u8 = 0x80;

/// Appends what precedes the event with this index.
pub(super) fn append(
    source: &Source<'_>,
    index: usize,
    event: &Event<'_>,
    started: &mut Started,
    line: &mut Line,
) {
    let overwritten = source.setting.stats.iter().any(|stats| stats.overrun > 0);
    if source.is_on("annotate") && overwritten && started.0.insert(event.cpu) && index > 1 {
        line.push(&format!("##### CPU {} buffer started ####\n", event.cpu));
    }
    if !source.is_on("context-info") {
        return;
    }
    if source.is_on("latency-format") {
        return latency(source, index, event, line);
    }
    let (comm, pid, cpu) = (event.comm(), event.pid, event.cpu);
    line.push(&format!("{comm:>16}-{pid:<7} "));
    if source.is_on("record-tgid") {
        line.push(&match source.setting.tgid(pid).filter(|&tgid| tgid != 0) {
            Some(tgid) => format!("({tgid:>7}) "),
            None => "(-------) ".to_owned(),
        });
    }
    line.push(&format!("[{cpu:03}] "));
    if source.is_on("irq-info") {
        line.push(&state(source, event));
    }
    line.push(&format!("{}: ", time(source, event.time)));
}

/// Formats a time as the lines do.
pub(super) fn time(source: &Source<'_>, time: u64) -> String {
    if source.metadata.counts_nanoseconds() {
        let micros = rounded(time);
        format!(" {:>5}.{:06}", micros / 1_000_000, micros % 1_000_000)
    } else {
        format!(" {time:>12}")
    }
}

/// Returns microseconds, rounded as the kernel's `ns2usecs` does.
fn rounded(nanoseconds: u64) -> u64 {
    nanoseconds.wrapping_add(500) / 1000
}

/// Formats the flags and the preempt count of an event: `d.h1.`.
pub(super) fn state(source: &Source<'_>, event: &Event<'_>) -> String {
    let flags = event.flags();
    let is = |flag: u8| flags & flag != 0;
    let lazy = source.version >= (6, 13);
    let irqs = match (is(IRQS_OFF), is(BH_OFF)) {
        (true, true) => 'D',
        (true, false) => 'd',
        (false, true) => 'b',
        _ if !lazy && is(NO_SUPPORT_OR_LAZY) => 'X',
        _ => '.',
    };
    let resched = match (is(NEED_RESCHED), lazy && is(NO_SUPPORT_OR_LAZY), is(PREEMPT_RESCHED)) {
        (true, true, true) => 'B',
        (true, false, true) => 'N',
        (false, true, true) => 'L',
        (true, true, false) => 'b',
        (true, false, false) => 'n',
        (false, false, true) => 'p',
        (false, true, false) => 'l',
        (false, false, false) => '.',
    };
    let interrupt = match (is(NMI), is(HARDIRQ), is(SOFTIRQ)) {
        (true, true, _) => 'Z',
        (true, false, _) => 'z',
        (false, true, true) => 'H',
        (false, true, false) => 'h',
        (false, false, true) => 's',
        (false, false, false) => '.',
    };
    let count = event.preempt_count();
    let digit = |digit: u8| if digit == 0 { ".".to_owned() } else { format!("{digit:x}") };
    format!("{irqs}{resched}{interrupt}{}{}", digit(count & 0xf), digit(count >> 4))
}

/// Returns the mark of a time that is long.
pub(super) fn mark(nanoseconds: u64) -> char {
    MARKS.iter().find(|(limit, _)| nanoseconds > *limit).map_or(' ', |&(_, mark)| mark)
}

/// Appends the context of the option `latency-format`.
fn latency(source: &Source<'_>, index: usize, event: &Event<'_>, line: &mut Line) {
    let (comm, pid, cpu) = (event.comm(), event.pid, event.cpu);
    let next = source.records.get(index + 1).map_or(event.time, |next| next.time);
    let after = next.saturating_sub(event.time);
    let nanoseconds = source.metadata.counts_nanoseconds();
    let verbose = source.is_on("verbose");
    if verbose {
        let (flags, depth) = (event.flags(), event.preempt_count() & 0xf);
        line.push(&format!("{comm:>16} {pid:>7} {cpu:>3} {flags} {depth:08x} {index:08x} "));
    } else {
        let short: String = comm.chars().take(8).collect();
        line.push(&format!("{short:>8}-{pid:<7} {cpu:>3}{}", state(source, event)));
    }
    match (verbose, nanoseconds) {
        (true, true) => {
            line.push(&format!("[{:08x}] ", rounded(event.time)));
            line.since(event.time, Since::Millis);
            let after = rounded(after);
            line.push(&format!("ms (+{}.{:03}ms): ", after / 1000, after % 1000));
        }
        (true, false) => {
            line.push(&format!("[{:016x}] ", event.time));
            line.since(event.time, Since::UnitsBare);
            line.push(&format!(" (+{after}): "));
        }
        (false, true) => {
            line.push(" ");
            line.since(event.time, Since::Micros);
            line.push(&format!("us{}: ", mark(rounded(after) * 1000)));
        }
        (false, false) => {
            line.push(" ");
            line.since(event.time, Since::Units);
            line.push(": ");
        }
    }
}
