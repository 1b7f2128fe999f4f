//! The kernel version and configuration that each kind of event needs, as one table.

use crate::{
    kernel::{Config, KernelVersion},
    scenario::{EventSpec, ProbeKind, TraceSetup},
};

/// A feature that an event may use, and its requirements.
struct Need {
    /// Its name, in the plural.
    what: &'static str,
    /// Returns whether an event uses it.
    of: fn(&EventSpec) -> bool,
    /// Major and minor version of the first kernel that supports it on arm64.
    since: (u32, u32),
    /// The configuration symbol that it needs, and the first version that has the symbol.
    config: Option<(&'static str, (u32, u32))>,
}

/// Older than any kernel.
const ANY_VERSION: (u32, u32) = (0, 0);

const NEEDS: &[Need] = &[
    Need {
        what: "kprobe events",
        of: |event| is(event, &[ProbeKind::Kprobe, ProbeKind::Kretprobe]),
        since: ANY_VERSION,
        config: Some(("KPROBE_EVENTS", ANY_VERSION)),
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
        // 6.5 on other architectures: arm64 has the ftrace support that they need since 6.14.
        since: (6, 14),
        config: Some(("FPROBE_EVENTS", ANY_VERSION)),
    },
    Need {
        what: "tracepoint probes",
        of: |event| is(event, &[ProbeKind::Tprobe]),
        // They are fprobes on a stub function of the tracepoint.
        since: (6, 14),
        config: Some(("FPROBE_EVENTS", ANY_VERSION)),
    },
    Need {
        what: "uprobe events",
        of: |event| is(event, &[ProbeKind::Uprobe, ProbeKind::Uretprobe]),
        since: ANY_VERSION,
        config: Some(("UPROBE_EVENTS", ANY_VERSION)),
    },
    Need {
        what: "event probes",
        of: |event| is(event, &[ProbeKind::Eprobe]),
        since: (5, 15),
        config: Some(("PROBE_EVENTS", ANY_VERSION)),
    },
    Need {
        what: "event probes",
        of: |event| is(event, &[ProbeKind::Eprobe]),
        since: (5, 15),
        // A separate symbol in 7.2, but not in 6.12.
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
        since: ANY_VERSION,
        config: Some(("SYNTH_EVENTS", ANY_VERSION)),
    },
    Need {
        what: "user events",
        of: |event| matches!(event, EventSpec::UserEvent(_)),
        // 6.1 has them with a different interface, and marked BROKEN.
        since: (6, 4),
        config: Some(("USER_EVENTS", ANY_VERSION)),
    },
    Need {
        what: "`hist` triggers",
        of: |event| triggers(event, "hist"),
        since: ANY_VERSION,
        config: Some(("HIST_TRIGGERS", ANY_VERSION)),
    },
    Need {
        what: "`snapshot` triggers",
        of: |event| triggers(event, "snapshot"),
        since: ANY_VERSION,
        config: Some(("TRACER_SNAPSHOT", ANY_VERSION)),
    },
    Need {
        what: "`stacktrace` triggers",
        of: |event| triggers(event, "stacktrace"),
        since: ANY_VERSION,
        config: Some(("STACKTRACE", ANY_VERSION)),
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

/// Returns the first feature that the events of `trace` use and this kernel lacks, as text.
pub(crate) fn unmet(trace: &TraceSetup, version: &KernelVersion, config: &Config) -> Option<String> {
    let reached = |(major, minor): (u32, u32)| *version >= KernelVersion::new(major, minor, 0);
    trace.events.iter().flat_map(|event| NEEDS.iter().filter(|need| (need.of)(event))).find_map(|need| {
        let what = need.what;
        if !reached(need.since) {
            let (major, minor) = need.since;
            return Some(format!("uses {what}, supported on arm64 since {major}.{minor}; this is {version}"));
        }
        let (symbol, from) = need.config?;
        let missing = reached(from) && !config.is_set(symbol);
        missing.then(|| format!("uses {what}, but CONFIG_{symbol} is not set in this kernel"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &str, version: (u32, u32), config: &[&str], expect: Option<&str>) {
        let trace: TraceSetup = crate::yaml::from_str(&format!("events: [ {event} ]")).unwrap();
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
            Some("uses fprobe events, supported on arm64 since 6.14; this is 6.12.3"),
        );
        check(fprobe, (7, 2), &["FPROBE_EVENTS"], None);
        let missing = "uses fprobe events, but CONFIG_FPROBE_EVENTS is not set in this kernel";
        check(fprobe, (7, 2), &["FPROBE"], Some(missing));
        let missing = "uses tracepoint probes, but CONFIG_FPROBE_EVENTS is not set in this kernel";
        check("{ tprobe: sched_switch, name: x }", (7, 2), &["FPROBE"], Some(missing));
        let eprobe = "{ eprobe: 'sched:sched_switch', name: x }";
        check(eprobe, (6, 12), &["PROBE_EVENTS"], None);
        let missing = "uses event probes, but CONFIG_EPROBE_EVENTS is not set in this kernel";
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
            Some("uses kretprobe events with `$argN`, supported on arm64 since 6.9; this is 6.1.3"),
        );
        let hist = "{ event: 'sched:sched_switch', triggers: ['hist:keys=next_pid'] }";
        let missing = "uses `hist` triggers, but CONFIG_HIST_TRIGGERS is not set in this kernel";
        check(hist, (6, 12), &[], Some(missing));
        check(hist, (6, 12), &["HIST_TRIGGERS"], None);
        let fed =
            "{ synthetic: s, fields: { lat: u64 }, sources: [{ event: 'a:b', trigger: 'hist:keys=c' }] }";
        check(fed, (6, 12), &["SYNTH_EVENTS"], Some(missing));
    }
}
