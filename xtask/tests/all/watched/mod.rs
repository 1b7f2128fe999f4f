//! Labs identified by a mark in their environment, which their child processes inherit. Those of a machine
//! with a userland have no variable of the lab; their arguments name its directory of results.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The maximum time to wait for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The environment variable of the mark.
const MARK: &str = "FTRACE_LAB_TEST_MARK";

/// A process in /proc.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// A unique mark.
pub(crate) struct Mark {
    variable: String,
    results: Option<OsString>,
}

impl Mark {
    /// Marks a lab. If it boots a userland, its arguments must include `--results`.
    pub(crate) fn on(lab: &mut Command) -> Mark {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let results = lab.get_args().skip_while(|argument| *argument != "--results").nth(1);
        let results = results.map(OsStr::to_owned);
        lab.env(MARK, &mark);
        Mark { variable: format!("{MARK}={mark}"), results }
    }

    /// Returns the running processes with this mark.
    pub(crate) fn running(&self) -> Vec<Process> {
        let mark = self.variable.as_bytes();
        let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            // Skips a process that ends in the meantime.
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let arguments = fs::read(entry.path().join("cmdline")).ok()?;
            let has = environment.split(|&byte| byte == 0).any(|variable| variable == mark)
                || self.results.as_ref().is_some_and(|results| {
                    arguments.windows(results.len()).any(|part| part == results.as_bytes())
                });
            let arguments = arguments.split(|&byte| byte == 0);
            let arguments =
                arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
            has.then(|| Process { name: name.trim_end().to_owned(), arguments })
        });
        processes.collect()
    }

    /// Waits until none of the processes is running. A killed process may take a moment to exit.
    pub(crate) fn is_over(&self) {
        let start = Instant::now();
        while let Some(process) = self.running().first() {
            let (name, arguments) = (&process.name, process.arguments.join(" "));
            assert!(start.elapsed() < PATIENCE, "{name} is still running: {arguments}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
