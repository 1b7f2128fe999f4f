//! Scenario × Kernel → the scenario as this kernel can run it, with what this kernel's probe parser takes in place of paths.
//!
//! A scenario says by `requires` which kernels it is for. On such a kernel there are two ways in which
//! its probes cannot be what it says:
//!
//! - The kernel has what is named, and it cannot be had there: a function that is inlined, notrace, on
//!   the kprobe blacklist. The scenario is *unsupported*.
//! - The kernel knows nothing of that name. A function or member that came with 6.5 and a misspelled one look the
//!   same, so the scenario is *invalid* there and fails, lest a typo be unsupported everywhere and
//!   nobody sees it. Whoever means what came later writes `requires: { kernel: ">=6.5" }`.

use super::{Place, Prototype, Resolver, preflight};
use crate::{
    kernel::Kernel,
    scenario::{Args, EventSpec, FetchArg, FromText, Probe, ProbeKind, Scenario},
    verdict::Status,
};
use anyhow::Result;
use std::borrow::Cow;

/// Why a scenario's probes cannot be what it says, on a kernel that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The kernel does not offer it, for this reason.
    Unsupported(String),
    /// It says something of the kernel that is not so.
    Invalid(String),
}

impl Unfit {
    /// How the scenario ends by it.
    pub fn status(&self) -> Status {
        match self {
            Unfit::Unsupported(_) => Status::Unsupported,
            Unfit::Invalid(_) => Status::Failed,
        }
    }

    /// What is wrong, in words.
    pub fn reason(&self) -> &str {
        match self {
            Unfit::Unsupported(reason) | Unfit::Invalid(reason) => reason,
        }
    }
}

/// The scenario as this kernel can run it: with fetch args in place of its paths.
///
/// # Errors
/// The kernel's files cannot be read.
pub fn fit<'a>(scenario: &'a Scenario, kernel: &Kernel) -> Result<Result<Cow<'a, Scenario>, Unfit>> {
    if let Err(unfit) = preflight::check(scenario, kernel)? {
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
        return Ok(Ok(Cow::Borrowed(scenario)));
    }
    if !kernel.config().is_set("DEBUG_INFO_BTF") {
        let reason = "its paths need the kernel's types, and CONFIG_DEBUG_INFO_BTF is not set in this kernel";
        return Ok(Err(Unfit::Unsupported(reason.to_owned())));
    }
    let mut scenario = scenario.clone();
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

/// Whether a prototype is that of the function, as far as the kernel's types tell: it says itself how
/// everything is fetched.
fn confirmed(prototype: &Prototype, kernel: &Kernel) -> Result<Result<(), Unfit>> {
    if !kernel.config().is_set("DEBUG_INFO_BTF") {
        return Ok(Ok(()));
    }
    let Ok(resolver) = Resolver::new(kernel.types()?, prototype.function(), Place::Entry) else {
        return Ok(Ok(()));
    };
    Ok(prototype.confirm(&resolver).map_err(|error| {
        let of = resolver.prototype();
        let shown = error.shown(prototype.as_str());
        Unfit::Invalid(format!("`{}` is not the prototype of `{of}`: {shown}", prototype.as_str()))
    }))
}

fn has_path(args: &Args) -> bool {
    args.0.values().any(FetchArg::is_path)
}

/// The args of a probe without paths; `None` if there are none in them.
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
    let resolver = match Resolver::new(kernel.types()?, probe.target, place) {
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
                    "`{name}` of the probe on `{}` is of a parameter, which probes at a return have from 6.9 on",
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

/// Whether there are no parameters any more where such a probe is.
fn place_lacks_parameters(kind: ProbeKind, kernel: &Kernel) -> bool {
    let returns = matches!(kind, ProbeKind::Kretprobe | ProbeKind::Fexit);
    returns && Place::of_return(&kernel.version) == Place::Return { parameters: false }
}

/// What of a function is at hand where this probe is.
fn place(probe: Probe<'_>) -> Result<Place, String> {
    let target = probe.target;
    let place = match probe.kind {
        ProbeKind::Kprobe | ProbeKind::Fprobe => Place::Entry,
        // Where the kernel has no parameters then, that is told of what comes out.
        ProbeKind::Kretprobe | ProbeKind::Fexit => Place::Return { parameters: true },
        ProbeKind::Uprobe | ProbeKind::Uretprobe => {
            return Err("the kernel's types are not its program's: write a fetch arg such as %x0".to_owned());
        }
        ProbeKind::Eprobe => {
            return Err(format!("it fetches fields of `{target}`: write them as in $next_pid"));
        }
    };
    if target.contains('+') {
        return Err(format!(
            "parameters are where they are passed at a function's entry alone, and `{target}` is behind it: \
             write a fetch arg such as %x0"
        ));
    }
    if target.contains(':') || target.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!(
            "`{target}` is no function by name of the kernel itself, whose types are known: write a fetch arg \
             such as +0($arg1):u64"
        ));
    }
    Ok(place)
}
