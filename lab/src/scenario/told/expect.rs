//! Expectations in words.

use super::{Told, add, code, condition, list};
use crate::scenario::{
    Agrees, Amount, Count, EventMatch, Expectation, Graph, GraphCall, Hist, HistEntry, Latency, Never, Pairs,
    Sequence, SequenceStep, Set, Span, Stack, Stats, Values,
};

impl Told for Expectation {
    fn told(&self) -> String {
        match self {
            Expectation::Count(it) => it.told(),
            Expectation::Values(it) => it.told(),
            Expectation::Set(it) => it.told(),
            Expectation::Never(it) => it.told(),
            Expectation::Sequence(it) => it.told(),
            Expectation::Pairs(it) => it.told(),
            Expectation::Latency(it) => it.told(),
            Expectation::Graph(it) => it.told(),
            Expectation::Hist(it) => it.told(),
            Expectation::Stack(it) => it.told(),
            Expectation::Stats(it) => it.told(),
            Expectation::KernelLog(it) => format!("the kernel log {}", it.told()),
            Expectation::Agrees(it) => it.told(),
        }
    }
}

impl Told for EventMatch {
    fn told(&self) -> String {
        let EventMatch { event, condition: only } = self;
        format!("`{event}`{}", condition(only.as_ref()))
    }
}

impl Told for Count {
    fn told(&self) -> String {
        let Count { event, condition: only, is, at_least, at_most } = self;
        let amount = Amount::of(*is, *at_least, *at_most);
        format!("there are {amount} events `{event}`{}", condition(only.as_ref()))
    }
}

impl Told for Values {
    fn told(&self) -> String {
        let Values { event, condition: only, field, equal } = self;
        let values = equal.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "the values of `{field}` in the events `{event}`{} are [{values}], in this order",
            condition(only.as_ref())
        )
    }
}

impl Told for Set {
    fn told(&self) -> String {
        let Set { event, condition: only, field, equal, distinct } = self;
        let values = equal.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let often = if *distinct { ", however often each" } else { ", each as often as it stands here" };
        format!(
            "the values of `{field}` in the events `{event}`{} are [{values}] in any order{often}",
            condition(only.as_ref())
        )
    }
}

impl Told for Never {
    fn told(&self) -> String {
        let Never { event, condition: only } = self;
        format!("there is no event `{event}`{}", condition(only.as_ref()))
    }
}

impl Told for Sequence {
    fn told(&self) -> String {
        let Sequence { steps, strict, within } = self;
        let between = if *strict { "with no other between them" } else { "others between them allowed" };
        let within = add(*within, |span| format!(", and take at most {span} together"));
        let steps: Vec<_> = steps.iter().map(Told::told).collect();
        format!("these events come in this order, {between}{within}: {}", steps.join(", then "))
    }
}

impl Told for SequenceStep {
    fn told(&self) -> String {
        let SequenceStep { event, condition: only, bind, same, within, strict } = self;
        let kept = bind.0.iter().map(|(name, field)| format!("its {field} is kept as `${name}`"));
        let kept: Vec<_> = kept.collect();
        let kept = if kept.is_empty() { String::new() } else { format!(" ({})", list(kept)) };
        let same =
            if same.0.is_empty() { String::new() } else { format!(" with the same {}", code(&same.0)) };
        let within = add(*within, |span| format!(", at most {span} after the one before"));
        let strict = if *strict { ", with no other such event between" } else { "" };
        format!("`{event}`{}{kept}{same}{within}{strict}", condition(only.as_ref()))
    }
}

impl Told for Pairs {
    fn told(&self) -> String {
        let Pairs { enter, exit, is, at_least, at_most, within, open } = self;
        let count = match Amount::of(*is, *at_least, *at_most) {
            Amount { at_least: None, at_most: None } => "at least 1".to_owned(),
            amount => amount.to_string(),
        };
        let within = add(*within, |span| format!(", each within {span}"));
        let open = if *open { "; tasks may be inside when the trace begins or ends" } else { "" };
        format!(
            "each {} has its {} of the same task, {count} pairs of them{within}{open}",
            enter.told(),
            exit.told()
        )
    }
}

impl Told for Latency {
    fn told(&self) -> String {
        let Latency { from, to, by, p50, p95, max, at_least } = self;
        let by = by.0.iter().map(|(of_from, of_to)| format!("whose `{of_to}` is its `{of_from}`"));
        let by: Vec<_> = by.collect();
        let by = if by.is_empty() { String::new() } else { format!(" {}", list(by)) };
        let bounds = [("half", p50), ("95 of 100", p95), ("all", max)];
        let bounds = bounds.into_iter().filter_map(|(which, bound)| Some((which, (*bound)?)));
        let bounds = bounds.enumerate().map(|(index, (which, bound)): (usize, (&str, Span))| {
            let take = if index == 0 { "take " } else { "" };
            format!("{which} {take}at most {bound}")
        });
        let bounds = bounds.collect::<Vec<_>>().join(", ");
        let bounds = if bounds.is_empty() { "the times are measured".to_owned() } else { bounds };
        let least = at_least.unwrap_or(1);
        format!(
            "from each {} to the next {}{by}: {bounds}, of at least {least} that are measured",
            from.told(),
            to.told()
        )
    }
}

impl Told for Graph {
    fn told(&self) -> String {
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
        format!("there are {count} call trees{depth}{}: {}", condition(only.as_ref()), root.told())
    }
}

impl Told for GraphCall {
    fn told(&self) -> String {
        let GraphCall { call, calls, only, returns, within } = self;
        let inner: Vec<_> = calls.iter().map(Told::told).collect();
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

impl Told for Hist {
    fn told(&self) -> String {
        let Hist { event, entries, only, hits, dropped } = self;
        let entries: Vec<_> = entries.iter().map(Told::told).collect();
        let others = if *only { ", and no other" } else { "" };
        let entries = match entries.is_empty() {
            true => String::new(),
            false => format!(" has {}{others}", list(entries)),
        };
        let hits = add(*hits, |hits| format!("; it has {hits} hits"));
        let dropped = add(*dropped, |dropped| format!("; {dropped} were dropped"));
        format!("the histogram of `{event}`{entries}{hits}{dropped}")
    }
}

impl Told for HistEntry {
    fn told(&self) -> String {
        let HistEntry { key, hitcount, values } = self;
        let key: Vec<_> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let hits = add(*hitcount, |count| format!(" hit {count} times"));
        let sums = values.iter().map(|(name, sum)| format!(", {name} {sum}")).collect::<String>();
        format!("{{{}}}{hits}{sums}", key.join(", "))
    }
}

impl Told for Stack {
    fn told(&self) -> String {
        let Stack { event, condition: only, frames, strict } = self;
        let between = if *strict { "with no other between them" } else { "others between them allowed" };
        format!(
            "a stack of `{event}`{} has {}, innermost first, {between}",
            condition(only.as_ref()),
            code(frames)
        )
    }
}

impl Told for Stats {
    fn told(&self) -> String {
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

impl Told for Agrees {
    fn told(&self) -> String {
        let Agrees { step, lines, events, condition: only, by } = self;
        let by = add(by.as_ref(), |by| format!(", in the order of each `{by}`"));
        let groups: Vec<_> = lines.groups().collect();
        format!(
            "the lines that step {step} printed tell of the same events {}{}{by}, with the same {}",
            code(events),
            condition(only.as_ref()),
            code(groups)
        )
    }
}
