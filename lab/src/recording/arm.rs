//! Arming: the writes of the plan, and the kernel's reason for refusing one.

use super::{
    files::Files,
    link::Link,
    refusal::{mark_arming, reason},
};
use crate::{
    guest::offset_of,
    kernel::Kernel,
    machine::Death,
    plan::Plan,
    scenario::{Errno, EventSpec, Scenario, TraceSetup, UserPlaces},
    words::nearest_is,
};
use protocol::{Reply, Request};

/// Returns the errors that the kernel logs when it refuses a bootconfig or a part of it (init/main.c,
/// kernel/trace/trace_boot.c). It boots without it.
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
        // After the time, if there is one.
        Some(if line.starts_with('[') { line.split_once("] ")?.1 } else { line })
    };
    let of_bootconfig = |text: &&str| BEGINNINGS.iter().any(|begins| text.starts_with(begins));
    let errors = log.lines().filter_map(text);
    let refused: Vec<_> = errors.filter(of_bootconfig).take(REFUSALS_SHOWN).collect();
    (!refused.is_empty()).then(|| format!("the kernel refused the bootconfig: {}", refused.join("\n")))
}

/// The maximum number of lines about a refused bootconfig that are shown.
const REFUSALS_SHOWN: usize = 8;

/// Returns the kernel's reason for refusing the scenario's bootconfig, if it did.
pub(super) fn refused_boot(link: &mut Link<'_>, scenario: &Scenario) -> Result<Option<String>, Death> {
    match scenario.bootconfig {
        Some(_) => Ok(refused_bootconfig(&link.kernel_log()?)),
        None => Ok(None),
    }
}

/// Arms the scenario's trace. If the kernel refuses a write, returns which one, and why.
pub(super) fn arm(
    link: &mut Link<'_>,
    files: &mut Files<'_>,
    kernel: &Kernel,
    scenario: &Scenario,
) -> Result<Option<String>, Death> {
    let places = match user_places(link, files, &scenario.trace)? {
        Ok(places) => places,
        Err(reason) => return Ok(Some(reason)),
    };
    let plan = Plan::of(scenario, &places);
    for path in &plan.directories {
        if let Reply::Errno { errno, .. } = link.call(&Request::MakeDirectory { path: path.clone() })? {
            return Ok(Some(format!("cannot make `{path}`: {}", Errno::from_number(errno))));
        }
    }
    mark_arming(link);
    let writes: Vec<_> =
        plan.writes.iter().filter(|arm| !link.machine.is_prepared(&arm.file, &arm.text)).collect();
    let requests: Vec<_> = writes
        .iter()
        .map(|arm| Request::WriteFile {
            path: arm.file.clone(),
            data: format!("{}\n", arm.text).into_bytes(),
            mode: arm.mode,
        })
        .collect();
    let replies = link.call_all(&requests)?;
    let refused = writes.iter().zip(&replies).find_map(|(arm, reply)| match reply {
        Reply::Errno { errno, .. } => Some((arm, *errno)),
        _ => None,
    });
    let Some((arm, errno)) = refused else { return Ok(None) };
    let said = reason(link, &arm.text)?;
    let hint = if arm.file == "kprobe_events" { hint(kernel, &arm.text) } else { None };
    let what = format!("cannot write `{}` to `{}`: {}", arm.text, arm.file, Errno::from_number(errno));
    Ok(Some([Some(what), said, hint].into_iter().flatten().collect::<Vec<_>>().join("\n")))
}

/// Copies the workloads that are probed into the guest. Returns the offsets of the probed places in their
/// files, or which place does not exist.
fn user_places(
    link: &mut Link<'_>,
    files: &mut Files<'_>,
    trace: &TraceSetup,
) -> Result<Result<UserPlaces, String>, Death> {
    let mut places = UserPlaces::new();
    for place in trace.events.iter().filter_map(EventSpec::user_place) {
        if let Err(reason) = files.push_workload(link, &place.program)? {
            return Ok(Err(reason));
        }
        let Some(program) = files.guest.workloads.get(&*place.program) else { continue };
        match offset_of(program, place) {
            Ok(offset) => places.insert(place.clone(), offset),
            Err(reason) => return Ok(Err(reason)),
        };
    }
    Ok(Ok(places))
}

/// Returns the function that a probe on a missing function may have meant.
fn hint(kernel: &Kernel, definition: &str) -> Option<String> {
    let symbol = definition.split(' ').nth(1)?.split('+').next()?;
    let map = kernel.functions().ok()?;
    let functions = || map.lines().filter_map(|line| line.split(' ').nth(2));
    if symbol.contains(':') || functions().any(|name| name == symbol) {
        return None;
    }
    Some(format!("`{symbol}` is not a function of this kernel{}", nearest_is(symbol, functions())))
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
