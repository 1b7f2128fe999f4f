//! Scenario × Kernel → why a function that the scenario wants to probe or trace cannot be, before a
//! machine is started for it.
//!
//! Looked at is what is armed before the first step, and hooks that have to succeed. What a step
//! writes to tracefs itself may be meant to be refused. Functions of modules, globs and addresses are
//! for the kernel to judge; so is what a kernel as it was shipped does not tell: where ftrace has
//! sites in it, and what is on its kprobe blacklist.

mod asked;
mod functions;
mod inlined;
mod read;

pub use functions::{Functions, Obstacle, Want};

use super::Unfit;
use crate::{kernel::Kernel, scenario::Scenario};
use anyhow::Result;
use asked::Asked;

/// What keeps this kernel from having the scenario's probes and filters, the first of it.
///
/// # Errors
/// The kernel's files cannot be read.
pub(super) fn check(scenario: &Scenario, kernel: &Kernel) -> Result<Result<(), Unfit>> {
    for asked in asked::of(scenario) {
        let mut families = asked.families.iter();
        if let Some(symbol) = families.find(|symbol| !kernel.config().is_set(symbol)) {
            let reason = format!("{} needs CONFIG_{symbol}, which is not set in this kernel", asked.what);
            return Ok(Err(Unfit::Unsupported(reason)));
        }
        if let Some(unfit) = obstacle(&asked, scenario, kernel)? {
            return Ok(Err(unfit));
        }
    }
    Ok(Ok(()))
}

fn obstacle(asked: &Asked<'_>, scenario: &Scenario, kernel: &Kernel) -> Result<Option<Unfit>> {
    // Of a kernel that was shipped a guest that does not boot has told nothing.
    if !kernel.knows_functions() {
        return Ok(None);
    }
    let functions = kernel.probeable()?;
    let Some(obstacle) = functions.obstacle(asked.want, asked.name) else { return Ok(None) };
    if obstacle != Obstacle::Missing {
        let reason = told(functions, asked, &obstacle.to_string(), &[]);
        return Ok(Some(Unfit::Unsupported(reason)));
    }
    // It may be in a module that is there when the function is looked for.
    if asked::of_module(asked, scenario) || kernel.is_shipped() {
        return Ok(None);
    }
    let inlined = match kernel.vmlinux() {
        Some(vmlinux) => inlined::inlined(&vmlinux, asked.name)?,
        None => None,
    };
    Ok(Some(match inlined {
        // The kernel's source has it: another compiler, or another kernel, may leave it a function.
        Some(into) => {
            let why = inlined::reason(&into);
            Unfit::Unsupported(told(functions, asked, &why, &into))
        }
        None => Unfit::Invalid(told(functions, asked, &obstacle.to_string(), &[])),
    }))
}

/// `the kprobe on `vfs_raed` cannot be: …; the nearest that can be probed is `vfs_read``
fn told(functions: &Functions, asked: &Asked<'_>, why: &str, into: &[String]) -> String {
    let can_be = match asked.want {
        Want::Kprobe => "probed",
        Want::Ftrace => "traced",
    };
    let nearest = functions.nearest(asked.want, asked.name, into);
    let nearest = nearest.map(|name| format!("; the nearest that can be {can_be} is `{name}`"));
    format!("{} on `{}` cannot be: {why}{}", asked.what, asked.name, nearest.unwrap_or_default())
}
