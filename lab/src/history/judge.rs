//! A night in view of those before it → [`Judged`]: what is new, what is only flaky, and whether the night fails.
//!
//! A scenario that fails is *broken* once at least two tries in a row failed, in one night or in several, and chance does
//! not explain it: it never failed before, or the odds of as many failures in a row, by its rate, are below 1 in
//! 10,000. A night fails
//! - if a scenario breaks, or a broken one fails in a new way, twice in a row;
//! - if the rate of a flake rose: the odds of the failures in its last 5 or 14 nights, by its rate before, are below
//!   1 in 10,000;
//! - if a scenario that had a verdict is unsupported or missing, in which there is no chance.
//!
//! - if an entry of the deny list is wrong: see [`DenyList`].
//!
//! Each is said once, on its night. What the deny list has fails no night. Nights in which a scenario was broken do not count for its rate.

use super::{
    DenyList, Ending, KnownFailure, Life, Lived, Lives, StaleEntry,
    between::{Between, between},
    evidence::{Evidence, ODDS_MAX, Rate},
    pace::{Grown, noticed},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// This many nights after the rate of a flake rose, it may be said again.
const SAID_AGAIN: u32 = 14;

/// What is said about a night.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    /// When it started.
    pub night: String,
    /// Whether it fails: there is an alarm, or a wrong entry of the deny list.
    pub fails: bool,
    /// Whether everything ran.
    pub complete: bool,
    /// The number of scenarios on kernels that had a verdict.
    pub verdicts: usize,
    /// Why it fails.
    pub alarms: Vec<Alarm>,
    /// What failed in some try and passed in another one, and what failed as often as chance explains.
    pub flaky: Vec<Flaky>,
    /// What failed at its only try: a further one decides, by `--retry` or in the next night.
    pub unrepeated: Vec<Case>,
    /// What is broken since an earlier night.
    pub still_failing: Vec<Failing>,
    /// What was broken and is not any more.
    pub fixed: Vec<Failing>,
    /// What the lab itself could not do.
    pub lab_errors: Vec<Case>,
    /// What takes longer since some nights, noticed in this one.
    pub slower: Vec<Grown>,
    /// What the deny list has.
    pub known: Vec<KnownFailure>,
    /// What is wrong in the deny list.
    pub stale: Vec<StaleEntry>,
}

/// A scenario on a kernel, and its failure if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Case {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name.
    pub kernel: String,
    /// The fingerprint of the failure.
    pub fingerprint: Option<String>,
}

/// A reason for which a night fails.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alarm {
    /// The scenario, the kernel and the failure.
    #[serde(flatten)]
    pub case: Case,
    /// The kind.
    pub kind: AlarmKind,
    /// The number of tries in a row that failed; 0 if none did.
    pub tries: u32,
    /// How often it failed before.
    pub rate: Rate,
    /// The odds of seeing that by chance; null if it never failed before, and for what does not run.
    pub odds: Option<f64>,
    /// The nights and versions between which it began.
    pub between: Option<Between>,
}

/// The kind of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// It fails, and did not, or failed differently.
    NewFailure,
    /// It fails more often than before.
    RateRose,
    /// It had a verdict, and now has none.
    NoLongerRuns,
}

/// A flake that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Flaky {
    /// The scenario, the kernel and the failure.
    #[serde(flatten)]
    pub case: Case,
    /// How often it failed up to this night.
    pub rate: Rate,
    /// The odds of as many failures in the last nights by its rate before them; null with too few nights.
    pub odds: Option<f64>,
}

/// A scenario that is or was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failing {
    /// The scenario, the kernel and the failure.
    #[serde(flatten)]
    pub case: Case,
    /// The night in which it began.
    pub since: String,
}

/// Judges a night of a history, by this one and those before it; `None` if there is no such night. Slower scenarios
/// are noticed in the same way.
pub fn judge(lives: &Lives, night: u32, denied: &DenyList) -> Option<Judged> {
    let info = lives.nights.get(night as usize)?;
    let mut judged = Judged {
        night: info.time(),
        fails: false,
        complete: info.complete,
        verdicts: 0,
        alarms: Vec::new(),
        flaky: Vec::new(),
        unrepeated: Vec::new(),
        still_failing: Vec::new(),
        fixed: Vec::new(),
        lab_errors: Vec::new(),
        slower: noticed(lives, night),
        known: Vec::new(),
        stale: denied.stale(lives, night),
    };
    for life in &lives.lives {
        judged.add(lives, life, night);
    }
    judged.take_known(denied);
    judged.fails = !judged.alarms.is_empty() || !judged.stale.is_empty();
    Some(judged)
}

impl Judged {
    /// Moves what the deny list has to what is known.
    fn take_known(&mut self, denied: &DenyList) {
        let Judged { known, .. } = self;
        let mut is_news = |case: &Case| match denied.entry(case) {
            Some(entry) => {
                known.push(entry);
                false
            }
            None => true,
        };
        self.alarms.retain(|alarm| alarm.kind == AlarmKind::NoLongerRuns || is_news(&alarm.case));
        self.flaky.retain(|flaky| is_news(&flaky.case));
        self.unrepeated.retain(&mut is_news);
        self.still_failing.retain(|failing| is_news(&failing.case));
    }

    fn add(&mut self, lives: &Lives, life: &Life, night: u32) {
        let case = |lived: Option<&Lived>| Case {
            scenario: life.scenario.clone(),
            kernel: life.kernel.clone(),
            fingerprint: lives.fingerprint(lived.and_then(|lived| lived.failure)).map(str::to_owned),
        };
        let alarm = |kind, lived: Option<&Lived>, tries, rate, odds, since: u32| Alarm {
            case: case(lived),
            kind,
            tries,
            rate,
            odds,
            between: between(lives, life, since),
        };
        let lived = life.at(night);
        if is_gone(lives, life, night) {
            self.alarms.push(alarm(AlarmKind::NoLongerRuns, None, 0, Rate::of(0, 0), None, night));
        }
        let Some(lived) = lived else { return };
        self.verdicts += usize::from(lived.first_tries > 0);
        let found = Walk::over(life, night);
        let time =
            |night: u32| lives.nights.get(night as usize).map(|night| night.time()).unwrap_or_default();
        match found {
            Found::Nothing => {}
            Found::Broke { tries, rate, odds, since } => {
                self.alarms.push(alarm(AlarmKind::NewFailure, Some(lived), tries, rate, odds, since));
            }
            Found::RateRose { rate, odds } => {
                self.alarms.push(alarm(
                    AlarmKind::RateRose,
                    Some(lived),
                    lived.failed,
                    rate,
                    Some(odds),
                    night,
                ));
            }
            Found::Flaky { rate, odds } => self.flaky.push(Flaky { case: case(Some(lived)), rate, odds }),
            Found::Unrepeated => self.unrepeated.push(case(Some(lived))),
            Found::StillBroken { since } => {
                self.still_failing.push(Failing { case: case(Some(lived)), since: time(since) });
            }
            Found::Fixed { since } => self.fixed.push(Failing { case: case(None), since: time(since) }),
            Found::LabError => self.lab_errors.push(case(None)),
        }
    }
}

/// Returns whether a scenario had a verdict when its kernel last ran, and has none in a night in which it ran again.
fn is_gone(lives: &Lives, life: &Life, night: u32) -> bool {
    let ran = |night: &u32| lives.nights[*night as usize].kernel(&life.kernel).is_some();
    let Some(before) = (0..night).rev().find(ran).filter(|_| ran(&night)) else { return false };
    let had = life.at(before).is_some_and(|lived| lived.first_tries > 0);
    let has = life.at(night).is_some_and(|lived| lived.ending != Ending::Unsupported);
    // What is missing from an incomplete night is no news; that it is incomplete is.
    let missing = life.at(night).is_none() && !lives.nights[night as usize].complete;
    had && !has && !missing
}

/// What a night says about a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    Nothing,
    Broke { tries: u32, rate: Rate, odds: Option<f64>, since: u32 },
    RateRose { rate: Rate, odds: f64 },
    Flaky { rate: Rate, odds: Option<f64> },
    Unrepeated,
    StillBroken { since: u32 },
    Fixed { since: u32 },
    LabError,
}

/// A scenario's life, walked night by night.
#[derive(Default)]
struct Walk {
    /// The nights in which it was not broken.
    evidence: Evidence,
    /// The tries in a row that failed until now, and the first of their nights.
    streak: u32,
    since: Option<u32>,
    /// First tries of the streak, and how many failed, by night: evidence, unless the streak is a break.
    pending: Vec<(u32, u32)>,
    broken: bool,
    /// The failures that were said since it broke.
    said: BTreeSet<Option<u32>>,
    /// A failure that was not said, and its tries in a row.
    other: (Option<u32>, u32),
    /// The number of nights until which a risen rate is not said again.
    quiet: u32,
}

impl Walk {
    fn over(life: &Life, night: u32) -> Found {
        let mut walk = Walk::default();
        let nights = life.nights.iter().take_while(|lived| lived.night <= night);
        nights.map(|lived| walk.step(lived)).last().unwrap_or(Found::Nothing)
    }

    fn step(&mut self, lived: &Lived) -> Found {
        self.quiet = self.quiet.saturating_sub(1);
        match lived.ending {
            Ending::Unsupported => Found::Nothing,
            Ending::LabError => Found::LabError,
            Ending::Passed | Ending::KnownBug | Ending::Flaky => {
                let fixed = if self.broken { self.since } else { None };
                self.end_streak();
                self.evidence.add(lived.first_tries, lived.failed_first);
                match (lived.ending, fixed) {
                    (Ending::Flaky, _) => self.flaky(),
                    (_, Some(since)) => Found::Fixed { since },
                    (_, None) => Found::Nothing,
                }
            }
            Ending::Failed => self.failed(lived),
        }
    }

    fn failed(&mut self, lived: &Lived) -> Found {
        let since = *self.since.get_or_insert(lived.night);
        self.streak += lived.failed;
        if self.broken {
            return self.fails_again(lived, since);
        }
        let rate = self.evidence.rate();
        let odds = (rate.failed > 0).then(|| rate.all_fail(self.streak));
        if self.streak >= 2 && odds.is_none_or(|odds| odds < ODDS_MAX) {
            self.broken = true;
            self.pending.clear();
            self.said.insert(lived.failure);
            return Found::Broke { tries: self.streak, rate, odds, since };
        }
        self.pending.push((lived.first_tries, lived.failed_first));
        if rate.failed == 0 { Found::Unrepeated } else { self.flaky() }
    }

    /// A broken scenario fails: as it did, or in a new way, which two tries in a row must show.
    fn fails_again(&mut self, lived: &Lived, since: u32) -> Found {
        if self.said.contains(&lived.failure) {
            self.other = (None, 0);
            return Found::StillBroken { since };
        }
        let tries = if self.other.0 == lived.failure { self.other.1 } else { 0 };
        self.other = (lived.failure, tries + lived.failed);
        if self.other.1 < 2 {
            return Found::StillBroken { since };
        }
        self.said.insert(lived.failure);
        Found::Broke { tries: self.other.1, rate: self.evidence.rate(), odds: None, since: lived.night }
    }

    fn end_streak(&mut self) {
        for (tried, failed) in self.pending.drain(..) {
            self.evidence.add(tried, failed);
        }
        (self.streak, self.since, self.broken) = (0, None, false);
        self.said.clear();
        self.other = (None, 0);
    }

    /// A failure that chance may explain: has it become more frequent?
    fn flaky(&mut self) -> Found {
        let mut evidence = self.evidence.clone();
        self.pending.iter().for_each(|(tried, failed)| evidence.add(*tried, *failed));
        let (rate, odds) = (evidence.rate(), evidence.odds_of_last());
        match odds {
            Some(odds) if odds < ODDS_MAX && self.quiet == 0 => {
                self.quiet = SAID_AGAIN;
                Found::RateRose { rate, odds }
            }
            odds => Found::Flaky { rate, odds },
        }
    }
}
