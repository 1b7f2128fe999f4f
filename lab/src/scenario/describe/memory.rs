//! Descriptions of steps that read instructions and memory.

use super::{Describe, add, code};
use crate::{
    arm64,
    scenario::{
        CallOps, FtraceSiteOf, Inspect, InspectTasks, InspectValue, InstructionPattern, Instructions,
        KeySites, KprobeAt, KprobeSlot, PatchedText, TracedFunction,
    },
};

impl Describe for PatchedText {
    fn describe(&self) -> String {
        let PatchedText { text, is, ops, func, sites, name } = self;
        let sites = add(*sites, |sites| format!(", {sites} of them"));
        let is = add(is.as_ref(), |words| {
            let words = words.0.iter().map(|word| format!("`{}`", word.describe())).collect::<Vec<_>>();
            format!(": they must be {}", words.join(", "))
        });
        let ops = add(ops.as_ref(), |ops| format!("; the ftrace_ops must be `{ops}`"));
        let func = add(func.as_ref(), |func| format!("; the ftrace_ops must call `{func}`"));
        let name = add(name.as_ref(), |name| format!("; saved as `${{{name}}}`"));
        format!("reads {}{sites}{is}{ops}{func}{name}", text.describe())
    }
}

impl Describe for InstructionPattern {
    fn describe(&self) -> String {
        match self {
            InstructionPattern::Exactly(word) => match arm64::NAMED.iter().find(|(_, named)| named == word) {
                Some((name, _)) => (*name).to_owned(),
                None => format!("{word:#010x}"),
            },
            InstructionPattern::Branch { link, to } => {
                let branch = if *link { "bl" } else { "b" };
                format!("{branch}{}", add(to.as_ref(), |to| format!(" {to}")))
            }
            InstructionPattern::Original => "original".to_owned(),
            InstructionPattern::Unchanged => "unchanged".to_owned(),
            InstructionPattern::Key { enabled: true } => "enabled".to_owned(),
            InstructionPattern::Key { enabled: false } => "disabled".to_owned(),
        }
    }
}

impl Describe for Instructions {
    fn describe(&self) -> String {
        format!("the instructions at `{}`", self.at)
    }
}

impl Describe for KeySites {
    fn describe(&self) -> String {
        let KeySites { key, within, except } = self;
        let within = add(within.as_ref(), |within| format!(" in `{within}`"));
        let except = match except.is_empty() {
            true => String::new(),
            false => format!(", except those of {}", code(except)),
        };
        match key.as_str() {
            "*" => format!("the patch sites of all static keys{within}{except}"),
            key => format!("the patch sites of the static key `{key}`{within}{except}"),
        }
    }
}

impl Describe for FtraceSiteOf {
    fn describe(&self) -> String {
        match &self.ftrace_site {
            TracedFunction::All => "all ftrace patch sites, each as its record says".to_owned(),
            TracedFunction::One(function) => format!("the ftrace patch site of `{function}`"),
        }
    }
}

impl Describe for CallOps {
    fn describe(&self) -> String {
        format!("the call_ops literal of `{}`", self.call_ops)
    }
}

impl Describe for KprobeAt {
    fn describe(&self) -> String {
        format!("the instruction of the kprobe at `{}`", self.kprobe)
    }
}

impl Describe for KprobeSlot {
    fn describe(&self) -> String {
        format!("the slot of the kprobe at `{}`", self.slot)
    }
}

impl Describe for Inspect {
    fn describe(&self) -> String {
        let items: Vec<_> = self.inspect.iter().map(Describe::describe).collect();
        format!("stops the guest and reads its memory: {}", items.join("; "))
    }
}

impl Describe for InspectValue {
    fn describe(&self) -> String {
        let InspectValue { value, symbol, is, capture } = self;
        let symbol = add(symbol.as_ref(), |symbol| format!(" must point to `{}`", symbol.as_str()));
        let is = add(is.as_ref(), |is| format!(" must be {}", is.as_str()));
        format!("`{value}`{}", both(symbol + &is, capture.as_ref()))
    }
}

impl Describe for InspectTasks {
    fn describe(&self) -> String {
        let InspectTasks { tasks, is, capture } = self;
        let is = add(is.as_ref(), |is| format!(" must be {}", is.as_str()));
        format!("the number of tasks named `{tasks}`{}", both(is, capture.as_ref()))
    }
}

/// Joins the expected value and the name under which the value is saved.
fn both(must: String, capture: Option<&crate::scenario::ArgName>) -> String {
    let and = if must.is_empty() { "" } else { ", and" };
    let kept = add(capture, |name| format!("{and} is saved as `${{{name}}}`"));
    must + &kept
}
