//! Hooks: ftrace_ops of the hook module, with and without IPMODIFY.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{FUNCTIONS, Function, Named},
    state::{Aside, Errno, Hook, Model},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What is done to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum HookChange {
    /// It is made, with its functions, and registered.
    Add {
        /// Whether it has the flag IPMODIFY.
        ipmodify: bool,
    },
    /// It is unregistered and removed.
    Remove,
    /// Its functions are added to its filter.
    Widen,
    /// Its functions are removed from its filter.
    Narrow,
    /// It is registered again.
    Enable,
    /// It is unregistered.
    Disable,
}

/// Changes a hook.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Hooks(
    pub(in crate::explore) Named,
    pub(in crate::explore) HookChange,
    pub(in crate::explore) Vec<Function>,
);

impl Family for Hooks {
    const WEIGHT: usize = 8;

    fn draw(draw: &mut Draw<'_>) -> Hooks {
        let name = draw.hook();
        let changes = [
            HookChange::Add { ipmodify: false },
            HookChange::Add { ipmodify: true },
            HookChange::Remove,
            HookChange::Widen,
            HookChange::Narrow,
            HookChange::Enable,
            HookChange::Disable,
        ];
        let change = draw.one(&changes);
        let functions = match change {
            HookChange::Add { ipmodify: true } if draw.rarely(8) => Vec::new(),
            HookChange::Add { .. } if draw.random.bool() => FUNCTIONS.to_vec(),
            HookChange::Add { .. } | HookChange::Widen | HookChange::Narrow => vec![draw.function()],
            _ => Vec::new(),
        };
        Hooks(name, change, functions)
    }

    /// An ftrace_ops with an empty filter would trace all functions.
    fn knows(&self, model: &Model) -> bool {
        let Hooks(name, change, functions) = self;
        if model.facts.known.off_filter && model.ftrace_off && !matches!(change, HookChange::Add { .. }) {
            return false;
        }
        if !functions.iter().all(|function| model.has(*function)) {
            return false;
        }
        match change {
            HookChange::Add { ipmodify } => *ipmodify || !functions.is_empty(),
            HookChange::Widen => !functions.is_empty(),
            HookChange::Narrow => {
                let all = |hook: &Hook| functions.iter().all(|function| hook.functions.contains(function));
                functions.len() == 1
                    && model.hooks.get(name).is_none_or(|hook| all(hook) && hook.functions.len() > 1)
            }
            _ => true,
        }
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        let Hooks(name, change, functions) = self;
        let functions: BTreeSet<Function> = functions.iter().copied().collect();
        if let HookChange::Add { ipmodify } = *change {
            if model.hooks.contains_key(name) {
                return Err("EEXIST");
            }
            // It would modify all functions.
            if ipmodify && functions.is_empty() {
                return Err("EINVAL");
            }
            if ipmodify && model.is_modified(*name, &functions) {
                return Err("EBUSY");
            }
            model.hooks.insert(*name, Hook { ipmodify, registered: true, functions, hits: Aside(0) });
            return Ok(());
        }
        let hook = model.hooks.get(name).ok_or("ENOENT")?.clone();
        let wanted = match change {
            HookChange::Widen => hook.functions.union(&functions).copied().collect(),
            HookChange::Narrow => hook.functions.difference(&functions).copied().collect(),
            _ => hook.functions.clone(),
        };
        let registered = match change {
            HookChange::Enable if hook.registered => return Err("EALREADY"),
            HookChange::Disable if !hook.registered => return Err("EALREADY"),
            HookChange::Remove => {
                model.hooks.remove(name);
                return Ok(());
            }
            HookChange::Enable => true,
            HookChange::Disable => false,
            _ => hook.registered,
        };
        if registered && hook.ipmodify && model.is_modified(*name, &wanted) {
            return Err("EBUSY");
        }
        model.hooks.insert(*name, Hook { registered, functions: wanted, ..hook });
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let Hooks(name, change, functions) = self;
        let listed = |sign: &str| {
            let functions = functions.iter().map(|function| format!("{sign}{}", function.symbol()));
            functions.collect::<Vec<_>>().join(",")
        };
        let command = match change {
            HookChange::Add { .. } if functions.is_empty() => format!("+{name} flags=ipmodify"),
            HookChange::Add { ipmodify: false } => format!("+{name} symbol={}", listed("")),
            HookChange::Add { ipmodify: true } => format!("+{name} symbol={} flags=ipmodify", listed("")),
            HookChange::Remove => format!("-{name}"),
            HookChange::Widen => format!("{name} filter {}", listed("+")),
            HookChange::Narrow => format!("{name} filter {}", listed("-")),
            HookChange::Enable => format!("{name} enable"),
            HookChange::Disable => format!("{name} disable"),
        };
        format!("hook: {command:?}")
    }

    fn look(model: &Model) -> Vec<String> {
        model.hooks.iter().map(|(name, hook)| format!("hits: {name}, count: {}", *hook.hits)).collect()
    }

    fn tear_down(model: &Model) -> Vec<Hooks> {
        model.hooks.keys().map(|name| Hooks(*name, HookChange::Remove, Vec::new())).collect()
    }
}

impl Model {
    /// Returns whether another registered ftrace_ops modifies the instruction pointer of one of the functions.
    fn is_modified(&self, name: Named, functions: &BTreeSet<Function>) -> bool {
        let others = self.hooks.iter().filter(|(other, _)| **other != name);
        others
            .map(|(_, hook)| hook)
            .any(|hook| hook.registered && hook.ipmodify && !hook.functions.is_disjoint(functions))
    }
}
