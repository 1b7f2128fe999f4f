//! Static keys switched, while the module that has sites of them is loaded and unloaded.

use super::{Family, hooks::Way};
use crate::explore::{
    draw::Draw,
    names::{Function, MODULE, switch, write},
    state::{Errno, Line, Model, Tracing},
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

impl Keys {
    pub(in crate::explore) fn is_loaded(self) -> bool {
        self.loaded
    }
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
    /// Reads which branches are taken, which calls [`Function::Show`].
    Show,
}

impl Family for KeyChange {
    const WEIGHT: usize = 3;

    fn draw(draw: &mut Draw<'_>) -> KeyChange {
        let on = draw.on();
        let keys = draw.model.keys;
        if !keys.is_loaded() {
            return draw.one(&[KeyChange::Load(true), KeyChange::Load(true), KeyChange::Trace(on)]);
        }
        let count = KeyChange::Count(keys.counted == 0 || draw.random.bool());
        let changes = [
            KeyChange::Load(false),
            count,
            count,
            KeyChange::Enable(!on),
            KeyChange::Trace(on),
            KeyChange::Show,
        ];
        draw.one(&changes)
    }

    /// The module decrements what is 0 only with a warning. Hooks and commands may meet another function where that
    /// of the module was.
    fn knows(&self, model: &Model) -> bool {
        let keys = model.keys;
        match *self {
            KeyChange::Load(on) => {
                let hooked = || model.hooks.values().any(|hook| hook.functions.contains(&Function::Show));
                let commanded = || model.commands.keys().any(|(_, _, function)| *function == Function::Show);
                on != keys.loaded && if on { model.knows_order() } else { !hooked() && !commanded() }
            }
            KeyChange::Count(on) => keys.loaded && (on || keys.counted > 0) && keys.counted < 3,
            KeyChange::Enable(_) => keys.loaded,
            KeyChange::Show => keys.loaded && model.knows_order() && model.knows_return(Function::Show),
            KeyChange::Trace(_) => true,
        }
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        let keys = &mut model.keys;
        match *self {
            KeyChange::Load(on) => {
                *keys = Keys { loaded: on, traced: keys.traced, ..Keys::default() };
                model.tracing.values_mut().for_each(|at| at.module_changed(on));
                if on {
                    model.enter(Function::Load, 0);
                } else {
                    model.lose_fprobes();
                }
            }
            KeyChange::Count(true) => keys.counted += 1,
            KeyChange::Count(false) => keys.counted -= 1,
            KeyChange::Enable(on) => keys.inverted = !on,
            KeyChange::Trace(on) => keys.traced = on,
            KeyChange::Show => {
                model.call(Function::Show, 0);
            }
        }
        Ok(())
    }

    fn step(&self, model: &Model) -> String {
        match *self {
            KeyChange::Load(true) => format!("load: {MODULE}"),
            KeyChange::Load(false) => format!("unload: {MODULE}"),
            KeyChange::Show => {
                let returns = model.acts(Way::Return, Function::Show);
                let text = match returns || model.is_livepatched(Function::Show) {
                    true => "{ equal: \"\" }".to_owned(),
                    false => format!("\"counted {}\\n\"", u8::from(model.keys.counted > 0)),
                };
                format!("read: /sys/kernel/debug/statickeys/paths, text: {text}")
            }
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
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<KeyChange> {
        let trace = model.keys.traced.then_some(KeyChange::Trace(false));
        trace.into_iter().chain(model.keys.loaded.then_some(KeyChange::Load(false))).collect()
    }
}

impl Model {
    /// Takes the armed fprobes off the function of the module.
    fn lose_fprobes(&mut self) {
        for index in 0..self.lines.len() {
            let Line { event, probe, .. } = self.lines[index];
            let is_there = probe.kind.is_fprobe() && probe.function == Function::Show;
            self.lines[index].is_lost |= is_there && self.is_armed(event);
        }
    }
}

impl Tracing {
    /// Changes the filter as it does when the module is loaded or unloaded.
    fn module_changed(&mut self, is_loaded: bool) {
        if is_loaded && self.awaits > 0 {
            self.awaits = 0;
            self.filter.insert(Function::Show);
        } else if !is_loaded && self.filter.remove(&Function::Show) {
            self.was_gone = true;
        }
    }
}
