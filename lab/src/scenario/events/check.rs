//! What the list of a scenario's events must be as a whole.

use super::{EventSpec, ProbeKind};
use crate::scenario::{
    locate::At,
    semantic::{Checked, below, problem},
};
use std::collections::BTreeSet;

/// `KRETPROBE_MAXACTIVE_MAX` of the kernel.
const MAXACTIVE_MAX: u32 = 4096;

/// Checks the items of `trace: { events: }`.
pub(in crate::scenario) fn check(events: &[EventSpec]) -> Checked {
    let (mut seen, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for (index, event) in events.iter().enumerate() {
        let path = [At::Key("trace"), At::Key("events"), At::Index(index)];
        let name = format!("{}:{}", event.group(), event.name());
        let key = match event {
            EventSpec::StaticEvent(_) | EventSpec::Synthetic(_) | EventSpec::UserEvent(_) => event.verb(),
            _ => "name",
        };
        if !seen.insert((event.instance(), event.group(), event.name())) {
            return problem(&below(&path, At::Key(key)), format!("event `{name}` is there twice"));
        }
        if event.is_defined() && !defined.insert((event.group(), event.name())) {
            let message =
                format!("event `{name}` is created twice, expected `event: {name}` for another instance");
            return problem(&below(&path, At::Key(key)), message);
        }
        check_one(event, &path)?;
    }
    Ok(())
}

fn check_one(event: &EventSpec, path: &[At]) -> Checked {
    if let Some(probe) = event.probe()
        && !matches!(probe.kind, ProbeKind::Kprobe | ProbeKind::Uprobe)
        && probe.target.contains('+')
    {
        let message = format!("`{}` is inside a function, expected the function itself", probe.target);
        return problem(&below(path, At::Key(event.verb())), message);
    }
    match event {
        EventSpec::Kretprobe(probe)
            if probe.maxactive.is_some_and(|number| !(1..=MAXACTIVE_MAX).contains(&number)) =>
        {
            problem(&below(path, At::Key("maxactive")), "bad maxactive, expected 1 to 4096")
        }
        EventSpec::Synthetic(event) if event.fields.0.is_empty() => {
            problem(&below(path, At::Key("fields")), "no fields, expected at least one")
        }
        EventSpec::Synthetic(event) if event.fed_by.is_empty() => problem(
            &below(path, At::Key("fed_by")),
            "no trigger makes the event, expected at least one with `onmatch`, `onmax` or `onchange`",
        ),
        _ => Ok(()),
    }
}
