//! What a bisection came to, for a person and as JSON.

use super::{
    candidates::Candidate,
    judge::Verdict,
    odds::{Rate, any_wrong, percent},
};
use serde::Serialize;
use std::fmt;

/// The end of a bisection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conclusion {
    /// Whether something broke; else it was mended.
    pub breaks: bool,
    /// The first that has changed; several, if it may be any of these, since they were skipped.
    #[serde(serialize_with = "texts")]
    pub first: Vec<Candidate>,
    /// The last that has not, where candidates are a row.
    #[serde(serialize_with = "text")]
    pub before: Option<Candidate>,
    /// How often the bad end fails.
    pub rate: Rate,
    /// The probability that something else is named than what is right: that of the good verdicts.
    pub wrong: f64,
    /// Every verdict, in the order of asking.
    pub verdicts: Vec<Judged>,
}

/// One verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The kernel.
    pub kernel: String,
    /// What it came to.
    pub verdict: Verdict,
}

impl Conclusion {
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

    /// Whether one is named.
    pub fn is_exact(&self) -> bool {
        self.first.len() == 1
    }
}

impl fmt::Display for Conclusion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [changed, unchanged] = if self.breaks { ["bad", "good"] } else { ["good", "bad"] };
        match &self.first[..] {
            [one] => writeln!(out, "the first {changed} one is {one}")?,
            several => {
                writeln!(out, "the first {changed} one is one of these {}:", several.len())?;
                several.iter().try_for_each(|one| writeln!(out, "  {one}"))?;
            }
        }
        if let Some(before) = &self.before {
            writeln!(out, "the last {unchanged} one is {before}")?;
        }
        for judged in &self.verdicts {
            if let Verdict::Skipped { reason } = &judged.verdict {
                writeln!(out, "skipped: {}: {reason}", judged.kernel)?;
            }
        }
        write!(
            out,
            "{}; that something else is right has a probability of at most {} %",
            self.rate,
            percent(self.wrong)
        )
    }
}

fn texts<S: serde::Serializer>(candidates: &[Candidate], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(candidates.iter().map(Candidate::to_string))
}

fn text<S: serde::Serializer>(candidate: &Option<Candidate>, serializer: S) -> Result<S::Ok, S::Error> {
    candidate.as_ref().map(Candidate::to_string).serialize(serializer)
}
