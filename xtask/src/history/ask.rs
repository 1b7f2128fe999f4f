//! The verbs of `cargo xtask lab history` that ask about it.

use super::{From, told};
use crate::{
    exit,
    json::{self, Json},
};
use anyhow::Result;
use clap::Args;
use lab::{
    history::{
        Alarm, AlarmKind, Case, Changed, DenyList, Failing, FailureShown, FlakeShown, Flaky, Grown, Judged,
        LifeShown, Lives, NightShown, Paces, judge,
    },
    words::printable,
};
use serde::Serialize;
use std::path::PathBuf;

/// What every question has.
#[derive(Args)]
pub(super) struct Asked {
    #[command(flatten)]
    from: From,
    /// Ask about this night, and as if it were the last one [default: the last one]
    #[arg(long, value_name = "NIGHT")]
    night: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl Asked {
    /// Returns the nights up to the one that is asked about.
    fn lives(&self) -> Result<(Lives, u32)> {
        let lives = self.from.lives()?;
        let night = lives.night(self.night.as_deref()).map_err(told)?;
        let lives = if self.night.is_some() { lives.until(night) } else { lives };
        Ok((lives, night))
    }

    /// Prints what was found: as JSON, or each by a line.
    fn print<T: Serialize>(&self, found: &[T], none: &str, line: impl Fn(&T) -> String) -> Result<u8> {
        if self.json.wanted {
            json::print(&found)?;
            return Ok(exit::SUCCESS);
        }
        if found.is_empty() {
            println!("{none}");
        }
        found.iter().for_each(|one| println!("{}", printable(line(one))));
        Ok(exit::SUCCESS)
    }
}

/// The failures that are known.
#[derive(Args)]
pub(super) struct Deny {
    /// File with failures that are known, each with an owner, a reason and a date of expiry
    #[arg(long, value_name = "FILE")]
    deny: Option<PathBuf>,
}

impl Deny {
    pub(super) fn read(&self) -> Result<DenyList> {
        self.deny
            .as_deref()
            .map_or_else(|| Ok(DenyList::default()), |path| DenyList::read(path).map_err(told))
    }
}

/// Show the life of a scenario: its rate, and each night in which it did not pass
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab history life probes/remove                 on every kernel\n  \
    cargo xtask lab history life probes/remove --kernel 6.12   on one\n\n\
    A night is `.` passed, `k` known bug, `x` flaky, `F` failed, `u` unsupported, `e` lab error.")]
pub(super) struct Life {
    /// The scenario's name
    scenario: String,
    /// Only on this kernel
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Life {
    pub(super) fn run(self) -> Result<u8> {
        let (lives, _) = self.asked.lives()?;
        let found = lives.of_scenario(&self.scenario, self.kernel.as_deref()).map_err(told)?;
        self.asked.print(&found, "", life)
    }
}

fn life(life: &LifeShown) -> String {
    let letter = |night: &NightShown| match night.ending.as_str() {
        "passed" => '.',
        "failed" => 'F',
        "flaky" => 'x',
        ending => ending.chars().next().unwrap_or('?'),
    };
    let strip: String = life.nights.iter().map(letter).collect();
    let mut text = format!("{} on {}: failed {}\n  {strip}", life.scenario, life.kernel, life.rate);
    for night in life.nights.iter().filter(|night| night.failed_tries > 0) {
        let print = night.fingerprint.as_deref().unwrap_or("without a fingerprint");
        text += &format!("\n  {}  {:<6}  {print}  kernel {}", night.night, night.ending, night.version);
    }
    text
}

/// Show what ended differently than in the night before
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab history changes                                 in the last night\n  \
    cargo xtask lab history changes --night 2026-01-31T02:17:00Z    in that one")]
pub(super) struct Changes {
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Changes {
    pub(super) fn run(self) -> Result<u8> {
        let (lives, night) = self.asked.lives()?;
        self.asked.print(&lives.changes(night), "nothing changed", |changed: &Changed| {
            let ending = |ending: &Option<String>| ending.clone().unwrap_or_else(|| "did not run".into());
            let print = changed.fingerprint.as_ref().map(|print| format!(" [{print}]")).unwrap_or_default();
            let (before, now) = (ending(&changed.before), ending(&changed.now));
            format!("{} on {}: {before} → {now}{print}", changed.scenario, changed.kernel)
        })
    }
}

/// Show the scenarios that fail sometimes, with their rates and intervals
#[derive(Args)]
#[command(after_help = "Example:\n  \
    cargo xtask lab history flakes\n\n\
    A rate is that of the first tries of the last 90 nights, with its 95 % confidence interval.")]
pub(super) struct Flakes {
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Flakes {
    pub(super) fn run(self) -> Result<u8> {
        let (lives, _) = self.asked.lives()?;
        self.asked.print(&lives.flakes(), "no flakes", |flake: &FlakeShown| {
            let FlakeShown { scenario, kernel, rate, last, fingerprints } = flake;
            format!("{scenario} on {kernel}: failed {rate}, last on {last} [{}]", fingerprints.join(", "))
        })
    }
}

/// Show the failures by fingerprint, across kernels and scenarios
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab history failures             every failure, the latest first\n  \
    cargo xtask lab history failures --current   those of the last night")]
pub(super) struct Failures {
    /// Only those of the last night
    #[arg(long)]
    current: bool,
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Failures {
    pub(super) fn run(self) -> Result<u8> {
        let (lives, _) = self.asked.lives()?;
        let mut failures = lives.failures();
        failures.retain(|failure| failure.is_current || !self.current);
        self.asked.print(&failures, "no failures", |failure: &FailureShown| {
            format!(
                "{}: {}: {}\n  {} nights, first {}, last {}\n  on {}\n  in {}",
                failure.fingerprint,
                failure.broken,
                failure.finding,
                failure.nights,
                failure.first,
                failure.last,
                failure.kernels.join(", "),
                failure.scenarios.join(", ")
            )
        })
    }
}

/// Show the first bad night of a scenario or fingerprint, with the versions between which it lies
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab history since probes/remove               a scenario, on every kernel on which it failed\n  \
    cargo xtask lab history since failed-4f2a91c0aa10         everything with this fingerprint")]
pub(super) struct Since {
    /// The name of a scenario, or a fingerprint
    what: String,
    /// Only on this kernel
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Since {
    pub(super) fn run(self) -> Result<u8> {
        let (lives, _) = self.asked.lives()?;
        let found = lives.since(&self.what, self.kernel.as_deref()).map_err(told)?;
        self.asked.print(&found, "it never failed", ToString::to_string)
    }
}

/// Show the durations that grew, beyond what the host of a night explains
#[derive(Args)]
#[command(after_help = "Example:\n  \
    cargo xtask lab history slower\n\n\
    The last 14 nights are compared with up to 76 before them; there must be at least 14. docs/history.md says how.")]
pub(super) struct Slower {
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Slower {
    pub(super) fn run(self) -> Result<u8> {
        let (lives, night) = self.asked.lives()?;
        self.asked.print(&Paces::of(&lives, night).grown(), "no duration grew", grown)
    }
}

fn grown(grown: &Grown) -> String {
    let Grown { scenario, kernel, since, before, now, .. } = grown;
    let what = scenario.as_deref().unwrap_or("everything");
    let more = 100.0 * (now / before - 1.0);
    format!("{what} on {kernel}: {before:.2} s → {now:.2} s (+{more:.0} %) since about {since}")
}

/// Decide whether a night fails: only for what is new and repeated
///
/// A night fails for a scenario that begins to fail, or to fail in a new way, in two tries in a row that chance does
/// not explain; for a flake whose rate rose significantly; and for what had a verdict before and has none now. Each is
/// said once. Flakes, what is still failing and what became slower are listed.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab run --retry 2 --kernel all && …                 failures are run again at once\n  \
    cargo xtask lab history add results/latest && cargo xtask lab history night\n  \
    cargo xtask lab history night --deny deny.yaml                  without what is known\n\n\
    Exit codes: 0 nothing new, 1 the night fails, 2 usage error or no history, 3 the night is incomplete, or the lab\n\
    itself failed.")]
pub(super) struct Night {
    #[command(flatten)]
    deny: Deny,
    #[command(flatten)]
    pub(super) asked: Asked,
}

impl Night {
    pub(super) fn run(self) -> Result<u8> {
        let (lives, night) = self.asked.lives()?;
        let judged = judge(&lives, night, &self.deny.read()?)
            .ok_or_else(|| crate::Usage("the history has no nights".into()))?;
        if self.asked.json.wanted {
            json::print(&judged)?;
        } else {
            show(&judged);
        }
        Ok(match (judged.fails, judged.complete) {
            (true, _) => exit::FAILED,
            (false, true) => exit::SUCCESS,
            (false, false) => exit::LAB,
        })
    }
}

fn show(judged: &Judged) {
    let line = |text: String| println!("{}", printable(text));
    judged.alarms.iter().for_each(|found| line(alarm(found)));
    for Flaky { case, rate, odds } in &judged.flaky {
        let odds =
            odds.map(|odds| format!("; the odds of as many of late: {}", percent(odds))).unwrap_or_default();
        line(format!("flaky: {}: failed {rate}{odds}", named(case)));
    }
    for case in &judged.unrepeated {
        line(format!("failed once: {}: the next night, or `lab run --retry`, decides", named(case)));
    }
    for Failing { case, since } in &judged.still_failing {
        line(format!("still failing since {since}: {}", named(case)));
    }
    for Failing { case, since } in &judged.fixed {
        line(format!("fixed: {}, which failed since {since}", named(case)));
    }
    judged.lab_errors.iter().for_each(|case| line(format!("lab error: {}", named(case))));
    for known in &judged.known {
        line(format!(
            "known: {}: {} (of {}, until {})",
            named(&known.case),
            known.reason,
            known.owner,
            known.expires
        ));
    }
    for stale in &judged.stale {
        let on = stale.kernel.as_ref().map(|kernel| format!(" on {kernel}")).unwrap_or_default();
        line(format!("DENY LIST: {}{on}, of {}: {}", stale.scenario, stale.owner, stale.cause));
    }
    judged.slower.iter().for_each(|slower| line(format!("slower: {}", grown(slower))));
    if !judged.complete {
        println!("incomplete: not everything ran");
    }
    let fails = if judged.fails { "fails" } else { "does not fail" };
    println!("the night {} {fails}: {} verdicts, {} new", judged.night, judged.verdicts, judged.alarms.len());
}

fn named(case: &Case) -> String {
    let print = case.fingerprint.as_ref().map(|print| format!(" [{print}]")).unwrap_or_default();
    format!("{} on {}{print}", case.scenario, case.kernel)
}

fn alarm(alarm: &Alarm) -> String {
    let Alarm { case, kind, tries, rate, odds, between } = alarm;
    let case = named(case);
    let odds = odds.map(percent).unwrap_or_default();
    let what = match kind {
        AlarmKind::NewFailure if rate.failed == 0 => {
            format!("NEW: {case}: failed {tries} times in a row, never in {} tries before", rate.tried)
        }
        AlarmKind::NewFailure => {
            format!("NEW: {case}: failed {tries} times in a row; it failed {rate}, so the odds were {odds}")
        }
        AlarmKind::RateRose => format!(
            "MORE OFTEN: {case}: failed {rate}; by its rate before, the odds of the last nights were {odds}"
        ),
        AlarmKind::NoLongerRuns => format!("NO LONGER RUNS: {case}: it had a verdict the night before"),
    };
    match between {
        Some(between) => format!("{what}\n  {between}"),
        None => what,
    }
}

fn percent(odds: f64) -> String {
    format!("{} %", lab::bisect::odds::percent(odds))
}
