//! The options `raw`, `hex` and `bin`.

use super::{Source, line::Line};
use crate::{Event, print};
use anyhow::{Context, Result};

/// The letters of a task's state, by its index.
const STATES: &[u8] = b"RSDTtXZPI";

/// Returns the letter of a task's state, by its index.
pub(super) fn state_letter(index: u64) -> char {
    STATES.get(index as usize).map_or('?', |&letter| char::from(letter))
}

/// The values of an event that `hex` and `bin` print, each with its size in bytes. `None` if the kernel
/// prints only the number of the event.
fn values(event: &Event<'_>, hex: bool) -> Option<Vec<(u64, usize)>> {
    let field = |name: &str| event.field(name).and_then(|value| value.as_u64()).unwrap_or(0);
    let letter = |name: &str| u64::from(u32::from(state_letter(field(name))));
    match (event.group(), event.name()) {
        ("ftrace", "function") => Some(vec![(field("ip"), 8), (field("parent_ip"), 8)]),
        ("ftrace", name @ ("context_switch" | "wakeup")) => {
            let (prev, next) = ((field("prev_state"), 1), (field("next_state"), 1));
            let (prev, next) = match (hex, name) {
                (false, _) => (prev, next),
                // A letter, and a number with the letter of the other.
                (true, "wakeup") => ((u64::from(b'+'), 1), (letter("next_state"), 4)),
                (true, _) => ((letter("prev_state"), 1), (letter("next_state"), 4)),
            };
            let number = |name: &str, size: usize| (field(name), size);
            Some(vec![
                number("prev_pid", 4),
                number("prev_prio", 1),
                prev,
                number("next_cpu", 4),
                number("next_pid", 4),
                number("next_prio", 1),
                next,
            ])
        }
        _ => None,
    }
}

fn number(event: &Event<'_>) -> u16 {
    event.format().id()
}

/// Appends an event as the option `bin` does.
pub(super) fn bin(source: &Source<'_>, event: &Event<'_>, line: &mut Line) {
    if source.is_on("context-info") {
        line.bytes(&event.pid.to_le_bytes());
        line.bytes(&event.cpu.to_le_bytes());
        line.bytes(&event.time.to_le_bytes());
    }
    match values(event, false) {
        Some(values) => {
            values.into_iter().for_each(|(value, size)| line.bytes(&value.to_le_bytes()[..size]));
        }
        None => line.push(&format!("type: {}\n", number(event))),
    }
}

/// Appends an event as the option `hex` does: each value in hexadecimal, a space after it.
pub(super) fn hex(source: &Source<'_>, event: &Event<'_>, line: &mut Line) {
    let mut put = |value: u64, size: usize| line.push(&format!("{:0width$x} ", value, width = 2 * size));
    if source.is_on("context-info") {
        put(u64::from(event.pid as u32), 4);
        put(u64::from(event.cpu), 4);
        put(event.time, 8);
    }
    match values(event, true) {
        Some(values) => values.into_iter().for_each(|(value, size)| put(value, size)),
        None => line.push(&format!("type: {}\n", number(event))),
    }
    line.push("\n");
}

/// Appends an event as the option `raw` does.
pub(super) fn raw(source: &Source<'_>, event: &Event<'_>, line: &mut Line) -> Result<()> {
    if source.is_on("context-info") {
        line.push(&format!("{} {} {} ", event.pid, event.cpu, event.time));
    }
    let field = |name: &str| event.field(name).and_then(|value| value.as_u64()).unwrap_or(0);
    let own = (event.group() == "ftrace").then(|| event.name());
    match own {
        Some("function") => line.push(&format!("{:x} {:x}\n", field("ip"), field("parent_ip"))),
        Some(name @ ("context_switch" | "wakeup")) => {
            let prev = if name == "wakeup" { '+' } else { state_letter(field("prev_state")) };
            line.push(&format!(
                "{} {} {prev} {} {} {} {}\n",
                field("prev_pid"),
                field("prev_prio"),
                field("next_cpu"),
                field("next_pid"),
                field("next_prio"),
                state_letter(field("next_state"))
            ));
        }
        Some("print") => line.push(&format!("# {:x} {}", field("ip"), message(source, event)?)),
        Some("bprint" | "bputs") => {
            line.push(&format!(": {:x} : ", field("ip")));
            line.printed(&message(source, event)?);
        }
        Some("raw_data") => line.push(&data(event)),
        Some("osnoise") => {
            let names = [
                "runtime",
                "noise",
                "max_sample",
                "hw_count",
                "nmi_count",
                "irq_count",
                "softirq_count",
                "thread_count",
            ];
            line.push(&format!("{}\n", names.map(|name| field(name).to_string()).join(" ")));
        }
        Some("hwlat") => {
            let (inner, outer, number) = (field("duration"), field("outer_duration"), field("seqnum"));
            line.push(&format!("{inner} {outer} {} {:09} {number}\n", field("tv_sec"), field("tv_nsec")));
        }
        Some("timerlat") => {
            let values = ["seqnum", "context", "timer_latency"].map(|name| field(name).to_string());
            line.push(&format!("{}\n", values.join(" ")));
        }
        Some("func_repeats") => {
            let since = (field("top_delta_ts") << 32) | field("bottom_delta_ts");
            let (ip, parent, count) = (field("ip"), field("parent_ip"), field("count"));
            line.push(&format!("{ip} {parent} {count} {since}\n"));
        }
        _ => line.push(&format!("type: {}\n", number(event))),
    }
    Ok(())
}

/// Returns the text of a `print`, `bprint` or `bputs` entry, with its newline.
pub(super) fn message(source: &Source<'_>, event: &Event<'_>) -> Result<String> {
    let field = |name: &str| event.field(name);
    let text = match event.name() {
        "bprint" => (|| {
            let arguments = event.data().get(event.format().field("buf")?.offset..)?;
            print::filled(event, field("fmt")?.as_u64()?, arguments, source.printing())
        })(),
        "bputs" => (|| Some(source.metadata.printk_format(field("str")?.as_u64()?)?.to_owned()))(),
        _ => field("buf").and_then(|text| Some(text.as_text()?.to_owned())),
    };
    text.with_context(|| format!("the lab cannot print the `{}` entry {event:?}", event.name()))
}

/// Returns the text of a `raw_data` entry.
pub(super) fn data(event: &Event<'_>) -> String {
    let id = event.field("id").and_then(|value| value.as_u64()).unwrap_or(0);
    let start = event.format().field("buf").map_or(usize::MAX, |field| field.offset);
    let bytes = event.data().get(start..).unwrap_or_default();
    let bytes: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
    format!("# {id:x} buf:{bytes}\n")
}
