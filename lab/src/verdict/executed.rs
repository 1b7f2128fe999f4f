//! `executed:`, the functions of the trace compared with those that QEMU executed.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::Observed,
};
use crate::{recording::ExecutedCalls, results::OutcomeStatus, scenario::Executed};
use std::collections::BTreeSet;
use trace::Value;

/// The maximum number of functions that are named.
const SHOWN: usize = 8;

/// Evaluates `executed:`.
pub(super) struct Tracing {
    executed: Executed,
    /// The addresses in the events of the function tracer.
    traced: BTreeSet<u64>,
}

impl Tracing {
    pub(super) fn new(executed: &Executed) -> Tracing {
        Tracing { executed: executed.clone(), traced: BTreeSet::new() }
    }
}

impl Evaluate for Tracing {
    fn wants(&self, group: &str, name: &str) -> bool {
        (group, name) == ("ftrace", "function")
    }

    fn observe(&mut self, event: &dyn Observed) {
        if let Some(Value::Unsigned(address)) = event.field("ip") {
            self.traced.insert(address);
        }
    }

    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        let Some(calls) = ExecutedCalls::stored(after.files) else {
            let detail = "what QEMU executed is not known".to_owned();
            return Finding { status: OutcomeStatus::Inconclusive, detail };
        };
        let name = |address: u64| {
            let symbol = after.trace.and_then(|trace| trace.metadata().symbols().resolve(address));
            symbol.map_or_else(|| format!("{address:#x}"), |symbol| symbol.name.to_owned())
        };
        let excepted = |name: &str| self.executed.except.iter().any(|except| except.as_str() == name);
        let untraced = calls.in_steps.difference(&self.traced).map(|address| name(*address));
        let untraced: Vec<String> = untraced.filter(|name| !excepted(name)).collect();
        let ran = |address: &u64| calls.in_steps.contains(address) || calls.outside.contains(address);
        let strange = self.traced.iter().filter(|address| calls.all.contains(address) && !ran(address));
        let strange: Vec<String> = strange.map(|address| name(*address)).collect();
        let found = calls.in_steps.intersection(&self.traced).count();
        let Executed { functions: amount, .. } = &self.executed;
        if !strange.is_empty() {
            return Finding::failed(format!("traced, but not executed: {}", listed(&strange)));
        }
        if !untraced.is_empty() {
            let detail = format!("executed, but not traced: {}", listed(&untraced));
            return if after.losses.any() { after.inconclusive(&detail) } else { Finding::failed(detail) };
        }
        let found_text = format!("found {found} functions");
        match amount.allows(found as u64) {
            true => Finding::passed(found_text),
            false if after.losses.any() => after.inconclusive(&found_text),
            false => Finding::failed(format!("{found_text}, expected {amount}")),
        }
    }
}

/// Returns the first names, and how many there are more.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::judge_all;
    use crate::results::OutcomeStatus::{self, Failed, Inconclusive, Passed};

    /// Functions at 0x1000, 0x2000 and 0x3000 ran, the last one not while the steps did; those at 0x4000 did not.
    const FILE: &str = "first 1000\nend 5000\nsteps 1000\nsteps 2000\noutside 3000\n";

    #[test]
    fn what_ran_and_what_was_traced_are_the_same() {
        let check =
            |fields: &str, trace: &[&str], file: Option<&str>, status: OutcomeStatus, detail: &str| {
                let source = format!("summary: x\nexpect:\n  - executed: {{ functions: {fields} }}\n");
                let lines = trace.iter().map(|rest| match rest.starts_with('L') {
                    true => format!("{rest}\n"),
                    false => format!("1 0 a-1 ftrace:function ip=+{rest}\n"),
                });
                let files: Vec<_> = file.map(|file| ("executed", file)).into_iter().collect();
                let outcome = &judge_all(&source, &lines.collect::<String>(), "", &files)[0];
                assert_eq!(
                    (outcome.status, outcome.detail.contains(detail)),
                    (status, true),
                    "{}",
                    outcome.detail
                );
            };
        // 0x1000, 0x2000, …, and 0x9000 of a module.
        let (one, two, outside, never, module) = ("4096", "8192", "12288", "16384", "36864");
        let lost = "LOST 0 3 0 5";
        let file = Some(FILE);
        check("2", &[one, two, one, outside, module], file, Passed, "found 2 functions");
        check("{ at_least: 3 }", &[one, two], file, Failed, "found 2 functions, expected at least 3");
        check("1", &[one], file, Failed, "executed, but not traced: `0x2000`");
        check("1, except: ['0x2000']", &[one], file, Passed, "found 1 functions");
        check("2", &[one, two, never], file, Failed, "traced, but not executed: `0x4000`");
        check("1", &[one, lost], file, Inconclusive, "executed, but not traced: `0x2000`, but ");
        check("2", &[one, two], None, Inconclusive, "what QEMU executed is not known");
    }
}
