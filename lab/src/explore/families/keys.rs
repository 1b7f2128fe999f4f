//! Static keys switched, while the module that has sites of them is loaded and unloaded.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{switch, write},
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};

const CONTROL: &str = "/sys/kernel/debug/statickeys/control";

/// The state of the module `statickeys` and of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::explore) struct Keys {
    /// Whether the module is loaded.
    loaded: bool,
    /// Its counted key.
    counted: u8,
    /// Its key that is true at first: whether it was changed.
    inverted: bool,
    /// The event `module_get`, of whose tracepoint the module has a site, too.
    traced: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum KeyChange {
    /// Loads or unloads the module.
    Load(bool),
    /// Increments or decrements its counted key.
    Count(bool),
    /// Enables or disables its key that is true at first.
    Enable(bool),
    /// Enables or disables the event `module_get`.
    Trace(bool),
}

impl Family for KeyChange {
    const WEIGHT: usize = 3;

    fn draw(draw: &mut Draw<'_>) -> KeyChange {
        let on = draw.on();
        draw.one(&[KeyChange::Load(on), KeyChange::Count(on), KeyChange::Enable(!on), KeyChange::Trace(on)])
    }

    /// The module decrements what is 0 only with a warning.
    fn knows(&self, model: &Model) -> bool {
        let keys = model.keys;
        match *self {
            KeyChange::Load(on) => on != keys.loaded,
            KeyChange::Count(on) => keys.loaded && (on || keys.counted > 0) && keys.counted < 3,
            KeyChange::Enable(_) => keys.loaded,
            KeyChange::Trace(_) => true,
        }
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        let keys = &mut model.keys;
        match *self {
            KeyChange::Load(on) => *keys = Keys { loaded: on, traced: keys.traced, ..Keys::default() },
            KeyChange::Count(true) => keys.counted += 1,
            KeyChange::Count(false) => keys.counted -= 1,
            KeyChange::Enable(on) => keys.inverted = !on,
            KeyChange::Trace(on) => keys.traced = on,
        }
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        match *self {
            KeyChange::Load(true) => "load: statickeys".to_owned(),
            KeyChange::Load(false) => "unload: statickeys".to_owned(),
            KeyChange::Count(on) => write(CONTROL, if on { "counted inc" } else { "counted dec" }, false),
            KeyChange::Enable(on) => write(CONTROL, if on { "true enable" } else { "true disable" }, false),
            KeyChange::Trace(on) => write("events/module/module_get/enable", switch(on), false),
        }
    }

    fn look(model: &Model) -> Vec<String> {
        let keys = model.keys;
        let site = |key: &str, on: bool| {
            let is = if on { "enabled" } else { "disabled" };
            format!("text: {{ key: {key} }}, is: {is}")
        };
        let mut steps = vec![site("__tracepoint_module_get", keys.traced)];
        if keys.loaded {
            steps.push(site("statickeys_counted", keys.counted > 0));
            steps.push(site("statickeys_true", !keys.inverted));
            steps.push("read: /sys/module/statickeys/refcnt, text: { equal: \"0\" }".to_owned());
            let paths = format!("counted {}\n", u8::from(keys.counted > 0));
            steps.push(format!("read: /sys/kernel/debug/statickeys/paths, text: {paths:?}"));
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<KeyChange> {
        let trace = model.keys.traced.then_some(KeyChange::Trace(false));
        trace.into_iter().chain(model.keys.loaded.then_some(KeyChange::Load(false))).collect()
    }
}
