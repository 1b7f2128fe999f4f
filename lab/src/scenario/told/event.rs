//! Events in words: what each kind is. What all have, `lab explain` says.

use super::{Told, code, list};
use crate::scenario::{
    Eprobe, EventSpec, Fexit, Fprobe, Function, Kprobe, Kretprobe, StaticEvent, Synthetic, Uprobe, Uretprobe,
    UserEvent,
};

impl Told for StaticEvent {
    fn told(&self) -> String {
        "an event that is there already".to_owned()
    }
}

impl Told for Kprobe {
    fn told(&self) -> String {
        format!("a kprobe at `{}`", self.kprobe)
    }
}

impl Told for Kretprobe {
    fn told(&self) -> String {
        format!("a kretprobe where `{}` returns", self.kretprobe)
    }
}

impl Told for Fprobe {
    fn told(&self) -> String {
        format!("an fprobe at `{}`, by ftrace", self.fprobe)
    }
}

impl Told for Fexit {
    fn told(&self) -> String {
        format!("an fprobe where `{}` returns, by ftrace", self.fexit)
    }
}

impl Told for Uprobe {
    fn told(&self) -> String {
        format!("a uprobe at `{}` of the workload `{}`", self.uprobe.symbol, self.uprobe.program)
    }
}

impl Told for Uretprobe {
    fn told(&self) -> String {
        let place = &self.uretprobe;
        format!("a uretprobe where `{}` of the workload `{}` returns", place.symbol, place.program)
    }
}

impl Told for Eprobe {
    fn told(&self) -> String {
        format!("an event probe on `{}`", self.eprobe)
    }
}

impl Told for Synthetic {
    fn told(&self) -> String {
        let fed = self.fed_by.iter().map(|feed| &feed.event);
        format!(
            "a synthetic event with the fields {}, made by triggers of {}",
            fields(&self.fields),
            code(fed)
        )
    }
}

impl Told for Function {
    fn told(&self) -> String {
        format!("a kprobe at `{}`, by its prototype", self.function.function())
    }
}

impl Told for UserEvent {
    fn told(&self) -> String {
        format!("a user event with the fields {}, which a program writes", fields(&self.fields))
    }
}

fn fields(fields: &crate::scenario::Fields) -> String {
    list(fields.0.iter().map(|(name, of)| format!("`{of} {name}`")))
}

/// What an event of any kind is asked for beside what it fetches, a sentence each.
pub(crate) fn asked(event: &EventSpec) -> Vec<String> {
    let mut asked = Vec::new();
    asked.extend(event.filter().map(|filter| format!("only where `{filter}`")));
    asked.extend(event.triggers().iter().map(|trigger| format!("with the trigger `{trigger}`")));
    asked.extend(
        event.feeds().iter().map(|feed| format!("made by `{}`, trigger `{}`", feed.event, feed.trigger)),
    );
    asked.extend(event.instance().map(|name| format!("recorded by the tracing instance `{name}`")));
    asked
}
