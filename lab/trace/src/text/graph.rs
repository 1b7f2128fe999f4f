//! The text of the tracer function_graph.

use super::{
    Source,
    context::{self, Started},
    entry,
    line::Line,
    raw,
};
use crate::Event;
use anyhow::Result;
use std::{collections::HashMap, fmt::Write, ops::Range};

/// The depth up to which the kernel remembers the functions that were entered.
const DEPTH_MAX: i64 = 50;

/// The maximum depth of an indentation: the kernel's lines are no longer than two pages.
const INDENT_MAX: i64 = 1 << 16;

/// What the text shows, by the options.
struct Graph<'a> {
    source: &'a Source<'a>,
    context: bool,
    interrupts: bool,
    /// The addresses of functions that interrupts enter.
    entries: Range<u64>,
    /// The width of a CPU's number.
    width: usize,
    cpus: HashMap<u32, Cpu>,
}

/// The state of a CPU.
#[derive(Default)]
struct Cpu {
    pid: Option<i32>,
    depth: i64,
    /// The depth at which an interrupt was entered.
    interrupted: Option<i64>,
    /// The functions that were entered, by depth.
    entered: HashMap<i64, u64>,
}

/// A call or a return.
struct Call {
    function: u64,
    depth: i64,
}

impl Call {
    fn of(event: &Event<'_>) -> Call {
        let number = |name: &str| event.field(name).and_then(|value| value.as_u64()).unwrap_or(0);
        Call { function: number("func"), depth: i64::from(number("depth") as i32) }
    }
}

/// Passes the text of each event to `visit`, until that returns false.
pub(super) fn events(
    source: &Source<'_>,
    visit: &mut dyn FnMut(Line, Option<&Event<'_>>) -> bool,
) -> Result<()> {
    let symbols = source.metadata.symbols();
    let address = |name: &str| symbols.address(name).unwrap_or(0);
    let mut graph = Graph {
        source,
        context: source.is_on("context-info"),
        interrupts: source.is_on("funcgraph-irqs"),
        entries: address("__irqentry_text_start")..address("__irqentry_text_end"),
        width: source.setting.online.saturating_sub(1).to_string().len(),
        cpus: HashMap::new(),
    };
    let mut used = vec![false; source.records.len()];
    let mut started = Started::default();
    for (index, record) in source.records.iter().enumerate() {
        if used[index] {
            continue;
        }
        let event = record.event(source.metadata);
        let mut line = Line::default();
        match (event.group(), event.name()) {
            ("ftrace", "funcgraph_entry") => {
                let next =
                    (index + 1..source.records.len()).find(|&next| source.records[next].cpu == record.cpu);
                let call = Call::of(&event);
                if graph.enters_hidden(&event, &call) {
                    continue;
                }
                let leaf =
                    next.filter(|&next| is_return_of(&source.records[next].event(source.metadata), &event));
                graph.prologue(&event, Some(call.function), &mut line);
                match leaf {
                    Some(next) => {
                        used[next] = true;
                        graph.leaf(&event, &source.records[next].event(source.metadata), &mut line);
                    }
                    None => graph.nested(&event, &call, &mut line),
                }
            }
            ("ftrace", "funcgraph_exit") => {
                if graph.leaves_hidden(&event) {
                    continue;
                }
                graph.exit(&event, &mut line);
            }
            ("ftrace", "kernel_stack" | "function") => {
                entry::append(source, index, &event, &mut started, &mut line)?;
            }
            _ => graph.comment(&event, &mut line)?,
        }
        if !visit(line, Some(&event)) {
            break;
        }
    }
    Ok(())
}

fn is_return_of(next: &Event<'_>, call: &Event<'_>) -> bool {
    next.group() == "ftrace"
        && next.name() == "funcgraph_exit"
        && next.pid == call.pid
        && Call::of(next).function == Call::of(call).function
}

impl Graph<'_> {
    fn is_on(&self, option: &str) -> bool {
        self.source.is_on(option)
    }

    fn cpu(&mut self, event: &Event<'_>) -> &mut Cpu {
        self.cpus.entry(event.cpu).or_default()
    }

    /// Returns whether a call is one of an interrupt that is not shown.
    fn enters_hidden(&mut self, event: &Event<'_>, call: &Call) -> bool {
        let enters = self.entries.contains(&call.function);
        if self.interrupts {
            return false;
        }
        let cpu = self.cpu(event);
        if cpu.interrupted.is_none() && enters {
            cpu.interrupted = Some(call.depth);
        }
        cpu.interrupted.is_some()
    }

    /// Returns whether a return is one of an interrupt that is not shown.
    fn leaves_hidden(&mut self, event: &Event<'_>) -> bool {
        if self.interrupts {
            return false;
        }
        let depth = Call::of(event).depth;
        let cpu = self.cpu(event);
        let hidden = cpu.interrupted.is_some();
        cpu.interrupted = cpu.interrupted.filter(|&interrupted| interrupted < depth);
        hidden
    }

    /// Appends what precedes the duration; `function` is that of a call.
    fn prologue(&mut self, event: &Event<'_>, function: Option<u64>, line: &mut Line) {
        let cpu = self.cpu(event);
        let before = cpu.pid.replace(event.pid).filter(|&pid| pid != event.pid);
        if let Some(before) = before {
            let rule = " ------------------------------------------\n";
            let (cpu, before, now) = (self.number(event.cpu), self.task(before), self.task(event.pid));
            line.push(&format!("{rule}{cpu}{before} => {now}\n{rule}\n"));
        }
        if let Some(function) = function {
            self.interrupt((event, event), function, "==========>", line);
        }
        self.columns(event, event, line);
    }

    /// Appends time, CPU and task of an event, and the state of an event.
    fn columns(&self, event: &Event<'_>, of: &Event<'_>, line: &mut Line) {
        if !self.context {
            return;
        }
        if self.is_on("funcgraph-abstime") {
            let (seconds, micros) = (event.time / 1_000_000_000, event.time % 1_000_000_000 / 1000);
            line.push(&format!("{seconds:>5}.{micros:06} |  "));
        }
        if self.is_on("funcgraph-cpu") {
            line.push(&self.number(event.cpu));
        }
        if self.is_on("funcgraph-proc") {
            line.push(&format!("{} | ", self.task(event.pid)));
        }
        if self.is_on("latency-format") {
            line.push(&format!(" {} | ", context::state(self.source, of)));
        }
    }

    fn number(&self, cpu: u32) -> String {
        format!(" {cpu:>width$}) ", width = self.width)
    }

    /// Formats a task, in the middle of its column.
    fn task(&self, pid: i32) -> String {
        let comm: String = self.source.metadata.comm(pid).chars().take(7).collect();
        format!("{:^14}", format!("{comm}-{pid}"))
    }

    /// Appends the mark of an interrupt, if the function is the first of one. At its end, the time is that of
    /// a leaf's call, and the state that of its return.
    fn interrupt(&self, events: (&Event<'_>, &Event<'_>), function: u64, arrow: &str, line: &mut Line) {
        if !self.entries.contains(&function) {
            return;
        }
        self.columns(events.0, events.1, line);
        let (before, after) = if self.has_duration() { ("  ", " |") } else { ("", "") };
        line.push(&format!("{before}{arrow}{after}\n"));
    }

    fn has_duration(&self) -> bool {
        self.context && self.is_on("funcgraph-duration")
    }

    /// Appends the column of the duration, empty without one.
    fn duration(&self, nanoseconds: Option<u64>, line: &mut Line) {
        if !self.has_duration() {
            return;
        }
        let Some(nanoseconds) = nanoseconds else {
            line.push("              |  ");
            return;
        };
        let mark = if self.is_on("funcgraph-overhead") { context::mark(nanoseconds) } else { ' ' };
        let micros = (nanoseconds / 1000).to_string();
        let mut text = micros.clone();
        if micros.len() < 7 {
            // At most seven digits and the point.
            let digits = format!("{:03}", nanoseconds % 1000);
            let _ = write!(text, ".{}", &digits[..(7 - micros.len()).min(3)]);
        }
        let spaces = " ".repeat(8_usize.saturating_sub(text.len()));
        line.push(&format!("{mark} {text} us {spaces}|  "));
    }

    fn indent(depth: i64, line: &mut Line) {
        line.push(&" ".repeat(2 * usize::try_from(depth.min(INDENT_MAX)).unwrap_or(0)));
    }

    /// Returns a function's name as `%ps` prints it.
    fn name(&self, function: u64) -> String {
        self.source.manner().name(self.source.metadata.symbols(), function)
    }

    /// Appends a call that returns at once.
    fn leaf(&mut self, event: &Event<'_>, exit: &Event<'_>, line: &mut Line) {
        let call = Call::of(event);
        let cpu = self.cpu(event);
        cpu.depth = call.depth - 1;
        if call.depth < DEPTH_MAX {
            cpu.entered.remove(&call.depth);
        }
        self.duration(Some(duration(exit)), line);
        Self::indent(call.depth, line);
        let name = self.name(call.function);
        match self.value(exit) {
            Some(value) => line.printed(&format!("{name}(); /* {value} */\n")),
            None => line.printed(&format!("{name}();\n")),
        }
        self.interrupt((event, exit), call.function, "<==========", line);
    }

    /// Appends a call that makes others.
    fn nested(&mut self, event: &Event<'_>, call: &Call, line: &mut Line) {
        let cpu = self.cpu(event);
        cpu.depth = call.depth;
        if call.depth < DEPTH_MAX {
            cpu.entered.insert(call.depth, call.function);
        }
        self.duration(None, line);
        Self::indent(call.depth, line);
        line.printed(&format!("{}() {{\n", self.name(call.function)));
    }

    /// Appends a return.
    fn exit(&mut self, event: &Event<'_>, line: &mut Line) {
        let call = Call::of(event);
        let cpu = self.cpu(event);
        cpu.depth = call.depth - 1;
        let matches = call.depth >= DEPTH_MAX || cpu.entered.remove(&call.depth) == Some(call.function);
        self.prologue(event, None, line);
        self.duration(Some(duration(event)), line);
        Self::indent(call.depth, line);
        let name = self.name(call.function);
        match self.value(event) {
            Some(value) => line.printed(&format!("}} /* {name} {value} */\n")),
            None if matches && !self.is_on("funcgraph-tail") => line.push("}\n"),
            None => line.printed(&format!("}} /* {name} */\n")),
        }
        if self.is_on("funcgraph-overrun") {
            let overrun = event.field("overrun").and_then(|value| value.as_u64()).unwrap_or(0);
            line.push(&format!(" (Overruns: {overrun})\n"));
        }
        self.interrupt((event, event), call.function, "<==========", line);
    }

    /// Returns the return value, if it is shown: an errno in decimal, anything else in hexadecimal.
    fn value(&self, exit: &Event<'_>) -> Option<String> {
        let value = exit.field("retval").filter(|_| self.is_on("funcgraph-retval"))?.as_u64()?;
        let sign_extended = if value >> 31 == 1 { value as u32 as i32 as i64 } else { value as i64 };
        let is_errno = (-4095..0).contains(&sign_extended) && !self.is_on("funcgraph-retval-hex");
        let before = if self.source.version >= (6, 13) { "ret=" } else { "= " };
        Some(if is_errno { format!("{before}{sign_extended}") } else { format!("{before}{value:#x}") })
    }

    /// Appends any other event as a comment.
    fn comment(&mut self, event: &Event<'_>, line: &mut Line) -> Result<()> {
        let depth = self.cpu(event).depth;
        self.prologue(event, None, line);
        self.duration(None, line);
        if depth > 0 {
            Self::indent(depth + 1, line);
        }
        line.push("/* ");
        if entry::is_message(event) {
            line.printed(&raw::message(self.source, event)?);
        } else {
            entry::text(self.source, event, line)?;
        }
        line.strip_newline();
        line.push(" */\n");
        Ok(())
    }
}

fn duration(exit: &Event<'_>) -> u64 {
    let time = |name: &str| exit.field(name).and_then(|value| value.as_u64()).unwrap_or(0);
    time("rettime").wrapping_sub(time("calltime"))
}
