//! What only the whole file can tell: events that nothing defines, fields that no event has,
//! values used before they are bound.

use super::{
    Amount, Document, EventSpec, Expectation, Step, boot,
    event_ref::EventRef,
    events,
    expect::{EventMatch, Hist, Latency, Pairs, Stats},
    kselftest,
    locate::{At, Problem},
    matrix,
    nearest::unknown,
    sequence::Sequence,
};
use crate::verdict::Condition;

/// ftrace's own entries, which no scenario has to define.
const FTRACE_EVENTS: [&str; 16] = [
    "function",
    "funcgraph_entry",
    "funcgraph_exit",
    "func_repeats",
    "context_switch",
    "wakeup",
    "kernel_stack",
    "user_stack",
    "print",
    "bprint",
    "bputs",
    "raw_data",
    "branch",
    "hwlat",
    "osnoise",
    "timerlat",
];

/// What every event has: the lab's names and the kernel's.
pub(crate) const COMMON_FIELDS: [&str; 12] = [
    "pid",
    "cpu",
    "comm",
    "time",
    "event",
    "group",
    "common_pid",
    "common_comm",
    "common_cpu",
    "common_type",
    "common_flags",
    "common_preempt_count",
];

/// Fields of `function`; the last is there on kernels that record arguments.
const FUNCTION_FIELDS: [&str; 3] = ["ip", "parent_ip", "args"];

/// Events, steps and expectations that one file may have, each.
const ITEMS_MAX: usize = 1000;

pub(super) type Checked = Result<(), Problem>;

pub(super) fn problem<T>(path: &[At], message: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { path: path.to_vec(), message: message.into() })
}

/// `path` and one more step.
pub(super) fn below(path: &[At], step: At) -> Vec<At> {
    [path, &[step]].concat()
}

/// Checks the whole document. The first problem found is the one reported.
pub(super) fn check(document: &Document) -> Checked {
    let counts = [
        ("events", document.trace.events.len()),
        ("steps", document.steps.len()),
        ("expect", document.expect.len()),
    ];
    for (key, count) in counts {
        if count > ITEMS_MAX {
            let path =
                if key == "events" { vec![At::Key("trace"), At::Key(key)] } else { vec![At::Key(key)] };
            return problem(&path, format!("{count} items, expected at most {ITEMS_MAX}"));
        }
    }
    if document.steps.is_empty() && document.expect.is_empty() {
        return problem(&[], "nothing to check, expected `steps` or `expect` with at least one item");
    }
    let (bootconfig, userland) = (document.bootconfig.as_ref(), document.userland.as_ref());
    if let Some((key, message)) = boot::conflict(document.fresh, &document.cmdline, bootconfig, userland) {
        return problem(&[At::Key(key)], message);
    }
    let needy = document.steps.iter().enumerate();
    if let (None, Some((index, kind))) =
        (userland, needy.filter_map(|(index, step)| Some((index, step.needs_userland()?))).next())
    {
        let path = [At::Key("steps"), At::Index(index)];
        return problem(&path, format!("`{kind}` without a userland, expected `userland: debian` as well"));
    }
    if document.dies.is_some() && !document.expect.is_empty() {
        return problem(&[At::Key("expect")], "`expect` beside `dies`: a kernel that dies leaves no trace");
    }
    document.matrix.as_ref().map_or(Ok(()), matrix::check)?;
    events::check(&document.trace.events)?;
    for (index, step) in document.steps.iter().enumerate() {
        check_step(step, &[At::Key("steps"), At::Index(index)])?;
    }
    let scope = Scope { document };
    kselftest::check(document, scope.steps())?;
    for (index, expectation) in document.expect.iter().enumerate() {
        let verb = At::Key(expectation.verb());
        let path = [At::Key("expect"), At::Index(index), verb];
        scope.check(expectation, &path)?;
        if let Some((one, other)) = expectation.instances_apart() {
            let message =
                format!("`{one}` and `{other}` are not of one tracing instance, expected events of one");
            return problem(&path, message);
        }
        if let Some(clock) = document.trace.clock.filter(|clock| !clock.is_time())
            && expectation.compares_times()
        {
            let clock = clock.name();
            return problem(&path, format!("the trace's clock is `{clock}`, expected one that counts time"));
        }
    }
    Ok(())
}

fn check_step(step: &Step, path: &[At]) -> Checked {
    match step {
        Step::Read(read) if read.errno.is_some() && read.text.is_some() => problem(
            &below(path, At::Key("text")),
            "text of a read that fails, expected only one of errno and text",
        ),
        Step::Refuses(step) if step.errors.0.is_empty() => {
            problem(&below(path, At::Key("errors")), "no commands, expected at least one")
        }
        Step::Text(text) => text.check(path),
        Step::Inspect(inspect) => inspect.check(path),
        _ => Ok(()),
    }
}

/// An event an expectation uses, with what it looks at there.
pub(super) struct Use<'a> {
    pub(super) event: &'a EventRef,
    pub(super) condition: Option<&'a Condition>,
    pub(super) path: Vec<At>,
    /// Names bound by earlier events.
    pub(super) bound: &'a [String],
}

pub(super) struct Scope<'a> {
    pub(super) document: &'a Document,
}

impl Scope<'_> {
    /// All steps, with those of a matrix.
    fn steps(&self) -> impl Iterator<Item = &Step> {
        let parts = self.document.matrix.iter().flat_map(|matrix| matrix.steps());
        self.document.steps.iter().chain(parts)
    }

    fn check(&self, expectation: &Expectation, path: &[At]) -> Checked {
        let check = |event, condition: &Option<Condition>| {
            self.check_use(&Use { event, condition: condition.as_ref(), path: path.to_vec(), bound: &[] })
        };
        match expectation {
            Expectation::Count(count) => {
                check(&count.event, &count.condition)?;
                check_amount(count.is, count.at_least, count.at_most, true, path)
            }
            Expectation::Values(values) => {
                check(&values.event, &values.condition)?;
                self.check_field(&values.event, &values.field, &below(path, At::Key("field")))
            }
            Expectation::Set(set) => {
                check(&set.event, &set.condition)?;
                self.check_field(&set.event, &set.field, &below(path, At::Key("field")))
            }
            Expectation::Never(never) => check(&never.event, &never.condition),
            Expectation::Sequence(sequence) => self.check_sequence(sequence, path),
            Expectation::Pairs(pairs) => self.check_pairs(pairs, path),
            Expectation::Latency(latency) => self.check_latency(latency, path),
            Expectation::Graph(graph) => {
                self.check_graph_tracer(path)?;
                check_amount(graph.is, graph.at_least, graph.at_most, false, path)
            }
            Expectation::Hist(hist) => self.check_hist(hist, path),
            Expectation::Stack(stack) => {
                check(&stack.event, &stack.condition)?;
                if stack.frames.is_empty() {
                    return problem(&below(path, At::Key("frames")), "no frames, expected at least one");
                }
                Ok(())
            }
            Expectation::Stats(stats) => self.check_stats(stats, path),
            Expectation::KernelLog(_) => Ok(()),
            Expectation::Agrees(agrees) => self.check_agrees(agrees, path),
        }
    }

    pub(super) fn check_use(&self, used: &Use<'_>) -> Checked {
        self.check_event(used.event, &below(&used.path, At::Key("event")))?;
        let Some(condition) = used.condition else { return Ok(()) };
        let path = below(&used.path, At::Key("where"));
        for field in condition.fields() {
            self.check_field(used.event, field, &path)?;
        }
        for name in condition.bound() {
            if !used.bound.iter().any(|bound| bound == name) {
                let bound: Vec<&str> = used.bound.iter().map(String::as_str).collect();
                return problem(&path, unknown("bound value", name, &bound));
            }
        }
        Ok(())
    }

    /// Whether something defines the event: `trace`, ftrace itself, or, for `SYSTEM:NAME`, the kernel.
    pub(super) fn check_event(&self, event: &EventRef, path: &[At]) -> Checked {
        let events = &self.document.trace.events;
        if let Some(instance) = &event.instance {
            let known: Vec<_> = events.iter().filter_map(EventSpec::instance).collect();
            if !known.contains(&instance.as_str()) {
                return problem(path, unknown("tracing instance", instance, &known));
            }
        }
        if let Some(group) = &event.group {
            // Whichever instance records it: that another one does not is worth an expectation.
            let in_group = || events.iter().filter(|spec| spec.group() == group);
            if !in_group().any(EventSpec::is_defined)
                || in_group().any(|spec| spec.name() == event.name)
                || self.defined_elsewhere(&event.name)
            {
                return Ok(());
            }
            let names: Vec<_> =
                events.iter().map(|spec| format!("{}:{}", spec.group(), spec.name())).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            return problem(path, unknown("event", &event.to_string(), &names));
        }
        let events: Vec<_> =
            events.iter().filter(|spec| spec.instance() == event.instance.as_deref()).collect();
        let named: Vec<_> = events.iter().filter(|spec| spec.name() == event.name).collect();
        match named.len() {
            1 => Ok(()),
            0 if FTRACE_EVENTS.contains(&event.name.as_str()) || self.defined_elsewhere(&event.name) => {
                Ok(())
            }
            0 => {
                let names: Vec<_> = events.iter().map(|spec| spec.name()).collect();
                let hint =
                    if names.is_empty() { "a SYSTEM:NAME, or an event that `trace` defines" } else { "" };
                let message = unknown("event", &event.name, &names);
                problem(path, if hint.is_empty() { message } else { message.replace("none", hint) })
            }
            _ => {
                let groups: Vec<_> =
                    named.iter().map(|spec| format!("`{}:{}`", spec.group(), spec.name())).collect();
                problem(
                    path,
                    format!("ambiguous event `{}`, expected one of {}", event.name, groups.join(", ")),
                )
            }
        }
    }

    /// Whether what the boot is given or what a step writes defines this event, as far as its text tells.
    fn defined_elsewhere(&self, name: &str) -> bool {
        boot::mentions(&self.document.cmdline, self.document.bootconfig.as_ref(), name)
            || self.steps().any(|step| match step {
                Step::Write(write) if write.write.ends_with("_events") => {
                    write.text.lines().any(|line| line.split([':', '/', ' ', ';']).any(|word| word == name))
                }
                _ => false,
            })
    }

    /// Whether the event has the field, where its fields are known.
    pub(super) fn check_field(&self, event: &EventRef, field: &str, path: &[At]) -> Checked {
        // Those of an instance are defined by another item, maybe.
        let same = |spec: &&EventSpec| {
            spec.name() == event.name && event.group.as_deref().is_none_or(|group| group == spec.group())
        };
        let spec = self.document.trace.events.iter().filter(same).max_by_key(|spec| spec.is_defined());
        let own = match spec {
            Some(spec) => spec.fields(),
            None if event.name == "function" => Some(FUNCTION_FIELDS.to_vec()),
            None => None,
        };
        let Some(own) = own else { return Ok(()) };
        let known: Vec<&str> = own.into_iter().chain(COMMON_FIELDS).collect();
        if known.contains(&field) {
            return Ok(());
        }
        problem(path, unknown(&format!("field of `{event}`:"), field, &known))
    }

    fn check_sequence(&self, sequence: &Sequence, path: &[At]) -> Checked {
        if sequence.steps.len() < 2 {
            return problem(
                path,
                format!("a sequence of {} events, expected at least two", sequence.steps.len()),
            );
        }
        let mut bound: Vec<String> = Vec::new();
        for (index, step) in sequence.steps.iter().enumerate() {
            let path = below(path, At::Index(index));
            let used = Use {
                event: &step.event,
                condition: step.condition.as_ref(),
                path: path.clone(),
                bound: &bound,
            };
            self.check_use(&used)?;
            for name in &step.same.0 {
                let path = below(&path, At::Key("same"));
                if !bound.contains(name) {
                    let message = format!(
                        "`{name}` is not bound by an earlier event, expected one with `bind: {name}`"
                    );
                    return problem(&path, message);
                }
                self.check_field(&step.event, name, &path)?;
            }
            let path = below(&path, At::Key("bind"));
            for (name, field) in &step.bind.0 {
                self.check_field(&step.event, field, &path)?;
                if bound.contains(name) {
                    return problem(
                        &path,
                        format!("`{name}` is bound already, expected another name or `same: {name}`"),
                    );
                }
                bound.push(name.clone());
            }
        }
        Ok(())
    }

    fn check_match(&self, side: &EventMatch, path: Vec<At>) -> Checked {
        self.check_use(&Use { event: &side.event, condition: side.condition.as_ref(), path, bound: &[] })
    }

    fn check_pairs(&self, pairs: &Pairs, path: &[At]) -> Checked {
        self.check_match(&pairs.enter, below(path, At::Key("enter")))?;
        self.check_match(&pairs.exit, below(path, At::Key("return")))?;
        if pairs.enter.event == pairs.exit.event {
            let message = format!("`{}` is both enter and return, expected two events", pairs.exit.event);
            return problem(&below(path, At::Key("return")), message);
        }
        check_amount(pairs.is, pairs.at_least, pairs.at_most, false, path)
    }

    fn check_latency(&self, latency: &Latency, path: &[At]) -> Checked {
        self.check_match(&latency.from, below(path, At::Key("from")))?;
        self.check_match(&latency.to, below(path, At::Key("to")))?;
        for (from, to) in &latency.by.0 {
            let path = below(path, At::Key("by"));
            self.check_field(&latency.from.event, from, &path)?;
            self.check_field(&latency.to.event, to, &path)?;
        }
        if latency.p50.is_none() && latency.p95.is_none() && latency.max.is_none() {
            return problem(path, "no bound, expected one of `p50`, `p95`, `max`");
        }
        Ok(())
    }

    fn check_graph_tracer(&self, path: &[At]) -> Checked {
        let selects =
            |step: &Step| matches!(step, Step::Write(write) if write.write.ends_with("current_tracer"));
        let tracer = self.document.trace.tracer.as_deref();
        if tracer == Some("function_graph") || self.steps().any(selects) {
            return Ok(());
        }
        problem(path, "a call tree without its tracer, expected `tracer: function_graph` under `trace`")
    }

    fn check_hist(&self, hist: &Hist, path: &[At]) -> Checked {
        self.check_event(&hist.event, &below(path, At::Key("event")))?;
        if hist.entries.is_empty() && hist.hits.is_none() && hist.dropped.is_none() && !hist.only {
            return problem(
                path,
                "nothing asked of the histogram, expected one of `entries`, `hits`, `dropped`",
            );
        }
        for (index, entry) in hist.entries.iter().enumerate() {
            if entry.key.is_empty() {
                let path = [path, &[At::Key("entries"), At::Index(index), At::Key("key")]].concat();
                return problem(&path, "an entry without a key, expected its key fields and their values");
            }
        }
        Ok(())
    }

    fn check_stats(&self, stats: &Stats, path: &[At]) -> Checked {
        let of_event = stats.hits.or(stats.missed);
        let of_buffer = stats.entries.or(stats.overruns).or(stats.dropped);
        match &stats.event {
            Some(event) => {
                self.check_event(event, &below(path, At::Key("event")))?;
                if of_event.is_none() {
                    return problem(path, "nothing asked of the event, expected one of `hits`, `missed`");
                }
            }
            None if of_event.is_some() => {
                return problem(path, "counters of no event, expected `event` beside `hits` and `missed`");
            }
            None => {}
        }
        if of_event.or(of_buffer).is_none() {
            return problem(
                path,
                "nothing asked, expected one of `hits`, `missed`, `entries`, `overruns`, `dropped`",
            );
        }
        Ok(())
    }
}

fn check_amount(
    is: Option<u64>,
    at_least: Option<u64>,
    at_most: Option<u64>,
    required: bool,
    path: &[At],
) -> Checked {
    let bounds = at_least.or(at_most);
    if required && is.or(bounds).is_none() {
        return problem(path, "no number, expected one of `is`, `at_least`, `at_most`");
    }
    if is.is_some() && bounds.is_some() {
        return problem(&below(path, At::Key("is")), "`is` beside bounds, expected either");
    }
    let amount = Amount::of(is, at_least, at_most);
    match (amount.at_least, amount.at_most) {
        (Some(least), Some(most)) if least > most => problem(
            &below(path, At::Key("at_least")),
            format!("at_least {least} is more than at_most {most}"),
        ),
        _ => Ok(()),
    }
}
