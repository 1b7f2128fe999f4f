//! A trace in Perfetto's format, decoded by protoc, has the events, times, CPUs, tasks and fields of the
//! original.

use lab::{
    host::prerequisites::{self, Need},
    progress::Progress,
};
use std::{
    env,
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use trace::{Event, Item, Trace, Value, perfetto};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Returns the file as protoc prints it.
fn decoded(bytes: &[u8]) -> String {
    let mut protoc = Command::new("protoc")
        .args(["--decode=Trace", "perfetto.proto", "--proto_path"])
        .arg(fixtures())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = protoc.stdin.take().unwrap();
    let bytes = bytes.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let output = protoc.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// One event: time, CPU, PID, kind and fields.
#[derive(Debug, Default, PartialEq, PartialOrd)]
struct Seen {
    time: u64,
    cpu: u32,
    pid: u32,
    kind: String,
    fields: Vec<(String, String)>,
}

/// Parses the output of protoc: `name: value` and `name {`, by indentation.
fn read(text: &str) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    let mut cpu = 0;
    let mut name = String::new();
    for line in text.lines() {
        assert!(!line.trim_start().starts_with(|c: char| c.is_ascii_digit()), "the schema lacks `{line}`");
        let depth = (line.len() - line.trim_start().len()) / 2;
        let (key, value) = line.trim().split_once(": ").unwrap_or((line.trim().trim_end_matches(" {"), ""));
        match (depth, key) {
            (2, "cpu") => cpu = value.parse().unwrap(),
            (2, "event") => seen.push(Seen { cpu, ..Seen::default() }),
            (3, "timestamp") => seen.last_mut().unwrap().time = value.parse().unwrap(),
            (3, "pid") if !seen.is_empty() => seen.last_mut().unwrap().pid = value.parse().unwrap(),
            (3, kind) if line.ends_with('{') => seen.last_mut().unwrap().kind = kind.to_owned(),
            (4, "event_name") => seen.last_mut().unwrap().kind = value.trim_matches('"').to_owned(),
            (5, "name") => name = value.trim_matches('"').to_owned(),
            (5, "str_value" | "int_value" | "uint_value") => {
                seen.last_mut().unwrap().fields.push((name.clone(), value.to_owned()));
            }
            (4, key) if !value.is_empty() => {
                seen.last_mut().unwrap().fields.push((key.to_owned(), value.to_owned()));
            }
            _ => {}
        }
    }
    seen
}

/// Returns an event of the trace with the fields that are plain numbers.
fn expected(event: &Event<'_>) -> Seen {
    let number = |(name, value): (&str, Value<'_>)| match value {
        Value::Signed(number) => Some((name.to_owned(), number.to_string())),
        Value::Unsigned(number) => Some((name.to_owned(), number.to_string())),
        _ => None,
    };
    Seen {
        time: event.time,
        cpu: event.cpu,
        pid: event.pid.try_into().unwrap(),
        kind: event.name().to_owned(),
        fields: event.fields().filter_map(number).collect(),
    }
}

fn compare(name: &str, kinds: &[&str]) {
    let trace = Trace::open(&fixtures().join("trace").join(name)).unwrap();
    let mut expect = Vec::new();
    let mut losses = 0;
    trace
        .for_each(|item| {
            match item {
                Item::Event(event) => expect.push(expected(&event)),
                Item::Loss(_) => losses += 1,
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    let mut bytes = Vec::new();
    assert_eq!(perfetto::write(&trace, |_| true, &mut bytes).unwrap(), expect.len() as u64);
    let text = decoded(&bytes);
    let mut seen = read(&text);
    // Each bundle has the events of one CPU.
    let order = |seen: &Seen| (seen.time, seen.cpu);
    seen.sort_by_key(order);
    expect.sort_by_key(order);
    assert_eq!(seen.len(), expect.len(), "{name}");
    for (seen, expect) in seen.iter().zip(&expect) {
        assert_eq!((seen.time, seen.cpu, seen.pid), (expect.time, expect.cpu, expect.pid), "{name}");
        assert_eq!(seen.kind, expect.kind, "{name}");
        for field in &expect.fields {
            // Events of the scheduler and of ftrace have only the fields in Perfetto's schema.
            let known = seen.fields.iter().find(|(name, _)| *name == field.0);
            assert!(
                known == Some(field) || known.is_none() && seen.kind.starts_with("sched_"),
                "{field:?}: {seen:?}"
            );
        }
    }
    for kind in kinds {
        assert!(seen.iter().any(|seen| seen.kind == *kind), "no {kind} in {name}");
    }
    assert!(text.contains("sysname: \"Linux\""), "{name}");
    assert!(
        losses == 0 || name == "printk.dat" || text.contains("lost_events: true"),
        "{name} lost {losses}"
    );
}

#[test]
fn every_event_is_there_with_its_time_and_its_fields() {
    let yes = env::var("CI").is_ok_and(|value| value == "true");
    prerequisites::ensure(Need::Test, yes, &Progress::new()).unwrap();
    compare("kprobes.dat", &[]);
    compare("syscalls.dat", &["sys_enter"]);
    compare("7.2-graph.dat", &["funcgraph_entry"]);
    compare("stacks.dat", &["kernel_stack"]);
    compare("record-v6.dat", &["sched_switch", "sched_waking"]);
    compare("overrun.dat", &[]);
}

#[test]
fn what_is_not_wanted_is_not_written() {
    let trace = Trace::open(&fixtures().join("trace/kprobes.dat")).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(perfetto::write(&trace, |_| false, &mut bytes).unwrap(), 0);
    assert!(!decoded(&bytes).contains("event {"));
}
