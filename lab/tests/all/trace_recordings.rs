//! The contents of the recorded traces, read through the public interface of the decoder.

use anyhow::{Context, Result, ensure};
use std::{ops::ControlFlow, path::Path};
use trace::{Event, Item, Loss, Trace, Value};

fn open(name: &str) -> Result<Trace> {
    Trace::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace").join(name))
}

/// Collects the values that `of` returns for events.
fn collect<T>(trace: &Trace, mut of: impl FnMut(&Event<'_>) -> Option<T>) -> Result<Vec<T>> {
    let mut found = Vec::new();
    trace.for_each(|item| {
        if let Item::Event(event) = item {
            found.extend(of(&event));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn losses(trace: &Trace) -> Result<Vec<Loss>> {
    let mut found = Vec::new();
    trace.for_each(|item| {
        if let Item::Loss(loss) = item {
            found.push(loss);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn number(event: &Event<'_>, field: &str) -> Option<u64> {
    event.field(field)?.as_u64()
}

#[test]
fn probes_in_the_order_of_time() -> Result<()> {
    let trace = open("kprobes.dat")?;
    // Three tasks on two CPUs, each writing 1, 2, 3, … to its own eventfd.
    for pid in [39, 40, 41] {
        let values = collect(&trace, |event| {
            (event.pid == pid && event.name() == "efd_write").then(|| number(event, "value"))
        })?;
        let expect: Vec<_> = (1..=values.len() as u64).map(Some).collect();
        assert_eq!(values, expect, "{pid}");
        assert!(values.len() > 5, "{pid}");
    }
    let times = collect(&trace, |event| Some(event.time))?;
    assert!(times.is_sorted());
    let cpus = collect(&trace, |event| Some(event.cpu))?;
    assert!(cpus.contains(&0) && cpus.contains(&1));
    assert_eq!(losses(&trace)?, []);
    Ok(())
}

#[test]
fn fields_of_a_probe() -> Result<()> {
    let trace = open("kprobes.dat")?;
    let opens = collect(&trace, |event| {
        (event.group() == "my_kprobes" && event.name() == "op").then(|| format!("{event:?}"))
    })?;
    let first = opens.first().context("no `op`")?;
    for part in [
        r#"file: Text("/proc/self/status")"#,
        "flags: Unsigned(131072)",
        "dfd: Signed(-100)",
        "how: List([Unsigned(0), Unsigned(0), Unsigned(2), Unsigned(0), Unsigned(0), Unsigned(0)])",
        r#"st: Text("init")"#,
    ] {
        assert!(first.contains(part), "{first} lacks {part}");
    }
    let returns = collect(&trace, |event| match event.field("ret") {
        Some(Value::Signed(ret)) if event.name() == "op_ret" => Some(ret),
        _ => None,
    })?;
    assert!(returns.contains(&-2), "ENOENT of /etc/nothing: {returns:?}");
    assert!(returns.len() > 50);
    Ok(())
}

#[test]
fn symbols_of_functions() -> Result<()> {
    let trace = open("kprobes.dat")?;
    let symbols = trace.metadata().symbols();
    let calls = collect(&trace, |event| {
        let name = |field: &str| symbols.resolve(number(event, field)?).map(|symbol| symbol.name);
        (event.group() == "ftrace" && event.name() == "function").then(|| (name("ip"), name("parent_ip")))
    })?;
    assert!(calls.len() > 50);
    assert!(calls.iter().all(|call| *call == (Some("vfs_write"), Some("ksys_write"))));
    Ok(())
}

#[test]
fn names_of_numbers() -> Result<()> {
    let trace = open("kprobes.dat")?;
    let format = trace.metadata().format(Some("sched"), "sched_switch").context("no sched_switch")?;
    let states = format.flags("prev_state").context("no table")?;
    assert_eq!((states.text(1).as_str(), states.text(3).as_str()), ("S", "S|D"));
    assert_eq!(states.value("D"), Some(2));
    let softirq = trace.metadata().format(Some("irq"), "softirq_raise").context("no softirq_raise")?;
    let vectors = softirq.symbolic("vec").context("no table")?;
    assert_eq!((vectors.text(1).as_str(), vectors.value("RCU")), ("TIMER", Some(9)));
    Ok(())
}

#[test]
fn losses_with_their_place() -> Result<()> {
    let found = losses(&open("overrun.dat")?)?;
    let places: Vec<_> = found.iter().map(|loss| (loss.cpu, loss.lost, loss.after, loss.before)).collect();
    assert_eq!(
        places,
        [
            (1, Some(753), None, Some(16_425_388_400)),
            (0, Some(1175), None, Some(16_429_924_208)),
            // 83 more were recorded in pages read before these; the counters still include them.
            (1, Some(83), Some(16_432_772_896), None),
        ]
    );
    // A full buffer that is not overwritten marks no page: only the counters have the loss, without a time.
    let found = losses(&open("dropped.dat")?)?;
    let places: Vec<_> = found.iter().map(|loss| (loss.cpu, loss.lost, loss.after, loss.before)).collect();
    assert_eq!(places, [(0, Some(1564), None, None), (1, Some(1216), None, None)]);
    Ok(())
}

#[test]
fn messages() -> Result<()> {
    let trace = open("printk.dat")?;
    let found = collect(&trace, |event| {
        let text = event.field("message")?.as_text()?.to_owned();
        Some((event.name().to_owned(), text))
    })?;
    let expect = [
        ("print", "from user"),
        ("bputs", "This is a static string that will use trace_bputs"),
        ("print", "This is a dynamic string that will use trace_puts"),
        ("bputs", "(irq) This is a static string that will use trace_bputs"),
        ("print", "(irq) This is a dynamic string that will use trace_puts"),
        ("bprint", "(irq) This is a static string that will use trace_bprintk()"),
        ("print", "(irq) This is a dynamic string that will use trace_printk"),
        ("bprint", "This is a static string that will use trace_bprintk()"),
        ("print", "This is a dynamic string that will use trace_printk"),
    ];
    assert_eq!(found, expect.map(|(name, text)| (name.to_owned(), text.to_owned())));
    Ok(())
}

#[test]
fn stacks_beyond_eight_frames() -> Result<()> {
    let trace = open("stacks.dat")?;
    let symbols = trace.metadata().symbols();
    let stacks = collect(&trace, |event| match event.field("caller") {
        Some(Value::List(frames)) if event.name() == "kernel_stack" => {
            Some(frames.iter().filter_map(Value::as_u64).collect::<Vec<_>>())
        }
        _ => None,
    })?;
    assert!(stacks.iter().any(|frames| frames.len() > 8) && stacks.iter().any(|frames| frames.len() < 8));
    for frames in &stacks {
        let names: Vec<_> =
            frames.iter().filter_map(|&ip| symbols.resolve(ip)).map(|symbol| symbol.name).collect();
        assert_eq!(names.len(), frames.len(), "{frames:x?}");
        assert_eq!(names.first(), Some(&"__schedule"));
    }
    Ok(())
}

#[test]
fn calls_and_returns() -> Result<()> {
    let trace = open("graph.dat")?;
    let mut depth = std::collections::HashMap::new();
    let mut returns = 0;
    let calls = collect(&trace, |event| {
        let at = number(event, "depth")?;
        match event.name() {
            "funcgraph_entry" => *depth.entry(event.pid).or_insert(0) += 1,
            _ => {
                *depth.entry(event.pid).or_insert(0) -= 1;
                returns += 1;
                assert!(number(event, "rettime") >= number(event, "calltime"));
                assert!(number(event, "retval").is_some());
            }
        }
        Some(at)
    })?;
    assert!(calls.len() > 100 && returns > 50);
    assert!(depth.values().all(|&open: &i32| open == 0), "{depth:?}");
    Ok(())
}

#[test]
fn clocks_and_layouts() -> Result<()> {
    let check = |name: &str, clock: &str, nanoseconds: bool, page: usize| -> Result<()> {
        let trace = open(name)?;
        let metadata = trace.metadata();
        assert_eq!((metadata.clock(), metadata.counts_nanoseconds()), (clock, nanoseconds), "{name}");
        assert_eq!(metadata.layout().size(), page, "{name}");
        assert!(!collect(&trace, |_| Some(()))?.is_empty(), "{name}");
        assert!(metadata.uname().contains("6.12.107"), "{name}");
        Ok(())
    };
    check("kprobes.dat", "local", true, 4096)?;
    check("boot.dat", "boot", true, 4096)?;
    check("counter.dat", "counter", false, 4096)?;
    check("subbuf16.dat", "local", true, 16384)?;
    Ok(())
}

/// Returns `of` for each event `name` whose field `field` is the address of `eventfd_write`.
fn eventfd_writes<T>(
    trace: &Trace,
    name: &str,
    field: &str,
    mut of: impl FnMut(&Event<'_>) -> Option<T>,
) -> Result<Vec<T>> {
    let symbols = trace.metadata().symbols();
    let found = collect(trace, |event| {
        let symbol = symbols.resolve(number(event, field)?)?;
        (event.name() == name && symbol.name == "eventfd_write").then(|| of(event))
    })?;
    ensure!(found.iter().all(Option::is_some), "an event of `eventfd_write` lacks the value");
    Ok(found.into_iter().flatten().collect())
}

/// Returns the third argument of a function, if the kernel records arguments.
fn third_argument(event: &Event<'_>) -> Option<u64> {
    match event.field("args")? {
        Value::List(arguments) => arguments.get(2)?.as_u64(),
        _ => None,
    }
}

#[test]
fn arguments_and_return_values_where_the_kernel_has_them() -> Result<()> {
    // Each write to an eventfd is of eight bytes, and returns eight.
    let of = |name: &str, event: &str, field: &str| -> Result<Vec<u64>> {
        eventfd_writes(&open(name)?, event, field, third_argument)
    };
    assert_eq!(of("7.2-function.dat", "function", "ip")?, [8; 3]);
    assert_eq!(of("7.2-graph.dat", "funcgraph_entry", "func")?, [8; 3]);
    assert_eq!(of("7.2-retaddr.dat", "fgraph_retaddr_entry", "func")?, [8; 3]);
    let returned = |name: &str| {
        eventfd_writes(&open(name)?, "funcgraph_exit", "func", |event| Some(number(event, "retval")))
    };
    assert_eq!(returned("7.2-graph.dat")?, [Some(8); 3]);
    assert_eq!(returned("6.1-graph.dat")?, [None; 3]);
    let callers = open("7.2-retaddr.dat")?;
    let symbols = callers.metadata().symbols();
    let callers = eventfd_writes(&callers, "fgraph_retaddr_entry", "func", |event| {
        Some(symbols.resolve(number(event, "retaddr")?)?.name.to_owned())
    })?;
    assert_eq!(callers, ["vfs_write"; 3]);
    Ok(())
}

#[test]
fn files_that_trace_cmd_wrote() -> Result<()> {
    let check = |name: &str, kernel: &str, event: &str, expect: usize| -> Result<()> {
        let trace = open(name)?;
        assert!(trace.metadata().uname().contains(kernel), "{name}: {}", trace.metadata().uname());
        let found = collect(&trace, |found| (found.name() == event).then_some(found.time))?;
        assert_eq!(found.len(), expect, "{name}");
        assert!(found.is_sorted(), "{name}");
        Ok(())
    };
    check("record-v6.dat", "6.12.107", "sys_enter_write", 14)?;
    check("record-zstd.dat", "6.12.107", "sys_exit_wait4", 11)?;
    check("record-none.dat", "6.12.107", "irq_handler_entry", 17)?;
    check("6.1-stacks.dat", "6.1.176", "kernel_stack", 228)?;
    check("6.1-function.dat", "6.1.176", "function", 15)?;
    // Debian 12's trace-cmd cannot read this one; the stack after each event shows that it is complete.
    check("../trace_cmd/zlib.dat", "6.12.107", "kernel_stack", 116)?;
    let all = collect(&open("../trace_cmd/zlib.dat")?, |_| Some(()))?.len();
    assert_eq!(all, 2 * 116);
    Ok(())
}

#[test]
fn a_latency_trace_is_text() {
    let error = format!("{:#}", open("../trace_cmd/latency.dat").unwrap_err());
    assert!(error.contains("latency tracer output") && error.contains("trace-cmd report"), "{error}");
}
