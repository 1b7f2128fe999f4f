//! stub
mod conclude;
mod condition;
mod splat;
pub use conclude::conclude;
pub use condition::Condition;
use serde::{Deserialize, Serialize};
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Passed,
    Failed,
    Inconclusive,
    Unsupported,
    Panic,
    Oops,
    Splat,
    Hang,
    LostGuest,
    LabError,
}
impl Status {
    pub const ALL: [Status; 2] = [Status::Passed, Status::Failed];
    pub fn is_failure(self) -> bool {
        !matches!(self, Status::Passed | Status::Unsupported)
    }
}
impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutcomeStatus {
    Passed,
    Failed,
    Inconclusive,
}
impl std::fmt::Display for OutcomeStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub text: String,
    pub status: OutcomeStatus,
    pub detail: String,
}
pub struct Verdict {
    pub status: Status,
    pub reason: String,
    pub expectations: Vec<Outcome>,
}
pub struct Evidence<'a> {
    pub trace: &'a crate::trace::Trace,
    pub kernel_log: &'a str,
    pub files: &'a std::collections::BTreeMap<String, String>,
}
pub fn judge(_: &crate::scenario::Scenario, _: &Evidence<'_>) -> anyhow::Result<Vec<Outcome>> {
    Ok(vec![])
}
