//! `deny.yaml` → [`DenyList`]: failures that are known, each with an owner, a reason and a date of expiry.
//!
//! What is listed does not fail a night. An entry fails it when it has expired, when what it lists passes, and when
//! what it lists is not in the history: the list must be accurate.

use super::{
    Case, Ending, HistoryError, Life, Lives,
    evidence::{Evidence, PASSES_BY_CHANCE_MAX},
};
use crate::{
    host::beneath::capped,
    words::excerpt,
    yaml::{self, within_budget},
};
use fs_err::File;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The maximum size of the file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The failures that are known.
#[derive(Clone, Debug, Default)]
pub struct DenyList(Vec<Denied>);

/// A failure that is known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Denied {
    /// The scenario's name.
    scenario: String,
    /// The kernel's name; without it, on every kernel.
    kernel: Option<String>,
    /// The fingerprint of the failure; without it, any.
    fingerprint: Option<String>,
    /// Who takes care of it.
    owner: String,
    /// Why it is listed.
    reason: String,
    /// The last day on which it is: `2026-03-31`.
    expires: String,
    /// Whether it passes sometimes. Then the entry fails a night only once it has passed so often that chance does not
    /// explain it.
    #[serde(default)]
    flaky: bool,
}

/// A failure that is known, and was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KnownFailure {
    /// The scenario, the kernel and the failure.
    #[serde(flatten)]
    pub case: Case,
    /// Who takes care of it.
    pub owner: String,
    /// Why it is listed.
    pub reason: String,
    /// The last day on which it is.
    pub expires: String,
}

/// An entry that is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StaleEntry {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name, if the entry has one.
    pub kernel: Option<String>,
    /// Who takes care of it.
    pub owner: String,
    /// Why it fails the night.
    pub cause: String,
}

impl DenyList {
    /// Reads a list.
    ///
    /// # Errors
    /// The file cannot be read, or an entry is not complete.
    pub fn read(path: &Path) -> Result<DenyList, HistoryError> {
        let error = |cause: String| {
            HistoryError::Unknown(format!("cannot read the deny list `{}`: {cause}", path.display()))
        };
        let bytes =
            File::open(path).map_err(anyhow::Error::from).and_then(|file| capped(file, FILE_MAX, path));
        let bytes = bytes.map_err(|cause| error(format!("{cause:#}")))?;
        DenyList::parse(&String::from_utf8_lossy(&bytes)).map_err(error)
    }

    fn parse(text: &str) -> Result<DenyList, String> {
        within_budget(text).map_err(|cause| cause.to_string())?;
        let list: Vec<Denied> = yaml::from_str(text).map_err(|cause| cause.to_string())?;
        for entry in &list {
            let empty = [("owner", &entry.owner), ("reason", &entry.reason)];
            if let Some((field, _)) = empty.iter().find(|(_, text)| text.trim().is_empty()) {
                return Err(format!(
                    "the entry of `{}` has an empty `{field}`",
                    excerpt(&entry.scenario, 80)
                ));
            }
            entry.last_day()?;
        }
        Ok(DenyList(list))
    }

    /// Returns the entry of a failure.
    pub(super) fn entry(&self, case: &Case) -> Option<KnownFailure> {
        let is_of = |own: &Option<String>, other: Option<&str>| own.is_none() || own.as_deref() == other;
        let entry = self.0.iter().find(|entry| {
            entry.scenario == case.scenario
                && is_of(&entry.kernel, Some(&case.kernel))
                && is_of(&entry.fingerprint, case.fingerprint.as_deref())
        })?;
        let Denied { owner, reason, expires, .. } = entry.clone();
        Some(KnownFailure { case: case.clone(), owner, reason, expires })
    }

    /// Returns the entries that are wrong in a night.
    pub(super) fn stale(&self, lives: &Lives, night: u32) -> Vec<StaleEntry> {
        let stale = |entry: &Denied| {
            Some(StaleEntry {
                scenario: entry.scenario.clone(),
                kernel: entry.kernel.clone(),
                owner: entry.owner.clone(),
                cause: entry.wrong(lives, night)?,
            })
        };
        self.0.iter().filter_map(stale).collect()
    }
}

impl Denied {
    fn last_day(&self) -> Result<Date, String> {
        let wrong = |_| {
            let (scenario, expires) = (excerpt(&self.scenario, 80), excerpt(&self.expires, 40));
            format!("the entry of `{scenario}` expires on `{expires}`, expected a day like 2026-03-31")
        };
        self.expires.parse().map_err(wrong)
    }

    /// Returns why the entry is wrong in a night, if it is.
    fn wrong(&self, lives: &Lives, night: u32) -> Option<String> {
        let started = Timestamp::from_second(lives.nights.get(night as usize)?.started).ok()?;
        let day = started.to_zoned(TimeZone::UTC).date();
        if self.last_day().is_ok_and(|last| last < day) {
            return Some(format!("expired on {}: fix it, or say why it needs longer", self.expires));
        }
        let is_listed = |life: &&Life| {
            life.scenario == self.scenario && self.kernel.as_ref().is_none_or(|kernel| *kernel == life.kernel)
        };
        let listed: Vec<_> = lives.lives.iter().filter(is_listed).collect();
        if listed.is_empty() {
            return Some("it is not in the history: is the name right?".into());
        }
        let judged: Vec<_> =
            listed.iter().filter(|life| life.at(night).is_some_and(|lived| lived.first_tries > 0)).collect();
        let passes = |life: &Life| life.at(night).is_some_and(|lived| lived.ending.holds());
        if judged.is_empty() || !judged.iter().all(|life| passes(life)) {
            return None;
        }
        if !self.flaky {
            return Some("it passes: remove the entry, or say `flaky: true`".into());
        }
        let passed: Vec<_> = judged.iter().map(|life| passed_for(life, night)).collect();
        let fixed = passed.iter().all(|(_, odds)| *odds < PASSES_BY_CHANCE_MAX);
        let nights = passed.iter().map(|(nights, _)| *nights).min().unwrap_or_default();
        fixed.then(|| {
            format!(
                "it passed in {nights} nights in a row, which its rate does not explain: remove the entry"
            )
        })
    }
}

/// Returns the number of nights in a row in which a scenario passed, and the odds of that by its rate before.
fn passed_for(life: &Life, night: u32) -> (usize, f64) {
    let verdicts: Vec<_> =
        life.nights.iter().filter(|lived| lived.night <= night && lived.first_tries > 0).collect();
    let passes = verdicts.iter().rev().take_while(|lived| lived.ending.holds()).count();
    let mut before = Evidence::default();
    let earlier = verdicts[..verdicts.len() - passes].iter();
    earlier
        .filter(|lived| lived.ending != Ending::LabError)
        .for_each(|lived| before.add(lived.first_tries, lived.failed_first));
    (passes, before.rate().none_fails(passes as u32))
}

#[cfg(test)]
#[path = "deny_tests.rs"]
mod tests;
