//! Scenario × Kernel → a description of what it arms, does and expects. No guest is started.

use crate::{
    fit::{ProbeLocation, Resolver, Unfit, fit, resolve_probes},
    kernel::Kernel,
    plan::cmdline,
    scenario::{
        Boot, Describe, EventSpec, FetchArg, Probe, ProbeKind, Scenario, Timespan, TraceSetup, UserPlaces,
        Written, requirements,
    },
};
use anyhow::Result;
use std::fmt::Write;

/// Maximum number of addresses of a function that are listed.
const PLACES_SHOWN: usize = 4;

/// Explains the scenario called `name`, as `kernel` would run it.
///
/// # Errors
/// Fails if the kernel's files cannot be read.
pub fn explain(name: &str, scenario: &Scenario, kernel: &Kernel) -> Result<String> {
    let mut out = format!("{name}\n  {}\n\n", scenario.summary);
    out += &supported(scenario, kernel)?;
    numbered("machine", machine(scenario), &mut out);
    let mut armed = setup(&scenario.trace);
    for event in &scenario.trace.events {
        armed.push(armed_event(scenario, event, kernel)?);
    }
    numbered("armed before the first step", armed, &mut out);
    numbered("steps, in order", sentences(&scenario.steps), &mut out);
    let mut expected = sentences(&scenario.expect);
    expected.extend(end(scenario));
    numbered("expectations", expected, &mut out);
    Ok(out)
}

fn sentences<T: Describe>(parts: &[Written<T>]) -> Vec<String> {
    parts.iter().map(|part| part.describe()).collect()
}

/// Writes a heading and its items; further lines of an item are indented below its first.
fn numbered(heading: &str, items: Vec<String>, out: &mut String) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{heading}");
    for (index, item) in items.iter().enumerate() {
        let _ = writeln!(out, "{:>3}. {}", index + 1, item.replace('\n', "\n       "));
    }
}

/// Describes the requirements of the scenario and whether the kernel meets them.
fn supported(scenario: &Scenario, kernel: &Kernel) -> Result<String> {
    let named = match kernel.name == kernel.version.to_string() {
        true => kernel.name.clone(),
        false => format!("{} ({})", kernel.name, kernel.version),
    };
    let versions = scenario.requires.kernel.iter().map(|versions| format!("kernel {versions}"));
    let config = scenario.requires.config.iter().map(ToString::to_string);
    let required: Vec<_> = versions.chain(config).collect();
    let requires = match required.is_empty() {
        true => "no requirements".to_owned(),
        false => format!("requires {}", required.join(", ")),
    };
    Ok(match fit(scenario, kernel)?.err() {
        None => format!("supported on {named}: {requires}\n"),
        Some(Unfit::Unsupported(reason)) => format!("unsupported on {named}: {reason}\n  {requires}\n"),
        Some(Unfit::Invalid(reason)) => format!("fails on {named} before it runs: {reason}\n  {requires}\n"),
    })
}

/// Describes the machine.
fn machine(scenario: &Scenario) -> Vec<String> {
    let mut machine = vec![match (&scenario.userland, scenario.boot) {
        (Some(userland), _) => {
            let packages = userland.packages.iter().map(|package| format!(", {}", package.as_str()));
            format!(
                "boots for this scenario alone, with the userland {}{}",
                userland.name.as_str(),
                packages.collect::<String>()
            )
        }
        (None, Boot::Snapshot) => "restored from the snapshot of a booted guest".to_owned(),
        (None, Boot::Fresh) => "boots for this scenario alone".to_owned(),
    }];
    let parameters = cmdline(scenario);
    if !parameters.is_empty() {
        machine.push(format!("kernel parameters: {}", parameters.join(" ")));
    }
    if let Some(bootconfig) = &scenario.bootconfig {
        machine.push(format!("bootconfig:\n{}", bootconfig.as_str().trim_end()));
    }
    let modules = scenario.modules();
    if !modules.is_empty() {
        let names: Vec<_> = modules.iter().map(|module| format!("`{module}`")).collect();
        machine.push(format!("modules built for this kernel: {}", names.join(", ")));
    }
    if scenario.reads_memory() {
        machine.push("its memory is read with drgn, which must be installed".to_owned());
    }
    let timeout = Timespan(scenario.timeout);
    machine.push(format!("time limit for all steps: {timeout} on the reference machine"));
    machine
}

/// Describes the parts of `trace:` other than events.
fn setup(trace: &TraceSetup) -> Vec<String> {
    let TraceSetup { tracer, functions, notrace, graph_functions, options, clock, buffer_kb, events: _ } =
        trace;
    let mut lines = Vec::new();
    let mut of = |what: &str, places: Vec<&str>| {
        if !places.is_empty() {
            lines.push(format!("{what} {}", places.join(", ")));
        }
    };
    of("tracer", tracer.iter().map(|line| line.as_str()).collect());
    of("traces only", functions.iter().map(|line| line.as_str()).collect());
    of("never traces", notrace.iter().map(|line| line.as_str()).collect());
    of("graphs the calls of", graph_functions.iter().map(|line| line.as_str()).collect());
    for (option, on) in options {
        lines.push(format!("option {} is {}", option.as_str(), if on.0 { "on" } else { "off" }));
    }
    lines.extend(clock.map(|clock| format!("timestamps from the clock {}", clock.name())));
    lines.extend(buffer_kb.map(|size| format!("ring buffers of {size} KiB per CPU")));
    lines
}

/// Describes an event: its kind, its address and arguments on this kernel, and the line that creates
/// it.
fn armed_event(scenario: &Scenario, event: &EventSpec, kernel: &Kernel) -> Result<String> {
    let mut out = format!("{}:{}, {}", event.group(), event.name(), event.describe());
    for line in requirements(event) {
        let _ = write!(out, "\n{line}");
    }
    if let Some(probe) = event.probe() {
        out += &place(probe, kernel)?;
    }
    // The reasons of other events do not apply to this one.
    let mut alone = scenario.clone();
    alone.trace = TraceSetup { events: vec![event.clone()], ..TraceSetup::default() };
    alone.steps.clear();
    let resolved = match resolve_probes(&alone, kernel)? {
        Ok(resolved) => resolved,
        Err(unfit) => {
            let _ = write!(out, "\nnot on this kernel: {}", unfit.reason());
            return Ok(out);
        }
    };
    let resolved = resolved.trace.events.first();
    let (written, here) = (event.probe(), resolved.and_then(EventSpec::probe));
    if let (Some(written), Some(here)) = (written, here) {
        for ((name, path), (_, fetch)) in written.args.0.iter().zip(&here.args.0) {
            out += &fetched(name.as_str(), path, fetch);
        }
    }
    let definition = resolved.and_then(|event| event.definition(&UserPlaces::new()));
    match definition {
        Some(definition) => {
            let _ = write!(out, "\nwritten to {}: {}", definition.file, definition.line);
        }
        None if event.user_place().is_some() => {
            out += "\nwritten to uprobe_events, once the workload is built and its symbols are known";
        }
        None => {}
    }
    Ok(out)
}

fn fetched(name: &str, path: &FetchArg, fetch: &FetchArg) -> String {
    match path.is_path() {
        true => format!("\n{name} is {path}, on this kernel {fetch}"),
        false => format!("\n{name} is {path}"),
    }
}

/// Describes a probe point on this kernel: its function's prototype and addresses.
fn place(probe: Probe<'_>, kernel: &Kernel) -> Result<String> {
    let kernels_own = match probe.kind {
        ProbeKind::Kprobe | ProbeKind::Kretprobe | ProbeKind::Fprobe | ProbeKind::Fexit => true,
        ProbeKind::Tprobe | ProbeKind::Uprobe | ProbeKind::Uretprobe | ProbeKind::Eprobe => false,
    };
    let function = probe.target.split('+').next().unwrap_or_default();
    if !kernels_own || function.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(String::new());
    }
    if let Some((module, _)) = function.split_once(':') {
        return Ok(format!("\nin the module {module}, at an address known once it is loaded"));
    }
    let mut out = String::new();
    if kernel.config().is_set("DEBUG_INFO_BTF")
        && let Ok(resolver) = Resolver::new(kernel.types()?, function, ProbeLocation::Entry)
    {
        let _ = write!(out, "\n{}", resolver.prototype());
    }
    if kernel.knows_functions() {
        let _ = write!(out, "\n{}", addresses(function, kernel.functions()?));
    }
    Ok(out)
}

/// Returns the addresses of a function, from a list in the format of /proc/kallsyms.
fn addresses(function: &str, functions: &str) -> String {
    let mut words = functions.lines().map(|line| line.split(' '));
    let found = std::iter::from_fn(|| {
        words.find_map(|mut words| {
            let address = words.next()?;
            (words.nth(1) == Some(function)).then(|| format!("0x{address}"))
        })
    });
    let found: Vec<_> = found.take(PLACES_SHOWN + 1).collect();
    match found.as_slice() {
        [] => format!("no function `{function}` in this kernel"),
        [only] => format!("at {only}"),
        several if several.len() > PLACES_SHOWN => {
            format!("at more than {PLACES_SHOWN} addresses, the first is {}", several[0])
        }
        several => format!("at {} addresses: {}", several.len(), several.join(", ")),
    }
}

/// Describes the conditions that apply to every scenario, and those of this one other than its
/// expectations.
fn end(scenario: &Scenario) -> Vec<String> {
    let mut end = Vec::new();
    if let Some(dies) = &scenario.expect_panic {
        let frames: Vec<_> = dies.backtrace.iter().map(|frame| frame.as_str()).collect();
        let backtrace = match frames.is_empty() {
            true => String::new(),
            false => format!("; the backtrace in its memory has {}, innermost first", frames.join(", ")),
        };
        end.push(format!(
            "the kernel panics in the last step; the message {}{backtrace}",
            dies.panic.describe()
        ));
    }
    let patterns = |patterns: &mut dyn Iterator<Item = String>| patterns.collect::<Vec<_>>().join(", ");
    let allowed = patterns(&mut scenario.allow.iter().map(Describe::describe));
    let leaves = patterns(&mut scenario.may_leave.iter().map(|pattern| format!("/{}/", pattern.0.as_str())));
    end.push(match allowed.is_empty() {
        true => "no splat".to_owned(),
        false => format!("the splats {allowed}, and no other"),
    });
    end.push(match leaves.is_empty() {
        true => "no script, and no module that is unloaded, leaves a probe or hook behind".to_owned(),
        false => format!("left behind, and nothing else by a script or a module that is unloaded: {leaves}"),
    });
    if scenario.dump {
        end.push("the guest's memory is kept as `vmcore`".to_owned());
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_at_its_addresses() {
        let functions = "ffff800080000010 T one\nffff800080000020 t two\nffff800080000030 t two\n";
        let check = |function, expect: &str| assert_eq!(addresses(function, functions), expect);
        check("one", "at 0xffff800080000010");
        check("two", "at 2 addresses: 0xffff800080000020, 0xffff800080000030");
        check("on", "no function `on` in this kernel");
        let many = "ffff800080000010 t f\n".repeat(9);
        let expect = "at more than 4 addresses, the first is 0xffff800080000010";
        assert_eq!(addresses("f", &many), expect);
    }
}
