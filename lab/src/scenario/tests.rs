//! Whole scenarios: parsing, and the errors of malformed ones.

use super::*;

fn parse(source: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(Path::new("x.yaml"), source)
}

/// Returns the error of a malformed scenario, as displayed.
fn error(source: &str) -> String {
    match parse(source) {
        Ok(scenario) => panic!("{source}\nis well-formed: {scenario:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_scenario_is_what_its_file_says() {
    let scenario = parse(
        r#"
summary: a claim
requires: { kernel: ">=6.1", config: [CONFIG_KPROBES, BPF] }
timeout: 5s
trace:
  tracer: function
  functions: [vfs_write]
  options: { func_stack_trace: on }
  clock: mono_raw
  buffer_kb: 64
  events:
    - event: sched:sched_switch
      filter: prev_pid != 0
      triggers: [stacktrace]
    - kprobe: vfs_write+0x10
      name: w
steps:
  - workload: eventfd 1 'two words'
    stdin: x
    env: { A: b }
    exit: 3
  - write: kprobe_events
    text: "-:w"
    append: true
    errno: EBUSY
  # A comment is not part of a step.
  - read: /proc/version
    text: { contains: [Linux, version], never: [Windows] }
expect:
  - count: { event: w, where: "common_pid == 3", at_least: 1 }
  - kernel_log: { never: [BUG] }
"#,
    )
    .unwrap();
    assert_eq!(scenario.summary, "a claim");
    assert_eq!(
        scenario.requires.config.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["CONFIG_KPROBES", "CONFIG_BPF"]
    );
    assert!(!scenario.requires.kernel.unwrap().matches(&crate::kernel::KernelVersion::new(5, 10, 0)));
    assert_eq!(scenario.timeout, Duration::from_secs(5));
    assert_eq!(scenario.trace.clock.map(Clock::name), Some("mono_raw"));
    assert_eq!(
        scenario.trace.options.iter().map(|(name, on)| (name.as_str(), on.0)).collect::<Vec<_>>(),
        [("func_stack_trace", true)]
    );
    assert_eq!(scenario.trace.events[0].filter(), Some("prev_pid != 0"));
    let definition = scenario.trace.events[1].definition(&UserPlaces::new()).unwrap();
    assert_eq!((definition.file, definition.line.as_str()), ("kprobe_events", "p:kprobes/w vfs_write+0x10"));
    let Step::Workload(workload) = &scenario.steps[0].value else { panic!("{:?}", scenario.steps[0]) };
    assert_eq!(
        (workload.workload.program(), workload.workload.arguments().len(), workload.exit),
        ("eventfd", 2, 3)
    );
    let Step::Write(write) = &scenario.steps[1].value else { panic!("{:?}", scenario.steps[1]) };
    assert_eq!(
        (write.write.as_str(), write.append, write.errno.map(Errno::number)),
        ("kprobe_events", true, Some(16))
    );
    assert_eq!((scenario.steps[2].line, scenario.steps[2].verb()), (27, "read"));
    assert_eq!(scenario.steps[1].text, "write: kprobe_events text: \"-:w\" append: true errno: EBUSY");
    assert_eq!(scenario.expect[0].text, "count: { event: w, where: \"common_pid == 3\", at_least: 1 }");
}

#[test]
fn keys_of_format_1_are_errors_that_name_the_present_ones() {
    let check = |fields: &str, old: &str, new: &str| {
        let error = error(&format!("summary: x\n{fields}\n"));
        assert!(error.ends_with(&format!("\n`{old}` is called `{new}` since format 2")), "{error}");
    };
    check("alone: true", "alone", "exclusive");
    check("fresh: boot", "fresh", "boot");
    check("leaves: [hook]", "leaves", "may_leave");
    check("dies: { panic: x }", "dies", "expect_panic");
    check("steps: [ { refuses: kprobe_events, errors: {} } ]", "refuses", "rejects");
    check("steps: [ { enabled_functions: f, without: R } ]", "without", "not_flags");
    check("expect: [ { agrees: { step: 1 } } ]", "agrees", "matches_output");
    check("expect: [ { pairs: { enter: a, return: b, open: true } } ]", "open", "allow_open");
    check("trace: { events: [ { synthetic: s, fields: { a: u8 }, fed_by: [] } ] }", "fed_by", "sources");
}

#[test]
fn errors_show_the_line_what_was_expected_and_the_nearest_name() {
    let check =
        |source: &str, expect: &str| assert_eq!(error(source), expect.trim_start_matches('\n'), "{source}");
    check(
        "summary: x\nstep: []\n",
        r#"
x.yaml:2:1: unknown field `step`
   |
 2 | step: []
   | ^^^^
expected one of `summary`, `requires`, `opt_in`, `exclusive`, `soak`, `timeout`, `boot`, `icount`, `cmdline`, `bootconfig`, `userland`, `matrix`, `trace`, `steps`, `allow`, `may_leave`, `dump`, `expect_panic`, `expect`
did you mean `steps`?"#,
    );
    check(
        "summary: x\nexpect:\n  - count: { event: sched:sched_switch, wher: \"ret == 8\", is: 5 }\n",
        r#"
x.yaml:3:41: expect[0].count: unknown field `wher`
   |
 3 |   - count: { event: sched:sched_switch, wher: "ret == 8", is: 5 }
   |                                         ^^^^
expected one of `event`, `where`, `is`, `at_least`, `at_most`
did you mean `where`?"#,
    );
    check(
        "summary: x\nsteps:\n  - workloads: eventfd 1\n",
        r#"
x.yaml:3:5: steps[0]: unknown kind of step as the first key `workloads`
   |
 3 |   - workloads: eventfd 1
   |     ^^^^^^^^^
expected one of `workload`, `write`, `rejects`, `read`, `mkdir`, `load`, `unload`, `module`, `hook`, `hits`, `enabled_functions`, `text`, `inspect`, `sh`, `crash`, `kselftest`
did you mean `workload`?"#,
    );
    check(
        "summary: x\nsteps:\n  - inspect: [ { value: jiffies, is: 1 }, { value: a.b } ]\n",
        r#"
x.yaml:3:43: steps[0].inspect[1]: unused result
   |
 3 |   - inspect: [ { value: jiffies, is: 1 }, { value: a.b } ]
   |                                           ^
expected `symbol`, `is` or `capture` as well"#,
    );
    check(
        "summary: x\nsteps: [ { load: deaths } ]\nexpect_panic: { panic: x }\nexpect: [ { kernel_log: x } ]\n",
        r#"
x.yaml:4:9: expect: `expect` with `expect_panic`: a kernel that panics leaves no trace
   |
 4 | expect: [ { kernel_log: x } ]
   |         ^"#,
    );
    check(
        "summary: x\nsteps:\n  - write: kprobe_events\n    text: x\n    errno: EBUZY\n",
        r#"
x.yaml:5:12: steps[0].errno: unknown errno `EBUZY`
   |
 5 |     errno: EBUZY
   |            ^^^^^
expected a name such as `EBUSY`"#,
    );
    check(
        "summary: x\ntrace:\n  events:\n    - kprobe: vfs_write\n      name: my-event\n",
        r#"
x.yaml:5:13: trace.events[0].name: bad character '-' in event name
   |
 5 |       name: my-event
   |             ^
expected letters, digits and underscores, no digit first"#,
    );
    check(
        "summary: x\ntrace:\n  events:\n    - kprobe: vfs_write\nsteps: []\n",
        r#"
x.yaml:4:7: trace.events[0]: missing field `name`
   |
 4 |     - kprobe: vfs_write
   |       ^"#,
    );
    check(
        "summary: x\nexpect:\n  - never:\n      event: sched:sched_switch\n      where: prev_pid = 3\n",
        r#"
x.yaml:5:14: expect[0].never.where: bad condition `prev_pid = 3`: Syntax error: token recognition error at: '= ' (column 10)
   |
 5 |       where: prev_pid = 3
   |              ^^^^^^^^^^^^
expected `==` to compare"#,
    );
    check(
        "summary: x\nsteps:\n  - workload: eventfd 1\n   stdout: x\n",
        r#"
x.yaml:4:4: did not find expected '-' indicator, while parsing a block collection at line 3 column 3
   |
 4 |    stdout: x
   |    ^"#,
    );
    check(
        "summary: x\nexpect:\n  - count: { event: a:b, is: 1 }\n    where: x == 1\n",
        r#"
x.yaml:4:5: expect[0]: `where` is a second key, but an expectation has only one
   |
 4 |     where: x == 1
   |     ^^^^^
expected it inside the first key's value or as a separate item"#,
    );
}

const PROBES: &str = "summary: x\ntrace:\n  events:\n    - { kprobe: f, name: efd_write, args: { value: \"$arg1\" } }\n    - { kretprobe: f, name: efd_ret, args: { ret: \"$retval\" } }\n";

#[test]
fn errors_of_the_whole_have_a_place_too() {
    let check = |rest: &str, place: &str, parts: &[&str]| {
        let error = error(&format!("{PROBES}{rest}"));
        let (found, _) = error.split_once(": ").unwrap();
        assert_eq!(found, format!("x.yaml:{place}"), "{error}");
        parts.iter().for_each(|part| assert!(error.contains(part), "no `{part}` in {error}"));
    };
    check(
        "expect:\n  - count: { event: efd_writ, is: 1 }\n",
        "7:21",
        &["expect[0].count.event: unknown event `efd_writ`", "^^^^^^^^", "did you mean `efd_write`?"],
    );
    check(
        "expect:\n  - never: { event: kprobes:efd_rett }\n",
        "7:21",
        &["unknown event `kprobes:efd_rett`", "did you mean `kprobes:efd_ret`?"],
    );
    check(
        "expect:\n  - count: { event: efd_ret, where: \"re == 8\", is: 1 }\n",
        "7:37",
        &["unknown field of `efd_ret`: `re`", "expected one of `ret`, `__probe_func`", "did you mean `ret`?"],
    );
    check(
        "expect:\n  - values: { event: efd_write, field: vlue, equal: [] }\n",
        "7:40",
        &["expect[0].values.field: unknown field", "did you mean `value`?"],
    );
    check(
        "expect:\n  - sequence:\n      - { event: efd_write }\n      - { event: efd_ret, same: pid }\n",
        "9:33",
        &["`pid` is not bound by an earlier event", "expected one with `bind: pid`"],
    );
    check(
        "expect:\n  - sequence:\n      steps:\n        - { event: efd_write, bind: pid }\n        - { event: efd_ret, where: pid == $pit }\n",
        "10:36",
        &["unknown bound value `pit`", "expected `pid`"],
    );
    check("expect:\n  - pairs: { enter: efd_write, return: efd_re }\n", "7:40", &["unknown event `efd_re`"]);
    check("expect:\n  - pairs: { enter: efd_ret, return: efd_ret }\n", "7:38", &["both enter and return"]);
    check(
        "expect:\n  - pairs: { enter: { event: efd_writ }, return: efd_ret }\n",
        "7:30",
        &["unknown event `efd_writ`"],
    );
    check(
        "expect:\n  - count: { event: efd_ret }\n",
        "7:12",
        &["no number", "expected one of `is`, `at_least`, `at_most`"],
    );
    check("expect:\n  - count: { event: efd_ret, is: 1, at_most: 2 }\n", "7:34", &["`is` with bounds"]);
    check(
        "expect:\n  - count: { event: efd_ret, at_least: 3, at_most: 2 }\n",
        "7:40",
        &["at_least 3 is more than at_most 2"],
    );
    check("expect:\n  - graph: { call: f }\n", "7:12", &["expected `tracer: function_graph` under `trace`"]);
    check("expect:\n  - latency: { from: efd_write, to: efd_ret }\n", "7:14", &["no bound"]);
    check("expect:\n  - stats: { hits: 3 }\n", "7:12", &["counters without an event"]);
    check(
        "expect:\n  - sequence: [ { event: efd_ret } ]\n",
        "7:15",
        &["a sequence of 1 events\n", "expected at least two"],
    );
    check("", "1:1", &["nothing to check"]);
}

#[test]
fn two_events_of_one_name_and_odd_kretprobes_are_refused() {
    let check = |events: &str, expect: &str| {
        let error = error(&format!("summary: x\ntrace:\n  events:\n{events}steps: [{{ read: a }}]\n"));
        assert!(error.contains(expect), "{error}");
    };
    check(
        "    - { kprobe: f, name: a }\n    - { kprobe: g, name: a }\n",
        "x.yaml:5:26: trace.events[1].name: event `kprobes:a` appears twice",
    );
    check("    - { kretprobe: f+4, name: a }\n", "`f+4` is inside a function");
    check("    - { kretprobe: f, name: a, maxactive: 0 }\n", "expected 1 to 4096");
    let ambiguous = "summary: x\ntrace:\n  events:\n    - { kprobe: f, name: a }\n    - { kprobe: f, name: a, group: g }\n\
                     expect:\n  - count: { event: a, is: 1 }\n";
    assert!(error(ambiguous).contains("ambiguous event `a`\n"), "{}", error(ambiguous));
}

#[test]
fn clocks_that_count_no_time_have_no_durations() {
    let with = |clock: &str, expectation: &str| {
        format!(
            "summary: x\ntrace: {{ clock: {clock}, events: [{{ kprobe: f, name: a }}, {{ kprobe: g, name: b }}] \
             }}\nexpect:\n  - {expectation}\n"
        )
    };
    let timed = [
        "latency: { from: a, to: b, max: 1s }",
        "pairs: { enter: a, return: b, within: 1s }",
        "sequence: [{ event: a }, { event: b, within: 1s }]",
    ];
    for expectation in timed {
        assert!(error(&with("counter", expectation)).contains("the trace's clock is `counter`"));
        parse(&with("mono", expectation)).unwrap();
    }
    parse(&with("counter", "sequence: [{ event: a }, { event: b }]")).unwrap();
}

#[test]
fn hostile_files_are_refused() {
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n\
                c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n\
                e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n\
                g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n";
    assert!(error(bomb).contains("aliases repeat too much"), "{}", error(bomb));
    let long = format!("summary: &s \"{}\"\nexpect: [{}]\n", "x".repeat(100_000), "*s, ".repeat(10_000));
    assert!(error(&long).contains("aliases repeat too much"), "{}", &error(&long)[..200]);
    let deep = format!("summary: {}", "[".repeat(100_000));
    assert!(error(&deep).contains("more than 256 nested brackets"), "{}", error(&deep));
    for pattern in [
        "- ", "? ", "a: ", "a: b\n", "&a ", "[", "{a: ", "!x ", "\"", "|\n ", "*a ", "- - b\n", "%", ",",
        ": ", "'",
    ] {
        error(&pattern.repeat((200 << 10) / pattern.len()));
    }
    let many = format!("summary: x\nsteps:\n{}", "  - { read: a }\n".repeat(1001));
    assert!(error(&many).contains("1001 items\n"), "{}", error(&many));
    let flow = format!("summary: x\nsteps: [{}]\n", "{ read: a }, ".repeat(1000));
    assert_eq!(parse(&flow).unwrap().steps.len(), 1000);
    for odd in [
        "",
        "[]",
        "x",
        "--- a\n--- b\n",
        "summary: !t x\nsteps: []\n",
        "? [a]\n: b\n",
        "summary: x\nsteps: ~\n",
        "\u{1}",
    ] {
        error(odd);
    }
}

#[test]
fn what_a_terminal_would_act_on_is_not_repeated() {
    let shown = error("summary: x\nsteps:\n  - { read: \"a\\e[2Jb\" }\n  # \u{9b}2J\n");
    assert!(!shown.contains('\u{1b}') && shown.contains("control character"), "{shown:?}");
    let shown = error("summary: x\nstep\u{9b}s: 1\n");
    assert!(!shown.contains('\u{9b}'), "{shown:?}");
    let flow = "summary: x\nsteps: [{ read: a, text: abc, bad: 1 }]\n";
    assert!(error(flow).contains("unknown field `bad`"), "{}", error(flow));
    let wide = format!("summary: \"{}\"\n{}: 1\n", "x".repeat(500), "k".repeat(500));
    assert!(error(&wide).lines().nth(2).unwrap().chars().count() < 140, "{}", error(&wide));
}

fn scenarios() -> Vec<ScenarioFile> {
    find(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios")), &[]).unwrap()
}

#[test]
fn every_scenario_of_the_project_is_well_formed() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 5, "{scenarios:?}");
    for found in scenarios {
        if let Err(error) = Scenario::load(&found.path) {
            panic!("{error}");
        }
        let source = std::fs::read_to_string(&found.path).unwrap();
        let depth = found.name.matches('/').count();
        let header = format!("# yaml-language-server: $schema={}schema.json\n", "../".repeat(depth));
        assert!(source.starts_with(&header), "`{}` does not begin with {header}", found.path.display());
    }
}

#[test]
fn the_schema_file_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/schema.json");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, schema()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == schema(), "scenarios/schema.json is stale; refresh it with `cargo xtask lab schema`");
}

#[test]
fn kernel_parameters_are_for_a_boot_of_the_scenarios_own() {
    let check = |fields: &str, expect: Boot, parameters: usize| {
        let scenario = parse(&format!("summary: x\n{fields}\nsteps: [ {{ read: /proc/version }} ]")).unwrap();
        assert_eq!((scenario.boot, scenario.cmdline.0.len()), (expect, parameters), "{fields}");
    };
    check("", Boot::Snapshot, 0);
    check("boot: snapshot", Boot::Snapshot, 0);
    check("boot: fresh", Boot::Fresh, 0);
    check("cmdline: ftrace=function ro", Boot::Fresh, 2);
    check("boot: fresh\ncmdline: [ ro ]", Boot::Fresh, 1);
    check("bootconfig: ftrace.tracer = nop", Boot::Fresh, 0);
    check("icount: 10", Boot::Fresh, 0);
    let refused = |keys: &str| error(&format!("summary: x\n{keys}\nsteps: [ {{ read: /proc/version }} ]"));
    for (keys, expect) in [
        ("icount: 11", "icount: 11\n"),
        ("icount: 1\nboot: snapshot", "boot: `snapshot` with `icount`\n"),
        ("icount: 1\nuserland: debian", "icount: both `icount` and `userland`\n"),
    ] {
        let error = refused(keys);
        assert!(error.contains(expect), "{error}");
    }
    let both = error("summary: x\nboot: snapshot\nbootconfig: a\nsteps: [ { read: /proc/version } ]");
    assert!(both.contains("boot: `snapshot` with `bootconfig`\n"), "{both}");
    let both = error("summary: x\nboot: snapshot\ncmdline: [ ro ]\nsteps: [ { read: /proc/version } ]");
    assert!(
        both.contains("boot: `snapshot` with `cmdline`\n") && both.contains("expected `fresh`"),
        "{both}"
    );
    let defined = "cmdline: kprobe_event=p:g/seen,vfs_read\nexpect: [ { count: { event: NAME, is: 1 } } ]";
    assert!(parse(&format!("summary: x\n{}", defined.replace("NAME", "seen"))).is_ok());
    assert!(error(&format!("summary: x\n{}", defined.replace("NAME", "unseen"))).contains("unseen"));
}
