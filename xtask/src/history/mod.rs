//! `cargo xtask lab history`

mod ask;

use crate::{Usage, exit, results, root};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fs_err as fs;
use lab::{
    cache::Cache,
    coverage::SourceFiles,
    history::{Added, History as Nights, HistoryError, Lives, Night, kcidb, write_site},
    progress::Progress,
    words::{called, printable},
};
use std::path::PathBuf;

/// Keep what each night found, and show what they say together
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab history add report --into history       a merged report, or a run, as one more night\n  \
    cargo xtask lab history night                           does the last night fail, and for what?\n  \
    cargo xtask lab history site --into site                static pages of all of it\n  \
    cargo xtask lab history --kcidb night.json              for KernelCI's database\n  \
    cargo xtask lab history since probes/remove             since which night, between which versions?\n\n\
    The nights are in one file, `history.sqlite`, in the directory DIR. docs/history.md says how it is used.\n\n\
    Exit codes, unless a verb lists its own: 0 done, 2 usage error, no history, or a report that cannot be added,\n\
    3 the lab itself failed.")]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct History {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Write the last night to a file, as JSON of version 5.3 of KernelCI's database
    #[arg(long, value_name = "FILE")]
    kcidb: Option<PathBuf>,
    /// The name of the CI system in that file: letters a to z, digits and `_`
    #[arg(long, value_name = "NAME", default_value = "ftrace_lab", requires = "kcidb", value_parser = origin)]
    origin: String,
    #[command(flatten)]
    from: From,
}

fn origin(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let error = || format!("`{text}` is not a name of a CI system, expected letters a to z, digits and `_`");
    (!text.is_empty() && text.chars().all(plain)).then(|| text.to_owned()).ok_or_else(error)
}

#[derive(Subcommand)]
enum Verb {
    Add(Add),
    Night(ask::Night),
    Life(ask::Life),
    Changes(ask::Changes),
    Flakes(ask::Flakes),
    Failures(ask::Failures),
    Since(ask::Since),
    Slower(ask::Slower),
    Site(Site),
    Remove(Remove),
}

/// Add a report to the history, as one night
///
/// Of each night it keeps status, fingerprint and seconds of each try, the coverage of measured kernels whose builds are
/// in the cache, and the versions of kernels, QEMU and host; of each failure the last repro.yaml. The same report
/// again changes nothing.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab history add report --into history    a merged report\n  \
    cargo xtask lab history add results/latest           a run\n\n\
    Exit codes: 0 added, or it was there before; 2 not a report that can be added; 3 the lab itself failed.")]
struct Add {
    /// Directory of a merged report or of a run, or its results.json (repeatable)
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Directory of the history, created if there is none [default: results/history]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Remove a night, such as that of a broken host
#[derive(Args)]
#[command(after_help = "Example:\n  \
    cargo xtask lab history remove 2026-01-31T02:17:00Z\n\n\
    Exit codes: 0 removed, 2 usage error or no such night, 3 the lab itself failed.")]
struct Remove {
    /// When it started
    #[arg(value_name = "NIGHT")]
    night: String,
    #[command(flatten)]
    from: From,
}

/// Write the history as a site of static pages
///
/// An overview, for each kernel a heat map of scenarios and nights, and a page for each failure and each scenario. The
/// pages need no script and no server.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    cargo xtask lab history site --into site\n\n\
    Exit codes: 0 written, 2 usage error or no history, 3 the lab itself failed.")]
struct Site {
    /// Output directory: an empty one, or that of an older site, which is replaced
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    #[command(flatten)]
    deny: ask::Deny,
    #[command(flatten)]
    from: From,
}

/// The history that is asked.
#[derive(Args)]
pub(crate) struct From {
    /// Directory of the history [default: results/history]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

impl From {
    fn directory(&self) -> PathBuf {
        directory(self.from.as_ref())
    }

    /// Reads all nights.
    pub(crate) fn lives(&self) -> Result<Lives> {
        let history = Nights::open(&self.directory()).map_err(told)?;
        Lives::read(&history, usize::MAX).map_err(told)
    }
}

fn directory(named: Option<&PathBuf>) -> PathBuf {
    named.cloned().unwrap_or_else(|| results().join("history"))
}

/// Returns an error with its exit code: that the history cannot be used is a failure of the lab, all else one of the
/// input.
pub(crate) fn told(error: HistoryError) -> anyhow::Error {
    match error {
        HistoryError::Database { .. } => error.into(),
        _ => Usage(error.to_string()).into(),
    }
}

impl History {
    pub(crate) fn run(self) -> Result<u8> {
        let Some(verb) = self.verb else { return self.write_kcidb() };
        match verb {
            Verb::Add(verb) => verb.run(),
            Verb::Remove(verb) => verb.run(),
            Verb::Night(verb) => verb.run(),
            Verb::Life(verb) => verb.run(),
            Verb::Changes(verb) => verb.run(),
            Verb::Flakes(verb) => verb.run(),
            Verb::Failures(verb) => verb.run(),
            Verb::Since(verb) => verb.run(),
            Verb::Slower(verb) => verb.run(),
            Verb::Site(verb) => verb.run(),
        }
    }

    fn write_kcidb(self) -> Result<u8> {
        let Some(file) = self.kcidb else {
            return Err(Usage("no verb and no --kcidb; see --help".into()).into());
        };
        let lives = self.from.lives()?;
        let night = lives.night(None).map_err(told)?;
        let report = kcidb(&lives, night, &self.origin).context("the history has no nights")?;
        fs::write(&file, serde_json::to_string_pretty(&report)? + "\n")?;
        println!("{}", file.display());
        Ok(exit::SUCCESS)
    }

    /// Returns whether `--json` is among its options.
    pub(crate) fn json(&self) -> bool {
        let Some(verb) = &self.verb else { return false };
        let asked = match verb {
            Verb::Add(_) | Verb::Remove(_) | Verb::Site(_) => return false,
            Verb::Night(verb) => &verb.asked,
            Verb::Life(verb) => &verb.asked,
            Verb::Changes(verb) => &verb.asked,
            Verb::Flakes(verb) => &verb.asked,
            Verb::Failures(verb) => &verb.asked,
            Verb::Since(verb) => &verb.asked,
            Verb::Slower(verb) => &verb.asked,
        };
        asked.json.wanted
    }
}

impl Add {
    fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = Cache::open(&progress)?;
        let files = SourceFiles::of_tracing(root())?;
        let directory = directory(self.into.as_ref());
        let mut history = Nights::create(&directory).map_err(told)?;
        for report in &self.reports {
            let _task = progress.task(format!("reading {}", report.display()), None);
            let note = |note: String| progress.line(format!("warning: {note}"));
            let night = Night::read(report, Some((&cache, &files)), note).map_err(told)?;
            let added = history.add(&night).map_err(told)?;
            let what = match added {
                Added::New => {
                    format!("{} results of the night {} added", night.tries.len(), night.info.time())
                }
                Added::Known => format!("the night {} was there before", night.info.time()),
            };
            progress.line(format!("{what}: {}", directory.display()));
        }
        Ok(exit::SUCCESS)
    }
}

impl Site {
    fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let history = Nights::open(&self.from.directory()).map_err(told)?;
        let denied = self.deny.read()?;
        let task = progress.task("writing the site", None);
        write_site(&history, &denied, &self.into, &called("cargo xtask lab"))?;
        drop(task);
        println!("{}", self.into.join("index.html").display());
        Ok(exit::SUCCESS)
    }
}

impl Remove {
    fn run(self) -> Result<u8> {
        let directory = self.from.directory();
        let started = Night::parse_time(&self.night).map_err(Usage)?;
        // Only to say that there is none, which creating it would hide.
        Nights::open(&directory).map_err(told)?;
        if Nights::create(&directory).map_err(told)?.remove(started).map_err(told)? {
            println!("removed");
            return Ok(exit::SUCCESS);
        }
        let lives = self.from.lives()?;
        let last = lives.nights.last().context("the history has no nights")?;
        Err(Usage(printable(format!(
            "no night started at {}; the last one did at {}",
            self.night,
            last.time()
        )))
        .into())
    }
}
