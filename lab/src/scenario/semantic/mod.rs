//! Checks that need the whole file: events that nothing defines, fields that no event has, values used
//! before they are bound.

pub(in crate::scenario) mod defined;
mod events;

use super::{
    Amount, Document, Expectation, KernelText, Step,
    expect::{EventMatch, Hist, Latency, Pairs, Stats, sequence::Sequence},
    matrix,
    read::locate::{PathSegment, Problem},
    steps::kselftest,
    whole::start,
};
use crate::scenario::Condition;
use defined::Use;
use std::collections::BTreeMap;

/// Maximum number of events, of steps and of expectations of one file.
const ITEMS_MAX: usize = 1000;

/// Maximum of `soak`.
const SOAK_MAX: u16 = 1000;

/// Maximum of `icount`: QEMU's own.
const ICOUNT_MAX: u8 = 10;

pub(super) type Checked = Result<(), Problem>;

pub(super) fn problem<T>(path: &[PathSegment], message: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { path: path.to_vec(), message: message.into() })
}

/// Returns `path` extended by one step.
pub(super) fn below(path: &[PathSegment], step: PathSegment) -> Vec<PathSegment> {
    [path, &[step]].concat()
}

/// Checks the whole document and reports the first problem.
pub(super) fn check(document: &Document) -> Checked {
    let counts = [
        ("events", document.trace.events.len()),
        ("steps", document.steps.len()),
        ("expect", document.expect.len()),
    ];
    for (key, count) in counts {
        if count > ITEMS_MAX {
            let path = if key == "events" {
                vec![PathSegment::Key("trace"), PathSegment::Key(key)]
            } else {
                vec![PathSegment::Key(key)]
            };
            return problem(&path, format!("{count} items, expected at most {ITEMS_MAX}"));
        }
    }
    if !(1..=SOAK_MAX).contains(&document.soak) {
        let message = format!("{} machines, expected 1 to {SOAK_MAX}", document.soak);
        return problem(&[PathSegment::Key("soak")], message);
    }
    if let Some(shift) = document.icount.filter(|shift| *shift > ICOUNT_MAX) {
        return problem(&[PathSegment::Key("icount")], format!("{shift}, expected 0 to {ICOUNT_MAX}"));
    }
    if document.steps.is_empty() && document.expect.is_empty() {
        return problem(&[], "nothing to check, expected `steps` or `expect` with at least one item");
    }
    let (bootconfig, userland) = (document.bootconfig.as_ref(), document.userland.as_ref());
    if let Some((key, message)) =
        start::conflict((document.boot, document.icount), &document.cmdline, bootconfig, userland)
    {
        return problem(&[PathSegment::Key(key)], message);
    }
    let needy = document.steps.iter().enumerate();
    if let (None, Some((index, kind))) =
        (userland, needy.filter_map(|(index, step)| Some((index, step.needs_userland()?))).next())
    {
        let path = [PathSegment::Key("steps"), PathSegment::Index(index)];
        return problem(&path, format!("`{kind}` without a userland, expected `userland: debian` as well"));
    }
    if document.expect_panic.is_some() && !document.expect.is_empty() {
        return problem(
            &[PathSegment::Key("expect")],
            "`expect` with `expect_panic`: a kernel that panics leaves no trace",
        );
    }
    document.matrix.as_ref().map_or(Ok(()), matrix::check)?;
    events::check(&document.trace.events)?;
    for (index, step) in document.steps.iter().enumerate() {
        check_step(step, &[PathSegment::Key("steps"), PathSegment::Index(index)])?;
    }
    let scope = Scope { document };
    one_file_per_workload(scope.steps())?;
    kselftest::check(document, scope.steps())?;
    for (index, expectation) in document.expect.iter().enumerate() {
        let verb = PathSegment::Key(expectation.verb());
        let path = [PathSegment::Key("expect"), PathSegment::Index(index), verb];
        scope.check(expectation, &path)?;
        if let Some((one, other)) = expectation.instances_apart() {
            let message = format!(
                "`{one}` and `{other}` are recorded by different tracing instances, expected the same one"
            );
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

/// Checks that no two workloads have the same name.
fn one_file_per_workload<'a>(steps: impl Iterator<Item = &'a Step>) -> Checked {
    let mut files = BTreeMap::new();
    for source in steps.filter_map(Step::own_workload) {
        let name = source.name();
        let other = *files.entry(name).or_insert(source);
        if other != source {
            let (other, file) = (other.path().display(), source.path().display());
            let message =
                format!("`{other}` and `{file}` are both called `{name}`, expected different names");
            return problem(&[PathSegment::Key("steps")], message);
        }
    }
    Ok(())
}

fn check_step(step: &Step, path: &[PathSegment]) -> Checked {
    match step {
        Step::Read(read) if read.errno.is_some() && read.text.is_some() => problem(
            &below(path, PathSegment::Key("text")),
            "`text` of a read that must fail, expected only one of `errno` and `text`",
        ),
        Step::Rejects(step) if step.errors.0.is_empty() => {
            problem(&below(path, PathSegment::Key("errors")), "no commands, expected at least one")
        }
        Step::PatchedText(text) => text.check(path),
        Step::Inspect(inspect) => inspect.check(path),
        _ => Ok(()),
    }
}

pub(super) struct Scope<'a> {
    pub(super) document: &'a Document,
}

impl Scope<'_> {
    /// Returns all steps, including those of a matrix.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        let parts = self.document.matrix.iter().flat_map(|matrix| matrix.steps());
        self.document.steps.iter().chain(parts)
    }

    fn check(&self, expectation: &Expectation, path: &[PathSegment]) -> Checked {
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
                self.check_field(&values.event, &values.field, &below(path, PathSegment::Key("field")))
            }
            Expectation::Set(set) => {
                check(&set.event, &set.condition)?;
                self.check_field(&set.event, &set.field, &below(path, PathSegment::Key("field")))
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
                    return problem(
                        &below(path, PathSegment::Key("frames")),
                        "no frames, expected at least one",
                    );
                }
                Ok(())
            }
            Expectation::Stats(stats) => self.check_stats(stats, path),
            Expectation::KernelLog(_) | Expectation::Executed(_) => Ok(()),
            Expectation::MatchesOutput(agrees) => self.check_agrees(agrees, path),
            Expectation::KernelText(text) => self.check_kernel_text(text, path),
        }
    }

    fn check_kernel_text(&self, text: &KernelText, path: &[PathSegment]) -> Checked {
        let recorded = self.document.trace.instances();
        match &text.instance {
            Some(name) if !recorded.contains(name.as_str()) => {
                let message = format!("no event is recorded by the tracing instance `{}`", name.as_str());
                problem(&below(path, PathSegment::Key("instance")), message)
            }
            _ => Ok(()),
        }
    }

    fn check_sequence(&self, sequence: &Sequence, path: &[PathSegment]) -> Checked {
        if sequence.steps.len() < 2 {
            return problem(
                path,
                format!("a sequence of {} events, expected at least two", sequence.steps.len()),
            );
        }
        let mut bound: Vec<String> = Vec::new();
        for (index, step) in sequence.steps.iter().enumerate() {
            let path = below(path, PathSegment::Index(index));
            let used = Use {
                event: &step.event,
                condition: step.condition.as_ref(),
                path: path.clone(),
                bound: &bound,
            };
            self.check_use(&used)?;
            for name in &step.same.0 {
                let path = below(&path, PathSegment::Key("same"));
                if !bound.contains(name) {
                    let message = format!(
                        "`{name}` is not bound by an earlier event, expected one with `bind: {name}`"
                    );
                    return problem(&path, message);
                }
                self.check_field(&step.event, name, &path)?;
            }
            let path = below(&path, PathSegment::Key("bind"));
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

    fn check_match(&self, side: &EventMatch, path: Vec<PathSegment>) -> Checked {
        self.check_use(&Use { event: &side.event, condition: side.condition.as_ref(), path, bound: &[] })
    }

    fn check_pairs(&self, pairs: &Pairs, path: &[PathSegment]) -> Checked {
        self.check_match(&pairs.enter, below(path, PathSegment::Key("enter")))?;
        self.check_match(&pairs.exit, below(path, PathSegment::Key("return")))?;
        if pairs.enter.event == pairs.exit.event {
            let message = format!("`{}` is both enter and return, expected two events", pairs.exit.event);
            return problem(&below(path, PathSegment::Key("return")), message);
        }
        check_amount(pairs.is, pairs.at_least, pairs.at_most, false, path)
    }

    fn check_latency(&self, latency: &Latency, path: &[PathSegment]) -> Checked {
        self.check_match(&latency.from, below(path, PathSegment::Key("from")))?;
        self.check_match(&latency.to, below(path, PathSegment::Key("to")))?;
        for (from, to) in &latency.by.0 {
            let path = below(path, PathSegment::Key("by"));
            self.check_field(&latency.from.event, from, &path)?;
            self.check_field(&latency.to.event, to, &path)?;
        }
        if latency.p50.is_none() && latency.p95.is_none() && latency.max.is_none() {
            return problem(path, "no bound, expected one of `p50`, `p95`, `max`");
        }
        Ok(())
    }

    fn check_graph_tracer(&self, path: &[PathSegment]) -> Checked {
        let selects =
            |step: &Step| matches!(step, Step::Write(write) if write.write.ends_with("current_tracer"));
        let tracer = self.document.trace.tracer.as_deref();
        if tracer == Some("function_graph") || self.steps().any(selects) {
            return Ok(());
        }
        problem(path, "a call tree without its tracer, expected `tracer: function_graph` under `trace`")
    }

    fn check_hist(&self, hist: &Hist, path: &[PathSegment]) -> Checked {
        self.check_event(&hist.event, &below(path, PathSegment::Key("event")))?;
        if hist.entries.is_empty() && hist.hits.is_none() && hist.dropped.is_none() && !hist.only {
            return problem(
                path,
                "nothing to check in the histogram, expected one of `entries`, `hits`, `dropped`",
            );
        }
        for (index, entry) in hist.entries.iter().enumerate() {
            if entry.key.is_empty() {
                let path = [
                    path,
                    &[PathSegment::Key("entries"), PathSegment::Index(index), PathSegment::Key("key")],
                ]
                .concat();
                return problem(&path, "an entry without a key, expected its key fields and their values");
            }
        }
        Ok(())
    }

    fn check_stats(&self, stats: &Stats, path: &[PathSegment]) -> Checked {
        let of_event = stats.hits.or(stats.missed);
        let of_buffer = stats.entries.or(stats.overruns).or(stats.dropped);
        match &stats.event {
            Some(event) => {
                self.check_event(event, &below(path, PathSegment::Key("event")))?;
                if of_event.is_none() && event.instance.is_none() {
                    return problem(path, "nothing to check for the event, expected one of `hits`, `missed`");
                }
            }
            None if of_event.is_some() => {
                return problem(path, "counters without an event, expected `event` with `hits` and `missed`");
            }
            None => {}
        }
        if of_event.or(of_buffer).is_none() {
            return problem(
                path,
                "nothing to check, expected one of `hits`, `missed`, `entries`, `overruns`, `dropped`",
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
    path: &[PathSegment],
) -> Checked {
    let bounds = at_least.or(at_most);
    if required && is.or(bounds).is_none() {
        return problem(path, "no number, expected one of `is`, `at_least`, `at_most`");
    }
    if is.is_some() && bounds.is_some() {
        return problem(&below(path, PathSegment::Key("is")), "`is` with bounds, expected only one of them");
    }
    let amount = Amount::of(is, at_least, at_most);
    match (amount.at_least, amount.at_most) {
        (Some(least), Some(most)) if least > most => problem(
            &below(path, PathSegment::Key("at_least")),
            format!("at_least {least} is more than at_most {most}"),
        ),
        _ => Ok(()),
    }
}
