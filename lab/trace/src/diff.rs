//! Compares the event sequences of two traces and finds where they diverge.
//!
//! Two runs of the same work never have the same times, PIDs or heap addresses, and the lab
//! determines when the agent acts. The comparison leaves these out (see [`IGNORED`]) and compares
//! event by event in time order. It reads both traces in parallel and stops at the first
//! difference, so that memory does not grow with them.

use super::{Event, Item, Trace, Value};
use anyhow::{Result, bail};
use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt::Write as _,
    ops::ControlFlow,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

/// Names the parts that are not compared, for the reader of a comparison.
pub const IGNORED: &str = "ignored: times, CPUs, flags and preemption counts; PIDs and addresses outside the \
     kernel's code are numbered in the order of first appearance, and addresses inside it are replaced by symbols";

/// The PID of the agent in the lab's own traces.
const AGENT: i32 = 1;

/// Returns whether an event is of the agent. The agent acts and waits on the lab's requests, so the
/// position of its events says nothing about the kernel.
pub fn is_agents(event: &Event<'_>) -> bool {
    event.pid == AGENT
}

/// The number of events of each trace shown before the difference, and from it on.
const CONTEXT: usize = 5;

/// The number of events that one trace may be read ahead of the other.
const AHEAD: usize = 1024;

/// Fields that hold times or the CPU.
const NOT_COMPARED: [&str; 22] = [
    "calltime",
    "rettime",
    "duration",
    "timestamp",
    "nmi_total_ts",
    "runtime",
    "vruntime",
    "delay",
    "latency",
    "expires",
    "softexpires",
    "now",
    "timeout",
    "function_expires",
    "bucket_expiry",
    "utime",
    "stime",
    "cpu",
    "target_cpu",
    "orig_cpu",
    "dest_cpu",
    "cpu_id",
];

/// Addresses from here on are the kernel's; values above [`ERRORS`] are error numbers.
const KERNEL: u64 = 0xffff_0000_0000_0000;
const ERRORS: u64 = u64::MAX - 4095;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The traces have the same sequence of this many events.
    Same(u64),
    /// The traces diverge at an event.
    Different(Difference),
}

/// The place where two traces diverge, with lines as written by [`Trace::display`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of identical events before it.
    pub same: u64,
    /// The last of these events, in each trace.
    pub before: [Vec<String>; 2],
    /// The events from the difference on, in each trace; empty if the trace has ended.
    pub after: [Vec<String>; 2],
}

/// Compares the events of two traces for which `wants` holds; each trace has its own `wants`.
pub fn compare<W>(traces: [&Trace; 2], wants: [W; 2]) -> Result<Comparison>
where
    W: FnMut(&Event<'_>) -> bool + Send,
{
    let [a, b] = traces;
    let [wants_a, wants_b] = wants;
    thread::scope(|scope| {
        let (send_a, lines_a) = sync_channel(AHEAD);
        let (send_b, lines_b) = sync_channel(AHEAD);
        let readers =
            [scope.spawn(move || read(a, wants_a, &send_a)), scope.spawn(move || read(b, wants_b, &send_b))];
        let comparison = part([&lines_a, &lines_b]);
        // Dropping the receivers ends a reader that is ahead, at its next event.
        drop((lines_a, lines_b));
        for reader in readers {
            match reader.join() {
                Ok(read) => read?,
                Err(_) => bail!("a reader of a trace panicked"),
            }
        }
        Ok(comparison)
    })
}

/// One event, as compared and as shown.
#[derive(Debug)]
struct Line {
    /// The name of its task; compared only if both traces know it.
    comm: Option<String>,
    compared: String,
    shown: String,
}

impl Line {
    fn is_as(&self, other: &Line) -> bool {
        let comm = self.comm.is_none() || other.comm.is_none() || self.comm == other.comm;
        comm && self.compared == other.compared
    }
}

fn read(trace: &Trace, mut wants: impl FnMut(&Event<'_>) -> bool, lines: &SyncSender<Line>) -> Result<()> {
    let mut names = Names::default();
    trace.for_each(|item| {
        let line = match &item {
            Item::Event(event) if !wants(event) => return Ok(ControlFlow::Continue(())),
            Item::Event(event) => names.line(event, trace.display(event)),
            // The number of lost events is a matter of chance, but a gap is compared.
            Item::Loss(loss) => {
                let compared = "lost events".to_owned();
                Line { comm: None, compared, shown: format!("CPU {}: events were lost here", loss.cpu) }
            }
        };
        Ok(match lines.send(line) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    })
}

fn part(lines: [&Receiver<Line>; 2]) -> Comparison {
    let mut same = 0;
    let mut before: [VecDeque<String>; 2] = Default::default();
    loop {
        let next = lines.map(|lines| lines.recv().ok());
        match next {
            [None, None] => return Comparison::Same(same),
            [Some(a), Some(b)] if a.is_as(&b) => {
                same += 1;
                for (before, line) in before.iter_mut().zip([a, b]) {
                    before.push_back(line.shown);
                    if before.len() > CONTEXT {
                        before.pop_front();
                    }
                }
            }
            next => {
                let [a, b] = next.map(|line| line.into_iter());
                let rest = |first: std::option::IntoIter<Line>, lines: &Receiver<Line>| -> Vec<String> {
                    first.chain(lines.iter()).take(CONTEXT).map(|line| line.shown).collect()
                };
                let after = [rest(a, lines[0]), rest(b, lines[1])];
                return Comparison::Different(Difference { same, before: before.map(Vec::from), after });
            }
        }
    }
}

/// Numbers PIDs and addresses in the order of first appearance.
#[derive(Default)]
struct Names {
    pids: HashMap<i64, usize>,
    addresses: HashMap<u64, usize>,
}

impl Names {
    fn line(&mut self, event: &Event<'_>, shown: String) -> Line {
        let mut compared = format!("{} {}:{}", self.pid(event.pid.into()), event.group(), event.name());
        for (name, value) in event.fields() {
            if NOT_COMPARED.contains(&name) {
                continue;
            }
            let pointer = event.format().field(name).is_some_and(|field| field.is_pointer());
            // Writing to a string does not fail.
            let _ = write!(compared, " {name}=");
            self.append(event, name, pointer, &value, &mut compared);
        }
        let comm = event.comm();
        Line { comm: (comm != "<...>").then(|| without_cpu(&comm)), compared, shown }
    }

    fn append(&mut self, event: &Event<'_>, name: &str, pointer: bool, value: &Value<'_>, text: &mut String) {
        let is_pid = name == "pid" || name == "tgid" || name.ends_with("_pid");
        // Writing to a string does not fail.
        let _ = match value {
            Value::Signed(number) if is_pid => write!(text, "{}", self.pid(*number)),
            Value::Unsigned(number) if is_pid => write!(text, "{}", self.pid(*number as i64)),
            Value::Unsigned(number) if (pointer && *number != 0) || (KERNEL..ERRORS).contains(number) => {
                match event.metadata().symbols().resolve(*number) {
                    Some(symbol) => write!(text, "{symbol}"),
                    None => write!(text, "@{}", numbered(&mut self.addresses, *number)),
                }
            }
            Value::Signed(number) => write!(text, "{number}"),
            Value::Unsigned(number) => write!(text, "{number}"),
            Value::Text(value) if name.ends_with("comm") => write!(text, "{:?}", without_cpu(value)),
            Value::Text(value) => write!(text, "{value:?}"),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")),
            Value::List(items) => {
                for item in items {
                    text.push(',');
                    self.append(event, name, pointer, item, text);
                }
                Ok(())
            }
        };
    }

    /// Returns the normalized PID; 0 is the idle task of every CPU.
    fn pid(&mut self, pid: i64) -> String {
        if pid == 0 { "idle".to_owned() } else { format!("#{}", numbered(&mut self.pids, pid)) }
    }
}

fn numbered<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, usize>, key: K) -> usize {
    let next = numbers.len() + 1;
    match numbers.entry(key) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(new) => *new.insert(next),
    }
}

/// Returns a kernel thread's name without its CPU: `kworker/*`, `ksoftirqd/*`.
fn without_cpu(comm: &str) -> String {
    match comm.split_once('/') {
        Some((name, rest)) if rest.starts_with(|c: char| c.is_ascii_digit() || c == 'u') => {
            format!("{name}/*")
        }
        _ => comm.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Receiver<Line> {
        let (send, lines) = sync_channel(texts.len());
        for text in texts {
            let (comm, compared) = text.split_once(' ').unwrap();
            let comm = (comm != "?").then(|| comm.to_owned());
            let line = Line { comm, compared: compared.to_owned(), shown: (*text).to_owned() };
            send.send(line).unwrap();
        }
        lines
    }

    #[test]
    fn traces_part_at_the_first_event_that_is_not_the_same() {
        let check = |a: &[&str], b: &[&str], expect: Option<(u64, usize, &[&str], &[&str])>| {
            let found = match part([&lines(a), &lines(b)]) {
                Comparison::Same(same) => {
                    assert_eq!((same, expect), (a.len() as u64, None));
                    return;
                }
                Comparison::Different(found) => found,
            };
            let (same, before, after_a, after_b) = expect.unwrap();
            assert_eq!((found.same, found.before[0].len(), found.before[1].len()), (same, before, before));
            assert_eq!(
                (&found.after[0][..], &found.after[1][..]),
                (&to_owned(after_a)[..], &to_owned(after_b)[..])
            );
        };
        check(&[], &[], None);
        check(&["a 1", "b 2"], &["a 1", "b 2"], None);
        check(&["? 1"], &["a 1"], None);
        check(&["a 1", "a 2"], &["a 1", "a 3"], Some((1, 1, &["a 2"], &["a 3"])));
        check(&["a 1"], &["b 1"], Some((0, 0, &["a 1"], &["b 1"])));
        check(&["a 1"], &["a 1", "a 2"], Some((1, 1, &[], &["a 2"])));
        let long = ["a 0", "a 1", "a 2", "a 3", "a 4", "a 5", "a 6", "a 7"];
        check(&long, &long[..7], Some((7, CONTEXT, &["a 7"], &[])));
        check(&long, &[], Some((0, 0, &long[..CONTEXT], &[])));
    }

    fn to_owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn numbers_are_those_of_the_first_appearance() {
        let mut names = Names::default();
        let pids: Vec<_> = [40, 0, 41, 40].iter().map(|pid| names.pid(*pid)).collect();
        assert_eq!(pids, ["#1", "idle", "#2", "#1"]);
    }

    #[test]
    fn a_kernel_thread_is_the_same_on_every_cpu() {
        let check = |comm: &str, expect: &str| assert_eq!(without_cpu(comm), expect);
        check("kworker/0:1H", "kworker/*");
        check("kworker/u8:3", "kworker/*");
        check("ksoftirqd/1", "ksoftirqd/*");
        check("bin/sh", "bin/sh");
        check("eventfd", "eventfd");
    }
}
