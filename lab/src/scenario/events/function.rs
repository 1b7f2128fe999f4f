//! `function:`, a probe written as a function prototype.

use super::{
    Args, UserPlaces,
    kinds::{Definition, Kind, Probe, ProbeKind, recorded},
};
use crate::scenario::{
    Prototype,
    values::names::{EventName, GroupName, InstanceName, Line},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Defines a kprobe event at the entry of a function, written as its prototype.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// The function, and the parameters to record, as in `do_sys_openat2(int dfd, string filename)`.
    pub function: Prototype,
    /// The event's name. Default: that of the function.
    #[serde(default)]
    pub name: Option<EventName>,
    /// The event's group.
    #[serde(default = "functions")]
    pub group: GroupName,
    /// The event filter, written to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Event triggers, written to the event's `trigger` file, one write each.
    #[serde(default)]
    pub triggers: Vec<Line>,
    /// The tracing instance that records the event. Default: the top-level one.
    #[serde(default)]
    pub instance: Option<InstanceName>,
}

/// The default group.
fn functions() -> GroupName {
    GroupName::default_of("functions")
}

impl Kind for Function {
    fn group(&self) -> &str {
        &self.group
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.function.function())
    }

    recorded!();

    fn probe(&self) -> Option<Probe<'_>> {
        let (target, args) = (self.function.function(), self.function.args());
        Some(Probe { kind: ProbeKind::Kprobe, target, args })
    }

    fn args_mut(&mut self) -> Option<&mut Args> {
        Some(self.function.args_mut())
    }

    fn definition(&self, _: &UserPlaces) -> Option<Definition> {
        let (target, args) = (self.function.function(), self.function.args());
        let line = format!("p:{}/{} {target}{args}", self.group, self.name());
        Some(Definition { file: "kprobe_events", line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::EventSpec;

    #[test]
    fn a_prototype_is_a_kprobe() {
        let check = |yaml, expect: &str| {
            let event: EventSpec = crate::yaml::from_str(yaml).unwrap();
            let definition = event.definition(&UserPlaces::new()).unwrap();
            assert_eq!((definition.file, definition.line.as_str()), ("kprobe_events", expect), "{yaml}");
        };
        check(
            r#"{ function: "do_sys_openat2(int dfd, string filename)" }"#,
            "p:functions/do_sys_openat2 do_sys_openat2 dfd=$arg1:s32 filename=+0($arg2):string",
        );
        check(r#"{ function: "vfs_read(ptr file)", name: r, group: g }"#, "p:g/r vfs_read file=$arg1:x64");
    }
}
