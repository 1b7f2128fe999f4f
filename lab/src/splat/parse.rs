//! Finds splats in a log or a console. A pure function of the text, which is not trusted: the number of
//! splats and of their frames is limited.

use super::{
    Frame, Severity, Splat, fingerprint,
    kinds::{self, SplatKind},
};
use std::collections::BTreeMap;

/// The maximum number of splats kept of one log; the first ones matter most.
const SPLATS_MAX: usize = 32;

/// The maximum number of frames kept of one splat.
const FRAMES_MAX: usize = 64;

/// The maximum length kept of a title or message, in characters.
const TITLE_MAX: usize = 300;

/// The call trace of a splat must begin within this many lines after the first.
const LINES_MAX: usize = 60;

/// The same for lockdep, which first prints a chain of locks, each with its own trace, and for SLUB, which
/// first prints who allocated and freed the object, and its bytes.
const LONG_LINES_MAX: usize = 1000;

/// The call trace of dump_stack() begins within this many lines after the one that names the task.
const DUMP_LINES_MAX: usize = 8;

/// The registers to keep: program counter, link register, stack pointer and call arguments.
const REGISTERS: [&str; 12] = ["pc", "lr", "sp", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8"];

/// Returns the mark that is written to the kernel log and the stored console where a step begins.
pub fn step_mark(number: usize) -> String {
    format!("{STEP_MARK}{number}")
}

/// The prefix of a step mark.
pub(crate) const STEP_MARK: &str = "ftrace-lab: step ";

const CUT: &str = "------------[ cut here ]------------";

/// Returns all splats of a log, in its order.
pub fn find(log: &str) -> Vec<Splat> {
    let mut reader = Reader::default();
    for line in log.lines() {
        reader.line(line);
    }
    reader.close();
    reader.splats
}

/// Returns the stacks that sysrq printed, in the newest dump only: those of blocked tasks (`w`) and of
/// active CPUs (`l`).
pub fn blocked(log: &str) -> Vec<Splat> {
    let from = log.rfind("sysrq: Show Blocked State").unwrap_or(log.len());
    let mut reader = Reader { stacks: true, ..Reader::default() };
    for line in log[from..].lines() {
        reader.line(line);
    }
    reader.close();
    // The agent itself, which runs because it triggered this dump.
    let asks = |stack: &Splat| stack.frames.iter().any(|frame| frame.symbol.starts_with("sysrq_handle_"));
    reader.splats.retain(|stack| !stack.frames.is_empty() && !asks(stack));
    reader.splats
}

/// A splat that is still being read.
struct Open {
    splat: Splat,
    lines: usize,
    in_trace: bool,
}

#[derive(Default)]
struct Reader {
    splats: Vec<Splat>,
    open: Option<Open>,
    step: Option<usize>,
    /// The line before `WARNING:`, after the cut mark.
    message: Option<String>,
    after_cut: bool,
    /// Whether to read stacks of tasks instead of splats.
    stacks: bool,
    /// The last line outside of a splat that names a task, as dump_stack() begins.
    dump: Option<Dump>,
    /// Whether the line before belongs to a dump that is no splat.
    announced: bool,
}

/// The beginning of a stack dump outside of a splat.
struct Dump {
    time: Option<f64>,
    task: String,
    /// The number of lines since.
    lines: usize,
}

/// A stack dump without a reason that the lab knows.
const DUMP: SplatKind = SplatKind::of_dump();

/// The lines before a dump that is not unexpected: of a CPU that was asked for its stack, and of the task that
/// ran out of memory, whose splat follows.
fn announces_dump(text: &str) -> bool {
    text.starts_with("NMI backtrace for cpu ") || text.contains(" invoked oom-killer: ")
}

/// The heads of the stacks that sysrq prints.
const BLOCKED: SplatKind = SplatKind::of_stack("task:", "blocked task");
const RUNNING: SplatKind = SplatKind::of_stack("NMI backtrace for cpu ", "running");

impl Reader {
    fn line(&mut self, line: &str) {
        let (time, text) = split_time(line);
        if let Some(step) = text.strip_prefix(STEP_MARK).and_then(|rest| rest.trim().parse().ok()) {
            self.close();
            self.step = Some(step);
            return;
        }
        let kind = match self.stacks {
            true => [&BLOCKED, &RUNNING].into_iter().find(|kind| kind.begins(text)),
            false => kinds::of(text),
        };
        match kind {
            Some(kind) if self.goes_on(kind) => {
                if let Some(open) = &mut self.open {
                    open.lines = 0;
                }
            }
            Some(kind) => self.begin(kind, time, text),
            None if text == CUT => {
                if !self.awaits_warning() {
                    self.close();
                }
                self.after_cut = true;
            }
            None if self.after_cut && self.open.is_none() => {
                self.message = Some(capped(text));
                self.after_cut = false;
            }
            None if self.open.is_none() => self.outside(time, text),
            None => self.body(text),
        }
    }

    /// Reads a line that belongs to no splat; the call trace of dump_stack() may begin there.
    fn outside(&mut self, time: Option<f64>, text: &str) {
        let announced = std::mem::replace(&mut self.announced, announces_dump(text));
        if slab_fault(text) {
            self.message = Some(capped(text));
        } else if let Some(task) = task(text) {
            self.dump = (!announced && !self.stacks).then_some(Dump { time, task, lines: 0 });
        } else if let Some(Dump { time, task, lines }) = self.dump.take() {
            if is_trace(text) {
                self.begin(&DUMP, time, text);
                self.open = self.open.take().map(|open| Open {
                    in_trace: true,
                    splat: Splat { task, ..open.splat },
                    ..open
                });
            } else if lines < DUMP_LINES_MAX {
                self.dump = Some(Dump { time, task, lines: lines + 1 });
            }
        }
    }

    /// Returns whether a first line belongs to the splat that has already begun.
    fn goes_on(&self, kind: &SplatKind) -> bool {
        let Some(open) = &self.open else { return false };
        let warning = self.awaits_warning() && kind.name == "warning";
        warning || kind.continues && open.splat.severity == Severity::Oops && open.splat.frames.is_empty()
    }

    /// Returns whether a report has begun that a warning with its location follows, and its call trace has
    /// not. SLUB warns in newer kernels (seen with 6.12.95), and dumps the stack in older ones.
    fn awaits_warning(&self) -> bool {
        let kinds = ["ftrace bug", "SLUB"];
        self.open
            .as_ref()
            .is_some_and(|open| kinds.contains(&open.splat.kind.as_str()) && open.splat.frames.is_empty())
    }

    fn begin(&mut self, kind: &SplatKind, time: Option<f64>, text: &str) {
        self.close();
        self.after_cut = false;
        let splat = Splat {
            severity: kind.severity,
            kind: kind.name.to_owned(),
            title: capped(text),
            message: self.message.take().unwrap_or_default(),
            fingerprint: String::new(),
            time,
            task: String::new(),
            step: self.step,
            times: 1,
            allowed: false,
            registers: BTreeMap::new(),
            frames: Vec::new(),
        };
        self.open = Some(Open { splat, lines: 0, in_trace: false });
        self.dump = None;
        if kind.single {
            self.close();
        }
    }

    fn body(&mut self, text: &str) {
        let Some(open) = &mut self.open else { return };
        open.lines += 1;
        if let Some(frame) = open.in_trace.then(|| frame(text)).flatten() {
            if open.splat.frames.len() < FRAMES_MAX {
                open.splat.frames.push(frame);
            }
            return;
        }
        let long = ["lockdep", "SLUB"].contains(&open.splat.kind.as_str());
        let most = if long { LONG_LINES_MAX } else { LINES_MAX };
        // KCSAN prints a trace of each task, and then more; only the first is kept.
        let race = open.splat.kind == "KCSAN";
        let over = open.in_trace && !race || open.lines > most || text.starts_with("---[ end ");
        if over {
            return self.close();
        }
        open.in_trace = false;
        if is_trace(text) {
            open.in_trace = true;
        } else if race && open.splat.frames.is_empty() && text.contains(" by task ") {
            // `write to 0xffff… of 8 bytes by task 40 on cpu 1:`
            open.in_trace = true;
        } else if let Some(task) = task(text) {
            open.splat.task = task;
        } else if open.splat.kind == "ftrace bug" && !open.splat.message.contains("+0x") {
            // `ftrace failed to modify`, then on a separate line `[<ffff…>] vfs_write+0x4/0x238`.
            let text = text.split_once(">] ").map_or(text, |(_, symbol)| symbol);
            open.splat.message = capped(format!("{} {text}", open.splat.message).trim());
        } else {
            registers(text, &mut open.splat.registers);
        }
    }

    fn close(&mut self) {
        let Some(Open { mut splat, .. }) = self.open.take() else { return };
        // An oops without an unwindable stack still has its pc.
        if splat.frames.is_empty() {
            splat.frames.extend(splat.registers.get("pc").and_then(|pc| frame(pc)));
        }
        if splat.kind == DUMP.name {
            let function = fingerprint::telling(&splat.frames).first().map_or("", |frame| &frame.symbol);
            splat.title = format!("dump_stack() in {function}");
        }
        splat.fingerprint = fingerprint::of(&splat.kind, &splat.title, &splat.frames);
        let same = |other: &&mut Splat| other.fingerprint == splat.fingerprint && other.step == splat.step;
        if let Some(other) = self.splats.iter_mut().find(same) {
            other.times = other.times.saturating_add(1);
        } else if self.splats.len() < SPLATS_MAX {
            self.splats.push(splat);
        }
    }
}

/// Returns whether a call trace begins after this line. It has two spellings: that of arm64, and that of
/// dump_stack() in generic code of 5.10 and earlier.
fn is_trace(text: &str) -> bool {
    text.eq_ignore_ascii_case("call trace:")
}

/// Returns whether this is the line before a report of SLUB: `[Right Redzone overwritten] 0x…`.
fn slab_fault(text: &str) -> bool {
    text.starts_with('[') && text.contains(" overwritten] 0x")
}

/// Parses `vfs_write+0x10/0x20 [module 0123abcd] (P)`.
fn frame(text: &str) -> Option<Frame> {
    let mut words = text.split_whitespace();
    let (symbol, place) = words.next()?.split_once("+0x")?;
    let (offset, size) = place.split_once("/0x")?;
    let module = words.next().and_then(|word| word.strip_prefix('['));
    let module = module.map(|module| capped(module.trim_end_matches(']')));
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    if symbol.is_empty() || !symbol.chars().all(good) || symbol.len() > TITLE_MAX {
        return None;
    }
    Some(Frame {
        symbol: symbol.to_owned(),
        offset: u64::from_str_radix(offset, 16).ok()?,
        size: u64::from_str_radix(size, 16).ok()?,
        module,
        places: Vec::new(),
    })
}

/// Parses `CPU: 1 UID: 0 PID: 33 Comm: insmod Tainted: G` to `insmod (33) on CPU 1`. UID was added in 6.12.
fn task(text: &str) -> Option<String> {
    if !text.starts_with("CPU: ") {
        return None;
    }
    let behind = |name: &str| text.split_once(name)?.1.split_whitespace().next();
    let (cpu, pid, comm) = (behind("CPU: ")?, behind("PID: ")?, behind("Comm: ")?);
    Some(capped(&format!("{comm} ({pid}) on CPU {cpu}")))
}

/// Parses `pc : f+0x10/0x20`, `sp : ffff80008000bd20`, `x1 : 0000000000000000 x0 : ffff000001`.
fn registers(text: &str, into: &mut BTreeMap<String, String>) {
    let Some((first, rest)) = text.split_once(':') else { return };
    if matches!(first.trim(), "pc" | "lr") {
        into.entry(first.trim().to_owned()).or_insert_with(|| capped(rest.trim()));
        return;
    }
    let spaced = text.replace(':', " : ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    for triple in words.chunks(3) {
        let [name, ":", value] = triple else { return };
        if REGISTERS.contains(name) && value.len() <= 16 {
            into.entry((*name).to_owned()).or_insert_with(|| (*value).to_owned());
        }
    }
}

/// Returns a line's timestamp, and the line without the prefixes `<4>`, `[    1.234567]` and the caller,
/// `[    T1]`.
fn split_time(line: &str) -> (Option<f64>, &str) {
    let (mut time, mut rest) = (None, line.trim_end().trim_start());
    while let Some((open, close)) = rest.chars().next().and_then(|c| match c {
        '<' => Some(('<', '>')),
        '[' => Some(('[', ']')),
        _ => None,
    }) {
        let Some((head, tail)) = rest[open.len_utf8()..].split_once(close) else { break };
        let head = head.trim();
        let is_caller = |rest: &str| rest.parse::<u32>().is_ok();
        let seconds = head.contains('.').then(|| head.parse::<f64>().ok()).flatten();
        let caller = head.strip_prefix(['T', 'C']).is_some_and(is_caller);
        if seconds.is_none() && !caller && !(open == '<' && is_caller(head)) {
            break;
        }
        time = time.or(seconds);
        rest = tail.trim_start();
    }
    (time, rest)
}

fn capped(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TITLE_MAX).collect()
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
