//! What the kinds of events need of a kernel: versions and configuration, as one table.

use crate::{
    kernel::{Config, KernelVersion},
    scenario::{EventSpec, ProbeKind, TraceSetup},
};

/// One thing that an event may need.
struct Need {
    /// As it is named, in the plural.
    what: &'static str,
    /// Whether an event is or has it.
    of: fn(&EventSpec) -> bool,
    /// Major and minor version of the first kernel that has it on arm64.
    since: (u32, u32),
    /// The configuration symbol that it needs, and the first version that knows the symbol.
    config: Option<(&'static str, (u32, u32))>,
}

/// Before every kernel.
const EVER: (u32, u32) = (0, 0);

const NEEDS: &[Need] = &[
    Need {
        what: "kprobe events",
        of: |event| is(event, &[ProbeKind::Kprobe, ProbeKind::Kretprobe]),
        since: EVER,
        config: Some(("KPROBE_EVENTS", EVER)),
    },
    Need {
        what: "kretprobe events with `$argN`",
        of: |event| is(event, &[ProbeKind::Kretprobe]) && fetches(event, "$arg"),
        since: (6, 9),
        config: None,
    },
    Need {
        what: "fprobe events",
        of: |event| is(event, &[ProbeKind::Fprobe, ProbeKind::Fexit]),
        // 6.5 elsewhere: arm64 has had the ftrace that they stand on since 6.14.
        since: (6, 14),
        config: Some(("FPROBE_EVENTS", EVER)),
    },
    Need {
        what: "uprobe events",
        of: |event| is(event, &[ProbeKind::Uprobe, ProbeKind::Uretprobe]),
        since: EVER,
        config: Some(("UPROBE_EVENTS", EVER)),
    },
    Need {
        what: "event probes",
        of: |event| is(event, &[ProbeKind::Eprobe]),
        since: (5, 15),
        config: Some(("PROBE_EVENTS", EVER)),
    },
    Need {
        what: "event probes",
        of: |event| is(event, &[ProbeKind::Eprobe]),
        since: (5, 15),
        // Not a symbol of its own in 6.12; it is one in 7.2.
        config: Some(("EPROBE_EVENTS", (7, 0))),
    },
    Need {
        what: "event probes with `if`",
        of: |event| matches!(event, EventSpec::Eprobe(probe) if probe.condition.is_some()),
        since: (6, 1),
        config: None,
    },
    Need {
        what: "synthetic events",
        of: |event| matches!(event, EventSpec::Synthetic(_)),
        since: EVER,
        config: Some(("SYNTH_EVENTS", EVER)),
    },
    Need {
        what: "user events",
        of: |event| matches!(event, EventSpec::UserEvent(_)),
        // Those of 6.1 are marked as broken there, and are another interface.
        since: (6, 4),
        config: Some(("USER_EVENTS", EVER)),
    },
    Need {
        what: "`hist` triggers",
        of: |event| triggers(event, "hist"),
        since: EVER,
        config: Some(("HIST_TRIGGERS", EVER)),
    },
    Need {
        what: "`snapshot` triggers",
        of: |event| triggers(event, "snapshot"),
        since: EVER,
        config: Some(("TRACER_SNAPSHOT", EVER)),
    },
    Need {
        what: "`stacktrace` triggers",
        of: |event| triggers(event, "stacktrace"),
        since: EVER,
        config: Some(("STACKTRACE", EVER)),
    },
];

fn is(event: &EventSpec, kinds: &[ProbeKind]) -> bool {
    event.probe().is_some_and(|probe| kinds.contains(&probe.kind))
}

fn fetches(event: &EventSpec, what: &str) -> bool {
    event.probe().is_some_and(|probe| probe.args.0.values().any(|fetch| fetch.contains(what)))
}

fn triggers(event: &EventSpec, kind: &str) -> bool {
    let is = |trigger: &str| trigger.split([':', ' ']).next() == Some(kind);
    event.triggers().iter().any(|trigger| is(trigger)) || event.feeds().iter().any(|feed| is(&feed.trigger))
}

/// What the events of `trace` need and this kernel does not have, in words.
pub(crate) fn unmet(trace: &TraceSetup, version: &KernelVersion, config: &Config) -> Option<String> {
    let reached = |(major, minor): (u32, u32)| *version >= KernelVersion::new(major, minor, 0);
    trace.events.iter().flat_map(|event| NEEDS.iter().filter(|need| (need.of)(event))).find_map(|need| {
        let what = need.what;
        if !reached(need.since) {
            let (major, minor) = need.since;
            return Some(format!(
                "it has {what}, which arm64 has from {major}.{minor} on; this is {version}"
            ));
        }
        let (symbol, from) = need.config?;
        let missing = reached(from) && !config.is_set(symbol);
        missing.then(|| format!("it has {what}, and CONFIG_{symbol} is not set in this kernel"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &str, version: (u32, u32), config: &[&str], expect: Option<&str>) {
        let trace: TraceSetup = serde_yaml::from_str(&format!("events: [ {event} ]")).unwrap();
        let config: String = config.iter().map(|symbol| format!("CONFIG_{symbol}=y\n")).collect();
        let version = KernelVersion::new(version.0, version.1, 3);
        let found = unmet(&trace, &version, &Config::parse(&config));
        assert_eq!(found.as_deref(), expect, "{event}");
    }

    #[test]
    fn a_family_is_there_by_version_and_configuration() {
        let fprobe = "{ fprobe: vfs_read, name: x }";
        check(
            fprobe,
            (6, 12),
            &["FPROBE_EVENTS"],
            Some("it has fprobe events, which arm64 has from 6.14 on; this is 6.12.3"),
        );
        check(fprobe, (7, 2), &["FPROBE_EVENTS"], None);
        let missing = "it has fprobe events, and CONFIG_FPROBE_EVENTS is not set in this kernel";
        check(fprobe, (7, 2), &["FPROBE"], Some(missing));
        let eprobe = "{ eprobe: 'sched:sched_switch', name: x }";
        check(eprobe, (6, 12), &["PROBE_EVENTS"], None);
        let missing = "it has event probes, and CONFIG_EPROBE_EVENTS is not set in this kernel";
        check(eprobe, (7, 2), &["PROBE_EVENTS"], Some(missing));
        check("event: sched:sched_switch", (5, 10), &[], None);
    }

    #[test]
    fn arguments_of_a_return_probe_and_triggers_are_needs_of_their_own() {
        let kretprobe = |args: &str| format!("{{ kretprobe: vfs_read, name: x, args: {args} }}");
        check(&kretprobe("{ r: $retval }"), (6, 1), &["KPROBE_EVENTS"], None);
        check(
            &kretprobe("{ r: $arg1 }"),
            (6, 1),
            &["KPROBE_EVENTS"],
            Some("it has kretprobe events with `$argN`, which arm64 has from 6.9 on; this is 6.1.3"),
        );
        let hist = "{ event: 'sched:sched_switch', triggers: ['hist:keys=next_pid'] }";
        let missing = "it has `hist` triggers, and CONFIG_HIST_TRIGGERS is not set in this kernel";
        check(hist, (6, 12), &[], Some(missing));
        check(hist, (6, 12), &["HIST_TRIGGERS"], None);
        let fed =
            "{ synthetic: s, fields: { lat: u64 }, fed_by: [{ event: 'a:b', trigger: 'hist:keys=c' }] }";
        check(fed, (6, 12), &["SYNTH_EVENTS"], Some(missing));
    }
}
