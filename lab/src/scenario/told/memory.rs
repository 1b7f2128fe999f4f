//! Steps that look at instructions and at memory, in words.

use super::{Told, add, code};
use crate::{
    arm64,
    scenario::{
        CallOps, FtraceSiteOf, Inspect, InspectTasks, InspectValue, Instructions, KeySites, KprobeAt,
        KprobeSlot, Text, Word,
    },
};

impl Told for Text {
    fn told(&self) -> String {
        let Text { text, is, ops, func, sites, name } = self;
        let sites = add(*sites, |sites| format!(", {sites} of them"));
        let is = add(is.as_ref(), |words| {
            let words = words.0.iter().map(|word| format!("`{}`", word.told())).collect::<Vec<_>>();
            format!(": they must be {}", words.join(", "))
        });
        let ops = add(ops.as_ref(), |ops| format!("; the ftrace_ops must be `{ops}`"));
        let func = add(func.as_ref(), |func| format!("; the ftrace_ops must call `{func}`"));
        let name = add(name.as_ref(), |name| format!("; kept as `${{{name}}}`"));
        format!("reads {}{sites}{is}{ops}{func}{name}", text.told())
    }
}

impl Told for Word {
    fn told(&self) -> String {
        match self {
            Word::Exactly(word) => match arm64::NAMED.iter().find(|(_, named)| named == word) {
                Some((name, _)) => (*name).to_owned(),
                None => format!("{word:#010x}"),
            },
            Word::Branch { link, to } => {
                let branch = if *link { "bl" } else { "b" };
                format!("{branch}{}", add(to.as_ref(), |to| format!(" {to}")))
            }
            Word::Original => "original".to_owned(),
            Word::Unchanged => "unchanged".to_owned(),
            Word::Key { enabled: true } => "enabled".to_owned(),
            Word::Key { enabled: false } => "disabled".to_owned(),
        }
    }
}

impl Told for Instructions {
    fn told(&self) -> String {
        format!("the instructions at `{}`", self.at)
    }
}

impl Told for KeySites {
    fn told(&self) -> String {
        let KeySites { key, within, except } = self;
        let within = add(within.as_ref(), |within| format!(" in `{within}`"));
        let except = match except.is_empty() {
            true => String::new(),
            false => format!(", but for those of {}", code(except)),
        };
        match key.as_str() {
            "*" => format!("the sites of all static keys{within}{except}"),
            key => format!("the sites of the static key `{key}`{within}{except}"),
        }
    }
}

impl Told for FtraceSiteOf {
    fn told(&self) -> String {
        format!("the two instructions that ftrace patches in `{}`", self.ftrace_site)
    }
}

impl Told for CallOps {
    fn told(&self) -> String {
        format!("the literal before `{}` that says which ftrace_ops it calls", self.call_ops)
    }
}

impl Told for KprobeAt {
    fn told(&self) -> String {
        format!("the instruction of the kprobe at `{}`", self.kprobe)
    }
}

impl Told for KprobeSlot {
    fn told(&self) -> String {
        format!("the copy that the kprobe at `{}` executes", self.slot)
    }
}

impl Told for Inspect {
    fn told(&self) -> String {
        let items: Vec<_> = self.inspect.iter().map(Told::told).collect();
        format!("stops the guest and looks into its memory: {}", items.join("; "))
    }
}

impl Told for InspectValue {
    fn told(&self) -> String {
        let InspectValue { value, symbol, is, capture } = self;
        let symbol = add(symbol.as_ref(), |symbol| format!(" must point at `{}`", symbol.as_str()));
        let is = add(is.as_ref(), |is| format!(" must be {}", is.as_str()));
        format!("`{value}`{}", both(symbol + &is, capture.as_ref()))
    }
}

impl Told for InspectTasks {
    fn told(&self) -> String {
        let InspectTasks { tasks, is, capture } = self;
        let is = add(is.as_ref(), |is| format!(" must be {}", is.as_str()));
        format!("the number of tasks that are called `{tasks}`{}", both(is, capture.as_ref()))
    }
}

/// What an answer must be, and the name it is kept under.
fn both(must: String, capture: Option<&crate::scenario::ArgName>) -> String {
    let and = if must.is_empty() { "" } else { ", and" };
    let kept = add(capture, |name| format!("{and} is kept as `${{{name}}}`"));
    must + &kept
}
