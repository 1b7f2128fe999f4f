//! What is the same each time a failure happens.

use super::{
    families::Operation,
    script::{LEAK, Script},
};
use crate::{
    results::{OutcomeStatus, ScenarioResult, Status},
    splat::Splat,
};

/// Returns the first step that failed, and its operation.
pub(super) fn broken(result: &ScenarioResult, script: &Script) -> Option<(usize, usize)> {
    let step = result.steps.iter().position(|step| !step.passed)?;
    Some((step, *script.origins.get(step)?))
}

/// What is the same each time something happens: a splat, the stack of a blocked task, or what was done and found,
/// without names and numbers.
pub(super) fn signature(result: &ScenarioResult, script: &Script, operations: &[Operation]) -> String {
    if let Some(splat) = result.splats.iter().find(|splat| splat.kind != LEAK) {
        return format!("splat {}", splat.fingerprint);
    }
    let blocked = |stack: &&Splat| result.status == Status::Hang && stack.kind == "blocked task";
    if let Some(stack) = result.stacks.iter().find(blocked) {
        return format!("hang {}", stack.fingerprint);
    }
    let is_leak = result.splats.iter().any(|splat| splat.kind == LEAK);
    if !is_leak && !matches!(result.status, Status::Failed | Status::Inconclusive) {
        return format!("{}: {}", result.status, plain(&result.reason));
    }
    let Some((index, origin)) = broken(result, script) else {
        let broken = result.expectations.iter().find(|outcome| outcome.status != OutcomeStatus::Passed);
        let text = broken.map_or(result.reason.as_str(), |outcome| outcome.text.as_str());
        return format!("expectation {}", plain(text));
    };
    let step = &result.steps[index];
    if origin == operations.len() {
        return format!("leak {}", plain(&step.detail));
    }
    let kind = operations.get(origin).map(|operation| format!("{operation:?}")).unwrap_or_default();
    let kind = kind.split(['(', ' ']).take(2).collect::<Vec<_>>().join(" ");
    // Of a look, what it looks at.
    let looked = step.text.split(['"', ',']).nth(usize::from(step.text.contains('"'))).unwrap_or_default();
    let found = step.detail.split([';', ':', '\n']).next().unwrap_or_default();
    let found = if kind == "Look" { "" } else { found };
    format!("{kind} {} {}", plain(looked), plain(found))
}

/// Without digits.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}
