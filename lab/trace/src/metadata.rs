//! The metadata of a trace: formats, names of tasks, symbols and counters of its kernel.

use super::{
    format::EventFormat,
    page::{self, PageLayout},
    symbols::Symbols,
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, HashMap},
    fmt, mem,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The texts in a trace file, not yet parsed.
#[derive(Debug, Default)]
pub(crate) struct RawMetadata {
    pub(crate) header_page: String,
    pub(crate) header_event: String,
    /// System and text of each `format` file; ftrace's own are under `ftrace`.
    pub(crate) formats: Vec<(String, String)>,
    pub(crate) kallsyms: String,
    pub(crate) printk_formats: String,
    pub(crate) saved_cmdlines: String,
    pub(crate) clock: String,
    pub(crate) stats: Vec<String>,
    pub(crate) uname: String,
    pub(crate) version: String,
}

/// The metadata of a trace, which describes the traced kernel.
#[derive(Debug)]
pub struct Metadata {
    layout: PageLayout,
    formats: Vec<EventFormat>,
    /// For each event number, its index in `formats` plus one; 0 if there is none.
    by_id: Vec<u32>,
    unknown: EventFormat,
    /// Sorted by PID, for lookups by event.
    comms: Vec<(i32, String)>,
    /// Parsed on first use: most users of a trace need no symbols.
    symbols: OnceLock<Symbols>,
    kallsyms: Mutex<String>,
    printk: HashMap<u64, String>,
    stats: BTreeMap<u32, CpuStats>,
    clock: String,
    uname: String,
    version: String,
}

/// The kernel's own counters of one CPU's ring buffer, from `per_cpu/cpuN/stats`, in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Events still in the buffer when the counters were read.
    pub entries: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Lost because the buffer wrapped within one interrupt.
    pub commit_overrun: u64,
    /// Events dropped because the buffer was full and not in overwrite mode.
    pub dropped: u64,
    /// Events that were read.
    pub read: u64,
    /// Events that were lost in other ways, as the program that wrote the file found out: discarded with the
    /// buffer, or read by something else.
    pub lost: u64,
}

impl Metadata {
    /// Parses the texts. An error names the text that is wrong.
    pub(crate) fn new(texts: RawMetadata) -> Result<Metadata> {
        let layout = PageLayout::parse(&texts.header_page)?;
        page::check_record_header(&texts.header_event)?;
        let mut formats = Vec::with_capacity(texts.formats.len());
        for (group, text) in &texts.formats {
            let format = EventFormat::parse(group, text, layout.long_size())
                .with_context(|| format!("cannot parse a format of `{group}`"))?;
            formats.push(format);
        }
        let mut by_id = vec![0; formats.iter().map(|format| usize::from(format.id()) + 1).max().unwrap_or(0)];
        for (number, format) in (1..).zip(&formats) {
            let slot: &mut u32 = &mut by_id[usize::from(format.id())];
            // ftrace also lists `wakeup` and the like, under separate numbers; the first format of
            // a number wins.
            if *slot == 0 {
                *slot = number;
            }
        }
        let common = formats.first().map_or(&[][..], EventFormat::common_fields);
        Ok(Metadata {
            layout,
            unknown: EventFormat::unknown(common),
            by_id,
            comms: comms(&texts.saved_cmdlines),
            symbols: OnceLock::new(),
            kallsyms: Mutex::new(texts.kallsyms),
            printk: printk_formats(&texts.printk_formats),
            stats: texts.stats.iter().filter_map(|text| CpuStats::of_cpu(text)).collect(),
            clock: selected(&texts.clock).to_owned(),
            uname: texts.uname,
            version: texts.version,
            formats,
        })
    }

    /// Returns the layout of a sub-buffer.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Returns all events that the kernel had a format for.
    pub fn formats(&self) -> &[EventFormat] {
        &self.formats
    }

    /// Returns the format of the event `group:name`, or of the first event called `name` if `group`
    /// is `None`.
    pub fn format(&self, group: Option<&str>, name: &str) -> Option<&EventFormat> {
        self.formats
            .iter()
            .find(|format| format.name() == name && group.is_none_or(|group| format.group() == group))
    }

    #[inline]
    pub(crate) fn format_by_id(&self, id: u16) -> &EventFormat {
        let place = self.by_id.get(usize::from(id)).and_then(|number| number.checked_sub(1));
        place.and_then(|place| self.formats.get(place as usize)).unwrap_or(&self.unknown)
    }

    /// Returns the name of a task: `<idle>` for pid 0, `<...>` if the kernel did not record it.
    pub fn comm(&self, pid: i32) -> &str {
        match self.comms.binary_search_by_key(&pid, |(pid, _)| *pid) {
            Ok(place) => self.comms.get(place).map_or("<...>", |(_, comm)| comm),
            Err(_) if pid == 0 => "<idle>",
            Err(_) => "<...>",
        }
    }

    /// Returns the symbols of the kernel and its modules.
    pub fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| {
            let mut text = self.kallsyms.lock().unwrap_or_else(PoisonError::into_inner);
            Symbols::parse(mem::take(&mut *text))
        })
    }

    /// Returns the string at an address, if the kernel lists it in `printk_formats`.
    pub fn printk_format(&self, address: u64) -> Option<&str> {
        self.printk.get(&address).map(String::as_str)
    }

    /// Returns the counters of each CPU's buffer, if the file has them.
    pub fn stats(&self) -> &BTreeMap<u32, CpuStats> {
        &self.stats
    }

    /// Returns the trace clock: `local`, `global`, `mono`, …; empty if the file does not name it.
    pub fn clock(&self) -> &str {
        &self.clock
    }

    /// Returns whether the clock counts nanoseconds. `counter`, `uptime` and `x86-tsc` do not.
    pub fn counts_nanoseconds(&self) -> bool {
        !matches!(self.clock.as_str(), "counter" | "uptime" | "x86-tsc")
    }

    /// Returns the `uname` of the traced machine; empty if the file does not have it.
    pub fn uname(&self) -> &str {
        &self.uname
    }

    /// Returns the program that wrote the file; empty if the file does not name it.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl CpuStats {
    /// Parses a `stats` file.
    pub fn parse(text: &str) -> CpuStats {
        let mut stats = CpuStats::default();
        for line in text.lines() {
            let Some((name, number)) = line.split_once(':') else { continue };
            let Ok(number) = number.trim().parse::<u64>() else { continue };
            match name.trim() {
                "entries" => stats.entries = number,
                "overrun" => stats.overrun = number,
                "commit overrun" => stats.commit_overrun = number,
                "dropped events" => stats.dropped = number,
                "read events" => stats.read = number,
                "lost events" => stats.lost = number,
                _ => {}
            }
        }
        stats
    }

    /// Parses a `stats` file preceded by a line `CPU: N`.
    fn of_cpu(text: &str) -> Option<(u32, CpuStats)> {
        let cpu = text.lines().find_map(|line| line.strip_prefix("CPU:")?.trim().parse().ok())?;
        Some((cpu, CpuStats::parse(text)))
    }
}

/// The form of a `stats` file.
impl fmt::Display for CpuStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CpuStats { entries, overrun, commit_overrun, dropped, read, lost } = self;
        writeln!(f, "entries: {entries}\noverrun: {overrun}\ncommit overrun: {commit_overrun}")?;
        writeln!(f, "dropped events: {dropped}\nread events: {read}\nlost events: {lost}")
    }
}

/// Returns the clock in brackets, as in `[local] global counter`; the whole text if there are none.
fn selected(clock: &str) -> &str {
    let chosen = clock.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(clock.trim_matches(['\0', '\n', ' ']), |(chosen, _)| chosen)
}

/// Parses `PID COMM` lines.
fn comms(text: &str) -> Vec<(i32, String)> {
    let line = |line: &str| {
        let (pid, comm) = line.trim_start().split_once(' ')?;
        Some((pid.parse().ok()?, comm.to_owned()))
    };
    // If a task has several names, the last one counts.
    let mut comms: Vec<(i32, String)> = text.lines().rev().filter_map(line).collect();
    comms.sort_by_key(|(pid, _)| *pid);
    comms.dedup_by_key(|(pid, _)| *pid);
    comms
}

/// Parses `0xADDRESS : "TEXT"` lines.
fn printk_formats(text: &str) -> HashMap<u64, String> {
    text.lines()
        .filter_map(|line| {
            let (address, quoted) = line.split_once(" : ")?;
            let address = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16).ok()?;
            let inner = quoted.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((address, unescape(inner)))
        })
        .collect()
}

/// Undoes the kernel's escaping of newline, tab, quote and backslash in `printk_formats`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some(escaped)) => {
                chars.next();
                out.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
            }
            (c, _) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts() {
        assert_eq!(selected("local [global] counter\n"), "global");
        assert_eq!(selected("mono\0"), "mono");
        let comms = comms("40 sh\n9 kworker/0:1\n40 a name with blanks\nnonsense\n1 init\n");
        let expect = [(1, "init"), (9, "kworker/0:1"), (40, "a name with blanks")];
        assert_eq!(comms, expect.map(|(pid, comm)| (pid, comm.to_owned())));
        let printk = printk_formats("0xffff800080 : \"say \\\"%d\\\"\\n\"\nbad\n");
        assert_eq!(printk.get(&0xff_ff80_0080).map(String::as_str), Some("say \"%d\"\n"));
        let stats =
            CpuStats::of_cpu("CPU: 3\nentries: 2\noverrun: 590\ndropped events: 7\nread events: 12\n");
        let expect = CpuStats { entries: 2, overrun: 590, commit_overrun: 0, dropped: 7, read: 12, lost: 0 };
        assert_eq!(stats, Some((3, expect)));
        assert_eq!(CpuStats::of_cpu(&format!("CPU: 3\n{expect}")), stats);
    }
}
