//! A kernel that is to die: whether it did, as it should, and where, by the memory it left.

use super::{Recorder, Recording};
use crate::{
    dump::PostMortem,
    host::drgn::Drgn,
    machine::{Death, VMCORE},
    progress::Progress,
    scenario::{Dies, Scenario},
    verdict::Status,
};
use anyhow::Result;

impl Recorder<'_> {
    /// Compares the end of a recording with what `dies:` wants. Any other end keeps its own name.
    pub(super) fn judge_end(&self, scenario: &Scenario, dies: &Dies, recording: &mut Recording) {
        let whole = recording.steps.len() == scenario.steps.len();
        let panic = match &recording.death {
            None => {
                recording.end = Some(Err("the kernel was to panic, and it lives".to_owned()));
                return;
            }
            Some((Death::Panic { message, .. }, _)) if whole => message.clone(),
            Some(_) => return,
        };
        if dies.panic.check(&panic).is_err() {
            return;
        }
        let found = match self.backtrace_of(dies, recording) {
            Ok(found) => found,
            Err(error) => {
                recording.die(Death::Lab(error), "looking at what the kernel left");
                return;
            }
        };
        recording.end = Some(found);
        for splat in recording.splats.iter_mut().filter(|splat| splat.status == Status::Panic) {
            splat.allowed = true;
        }
        if let Some(step) = recording.steps.last_mut() {
            step.passed = true;
            step.detail = format!("the kernel panicked, as it should: {panic}");
        }
    }

    /// Whether the backtrace of the memory that the kernel left has what it should.
    fn backtrace_of(&self, dies: &Dies, recording: &Recording) -> Result<Result<(), String>> {
        if dies.backtrace.is_empty() {
            return Ok(Ok(()));
        }
        if let Some(note) = recording.death.as_ref().and_then(|(death, _)| death.note()) {
            anyhow::bail!("there is no backtrace to look at: {note}");
        }
        let drgn = Drgn::obtain(&self.kernel.cache()?, &Progress::silent())?;
        let found = self.dump(self.directory.join(VMCORE))?.post_mortem(&drgn, false, &[])?;
        Ok(compared(dies, &found))
    }
}

fn compared(dies: &Dies, found: &PostMortem) -> Result<(), String> {
    let death =
        found.death.found().map_err(|reason| format!("the kernel's memory has no backtrace: {reason}"))?;
    dies.check_backtrace(death.functions()).map_err(|missing| {
        let names: Vec<&str> = death.frames.iter().map(|frame| frame.symbol.as_str()).collect();
        format!(
            "the backtrace of the panic lacks `{missing}`, or has it elsewhere; it is {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_is_compared_with_its_inlined_functions() {
        let json = r#"{ "message": { "missing": "" }, "modules": { "found": [] }, "death": { "found": {
            "comm": "x", "pid": 1, "cpu": 0, "frames": [
                { "symbol": "panic", "offset": 0, "size": 0, "module": null, "places": [] },
                { "symbol": "init_module", "offset": 0, "size": 0, "module": "deaths", "places": [
                    { "function": "happen", "file": "a.c", "line": 1 } ] } ] } } }"#;
        let found: PostMortem = serde_json::from_str(json).unwrap();
        let check = |backtrace: &str, expect: Result<(), &str>| {
            let dies: Dies = serde_yaml::from_str(&format!("panic: x\nbacktrace: {backtrace}")).unwrap();
            assert_eq!(compared(&dies, &found).as_ref().copied().map_err(String::as_str), expect);
        };
        check("[panic, happen]", Ok(()));
        check(
            "[happen, panic]",
            Err("the backtrace of the panic lacks `panic`, or has it elsewhere; it is panic, init_module"),
        );
        let none: PostMortem = serde_json::from_str(
            r#"{ "message": { "missing": "" }, "death": { "missing": "no task panicked" }, "modules": { "found": [] } }"#,
        )
        .unwrap();
        let dies: Dies = serde_yaml::from_str("panic: x\nbacktrace: [a]").unwrap();
        assert_eq!(
            compared(&dies, &none).unwrap_err(),
            "the kernel's memory has no backtrace: no task panicked"
        );
    }
}
