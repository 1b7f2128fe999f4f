//! Arming: the plan's writes, and what the kernel says when it refuses one.

use super::Recorder;
use crate::{
    guest::offset_of,
    machine::Death,
    plan::Plan,
    scenario::{Errno, EventSpec, Scenario, TraceSetup, UserPlaces, nearest},
};
use protocol::{Reply, Request};

/// What the kernel says when it refuses a bootconfig, or a part of one: at level error, in
/// init/main.c and kernel/trace/trace_boot.c. The boot goes on without.
fn refused_bootconfig(log: &str) -> Option<String> {
    const BEGINNINGS: [&str; 5] = [
        "trace_boot: ",
        "Failed to parse bootconfig",
        "Failed to init bootconfig",
        "'bootconfig' found",
        "bootconfig ",
    ];
    let text = |line| -> Option<&str> {
        let line: &str = str::strip_prefix(line, "<3>")?;
        // Behind the time, where the kernel writes it.
        Some(if line.starts_with('[') { line.split_once("] ")?.1 } else { line })
    };
    let of_bootconfig = |text: &&str| BEGINNINGS.iter().any(|begins| text.starts_with(begins));
    let errors = log.lines().filter_map(text);
    let refused: Vec<_> = errors.filter(of_bootconfig).take(REFUSALS_SHOWN).collect();
    (!refused.is_empty()).then(|| format!("the kernel refused the bootconfig: {}", refused.join("\n")))
}

/// The most lines of a refused bootconfig that are shown.
const REFUSALS_SHOWN: usize = 8;

impl Recorder<'_> {
    /// `Some` says what the kernel refused of what it was given for its boot.
    pub(super) fn unbooted(&mut self, scenario: &Scenario) -> Result<Option<String>, Death> {
        match scenario.bootconfig {
            Some(_) => Ok(refused_bootconfig(&self.kernel_log()?)),
            None => Ok(None),
        }
    }

    /// Arms the scenario's trace. `Some` says what the kernel refused, and why.
    pub(super) fn arm(&mut self, scenario: &Scenario) -> Result<Option<String>, Death> {
        let places = match self.user_places(&scenario.trace)? {
            Ok(places) => places,
            Err(reason) => return Ok(Some(reason)),
        };
        let plan = Plan::of(scenario, &places);
        for path in &plan.directories {
            if let Reply::Errno { errno, .. } = self.call(&Request::MakeDirectory { path: path.clone() })? {
                return Ok(Some(format!("cannot make `{path}`: {}", Errno::from_number(errno))));
            }
        }
        self.mark_arming()?;
        let arming: Vec<_> =
            plan.arming.iter().filter(|arm| !self.machine.is_prepared(&arm.file, &arm.text)).collect();
        let requests: Vec<_> = arming
            .iter()
            .map(|arm| Request::WriteFile {
                path: arm.file.clone(),
                data: format!("{}\n", arm.text).into_bytes(),
                mode: arm.mode,
            })
            .collect();
        let replies = self.call_all(&requests)?;
        let refused = arming.iter().zip(&replies).find_map(|(arm, reply)| match reply {
            Reply::Errno { errno, .. } => Some((arm, *errno)),
            _ => None,
        });
        let Some((arm, errno)) = refused else { return Ok(None) };
        let said = self.reason(&arm.text)?;
        let hint = if arm.file == "kprobe_events" { self.hint(&arm.text) } else { None };
        let what = format!("cannot write `{}` to `{}`: {}", arm.text, arm.file, Errno::from_number(errno));
        Ok(Some([Some(what), said, hint].into_iter().flatten().collect::<Vec<_>>().join("\n")))
    }

    /// Brings the workloads that are probed into the guest. Gives back where in their files the places
    /// are, or which one is not there.
    fn user_places(&mut self, trace: &TraceSetup) -> Result<Result<UserPlaces, String>, Death> {
        let mut places = UserPlaces::new();
        for place in trace.events.iter().filter_map(EventSpec::user_place) {
            if let Err(reason) = self.push_workload(&place.program)? {
                return Ok(Err(reason));
            }
            let Some(program) = self.guest.workloads.get(&*place.program) else { continue };
            match offset_of(program, place) {
                Ok(offset) => places.insert(place.clone(), offset),
                Err(reason) => return Ok(Err(reason)),
            };
        }
        Ok(Ok(places))
    }

    /// What a probe on a function that is not there may have meant.
    fn hint(&self, definition: &str) -> Option<String> {
        let symbol = definition.split(' ').nth(1)?.split('+').next()?;
        let map = self.kernel.functions().ok()?;
        let functions = || map.lines().filter_map(|line| line.split(' ').nth(2));
        if symbol.contains(':') || functions().any(|name| name == symbol) {
            return None;
        }
        let nearest = nearest(symbol, functions());
        let nearest = nearest.map(|name| format!("; the nearest is `{name}`")).unwrap_or_default();
        Some(format!("`{symbol}` is no function of this kernel{nearest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bootconfig_that_is_refused_is_told_in_the_kernels_words() {
        let check = |log: &str, expect: Option<&str>| assert_eq!(refused_bootconfig(log).as_deref(), expect);
        check("<6>[    0.000000] Load bootconfig: 24 bytes 3 nodes\n<3>[    0.1] pci: no\n", None);
        check(
            "<3>Failed to parse bootconfig: No closing brace at 12.\n",
            Some("the kernel refused the bootconfig: Failed to parse bootconfig: No closing brace at 12."),
        );
        check(
            "<3>[    0.1] trace_boot: Failed to add probe: p:kprobes/x nope\n\
             <3>[    0.1] trace_boot: Failed to enable event node: kprobes:x\n",
            Some(
                "the kernel refused the bootconfig: trace_boot: Failed to add probe: p:kprobes/x nope\n\
                 trace_boot: Failed to enable event node: kprobes:x",
            ),
        );
    }
}
