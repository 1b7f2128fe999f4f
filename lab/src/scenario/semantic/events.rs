//! Checks of a scenario's event list as a whole.

use crate::scenario::{
    events::{EventSpec, ProbeKind},
    read::locate::PathSegment,
    semantic::{Checked, below, problem},
};
use std::collections::BTreeSet;

/// `KRETPROBE_MAXACTIVE_MAX` of the kernel.
const MAXACTIVE_MAX: u32 = 4096;

/// Checks the items of `trace: { events: }`.
pub(in crate::scenario) fn check(events: &[EventSpec]) -> Checked {
    let (mut seen, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for (index, event) in events.iter().enumerate() {
        let path = [PathSegment::Key("trace"), PathSegment::Key("events"), PathSegment::Index(index)];
        let name = format!("{}:{}", event.group(), event.name());
        let key = match event {
            EventSpec::StaticEvent(_) | EventSpec::Synthetic(_) | EventSpec::UserEvent(_) => event.verb(),
            _ => "name",
        };
        if !seen.insert((event.instance(), event.group(), event.name())) {
            return problem(&below(&path, PathSegment::Key(key)), format!("event `{name}` appears twice"));
        }
        if event.is_defined() && !defined.insert((event.group(), event.name())) {
            let message = format!(
                "event `{name}` is defined twice, expected `event: {name}` to record it in another instance"
            );
            return problem(&below(&path, PathSegment::Key(key)), message);
        }
        check_one(event, &path)?;
    }
    Ok(())
}

fn check_one(event: &EventSpec, path: &[PathSegment]) -> Checked {
    if let Some(probe) = event.probe()
        && !matches!(probe.kind, ProbeKind::Kprobe | ProbeKind::Uprobe)
        && probe.target.contains('+')
    {
        let message = format!("`{}` is inside a function, expected the function itself", probe.target);
        return problem(&below(path, PathSegment::Key(event.verb())), message);
    }
    match event {
        EventSpec::Kretprobe(probe)
            if probe.maxactive.is_some_and(|number| !(1..=MAXACTIVE_MAX).contains(&number)) =>
        {
            problem(&below(path, PathSegment::Key("maxactive")), "bad maxactive, expected 1 to 4096")
        }
        EventSpec::Synthetic(event) if event.fields.0.is_empty() => {
            problem(&below(path, PathSegment::Key("fields")), "no fields, expected at least one")
        }
        EventSpec::Synthetic(event) if event.sources.is_empty() => problem(
            &below(path, PathSegment::Key("sources")),
            "no trigger generates the event, expected at least one with `onmatch`, `onmax` or `onchange`",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use std::path::Path;

    fn check(events: &str, expect: &str, error: Option<&str>) {
        let yaml = format!("summary: x\ntrace: {{ events: [ {events} ] }}\nexpect: [ {expect} ]");
        let found = Scenario::parse(Path::new("x.yaml"), &yaml).map(drop).map_err(|error| error.to_string());
        match (&found, error) {
            (Ok(()), None) => {}
            (Err(found), Some(error)) if found.contains(error) => {}
            _ => panic!("{yaml}\n{found:?}, expected {error:?}"),
        }
    }

    const LOG: &str = "kernel_log: { never: [BUG] }";

    #[test]
    fn events_that_cannot_be_are_told_with_what_could() {
        let refused = |event: &str, error| check(event, LOG, Some(error));
        refused("{ fexit: vfs_read+4, name: x }", "fexit: `vfs_read+4` is inside a function");
        refused("{ uretprobe: 'eventfd:main+4', name: x }", "uretprobe: `eventfd:main+4` is inside");
        refused("{ synthetic: s, fields: {}, sources: [] }", "fields: no fields");
        refused(
            "{ synthetic: s, fields: { a: u8 }, sources: [] }",
            "sources: no trigger generates the event",
        );
        refused(
            "{ kprobe: f, name: x }, { kprobe: g, name: x, instance: a }",
            "event `kprobes:x` is defined twice\n",
        );
        refused("{ event: 'a:b', instance: i }, { event: 'a:b', instance: i }", "`a:b` appears twice");
    }

    #[test]
    fn an_event_of_an_instance_is_named_with_it() {
        let events = "{ kprobe: f, name: x, args: { a: $arg1 }, instance: i }, { event: 'kprobes:x' }, \
                      { event: 'sched:sched_switch', instance: j }";
        let check = |expect: &str, error| check(events, expect, error);
        check("values: { event: x@i, field: a, equal: [] }", None);
        check("values: { event: x, field: a, equal: [] }", None);
        check("values: { event: x@i, field: b, equal: [] }", Some("field of `x@i`"));
        check("never: { event: x@j }", Some("event: unknown event `x`"));
        check("never: { event: 'kprobes:x@j' }", None);
        check("never: { event: x@k }", Some("unknown tracing instance `k`"));
        check(
            "sequence: [ { event: x@i }, { event: sched_switch@j } ]",
            Some("`x@i` and `sched_switch@j` are recorded by different tracing instances"),
        );
    }
}
