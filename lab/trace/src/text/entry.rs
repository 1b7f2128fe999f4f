//! The text of one event.

use super::{
    Source,
    context::{self, Started},
    fields,
    line::Line,
    raw,
};
use crate::{Event, Value};
use anyhow::{Result, bail};

/// The kernel's mark of a trampoline in a stack trace.
const TRAMPOLINE: u64 = i32::MAX as u64;

/// Appends the text of the event with this index.
pub(super) fn append(
    source: &Source<'_>,
    index: usize,
    event: &Event<'_>,
    started: &mut Started,
    line: &mut Line,
) -> Result<()> {
    if is_message(event) && source.is_on("trace_printk") && source.is_on("printk-msg-only") {
        line.printed(&raw::message(source, event)?);
        return Ok(());
    }
    if source.is_on("bin") {
        raw::bin(source, event, line);
        return Ok(());
    }
    if source.is_on("hex") {
        raw::hex(source, event, line);
        return Ok(());
    }
    if source.is_on("raw") {
        return raw::raw(source, event, line);
    }
    context::append(source, index, event, started, line);
    if source.is_on("fields") { fields::append(source, event, line) } else { text(source, event, line) }
}

/// Returns whether an event is a message of the kernel or of a program.
pub(super) fn is_message(event: &Event<'_>) -> bool {
    event.group() == "ftrace" && matches!(event.name(), "print" | "bprint" | "bputs")
}

/// Appends the text of an event after its context.
pub(super) fn text(source: &Source<'_>, event: &Event<'_>, line: &mut Line) -> Result<()> {
    match (event.group(), event.name()) {
        ("ftrace", name) => own(source, event, name, line),
        ("syscalls", name) => system_call(source, event, name, line),
        ("user_events", _) => fields::append(source, event, line),
        (group, name) => {
            line.push(&format!("{name}: "));
            if let Some(probed) = source.setting.probed(group, name) {
                line.push(&format!("({probed})"));
            }
            let mut printed = String::new();
            let printer = event.format().printer();
            let done = printer.and_then(|printer| printer.print(event, source.printing(), &mut printed));
            if done.is_none() {
                let format = event.format().print_format();
                bail!("the lab cannot print `{group}:{name}`, whose format is {format}");
            }
            // The format of a synthetic event has commas; the text has none.
            line.printed(&if group == "synthetic" { spaced(&printed, event) } else { printed });
            line.push("\n");
            Ok(())
        }
    }
}

/// Replaces the `, ` before each field of a synthetic event by a space.
fn spaced(printed: &str, event: &Event<'_>) -> String {
    let names = event.format().own_fields().iter().map(|field| &field.name);
    names.fold(printed.to_owned(), |text, name| text.replace(&format!(", {name}="), &format!(" {name}=")))
}

/// Appends the text of one of ftrace's own events.
fn own(source: &Source<'_>, event: &Event<'_>, name: &str, line: &mut Line) -> Result<()> {
    let field = |name: &str| event.field(name).and_then(|value| value.as_u64()).unwrap_or(0);
    match name {
        "function" => {
            function(source, event, line);
            line.push("\n");
        }
        "context_switch" => switch(source, event, "==>", line),
        "wakeup" => switch(source, event, "  +", line),
        "kernel_stack" => kernel_stack(source, event, line),
        "user_stack" => user_stack(source, event, line)?,
        "print" | "bprint" | "bputs" => {
            line.printed(&format!("{}: ", source.ip(field("ip"))));
            line.printed(&raw::message(source, event)?);
        }
        "raw_data" => line.push(&raw::data(event)),
        "func_repeats" => {
            function(source, event, line);
            let since = (field("top_delta_ts") << 32) | field("bottom_delta_ts");
            let last = context::time(source, event.time.wrapping_sub(since));
            line.push(&format!(" (repeats: {}, last_ts:{last})\n", field("count")));
        }
        "osnoise" => osnoise(&field, line),
        "hwlat" if field("nmi_count") == 0 => {
            let (inner, outer, count) = (field("duration"), field("outer_duration"), field("count"));
            let (number, seconds, nanoseconds) = (field("seqnum"), field("tv_sec"), field("tv_nsec"));
            line.push(&format!(
                "#{number:<5} inner/outer(us): {inner:>4}/{outer:<5} ts:{seconds}.{nanoseconds:09} count:{count}\n"
            ));
        }
        "timerlat" => {
            let contexts = ["irq", "thread", "user-ret"];
            let context = contexts.get(field("context") as usize).unwrap_or(&"?");
            let (number, latency) = (field("seqnum"), field("timer_latency"));
            line.push(&format!("#{number:<5} context {context:>6} timer_latency {latency:>9} ns\n"));
        }
        _ => bail!("the text of `ftrace:{name}` is not known to the lab"),
    }
    Ok(())
}

fn function(source: &Source<'_>, event: &Event<'_>, line: &mut Line) {
    let field = |name: &str| event.field(name).and_then(|value| value.as_u64()).unwrap_or(0);
    line.printed(&source.ip(field("ip")));
    if source.is_on("print-parent") && field("parent_ip") != 0 {
        line.printed(&format!(" <-{}", source.ip(field("parent_ip"))));
    }
}

fn switch(source: &Source<'_>, event: &Event<'_>, arrow: &str, line: &mut Line) {
    let field = |name: &str| event.field(name).and_then(|value| value.as_u64()).unwrap_or(0);
    let task = |of: &str| {
        let state = raw::state_letter(field(&format!("{of}_state")));
        format!("{:>7}:{:>3}:{state}", field(&format!("{of}_pid")), field(&format!("{of}_prio")))
    };
    let (prev, next, cpu) = (task("prev"), task("next"), field("next_cpu"));
    let comm = source.metadata.comm(field("next_pid") as i32);
    line.push(&format!(" {prev} {arrow} [{cpu:03}] {next} {comm}\n"));
}

fn addresses(event: &Event<'_>) -> Vec<u64> {
    match event.field("caller") {
        Some(Value::List(callers)) => callers.iter().filter_map(Value::as_u64).collect(),
        _ => Vec::new(),
    }
}

fn kernel_stack(source: &Source<'_>, event: &Event<'_>, line: &mut Line) {
    line.push("<stack trace>\n");
    for address in addresses(event).into_iter().take_while(|&address| address != u64::MAX) {
        line.push(" => ");
        match address {
            TRAMPOLINE => line.push("[FTRACE TRAMPOLINE]"),
            address => line.printed(&source.ip(address)),
        }
        line.push("\n");
    }
}

fn user_stack(source: &Source<'_>, event: &Event<'_>, line: &mut Line) -> Result<()> {
    if source.is_on("sym-userobj") {
        bail!("the memory maps of programs (option `sym-userobj`) are not known to the lab");
    }
    line.push("<user stack trace>\n");
    for address in addresses(event).into_iter().take_while(|&address| address != 0) {
        line.push(&format!(" =>  <{address:016x}>\n"));
    }
    Ok(())
}

fn osnoise(field: &dyn Fn(&str) -> u64, line: &mut Line) {
    let (runtime, noise, longest) = (field("runtime"), field("noise"), field("max_sample"));
    let ratio = runtime.wrapping_sub(noise).wrapping_mul(10_000_000).checked_div(runtime).unwrap_or(0);
    line.push(&format!("{runtime} {noise:>10} {:>3}.{:05} {longest:>7}", ratio / 100_000, ratio % 100_000));
    for name in ["hw_count", "nmi_count", "irq_count", "softirq_count", "thread_count"] {
        line.push(&format!(" {:>6}", field(name)));
    }
    line.push("\n");
}

/// Appends the text of a system call, whose print format is not that of its text.
fn system_call(source: &Source<'_>, event: &Event<'_>, name: &str, line: &mut Line) -> Result<()> {
    let field = |name: &str| event.field(name).and_then(|value| value.as_u64());
    if let Some(name) = name.strip_prefix("sys_exit_") {
        line.push(&format!("sys_{name} -> {:#x}\n", field("ret").unwrap_or(0)));
        return Ok(());
    }
    let Some(name) = name.strip_prefix("sys_enter_") else {
        bail!("the text of `syscalls:{name}` is not known to the lab")
    };
    // After the number of the call.
    let arguments = event.format().own_fields().iter().skip(1);
    if arguments.clone().any(|argument| argument.type_name.contains("__data_loc")) {
        bail!("the lab cannot print `sys_enter_{name}`, which has data of the program");
    }
    let argument = |argument: &crate::FieldFormat| {
        let type_name =
            if source.is_on("verbose") { format!("{} ", argument.type_name) } else { String::new() };
        let value = field(&argument.name).unwrap_or(0);
        let value = match source.version >= (6, 15) {
            true if value < 10 => value.to_string(),
            true => format!("{value:#x}"),
            false => format!("{value:x}"),
        };
        format!("{type_name}{}: {value}", argument.name)
    };
    let arguments: Vec<String> = arguments.map(argument).collect();
    line.push(&format!("sys_{name}({})\n", arguments.join(", ")));
    Ok(())
}
