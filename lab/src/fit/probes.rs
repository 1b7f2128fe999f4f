//! Scenario × Kernel → the scenario with its paths replaced by fetch arguments for this kernel.
//!
//! The kernels that a scenario is for are those that meet its `requires`. On such a kernel its probes can
//! fail in two ways:
//!
//! - The kernel has the name, but does not support the probe: the function is inlined, notrace or on the
//!   kprobe blacklist. The scenario is *unsupported*.
//! - The kernel does not have the name. A function or member that was added in 6.5 looks the same as a
//!   misspelled one, so the scenario is *invalid* there and fails; otherwise a typo would be unsupported
//!   everywhere and go unnoticed. For a later addition, write `requires: { kernel: ">=6.5" }`.

use super::{ProbeLocation, Resolver, preflight, resolve::KnownParameter, rust};
use crate::{
    kernel::Kernel,
    scenario::{
        Args, EventSpec, FetchArg, FromText, PathError, Probe, ProbeKind, Prototype, Scenario,
        fetch::prototype::Parameter,
    },
};
use anyhow::Result;
use std::borrow::Cow;

/// Why a scenario's probes do not fit a kernel that meets its `requires`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The kernel does not support them, for this reason.
    Unsupported(String),
    /// They do not match the kernel.
    Invalid(String),
}

impl Unfit {
    /// The reason, as text.
    pub fn reason(&self) -> &str {
        match self {
            Unfit::Unsupported(reason) | Unfit::Invalid(reason) => reason,
        }
    }
}

/// Returns the scenario for this kernel, with symbols in place of paths of Rust, and fetch arguments in place of paths.
///
/// # Errors
/// The kernel's files cannot be read.
pub(crate) fn resolve_probes<'a>(
    scenario: &'a Scenario,
    kernel: &Kernel,
) -> Result<Result<Cow<'a, Scenario>, Unfit>> {
    let scenario = match rust::with_symbols(scenario, kernel)? {
        Ok(scenario) => scenario,
        Err(unfit) => return Ok(Err(unfit)),
    };
    if let Err(unfit) = preflight::check(&scenario, kernel)? {
        return Ok(Err(unfit));
    }
    for event in &scenario.trace.events {
        if let EventSpec::Function(probe) = event
            && let Err(unfit) = confirmed(&probe.function, kernel)?
        {
            return Ok(Err(unfit));
        }
    }
    let has_paths = |event: &EventSpec| event.probe().is_some_and(|probe| has_path(probe.args));
    if !scenario.trace.events.iter().any(has_paths) {
        return Ok(Ok(scenario));
    }
    if !kernel.config().is_set("DEBUG_INFO_BTF") {
        let reason = "its paths need BTF, but CONFIG_DEBUG_INFO_BTF is not set in this kernel";
        return Ok(Err(Unfit::Unsupported(reason.to_owned())));
    }
    let mut scenario = scenario.into_owned();
    for event in &mut scenario.trace.events {
        let Some(probe) = event.probe() else { continue };
        match resolved(probe, kernel)? {
            Ok(Some(args)) => event.args_mut().into_iter().for_each(|own| *own = args.clone()),
            Ok(None) => {}
            Err(unfit) => return Ok(Err(unfit)),
        }
    }
    Ok(Ok(Cow::Owned(scenario)))
}

/// Checks a prototype against the kernel's BTF, if there is any. The fetch arguments come from the prototype
/// itself.
fn confirmed(prototype: &Prototype, kernel: &Kernel) -> Result<Result<(), Unfit>> {
    if !kernel.config().is_set("DEBUG_INFO_BTF") {
        return Ok(Ok(()));
    }
    let Ok(resolver) = Resolver::new(kernel.types()?, prototype.function(), ProbeLocation::Entry) else {
        return Ok(Ok(()));
    };
    Ok(prototype.parameters().iter().try_for_each(|parameter| confirm(parameter, &resolver)).map_err(
        |error| {
            let of = resolver.prototype();
            let shown = error.shown(prototype.as_str());
            Unfit::Invalid(format!("`{}` does not match the prototype `{of}`: {shown}", prototype.as_str()))
        },
    ))
}

/// Checks a parameter of a prototype against the kernel's BTF.
///
/// # Errors
/// The function lacks the parameter, or it has another size.
fn confirm(parameter: &Parameter, resolver: &Resolver<'_>) -> Result<(), PathError> {
    let found: KnownParameter = resolver
        .parameter_of(parameter.number)
        .map_err(|error| PathError { at: parameter.at.clone(), ..error })?;
    let fails = |message: String| Err(PathError { message, at: parameter.at.clone() });
    let spelled = &found.spelled;
    if !parameter.behind.is_empty() || parameter.of.is_in_memory() {
        // A number of 8 bytes may hold an address.
        return match found.size {
            8 => Ok(()),
            _ => fails(format!("`{}` is a `{spelled}` on this kernel, not a pointer", found.name)),
        };
    }
    match found.size == parameter.of.size() {
        true => Ok(()),
        false => fails(format!(
            "`{}` is a `{spelled}` of {} bytes on this kernel, not of {}",
            found.name,
            found.size,
            parameter.of.size()
        )),
    }
}

fn has_path(args: &Args) -> bool {
    args.0.values().any(FetchArg::is_path)
}

/// Returns the arguments of a probe with its paths resolved; `None` if they have no paths.
fn resolved(probe: Probe<'_>, kernel: &Kernel) -> Result<Result<Option<Args>, Unfit>> {
    if !has_path(probe.args) {
        return Ok(Ok(None));
    }
    let (name, _) = probe.args.0.iter().find(|(_, fetch)| fetch.is_path()).unzip();
    let what = name.map(|name| format!("`{name}` of the probe on `{}`", probe.target)).unwrap_or_default();
    let place = match place(probe) {
        Ok(place) => place,
        Err(why) => return Ok(Err(Unfit::Invalid(format!("cannot follow the path {what}: {why}")))),
    };
    let resolver = match probe.kind {
        ProbeKind::Tprobe => Resolver::of_tracepoint(kernel.types()?, probe.target),
        _ => Resolver::new(kernel.types()?, probe.target, place),
    };
    let resolver = match resolver {
        Ok(resolver) => resolver,
        Err(error) => {
            return Ok(Err(Unfit::Unsupported(format!("cannot follow the path {what}: {error:#}"))));
        }
    };
    let mut args = probe.args.clone();
    for (name, fetch) in &mut args.0 {
        if !fetch.is_path() {
            continue;
        }
        let invalid = |why: String| {
            let of = resolver.prototype();
            Unfit::Invalid(format!("cannot follow the path `{name}` of the probe on `{of}`: {why}"))
        };
        match resolver.resolve(fetch) {
            Ok(found) if found.fetch_arg.contains("$arg") && place_lacks_parameters(probe.kind, kernel) => {
                let reason = format!(
                    "`{name}` of the probe on `{}` is a parameter, which return probes support since 6.9",
                    probe.target
                );
                return Ok(Err(Unfit::Unsupported(reason)));
            }
            Ok(found) => match FetchArg::from_text(&found.fetch_arg) {
                Ok(found) => *fetch = found,
                Err(why) => return Ok(Err(invalid(why))),
            },
            Err(error) => return Ok(Err(invalid(error.shown(fetch)))),
        }
    }
    Ok(Ok(Some(args)))
}

/// Returns whether parameters are not available at such a probe.
fn place_lacks_parameters(kind: ProbeKind, kernel: &Kernel) -> bool {
    let returns = matches!(kind, ProbeKind::Kretprobe | ProbeKind::Fexit);
    returns && ProbeLocation::of_return(&kernel.version) == ProbeLocation::Return { parameters: false }
}

/// Returns the place of this probe, which determines the values that its paths can start from.
fn place(probe: Probe<'_>) -> Result<ProbeLocation, String> {
    let target = probe.target;
    let place = match probe.kind {
        ProbeKind::Kprobe | ProbeKind::Fprobe | ProbeKind::Tprobe => ProbeLocation::Entry,
        // Parameters that the kernel lacks there are detected after resolving.
        ProbeKind::Kretprobe | ProbeKind::Fexit => ProbeLocation::Return { parameters: true },
        ProbeKind::Uprobe | ProbeKind::Uretprobe => {
            return Err("the kernel's BTF does not describe the program: write a fetch argument such as %x0"
                .to_owned());
        }
        ProbeKind::Eprobe => {
            return Err(format!("an event probe fetches fields of `{target}`: write them as in $next_pid"));
        }
    };
    if target.contains('+') {
        return Err(format!(
            "parameters are in their registers only at the entry of a function, and `{target}` is after it: \
             write a fetch argument such as %x0"
        ));
    }
    if target.contains(':') || target.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!(
            "`{target}` is not the name of a function of the kernel itself, so its types are unknown: write \
             a fetch argument such as +0($arg1):u64"
        ));
    }
    Ok(place)
}
