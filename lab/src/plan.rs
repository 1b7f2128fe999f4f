//! Scenario → [`Plan`]: the writes that arm its trace, in an order that the kernel accepts.
//!
//! A pure function. What is written where follows the kernel's Documentation/trace; nothing here
//! knows of a guest.

use crate::scenario::{EventSpec, TraceSetup};
use protocol::WriteMode;

/// How large each CPU's ring buffer is unless a scenario says otherwise, in KiB.
pub const DEFAULT_BUFFER_KB: u32 = 4096;

/// What is written to tracefs before the first step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes, in order.
    pub arming: Vec<Arm>,
}

/// One write below tracefs.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The file, relative to tracefs.
    pub file: String,
    /// What is written, without the newline behind it.
    pub text: String,
    /// `>` or `>>`.
    pub mode: WriteMode,
}

impl Plan {
    /// The plan of a scenario's `trace:`.
    pub fn of(trace: &TraceSetup) -> Plan {
        let mut plan = Plan::default();
        // Nothing of the arming itself belongs into the trace.
        plan.set("tracing_on", "0");
        plan.set("buffer_size_kb", trace.buffer_kb.unwrap_or(DEFAULT_BUFFER_KB).to_string());
        if let Some(clock) = trace.clock {
            plan.set("trace_clock", clock.name());
        }
        for (option, on) in &trace.options {
            plan.set(format!("options/{option}"), if *on { "1" } else { "0" });
        }
        for (file, functions) in [
            ("set_ftrace_filter", &trace.functions),
            ("set_ftrace_notrace", &trace.notrace),
            ("set_graph_function", &trace.graph_functions),
        ] {
            for function in functions {
                plan.add(file, function);
            }
        }
        for event in &trace.events {
            plan.event(event);
        }
        // Last: from here on functions are traced.
        if let Some(tracer) = &trace.tracer {
            plan.set("current_tracer", tracer);
        }
        plan
    }

    fn event(&mut self, event: &EventSpec) {
        let (directory, filter, triggers) = match event {
            EventSpec::Event(event) => (event.event.replace(':', "/"), &event.filter, &event.triggers),
            EventSpec::Kprobe(probe) => {
                let head = format!("p:{}/{} {}", probe.group, probe.name, probe.kprobe);
                self.add("kprobe_events", definition(head, &probe.args));
                (format!("{}/{}", probe.group, probe.name), &probe.filter, &probe.triggers)
            }
            EventSpec::Kretprobe(probe) => {
                let maxactive = probe.maxactive.map(|count| count.to_string()).unwrap_or_default();
                let head = format!("r{maxactive}:{}/{} {}", probe.group, probe.name, probe.kretprobe);
                self.add("kprobe_events", definition(head, &probe.args));
                (format!("{}/{}", probe.group, probe.name), &probe.filter, &probe.triggers)
            }
        };
        if let Some(filter) = filter {
            self.set(format!("events/{directory}/filter"), filter);
        }
        for trigger in triggers {
            self.add(format!("events/{directory}/trigger"), trigger);
        }
        self.set(format!("events/{directory}/enable"), "1");
    }

    fn set(&mut self, file: impl Into<String>, text: impl Into<String>) {
        self.arming.push(Arm { file: file.into(), text: text.into(), mode: WriteMode::Truncate });
    }

    fn add(&mut self, file: impl Into<String>, text: impl Into<String>) {
        self.arming.push(Arm { file: file.into(), text: text.into(), mode: WriteMode::Append });
    }
}

/// A line of `kprobe_events`.
fn definition<'a>(head: String, args: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    args.into_iter().fold(head, |line, (name, fetch)| format!("{line} {name}={fetch}"))
}
