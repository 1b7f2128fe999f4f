//! Scenario × Kernel → why a function cannot be probed or traced, found before a machine starts.
//!
//! Checks the probes and filters armed before the first step, and hooks that must succeed. Steps that
//! write to tracefs are not checked, since they may expect an error. Functions of modules, globs and
//! addresses are left to the kernel; so are, for a distribution kernel, its ftrace sites and its kprobe
//! blacklist, which are not known.

mod targets;

use super::{Unfit, resolve::tracepoint_stub};
use crate::{
    kernel::{self, Functions, Kernel, Obstacle, Want},
    scenario::Scenario,
};
use anyhow::Result;
use targets::Target;

/// Returns the first reason why this kernel cannot have the scenario's probes and filters.
///
/// # Errors
/// The kernel's files cannot be read.
pub(super) fn check(scenario: &Scenario, kernel: &Kernel) -> Result<Result<(), Unfit>> {
    for asked in targets::of(scenario) {
        let mut symbols = asked.symbols.iter();
        if let Some(symbol) = symbols.find(|symbol| !kernel.config().is_set(symbol)) {
            let reason = format!("the {} needs CONFIG_{symbol}, which is not set in this kernel", asked.what);
            return Ok(Err(Unfit::Unsupported(reason)));
        }
        if let Some(unfit) = obstacle(&asked, scenario, kernel)? {
            return Ok(Err(unfit));
        }
    }
    Ok(Ok(()))
}

fn obstacle(asked: &Target<'_>, scenario: &Scenario, kernel: &Kernel) -> Result<Option<Unfit>> {
    // A distribution kernel whose guest did not boot: its symbols are unknown.
    if !kernel.knows_functions() {
        return Ok(None);
    }
    let functions = kernel.probeable()?;
    let Some(obstacle) = functions.obstacle(asked.want, &asked.name) else { return Ok(None) };
    if obstacle != Obstacle::Missing {
        let reason = told(functions, asked, &obstacle.to_string(), &[]);
        return Ok(Some(Unfit::Unsupported(reason)));
    }
    // It may be in a module that is loaded by then.
    if targets::of_module(asked, scenario) || kernel.is_distribution() {
        return Ok(None);
    }
    let inlined = match kernel.vmlinux() {
        Some(vmlinux) => kernel::inlined(&vmlinux, &asked.name)?,
        None => None,
    };
    Ok(Some(match inlined {
        // The source has it: a different compiler or kernel may keep it as a function.
        Some(into) => {
            let why = kernel::inlined_reason(&into);
            Unfit::Unsupported(told(functions, asked, &why, &into))
        }
        None => match kernel::omitted(&kernel.source, kernel.config(), &asked.name)? {
            Some(kernel::Omitted { file, symbol }) => {
                let why = format!(
                    "CONFIG_{symbol} is not set in this kernel, and `{}`, which defines it, is not built",
                    file.display()
                );
                Unfit::Unsupported(told(functions, asked, &why, &[]))
            }
            None => Unfit::Invalid(told(functions, asked, &obstacle.to_string(), &[])),
        },
    }))
}

/// Such as ``cannot probe `vfs_raed` (kprobe): …; try `vfs_read` ``.
fn told(functions: &Functions, asked: &Target<'_>, why: &str, into: &[String]) -> String {
    let verb = match asked.want {
        Want::Kprobe => "probe",
        Want::Ftrace => "trace",
    };
    let nearest = functions.nearest(asked.want, &asked.name, into);
    let nearest = nearest.map(|name| format!("; try `{}`", shown(asked, name)));
    let name = shown(asked, &asked.name);
    format!("cannot {verb} `{name}` ({}): {why}{}", asked.what, nearest.unwrap_or_default())
}

/// Returns the name as a scenario writes it: that of a tracepoint instead of its stub.
fn shown<'a>(asked: &Target<'_>, name: &'a str) -> &'a str {
    match asked.what {
        targets::TRACEPOINT_PROBE => name.strip_prefix(&*tracepoint_stub("")).unwrap_or(name),
        _ => name,
    }
}
