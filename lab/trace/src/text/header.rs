//! The lines before the first event.

use super::{Source, line::Line, release};
use anyhow::{Result, bail};
use std::fmt::Write;

/// Tracers that print the same header as no tracer.
const PLAIN: [&str; 3] = ["nop", "function", "hwlat"];

/// Returns the lines before the first event.
pub(super) fn header(source: &Source<'_>) -> Result<Line> {
    let tracer = source.setting.tracer.as_str();
    let mut line = Line::default();
    let mut text = format!("# tracer: {tracer}\n#\n");
    let latency = source.is_on("latency-format");
    if source.is_on("context-info") && !(latency && source.records.is_empty()) {
        if latency {
            latency_header(source, &mut line, text);
            text = String::new();
        }
        if tracer == "function_graph" {
            graph_header(source, &mut text);
        } else if tracer == "osnoise" {
            text.push_str(OSNOISE);
        } else if tracer == "timerlat" {
            text.push_str(TIMERLAT);
        } else if !PLAIN.contains(&tracer) {
            bail!("the header of the tracer `{tracer}` is not known to the lab");
        } else if source.is_on("verbose") {
        } else if latency {
            text.push_str(LATENCY_COLUMNS);
        } else {
            let (entries, total) = totals(source);
            let cpus = source.setting.online;
            let _ = write!(text, "# entries-in-buffer/entries-written: {entries}/{total}   #P:{cpus}\n#\n");
            columns(source, &mut text);
        }
    }
    line.push(&text);
    Ok(line)
}

/// Returns the number of events in the buffers of all CPUs, and of those and the overwritten ones.
fn totals(source: &Source<'_>) -> (u64, u64) {
    let stats = source.setting.stats.iter();
    let entries: u64 = stats.clone().map(|stats| stats.entries).sum();
    (entries, entries + stats.map(|stats| stats.overrun).sum::<u64>())
}

const LATENCY_COLUMNS: &str = "\
#                    _------=> CPU#            \n\
#                   / _-----=> irqs-off/BH-disabled\n\
#                  | / _----=> need-resched    \n\
#                  || / _---=> hardirq/softirq \n\
#                  ||| / _--=> preempt-depth   \n\
#                  |||| / _-=> migrate-disable \n\
#                  ||||| /     delay           \n\
#  cmd     pid     |||||| time  |   caller     \n\
#     \\   /        ||||||  \\    |    /       \n";

/// With two percent signs up to 7.3: they are not a format there.
const OSNOISE: &str = "\
#                                _-----=> irqs-off
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable                         MAX
#                              |||| /     delay                                   SINGLE      Interference counters:
#                              |||||               RUNTIME      NOISE  %% OF CPU  NOISE    +-----------------------------+
#           TASK-PID      CPU# |||||   TIMESTAMP    IN US       IN US  AVAILABLE  IN US     HW    NMI    IRQ   SIRQ THREAD
#              | |         |   |||||      |           |             |    |            |      |      |      |      |      |
";

const TIMERLAT: &str = "\
#                                _-----=> irqs-off
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#                              |||||            ACTIVATION
#           TASK-PID      CPU# |||||   TIMESTAMP   ID            CONTEXT                 LATENCY
#              | |         |   |||||      |         |                  |                       |
";

/// Appends the names of the columns.
fn columns(source: &Source<'_>, text: &mut String) {
    let tgid = source.is_on("record-tgid");
    if !source.is_on("irq-info") {
        let (name, mark) = if tgid { ("   TGID   ", "     |    ") } else { ("", "") };
        let _ = writeln!(text, "#           TASK-PID    {name} CPU#     TIMESTAMP  FUNCTION");
        let _ = writeln!(text, "#              | |      {mark}   |         |         |");
        return;
    }
    let width = if tgid { 12 } else { 2 };
    let space = " ".repeat(width);
    for column in [
        "  _-----=> irqs-off/BH-disabled",
        " / _----=> need-resched",
        "| / _---=> hardirq/softirq",
        "|| / _--=> preempt-depth",
        "||| / _-=> migrate-disable",
        "|||| /     delay",
    ] {
        let _ = writeln!(text, "#                            {space}{column}");
    }
    let (name, mark) = (&"     TGID   "[..width], &"       |    "[..width]);
    let _ = writeln!(text, "#           TASK-PID  {name} CPU#  |||||  TIMESTAMP  FUNCTION");
    let _ = writeln!(text, "#              | |    {mark}   |   |||||     |         |");
}

/// Appends `before` and the header of the latency format, for a tracer that measures no latency.
fn latency_header(source: &Source<'_>, line: &mut Line, before: String) {
    let tracer = &source.setting.tracer;
    let release = release(source.metadata.uname()).unwrap_or_default();
    let (entries, total) = totals(source);
    let (model, cpus) = (&source.setting.preemption, source.setting.online);
    line.push(&before);
    line.push(&format!(
        "# {tracer} latency trace v1.1.5 on {release}\n\
         # --------------------------------------------------------------------\n\
         # latency: 0 us, #{entries}/{total}, CPU#"
    ));
    // The one on which the tracer was last started.
    line.cpu(cpus);
    line.push(&format!(
        " | (M:{model} VP:0, KP:0, SP:0 HP:0 #P:{cpus})\n\
         #    -----------------\n\
         #    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n\
         #    -----------------\n#\n"
    ));
}

/// Appends the names of the columns of function_graph.
fn graph_header(source: &Source<'_>, text: &mut String) {
    let is_on = |option: &str| source.is_on(option);
    let latency = is_on("latency-format");
    let columns = [
        (is_on("funcgraph-abstime"), 16, "     TIME       ", "      |         "),
        (is_on("funcgraph-cpu"), 4, " CPU", " |  "),
        (is_on("funcgraph-proc"), 17, "  TASK/PID       ", "   |    |        "),
        (latency, 0, "||||   ", "||||   "),
        (is_on("funcgraph-duration"), 0, "  DURATION   ", "   |   |      "),
    ];
    if latency {
        let width: usize = columns.iter().filter(|column| column.0).map(|column| column.1).sum();
        let space = " ".repeat(width);
        for column in [
            "  _-----=> irqs-off        ",
            " / _----=> need-resched    ",
            "| / _---=> hardirq/softirq ",
            "|| / _--=> preempt-depth   ",
            "||| /                      ",
        ] {
            let _ = writeln!(text, "#{space}{column}");
        }
    }
    let shown = || columns.iter().filter(|column| column.0);
    let names: String = shown().map(|column| column.2).collect();
    let marks: String = shown().map(|column| column.3).collect();
    let _ = writeln!(text, "#{names}               FUNCTION CALLS");
    let _ = writeln!(text, "#{marks}               |   |   |   |");
}
