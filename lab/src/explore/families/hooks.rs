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
    /// It has a wrapper called instead, which calls them.
    Redirect,
    /// It makes them return [`RETURNED`] at once.
    Return,
    /// They call a trampoline of its.
    Direct,
}

impl Way {
    /// Returns whether no two of these can be at one function.
    fn excludes(self, other: Way) -> bool {
        self != Way::Callback && other != Way::Callback
    }

    /// Returns whether its ftrace_ops has IPMODIFY.
    fn modifies(self) -> bool {
        matches!(self, Way::Ipmodify | Way::Redirect | Way::Return)
    }

    /// Returns what a hook may be made with that acts in this way; nothing if there is no choice.
    fn flags(self) -> &'static [Flag] {
        match self {
            Way::Callback | Way::Ipmodify => &Flag::ALL,
            // They have an action of their own.
            Way::Redirect | Way::Return => &Flag::OF_FTRACE,
            Way::Direct => &[],
        }
    }
}

/// The functions that a hook may make return at once: without [`Function::Write`], there would be nothing to read.
const RETURNING: [Function; 2] = [Function::Read, Function::Show];

/// What they then return: what the calls of the workload return otherwise, too.
const RETURNED: u64 = 8;

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

impl HookChange {
    /// Returns what it may make an ftrace_ops with; nothing if there is no choice.
    fn flags(self) -> &'static [Flag] {
        match self {
            HookChange::Add(way) => way.flags(),
            _ => &[],
        }
    }
}

/// How the functions of a hook are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum By {
    /// One by one.
    #[default]
    Name,
    /// Each by a glob that only it matches.
    Glob,
    /// By its address.
    Address,
}

impl By {
    fn place(self, function: Function) -> String {
        let symbol = function.symbol();
        match self {
            By::Name => symbol.to_owned(),
            By::Glob => format!("{}?", &symbol[..symbol.len() - 1]),
            By::Address => format!("@{symbol}"),
        }
    }
}

/// What a hook is made with that changes neither its hits nor what excludes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Flag {
    /// Nothing.
    #[default]
    None,
    /// RECURSION: it must not be called within itself.
    Recursion,
    /// RCU: it is only called where RCU watches.
    Rcu,
    /// SAVE_REGS_IF_SUPPORTED
    Regs,
    /// PERMANENT: ftrace cannot be turned off while it is registered.
    Permanent,
    /// It changes an argument that its functions do not have.
    Argument,
    /// It calls a function that nobody traces.
    Recurse,
}

impl Flag {
    const ALL: [Flag; 7] =
        [Flag::None, Flag::Recursion, Flag::Rcu, Flag::Regs, Flag::Permanent, Flag::Argument, Flag::Recurse];

    /// Without what is an action of the hook.
    const OF_FTRACE: [Flag; 5] = [Flag::None, Flag::Recursion, Flag::Rcu, Flag::Regs, Flag::Permanent];

    fn name(self) -> Option<&'static str> {
        match self {
            Flag::None | Flag::Argument | Flag::Recurse => None,
            Flag::Recursion => Some("recursion"),
            Flag::Rcu => Some("rcu"),
            Flag::Regs => Some("save_regs_if_supported"),
            Flag::Permanent => Some("permanent"),
        }
    }
}

/// Changes a hook.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Hooks(
    pub(in crate::explore) Named,
    pub(in crate::explore) HookChange,
    pub(in crate::explore) Vec<Function>,
    pub(in crate::explore) (By, Flag),
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
            HookChange::Add(draw.one(&[Way::Redirect, Way::Return])),
            HookChange::Remove,
            HookChange::Widen,
            HookChange::Narrow,
            HookChange::Enable,
            HookChange::Disable,
        ];
        let change = draw.one(&changes);
        let functions = match change {
            HookChange::Add(Way::Ipmodify) if draw.rarely(8) => Vec::new(),
            HookChange::Add(Way::Return) => vec![draw.one(&RETURNING)],
            HookChange::Add(_) if draw.random.bool() => FUNCTIONS.to_vec(),
            HookChange::Add(_) | HookChange::Widen | HookChange::Narrow => vec![draw.function()],
            _ => Vec::new(),
        };
        // What a change does not use is not drawn: it would count as another operation.
        let is_named = !functions.is_empty() && change != HookChange::Add(Way::Direct);
        let by = match draw.random.u8(..4) {
            0 if is_named => By::Glob,
            1 if is_named && draw.model.facts.hooks_by_address => By::Address,
            _ => By::Name,
        };
        let flags = change.flags();
        let flag = if !flags.is_empty() && draw.random.bool() { draw.one(flags) } else { Flag::None };
        Hooks(name, change, functions, (by, flag))
    }

    /// An ftrace_ops with an empty filter would trace all functions.
    fn knows(&self, model: &Model) -> bool {
        let Hooks(name, change, functions, (by, _)) = self;
        let saves_registers = model.hooks.get(name).is_some_and(|hook| hook.saves_registers);
        if model.facts.known.off_filter && model.ftrace_off && saves_registers {
            return false;
        }
        if !functions.iter().all(|function| model.has(*function)) {
            return false;
        }
        let way = model.hooks.get(name).map(|hook| hook.way);
        let is_extended = model.facts.known.ipmodify_direct && way.is_some_and(Way::modifies);
        let acts = if let HookChange::Add(way) = change { Some(*way) } else { way };
        match (acts, change) {
            (Some(Way::Return), HookChange::Widen) if functions.contains(&Function::Write) => return false,
            // A miss: there is no wrapper of it.
            (Some(Way::Redirect), _) if *by == By::Address && functions.contains(&Function::Show) => {
                return false;
            }
            _ => {}
        }
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
        let Hooks(name, change, functions, (by, flag)) = self;
        // Wrappers are of functions with certain names.
        let has_wrappers = functions.is_empty()
            || *by == By::Address
            || *by == By::Name && !functions.contains(&Function::Show);
        let functions: BTreeSet<Function> = functions.iter().copied().collect();
        let has_flags = !change.flags().is_empty();
        let change = match change {
            // It would be on all functions.
            HookChange::AddUnset => &HookChange::Add(Way::Ipmodify),
            other => other,
        };
        if let HookChange::Add(way) = *change {
            if model.hooks.contains_key(name) {
                return Err("EEXIST");
            }
            let permanent = has_flags && *flag == Flag::Permanent;
            let is_asked = has_flags && *flag == Flag::Regs;
            let saves_registers = is_asked || way.modifies() && model.facts.lacks_args;
            if way == Way::Redirect && !has_wrappers {
                return Err("EINVAL");
            }
            if permanent && model.ftrace_off {
                return Err("EBUSY");
            }
            // It would modify all functions.
            if way == Way::Ipmodify && functions.is_empty() {
                return Err("EINVAL");
            }
            if model.is_refused((Some(*name), way), &functions) {
                return Err("EBUSY");
            }
            let (registered, hits) = (true, Aside(0));
            model.hooks.insert(*name, Hook { way, registered, permanent, saves_registers, functions, hits });
            return Ok(());
        }
        let hook = model.hooks.get(name).ok_or("ENOENT")?.clone();
        if hook.way == Way::Redirect && !has_wrappers {
            return Err("EINVAL");
        }
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
        let is_off = hook.permanent && model.ftrace_off;
        if registered && (is_off || model.is_refused((Some(*name), hook.way), &wanted)) {
            return Err("EBUSY");
        }
        model.hooks.insert(*name, Hook { registered, functions: wanted, ..hook });
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let Hooks(name, change, functions, (by, flag)) = self;
        let by = if *change == HookChange::Add(Way::Direct) { By::Name } else { *by };
        let listed = |sign: &str| {
            let functions = functions.iter().map(|function| format!("{sign}{}", by.place(*function)));
            functions.collect::<Vec<_>>().join(",")
        };
        let made = |ipmodify: Option<&'static str>| {
            let symbols =
                if functions.is_empty() { String::new() } else { format!(" symbol={}", listed("")) };
            let flags = Vec::from_iter(ipmodify.into_iter().chain(flag.name())).join(",");
            let flags = if flags.is_empty() { flags } else { format!(" flags={flags}") };
            let action = match flag {
                Flag::Argument => " arg7=1",
                Flag::Recurse => " action=recurse",
                _ => "",
            };
            format!("+{name}{symbols}{flags}{action}")
        };
        let command = match change {
            HookChange::Add(Way::Callback) => made(None),
            HookChange::Add(Way::Ipmodify) => made(Some("ipmodify")),
            HookChange::Add(Way::Redirect) => format!("{} action=redirect", made(None)),
            HookChange::Add(Way::Return) => format!("{} return={RETURNED}", made(None)),
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
        model
            .hooks
            .keys()
            .map(|name| Hooks(*name, HookChange::Remove, Vec::new(), Default::default()))
            .collect()
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

    /// Returns whether a hook acts in this way when a function is called.
    pub(super) fn acts(&self, way: Way, function: Function) -> bool {
        let mut hooks = self.hooks.values().filter(|hook| hook.registered && hook.way == way);
        !self.ftrace_off && hooks.any(|hook| hook.functions.contains(&function))
    }

    /// Adds a call to the hits of hooks. A hook that redirects it does not see the wrapper's.
    pub(super) fn hit_hooks(&mut self, function: Function) {
        if self.ftrace_off {
            return;
        }
        let redirects = self.acts(Way::Redirect, function);
        for hook in self.hooks.values_mut().filter(|hook| hook.registered) {
            let calls = if redirects && hook.way != Way::Redirect { 2 } else { 1 };
            *hook.hits += if hook.functions.contains(&function) { calls } else { 0 };
        }
    }

    /// Returns whether one of the functions has a direct call.
    fn has_direct(&self, functions: &[Function]) -> bool {
        let mut hooks = self.hooks.values().filter(|hook| hook.registered && hook.way == Way::Direct);
        hooks.any(|hook| functions.iter().any(|function| hook.functions.contains(function)))
    }
}
