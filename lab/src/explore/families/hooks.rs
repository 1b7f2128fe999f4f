//! Hooks: ftrace_ops of the hook module, with and without IPMODIFY, and with direct calls.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{FUNCTIONS, Function, Named},
    state::{Aside, Errno, Hook, Model},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a hook does to its functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Way {
    /// It is called back.
    Callback,
    /// It is called back, and may change the instruction pointer.
    Ipmodify,
    /// They call a trampoline of its.
    Direct,
}

impl Way {
    /// Returns whether no two of these can be at one function.
    fn excludes(self, other: Way) -> bool {
        self != Way::Callback && other != Way::Callback
    }
}

/// What is done to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum HookChange {
    /// It is made, with its functions, and registered.
    Add(Way),
    /// The same with IPMODIFY, and filters that nobody has set.
    AddUnset,
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
            HookChange::Add(Way::Callback),
            HookChange::Add(Way::Ipmodify),
            HookChange::AddUnset,
            HookChange::Add(if draw.model.facts.direct { Way::Direct } else { Way::Callback }),
            HookChange::Remove,
            HookChange::Widen,
            HookChange::Narrow,
            HookChange::Enable,
            HookChange::Disable,
        ];
        let change = draw.one(&changes);
        let functions = match change {
            HookChange::Add(Way::Ipmodify) if draw.rarely(8) => Vec::new(),
            HookChange::Add(_) if draw.random.bool() => FUNCTIONS.to_vec(),
            HookChange::Add(_) | HookChange::Widen | HookChange::Narrow => vec![draw.function()],
            _ => Vec::new(),
        };
        Hooks(name, change, functions)
    }

    /// An ftrace_ops with an empty filter would trace all functions.
    fn knows(&self, model: &Model) -> bool {
        let Hooks(name, change, functions) = self;
        if model.facts.known.off_filter && model.ftrace_off && !matches!(change, HookChange::Add(_)) {
            return false;
        }
        if !functions.iter().all(|function| model.has(*function)) {
            return false;
        }
        let way = model.hooks.get(name).map(|hook| hook.way);
        let is_extended = model.facts.known.ipmodify_direct && way == Some(Way::Ipmodify);
        match change {
            // The functions of a direct call are fixed.
            HookChange::Widen | HookChange::Narrow if way == Some(Way::Direct) => false,
            HookChange::Widen if is_extended && model.has_direct(functions) => false,
            HookChange::Add(way) => *way == Way::Ipmodify || !functions.is_empty(),
            HookChange::AddUnset => !model.facts.known.ipmodify_unset,
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
        let change = match change {
            // It would be on all functions.
            HookChange::AddUnset => &HookChange::Add(Way::Ipmodify),
            other => other,
        };
        if let HookChange::Add(way) = *change {
            if model.hooks.contains_key(name) {
                return Err("EEXIST");
            }
            // It would modify all functions.
            if way == Way::Ipmodify && functions.is_empty() {
                return Err("EINVAL");
            }
            if model.is_refused((Some(*name), way), &functions) {
                return Err("EBUSY");
            }
            model.hooks.insert(*name, Hook { way, registered: true, functions, hits: Aside(0) });
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
        if registered && model.is_refused((Some(*name), hook.way), &wanted) {
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
            HookChange::Add(_) if functions.is_empty() => format!("+{name} flags=ipmodify"),
            HookChange::Add(Way::Callback) => format!("+{name} symbol={}", listed("")),
            HookChange::Add(Way::Ipmodify) => format!("+{name} symbol={} flags=ipmodify", listed("")),
            HookChange::Add(Way::Direct) => format!("+{name} symbol={} action=direct", listed("")),
            HookChange::AddUnset => format!("+{name} flags=ipmodify filters=unset"),
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
    /// Returns whether another registered ftrace_ops keeps that of a hook, or that of the livepatch, from one of the
    /// functions.
    pub(super) fn is_refused(
        &self,
        (name, way): (Option<Named>, Way),
        functions: &BTreeSet<Function>,
    ) -> bool {
        let others = self.hooks.iter().filter(|(other, _)| Some(**other) != name);
        let mut hooks = others.map(|(_, hook)| hook).filter(|hook| hook.registered);
        hooks.any(|hook| hook.way.excludes(way) && !hook.functions.is_disjoint(functions))
            || way.excludes(Way::Ipmodify) && functions.iter().any(|function| self.is_livepatched(*function))
    }

    /// Returns whether one of the functions has a direct call.
    fn has_direct(&self, functions: &[Function]) -> bool {
        let mut hooks = self.hooks.values().filter(|hook| hook.registered && hook.way == Way::Direct);
        hooks.any(|hook| functions.iter().any(|function| hook.functions.contains(function)))
    }
}
