//! Shows the progress of long tasks: bars on a terminal, plain lines otherwise; always on stderr.

use crate::words::printable;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    sync::Mutex,
    time::{Duration, Instant},
};

/// Shows the progress of tasks. Cheap to clone; clones share one display.
#[derive(Clone, Debug)]
pub struct Progress {
    bars: MultiProgress,
    plain: bool,
}

impl Progress {
    /// Shows bars if stderr is a terminal, otherwise lines.
    pub fn new() -> Progress {
        let plain = !stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        Progress { bars: MultiProgress::with_draw_target(target), plain }
    }

    /// Shows nothing, for tests.
    pub fn silent() -> Progress {
        Progress { bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()), plain: false }
    }

    /// Starts a task, which ends when it is dropped.
    pub fn task(&self, what: impl Into<String>, total: Option<u64>) -> Task {
        let what = printable(what.into());
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

    /// Prints a separate line above the bars.
    pub fn line(&self, line: impl AsRef<str>) {
        let line = printable(line.as_ref());
        if self.plain {
            eprintln!("{line}");
        } else {
            // A closed terminal is not a reason to stop.
            let _ = self.bars.println(line);
        }
    }

    /// Runs `print` with the bars hidden, for results on stdout.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bars.suspend(print)
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

/// A long task.
#[derive(Debug)]
pub struct Task {
    bar: ProgressBar,
    total: Option<u64>,
    plain: bool,
    what: String,
    last_line: Mutex<Instant>,
}

/// The interval between lines about one task in a plain log.
const PLAIN_INTERVAL: Duration = Duration::from_secs(15);

impl Task {
    /// Reports that this many units are done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
        self.plain_line(|| match self.total {
            Some(total) => format!("{done} of {total}"),
            None => format!("{done}"),
        });
    }

    /// Shows the current activity.
    pub fn note(&self, what: impl Into<String>) {
        let what = printable(what.into());
        self.plain_line(|| what.clone());
        self.bar.set_message(what);
    }

    /// Shows what is slow at present, after the progress; a plain log gets no line if nothing is
    /// slow.
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

impl Drop for Task {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
