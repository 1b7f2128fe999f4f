//! How far long work is: bars on a terminal, plain lines elsewhere; always on stderr.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    collections::BTreeMap,
    io::{IsTerminal, stderr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Where tasks show how far they are. Cheap to clone; clones share one screen.
#[derive(Clone, Debug)]
pub struct Progress {
    bars: MultiProgress,
    plain: bool,
}

impl Progress {
    /// Bars if stderr is a terminal, lines if not.
    pub fn new() -> Progress {
        let plain = !stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        Progress { bars: MultiProgress::with_draw_target(target), plain }
    }

    /// Nothing at all, for tests.
    pub fn silent() -> Progress {
        Progress { bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()), plain: false }
    }

    /// Starts a task. It is over when it is dropped.
    pub fn task(&self, what: impl Into<String>, total: Option<u64>) -> Task {
        let what = what.into();
        if self.plain {
            eprintln!("{what} …");
        }
        let bar = self.bars.add(match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::new_spinner(),
        });
        let template = if total.is_some() {
            "{prefix} [{bar:30}] {pos}/{len} {elapsed} {wide_msg}"
        } else {
            "{prefix} {spinner} {elapsed} {wide_msg}"
        };
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(what.clone());
        bar.enable_steady_tick(Duration::from_millis(200));
        Task { bar, total, plain: self.plain, what, last_line: Mutex::new(Instant::now()) }
    }

    /// Prints a line of its own above the bars.
    pub fn line(&self, line: impl AsRef<str>) {
        if self.plain {
            eprintln!("{}", line.as_ref());
        } else {
            // A terminal that went away is no reason to stop.
            let _ = self.bars.println(line);
        }
    }

    /// Runs `print` with the bars out of the way, for results on stdout.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bars.suspend(print)
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

/// One piece of long work.
#[derive(Debug)]
pub struct Task {
    bar: ProgressBar,
    total: Option<u64>,
    plain: bool,
    what: String,
    last_line: Mutex<Instant>,
}

/// How often a plain log says how far a task is.
const PLAIN_INTERVAL: Duration = Duration::from_secs(15);

impl Task {
    /// So many units are done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
        self.plain_line(|| match self.total {
            Some(total) => format!("{done} of {total}"),
            None => format!("{done}"),
        });
    }

    /// What it is doing right now.
    pub fn note(&self, what: impl Into<String>) {
        let what = what.into();
        self.plain_line(|| what.clone());
        self.bar.set_message(what);
    }

    /// What is slow right now, beside how far it is; a plain log has no line where nothing is.
    pub fn slow(&self, what: Option<String>) {
        if let Some(what) = &what {
            self.plain_line(|| format!("{} done, {what}", self.bar.position()));
        }
        self.bar.set_message(what.unwrap_or_default());
    }

    fn plain_line(&self, how_far: impl FnOnce() -> String) {
        if !self.plain {
            return;
        }
        let Ok(mut last) = self.last_line.lock() else { return };
        if last.elapsed() >= PLAIN_INTERVAL {
            *last = Instant::now();
            eprintln!("{}: {}", self.what, how_far());
        }
    }
}

/// What goes on side by side, and since when.
#[derive(Debug, Default)]
pub struct Running(Mutex<BTreeMap<usize, (String, Instant)>>);

/// What takes no longer than this is not worth a word.
const SLOW: Duration = Duration::from_secs(3);

/// How many are named; the others are counted.
const NAMED: usize = 3;

impl Running {
    /// Something has begun; `number` tells it from the others.
    pub fn begin(&self, number: usize, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (what, Instant::now()));
    }

    /// It is over.
    pub fn end(&self, number: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// What is slow, the slowest first: `probes/x on 6.12 for 32 s`; nothing if nothing is.
    pub fn slow(&self) -> Option<String> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told(running.values().map(|(what, since)| (what.as_str(), since.elapsed())).collect())
    }
}

fn told(mut running: Vec<(&str, Duration)>) -> Option<String> {
    running.retain(|(_, time)| *time >= SLOW);
    running.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let named = running.iter().take(NAMED);
    let mut slow: Vec<String> =
        named.map(|(what, time)| format!("{what} for {} s", time.as_secs())).collect();
    if running.len() > NAMED {
        slow.push(format!("{} more", running.len() - NAMED));
    }
    (!slow.is_empty()).then(|| slow.join(", "))
}

impl Drop for Task {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_is_named_and_what_is_not_is_not() {
        let seconds = Duration::from_secs;
        assert_eq!(told(vec![("a", seconds(1))]), None);
        assert_eq!(
            told(vec![("a", seconds(4)), ("b", seconds(1)), ("c", seconds(32))]).as_deref(),
            Some("c for 32 s, a for 4 s")
        );
        let many = told(vec![("a", seconds(9)); 5]).unwrap();
        assert!(many.ends_with(", a for 9 s, 2 more"), "{many}");
        let running = Running::default();
        running.begin(1, "a".to_owned());
        running.end(1);
        assert_eq!(running.slow(), None);
    }
}
