//! The result of a bisection, as text and as JSON.

use super::{
    candidates::Candidate,
    judge::Verdict,
    odds::{Rate, any_wrong, percent},
};
use crate::host::whole::write_whole;
use anyhow::Result;
use serde::Serialize;
use std::{fmt, path::Path};

/// The result of a bisection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conclusion {
    /// Whether something broke; otherwise it was fixed.
    pub breaks: bool,
    /// The first changed candidate; several if skipped ones leave the choice open.
    #[serde(serialize_with = "texts")]
    pub first: Vec<Candidate>,
    /// The last unchanged candidate; `None` for commits.
    #[serde(serialize_with = "text")]
    pub before: Option<Candidate>,
    /// The failure rate of the bad end.
    pub rate: Rate,
    /// The probability that `first` is wrong because any good verdict is.
    pub wrong: f64,
    /// Every verdict, in the order in which they were needed.
    pub verdicts: Vec<Judged>,
}

/// One verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The kernel.
    pub kernel: String,
    /// The verdict.
    pub verdict: Verdict,
}

impl Conclusion {
    /// Writes it to `bisect.json` in the directory of its results.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_whole(&directory.join("bisect.json"), serde_json::to_string_pretty(self)? + "\n")
    }

    pub(super) fn of(
        judged: &[(Candidate, Verdict)],
        breaks: bool,
        first: Vec<Candidate>,
        before: Option<Candidate>,
        rate: Rate,
    ) -> Conclusion {
        let wrong = any_wrong(judged.iter().filter_map(|(_, verdict)| match verdict {
            Verdict::Good { wrong, .. } => Some(*wrong),
            Verdict::Bad { .. } | Verdict::Skipped { .. } => None,
        }));
        let verdicts =
            judged.iter().map(|(one, verdict)| Judged { kernel: one.to_string(), verdict: verdict.clone() });
        Conclusion { breaks, first, before, rate, wrong, verdicts: verdicts.collect() }
    }

    /// Returns whether exactly one candidate is named.
    pub fn is_exact(&self) -> bool {
        self.first.len() == 1
    }
}

impl fmt::Display for Conclusion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [changed, unchanged] = if self.breaks { ["bad", "good"] } else { ["good", "bad"] };
        match &self.first[..] {
            [one] => writeln!(out, "first {changed}: {one}")?,
            several => {
                writeln!(out, "first {changed}: one of these {}:", several.len())?;
                several.iter().try_for_each(|one| writeln!(out, "  {one}"))?;
            }
        }
        if let Some(before) = &self.before {
            writeln!(out, "last {unchanged}: {before}")?;
        }
        for judged in &self.verdicts {
            if let Verdict::Skipped { reason } = &judged.verdict {
                writeln!(out, "skipped: {}: {reason}", judged.kernel)?;
            }
        }
        write!(out, "{}; the probability that this is wrong is at most {} %", self.rate, percent(self.wrong))
    }
}

fn texts<S: serde::Serializer>(candidates: &[Candidate], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(candidates.iter().map(Candidate::to_string))
}

fn text<S: serde::Serializer>(candidate: &Option<Candidate>, serializer: S) -> Result<S::Ok, S::Error> {
    candidate.as_ref().map(Candidate::to_string).serialize(serializer)
}
