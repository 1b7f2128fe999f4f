//! `hist:`, `stats:` and `kernel_log:`, which read texts of the recording.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::Observed,
};
use crate::{
    plan::below,
    recording::{KPROBE_PROFILE, LOG_LIMIT},
    results::OutcomeStatus,
    scenario::{Amount, Hist, HistEntry, Literal, Stats, TextCheck},
    splat::STEP_MARK,
    words::excerpt,
};

/// Evaluates `kernel_log:`.
pub(super) struct LogCheck(pub(super) TextCheck);

impl Evaluate for LogCheck {
    fn wants(&self, _: &str, _: &str) -> bool {
        false
    }

    fn observe(&mut self, _: &dyn Observed) {}

    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        match self.0.check_showing(after.kernel_log, || since_first_step(after.kernel_log)) {
            // The kernel's buffer has more than is read.
            Ok(()) if after.kernel_log.len() >= LOG_LIMIT && self.0.needs_all() => Finding {
                status: OutcomeStatus::Inconclusive,
                detail: "found nothing wrong, but the beginning of the kernel log is missing".to_owned(),
            },
            Ok(()) => {
                Finding::passed(format!("the kernel log has {} lines", after.kernel_log.lines().count()))
            }
            Err(problem) => Finding::failed(format!("kernel log: {problem}")),
        }
    }
}

/// The maximum number of lines of the kernel log in a message.
const LINES_SHOWN: usize = 20;

/// The maximum number of characters of such a line.
const CHARACTERS_SHOWN: usize = 200;

/// Returns the last lines of a kernel log without those of the boot, if steps are marked in it.
fn since_first_step(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let first = lines.iter().position(|line| line.contains(STEP_MARK));
    let of_steps: Vec<&str> =
        lines[first.unwrap_or(0)..].iter().filter(|line| !line.contains(STEP_MARK)).copied().collect();
    let since = if first.is_some() { "since the first step" } else { "at the end" };
    if of_steps.is_empty() {
        return format!("it has no line {since}");
    }
    let skipped = of_steps.len().saturating_sub(LINES_SHOWN);
    let more = if skipped == 0 { String::new() } else { format!("\n  … {skipped} lines before") };
    let shown: String =
        of_steps[skipped..].iter().map(|line| format!("\n  {}", excerpt(line, CHARACTERS_SHOWN))).collect();
    format!("{since} it says:{more}{shown}")
}

/// Evaluates `stats:`.
pub(super) struct Counters {
    pub(super) stats: Stats,
}

impl Evaluate for Counters {
    fn wants(&self, _: &str, _: &str) -> bool {
        false
    }

    fn observe(&mut self, _: &dyn Observed) {}

    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        let mut checks: Vec<(&str, u64, Amount)> = Vec::new();
        let Stats { event, hits, missed, entries, overruns, dropped } = &self.stats;
        if let (Some(event), Some(_)) = (event, hits.or(*missed)) {
            let profile = after.files.get(KPROBE_PROFILE).map_or("", String::as_str);
            let Some([found_hits, found_missed]) = profile_of(profile, &event.name) else {
                return Finding::failed(format!("`{KPROBE_PROFILE}` has no event `{}`", event.name));
            };
            checks.extend(hits.map(|amount| ("hits", found_hits, amount)));
            checks.extend(missed.map(|amount| ("missed", found_missed, amount)));
        }
        let instance = event.as_ref().and_then(|event| event.instance.as_deref());
        let of_buffer = [
            ("entries", entries, &["entries", "read events"][..]),
            ("overruns", overruns, &["overrun"][..]),
            ("dropped", dropped, &["dropped events", "commit overrun"][..]),
        ];
        for (name, amount, keys) in of_buffer {
            let Some(amount) = amount else { continue };
            match buffer_sum(after, instance, keys) {
                Ok(sum) => checks.push((name, sum, *amount)),
                Err(path) => {
                    let detail = format!("{name} unknown: cannot read `{path}`");
                    return Finding { status: OutcomeStatus::Inconclusive, detail };
                }
            }
        }
        let shown: Vec<_> = checks.iter().map(|(name, number, _)| format!("{name} {number}")).collect();
        let found = format!("found {}", shown.join(", "));
        let wrong = checks.iter().filter(|(_, number, amount)| !amount.allows(*number));
        let wrong: Vec<_> = wrong.map(|(name, _, amount)| format!("{name} {amount}")).collect();
        if wrong.is_empty() {
            Finding::passed(found)
        } else {
            Finding::failed(format!("{found}, expected {}", wrong.join(", ")))
        }
    }
}

/// Returns the hits and misses of an event in `kprobe_profile`, which has lines of name, hits, misses.
fn profile_of(profile: &str, event: &str) -> Option<[u64; 2]> {
    profile.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [name, hits, missed, ..] if *name == event => Some([hits.parse().ok()?, missed.parse().ok()?]),
            _ => None,
        }
    })
}

/// Returns the sum of these counters of `per_cpu/cpuN/stats` over all CPUs, or the path of one that was not
/// read completely.
fn buffer_sum(after: &EndState<'_>, instance: Option<&str>, keys: &[&str]) -> Result<u64, String> {
    let mut sum = 0;
    for cpu in after.cpus {
        let path = below(instance, &format!("per_cpu/cpu{cpu}/stats"));
        let text = after.files.get(&path).map_or("", String::as_str);
        for key in keys {
            let number = |line: &str| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse::<u64>().ok();
            sum += text.lines().find_map(number).ok_or_else(|| path.clone())?;
        }
    }
    Ok(sum)
}

/// The maximum number of entries of a histogram that a message shows.
const SHOWN: usize = 16;

/// Evaluates `hist:`.
pub(super) struct Histogram {
    pub(super) hist: Hist,
    /// The path of the event's `hist` file.
    pub(super) path: String,
}

/// One line of a hist file.
#[derive(Debug, Default, PartialEq)]
struct Entry {
    key: Vec<(String, String)>,
    values: Vec<(String, u64)>,
}

impl Entry {
    /// Parses `{ pid: 90, comm: eventfd } hitcount: 5  bytes: 40`.
    fn parse(line: &str) -> Option<Entry> {
        let (key, values) = line.trim().strip_prefix('{')?.rsplit_once('}')?;
        let pair = |text: &str| {
            text.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        };
        // Only a string value of a key may contain a comma.
        let key = key.split(", ").filter_map(pair).collect();
        let mut words = values.split_whitespace();
        let mut parsed = Vec::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            parsed.push((name.trim_end_matches(':').to_owned(), value.parse().ok()?));
        }
        Some(Entry { key, values: parsed })
    }

    fn is(&self, wanted: &HistEntry) -> bool {
        wanted.key.iter().all(|(name, value)| {
            // The name of a key with a modifier (`common_pid.execname`) may be given without it.
            let named = |key: &str| key == name || key.split('.').next() == Some(name);
            self.key.iter().any(|(key, found)| named(key) && key_is(found, value))
        })
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    fn show(&self) -> String {
        let key: Vec<_> = self.key.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let values: Vec<_> = self.values.iter().map(|(name, value)| format!("{name} {value}")).collect();
        format!("{{ {} }} {}", key.join(", "), values.join(" "))
    }
}

/// Returns whether a key's value, as the file prints it, is the expected one.
fn key_is(found: &str, wanted: &Literal) -> bool {
    match wanted {
        Literal::Int(number) => {
            let hex = found.strip_prefix("0x").and_then(|hex| i128::from_str_radix(hex, 16).ok());
            hex.or_else(|| found.parse().ok()) == Some(*number)
        }
        // `vfs_write` matches `[ffff800080258798] vfs_write+0x0/0x1a0`, and `eventfd` `eventfd         [  90]`.
        Literal::Text(text) => {
            let symbol = found.rsplit("] ").next().unwrap_or(found);
            let bare = symbol.split(['+', '[']).next().unwrap_or(symbol).trim();
            found == text || symbol == text || bare == text
        }
        Literal::List(_) => false,
    }
}

impl Evaluate for Histogram {
    fn wants(&self, _: &str, _: &str) -> bool {
        false
    }

    fn observe(&mut self, _: &dyn Observed) {}

    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        let Some(text) = after.files.get(&self.path) else {
            return Finding::failed(format!("there is no `{}`: the event has no hist trigger", self.path));
        };
        let entries: Vec<_> = text.lines().filter_map(Entry::parse).collect();
        let total = |name: &str| {
            text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        let mut problems = Vec::new();
        for (name, amount, number) in
            [("hits", self.hist.hits, total("Hits:")), ("dropped", self.hist.dropped, total("Dropped:"))]
        {
            if let Some(amount) = amount
                && !number.is_some_and(|number| amount.allows(number))
            {
                let found = number.map_or("no total".to_owned(), |number| number.to_string());
                problems.push(format!("{name}: found {found}, expected {amount}"));
            }
        }
        for wanted in &self.hist.entries {
            problems.extend(entry_problem(wanted, &entries));
        }
        if self.hist.only {
            let others =
                entries.iter().filter(|entry| !self.hist.entries.iter().any(|wanted| entry.is(wanted)));
            problems.extend(others.take(3).map(|entry| format!("not expected: {}", entry.show())));
        }
        let found = format!("found {} entries", entries.len());
        if problems.is_empty() {
            return Finding::passed(found);
        }
        let shown: String =
            entries.iter().take(SHOWN).map(|entry| format!("\n    {}", entry.show())).collect();
        let more = entries.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!("\n    … ({more} more)") } else { String::new() };
        Finding::failed(format!("{}\n  {found}:{shown}{more}", problems.join("\n  ")))
    }
}

/// Says what is wrong with the expected entry.
fn entry_problem(wanted: &HistEntry, entries: &[Entry]) -> Option<String> {
    let key: Vec<_> = wanted.key.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let key = format!("{{ {} }}", key.join(", "));
    let Some(entry) = entries.iter().find(|entry| entry.is(wanted)) else {
        return Some(format!("no entry {key}"));
    };
    let amounts = wanted.values.iter().map(|(name, amount)| (name.as_str(), *amount));
    let amounts = wanted.hitcount.iter().map(|amount| ("hitcount", *amount)).chain(amounts);
    for (name, amount) in amounts {
        match entry.value(name) {
            Some(number) if amount.allows(number) => {}
            Some(number) => return Some(format!("entry {key}: {name} {number}, expected {amount}")),
            None => return Some(format!("entry {key} has no `{name}`")),
        }
    }
    None
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
