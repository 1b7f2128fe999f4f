//! Descriptions of expectations.

use super::{Describe, add, code, condition, list};
use crate::scenario::{
    Amount, Count, EventMatch, Executed, Expectation, Graph, GraphCall, Hist, HistEntry, KernelText, Latency,
    MatchesOutput, Never, Pairs, Sequence, SequenceStep, Set, Stack, Stats, Switch, Timespan, Values,
};

impl Describe for Expectation {
    fn describe(&self) -> String {
        match self {
            Expectation::Count(it) => it.describe(),
            Expectation::Values(it) => it.describe(),
            Expectation::Set(it) => it.describe(),
            Expectation::Never(it) => it.describe(),
            Expectation::Sequence(it) => it.describe(),
            Expectation::Pairs(it) => it.describe(),
            Expectation::Latency(it) => it.describe(),
            Expectation::Graph(it) => it.describe(),
            Expectation::Hist(it) => it.describe(),
            Expectation::Stack(it) => it.describe(),
            Expectation::Stats(it) => it.describe(),
            Expectation::KernelLog(it) => format!("the kernel log {}", it.describe()),
            Expectation::MatchesOutput(it) => it.describe(),
            Expectation::KernelText(it) => it.describe(),
            Expectation::Executed(it) => it.describe(),
        }
    }
}

impl Describe for EventMatch {
    fn describe(&self) -> String {
        let EventMatch { event, condition: only } = self;
        format!("`{event}`{}", condition(only.as_ref()))
    }
}

impl Describe for Count {
    fn describe(&self) -> String {
        let Count { event, condition: only, is, at_least, at_most } = self;
        let amount = Amount::of(*is, *at_least, *at_most);
        format!("there are {amount} events `{event}`{}", condition(only.as_ref()))
    }
}

impl Describe for Values {
    fn describe(&self) -> String {
        let Values { event, condition: only, field, equal } = self;
        let values = equal.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "the values of `{field}` in the events `{event}`{} are [{values}], in this order",
            condition(only.as_ref())
        )
    }
}

impl Describe for Set {
    fn describe(&self) -> String {
        let Set { event, condition: only, field, equal, distinct } = self;
        let values = equal.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let often = if *distinct { ", ignoring duplicates" } else { ", each as often as listed" };
        format!(
            "the values of `{field}` in the events `{event}`{} are [{values}] in any order{often}",
            condition(only.as_ref())
        )
    }
}

impl Describe for Never {
    fn describe(&self) -> String {
        let Never { event, condition: only } = self;
        format!("there is no event `{event}`{}", condition(only.as_ref()))
    }
}

impl Describe for Sequence {
    fn describe(&self) -> String {
        let Sequence { steps, strict, within } = self;
        let between =
            if *strict { "with no other event in between" } else { "with other events allowed in between" };
        let within = add(*within, |span| format!(", within {span} in total"));
        let steps: Vec<_> = steps.iter().map(Describe::describe).collect();
        format!("these events occur in this order, {between}{within}: {}", steps.join(", then "))
    }
}

impl Describe for SequenceStep {
    fn describe(&self) -> String {
        let SequenceStep { event, condition: only, bind, same, within, strict } = self;
        let kept = bind.0.iter().map(|(name, field)| format!("its {field} is saved as `${name}`"));
        let kept: Vec<_> = kept.collect();
        let kept = if kept.is_empty() { String::new() } else { format!(" ({})", list(kept)) };
        let same =
            if same.0.is_empty() { String::new() } else { format!(" with the same {}", code(&same.0)) };
        let within = add(*within, |span| format!(", at most {span} after the previous one"));
        let strict = if *strict { ", with no other such event in between" } else { "" };
        format!("`{event}`{}{kept}{same}{within}{strict}", condition(only.as_ref()))
    }
}

impl Describe for Pairs {
    fn describe(&self) -> String {
        let Pairs { enter, exit, is, at_least, at_most, within, allow_open } = self;
        let count = match Amount::of(*is, *at_least, *at_most) {
            Amount { at_least: None, at_most: None } => "at least 1".to_owned(),
            amount => amount.to_string(),
        };
        let within = add(*within, |span| format!(", each within {span}"));
        let open = if *allow_open { "; tasks may be in between when the trace begins or ends" } else { "" };
        format!(
            "each {} has its {} in the same task, {count} pairs{within}{open}",
            enter.describe(),
            exit.describe()
        )
    }
}

impl Describe for Latency {
    fn describe(&self) -> String {
        let Latency { from, to, by, p50, p95, max, at_least } = self;
        let by = by.0.iter().map(|(of_from, of_to)| format!("whose `{of_to}` is its `{of_from}`"));
        let by: Vec<_> = by.collect();
        let by = if by.is_empty() { String::new() } else { format!(" {}", list(by)) };
        let bounds = [("half", p50), ("95 of 100", p95), ("all", max)];
        let bounds = bounds.into_iter().filter_map(|(which, bound)| Some((which, (*bound)?)));
        let bounds = bounds.enumerate().map(|(index, (which, bound)): (usize, (&str, Timespan))| {
            let take = if index == 0 { "take " } else { "" };
            format!("{which} {take}at most {bound}")
        });
        let bounds = bounds.collect::<Vec<_>>().join(", ");
        let bounds = if bounds.is_empty() { "the times are measured".to_owned() } else { bounds };
        let least = at_least.unwrap_or(1);
        format!(
            "from each {} to the next {}{by}: {bounds}, at least {least} measured",
            from.describe(),
            to.describe()
        )
    }
}

impl Describe for Graph {
    fn describe(&self) -> String {
        let Graph {
            call,
            condition: only,
            calls,
            only: alone,
            depth,
            returns,
            within,
            is,
            at_least,
            at_most,
        } = self;
        let root = GraphCall {
            call: call.clone(),
            calls: calls.clone(),
            only: *alone,
            returns: returns.clone(),
            within: *within,
        };
        let depth = add(*depth, |depth| format!(" at depth {depth}"));
        let count = match Amount::of(*is, *at_least, *at_most) {
            Amount { at_least: None, at_most: None } => "at least 1".to_owned(),
            amount => amount.to_string(),
        };
        format!("there are {count} call trees{depth}{}: {}", condition(only.as_ref()), root.describe())
    }
}

impl Describe for GraphCall {
    fn describe(&self) -> String {
        let GraphCall { call, calls, only, returns, within } = self;
        let inner: Vec<_> = calls.iter().map(Describe::describe).collect();
        let calls = match (inner.is_empty(), only) {
            (true, true) => " calls nothing".to_owned(),
            (true, false) => String::new(),
            (false, only) => {
                format!(" calls {}({})", if *only { "nothing but " } else { "" }, inner.join(", then "))
            }
        };
        let returns = add(returns.as_ref(), |value| format!(" returns {value}"));
        let within = add(*within, |span| format!(" within {span}"));
        format!("`{call}`{calls}{returns}{within}")
    }
}

impl Describe for Hist {
    fn describe(&self) -> String {
        let Hist { event, entries, only, hits, dropped } = self;
        let entries: Vec<_> = entries.iter().map(Describe::describe).collect();
        let others = if *only { ", and no others" } else { "" };
        let entries = match entries.is_empty() {
            true => String::new(),
            false => format!(" has {}{others}", list(entries)),
        };
        let hits = add(*hits, |hits| format!("; {hits} hits in total"));
        let dropped = add(*dropped, |dropped| format!("; {dropped} dropped hits"));
        format!("the histogram of `{event}`{entries}{hits}{dropped}")
    }
}

impl Describe for HistEntry {
    fn describe(&self) -> String {
        let HistEntry { key, hitcount, values } = self;
        let key: Vec<_> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let hits = add(*hitcount, |count| format!(" hit {count} times"));
        let sums = values.iter().map(|(name, sum)| format!(", {name} {sum}")).collect::<String>();
        format!("{{{}}}{hits}{sums}", key.join(", "))
    }
}

impl Describe for Stack {
    fn describe(&self) -> String {
        let Stack { event, condition: only, frames, strict } = self;
        let between =
            if *strict { "with no other frame in between" } else { "with other frames allowed in between" };
        format!(
            "a stack of `{event}`{} has {}, innermost first, {between}",
            condition(only.as_ref()),
            code(frames)
        )
    }
}

impl Describe for Stats {
    fn describe(&self) -> String {
        let Stats { event, hits, missed, entries, overruns, dropped } = self;
        let of = match event {
            Some(event) => format!("of `{event}`"),
            None => "of the ring buffer".to_owned(),
        };
        let counters = [
            ("hits", hits),
            ("missed", missed),
            ("entries", entries),
            ("overruns", overruns),
            ("dropped", dropped),
        ];
        let counters =
            counters.into_iter().filter_map(|(name, amount)| Some(format!("{name}: {}", (*amount)?)));
        format!("the kernel's counters {of}: {}", list(counters))
    }
}

impl Describe for MatchesOutput {
    fn describe(&self) -> String {
        let MatchesOutput { step, lines, events, condition: only, by } = self;
        let by = add(by.as_ref(), |by| format!(", in order for each `{by}`"));
        let groups: Vec<_> = lines.groups().collect();
        format!(
            "the stdout of step {step} has one matching line per event {}{}{by}, with the same {}",
            code(events),
            condition(only.as_ref()),
            code(groups)
        )
    }
}

impl Describe for Executed {
    fn describe(&self) -> String {
        let Executed { functions, except } = self;
        let except = if except.is_empty() { String::new() } else { format!(", except {}", code(except)) };
        format!("{functions} functions ran while the steps did, all of them in the trace{except}")
    }
}

impl Describe for KernelText {
    fn describe(&self) -> String {
        let KernelText { instance, cpu, options, events } = self;
        let of = add(instance.as_ref(), |name| format!(" of the tracing instance `{}`", name.as_str()));
        let cpu = add(*cpu, |cpu| format!(" of CPU {cpu}"));
        let on = |on: &Switch| if on.0 { "on" } else { "off" };
        let options: Vec<_> =
            options.iter().map(|(name, switch)| format!("`{}` {}", name.as_str(), on(switch))).collect();
        let options =
            if options.is_empty() { String::new() } else { format!(" with the options {},", list(options)) };
        let events = add(*events, |events| format!(", {events} events"));
        format!("the kernel's text of the trace{of}{cpu}{options} follows from the raw ring buffer{events}")
    }
}
