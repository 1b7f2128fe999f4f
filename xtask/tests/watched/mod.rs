//! Labs that are known by a mark in their environment, which everything they start has, too.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long anything may take that is about to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The mark's variable.
const MARK: &str = "FTRACE_LAB_TEST_MARK";

/// A process as the kernel shows it.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// A mark that no other lab has.
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn on(lab: &mut Command) -> Mark {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        lab.env(MARK, &mark);
        Mark(mark)
    }

    /// What runs with this mark.
    pub(crate) fn running(&self) -> Vec<Process> {
        let mark = format!("{MARK}={}", self.0);
        let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            // A process that ends while it is looked at is none.
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let has = environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes());
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let arguments = fs::read(entry.path().join("cmdline")).ok()?;
            let arguments = arguments.split(|&byte| byte == 0);
            let arguments =
                arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
            has.then(|| Process { name: name.trim_end().to_owned(), arguments })
        });
        processes.collect()
    }

    /// Waits until nothing runs any more. What is being killed may take a moment to be gone.
    pub(crate) fn is_over(&self) {
        let start = Instant::now();
        while let Some(process) = self.running().first() {
            let (name, arguments) = (&process.name, process.arguments.join(" "));
            assert!(start.elapsed() < PATIENCE, "{name} runs on: {arguments}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
