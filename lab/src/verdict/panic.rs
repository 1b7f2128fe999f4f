//! `expect_panic:`, a kernel that must panic: whether it did, with the right message and backtrace.

use crate::{
    recording::{Backtrace, EndKind, Recording},
    scenario::{ExpectPanic, Scenario},
};

/// How a run ended whose scenario requires a panic.
#[derive(Debug, PartialEq)]
pub(super) enum RequiredPanic {
    /// The kernel is still running.
    Survived,
    /// It panicked in the last step with this message; whether the backtrace is the required one.
    Panicked { message: String, backtrace: Result<(), String> },
    /// It panicked, but the backtrace is not known, for this reason.
    Unread(String),
}

/// Compares the end of a run with what `expect_panic:` requires. Returns `None` if the scenario requires no
/// panic, and for any end other than the required panic, which is then judged as such.
pub(super) fn required_panic(scenario: &Scenario, recording: &Recording) -> Option<RequiredPanic> {
    let dies = scenario.expect_panic.as_ref()?;
    let Some(end) = &recording.end else { return Some(RequiredPanic::Survived) };
    let all_steps = recording.steps.len() == scenario.steps.len();
    let EndKind::Panic(message) = &end.kind else { return None };
    if !all_steps || dies.panic.check(message).is_err() {
        return None;
    }
    Some(match compared(dies, recording.backtrace.as_ref()) {
        Ok(backtrace) => RequiredPanic::Panicked { message: message.clone(), backtrace },
        Err(reason) => RequiredPanic::Unread(reason),
    })
}

/// Compares a backtrace with the required one. The outer error is the reason why it is not known.
fn compared(dies: &ExpectPanic, backtrace: Option<&Backtrace>) -> Result<Result<(), String>, String> {
    if dies.backtrace.is_empty() {
        return Ok(Ok(()));
    }
    let scene = match backtrace {
        Some(Backtrace::Found(scene)) => scene,
        Some(Backtrace::Missing(reason)) => {
            return Ok(Err(format!("the kernel's memory has no backtrace: {reason}")));
        }
        Some(Backtrace::Unread(reason)) => return Err(reason.clone()),
        None => return Err("the run did not read the backtrace: run the scenario again".to_owned()),
    };
    Ok(dies.check_backtrace(scene.functions()).map_err(|missing| {
        let names: Vec<&str> = scene.frames.iter().map(|frame| frame.symbol.as_str()).collect();
        format!(
            "`{missing}` is missing from the panic backtrace, or out of order; found {}",
            names.join(", ")
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_is_compared_with_its_inlined_functions() {
        let json = r#"{ "comm": "x", "pid": 1, "cpu": 0, "frames": [
            { "symbol": "panic", "offset": 0, "size": 0, "module": null, "places": [] },
            { "symbol": "init_module", "offset": 0, "size": 0, "module": "deaths", "places": [
                { "function": "happen", "file": "a.c", "line": 1 } ] } ] }"#;
        let found = Backtrace::Found(serde_json::from_str(json).unwrap());
        let check = |backtrace: &str, found: Option<&Backtrace>, expect: Result<Result<(), &str>, &str>| {
            let dies: ExpectPanic =
                crate::yaml::from_str(&format!("panic: x\nbacktrace: {backtrace}")).unwrap();
            assert_eq!(compared(&dies, found), expect.map(own).map_err(str::to_owned), "{backtrace}");
        };
        check("[panic, happen]", Some(&found), Ok(Ok(())));
        let elsewhere =
            "`panic` is missing from the panic backtrace, or out of order; found panic, init_module";
        check("[happen, panic]", Some(&found), Ok(Err(elsewhere)));
        let missing = Backtrace::Missing("no task panicked".into());
        check("[a]", Some(&missing), Ok(Err("the kernel's memory has no backtrace: no task panicked")));
        check("[a]", Some(&Backtrace::Unread("no drgn".into())), Err("no drgn"));
        check("[a]", None, Err("the run did not read the backtrace: run the scenario again"));
        check("[]", None, Ok(Ok(())));
    }

    fn own(result: Result<(), &str>) -> Result<(), String> {
        result.map_err(str::to_owned)
    }
}
