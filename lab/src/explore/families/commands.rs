//! Commands in `set_ftrace_filter`: what a call of a function does.

use super::{
    Family,
    functions::awaited,
    triggers::{Action, action_text},
};
use crate::explore::{
    draw::Draw,
    names::{Event, Function, Place, path, read_any_order, write},
    state::{Errno, Model, User},
};
use serde::{Deserialize, Serialize};

/// What all commands of one ftrace_ops have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Command {
    /// What it does.
    pub(in crate::explore) action: Action,
    /// Whether it has a count.
    pub(in crate::explore) is_counted: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Commands {
    /// Adds a command, with an event if it concerns one, and a count.
    Add(Place, Function, Command, Event, u32),
    /// Removes it.
    Remove(Place, Function, Command, Event),
}

impl Commands {
    fn parts(self) -> (Place, Function, Command, Event) {
        match self {
            Commands::Add(place, function, command, event, _)
            | Commands::Remove(place, function, command, event) => (place, function, command, event),
        }
    }
}

impl Family for Commands {
    const WEIGHT: usize = 4;

    fn draw(draw: &mut Draw<'_>) -> Commands {
        let actions =
            [Action::On, Action::Off, Action::Snapshot, Action::Stack, Action::Enable, Action::Disable];
        let command = Command { action: draw.one(&actions), is_counted: draw.random.bool() };
        let (place, function, event) = (draw.place(), draw.function(), draw.event());
        match draw.on() {
            true => Commands::Add(place, function, command, event, draw.random.u32(1..4)),
            false => Commands::Remove(place, function, command, event),
        }
    }

    /// The snapshot of the top level lacks what was drained.
    fn knows(&self, model: &Model) -> bool {
        let (place, function, command, event) = self.parts();
        if !model.has(function) {
            return false;
        }
        let deadlocks = model.facts.known.fprobe_command
            && command.action.has_event()
            && model.probes(event).any(|line| line.probe.kind.is_fprobe());
        !deadlocks && (place.is_some() || command.action != Action::Snapshot)
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        let (place, function, command, event) = self.parts();
        let target = command.action.has_event().then_some(event);
        model.place(place)?;
        if let Some(event) = target {
            model.file(place, event).map_err(|_| "EINVAL")?;
        }
        let key = (place, command, function);
        let user = User::Commands(place, command);
        let Commands::Add(.., count) = *self else {
            let (target, _) = model.commands.remove(&key).ok_or(match model.order.contains(&user) {
                true => "EINVAL",
                false => "ENODEV",
            })?;
            model.forget_commands();
            return match target {
                Some(event) => model.arm(place, event, |file| file.need_no_longer()),
                None => Ok(()),
            };
        };
        if command.action == Action::Snapshot {
            model.place(place)?.allocate();
        }
        if model.commands.contains_key(&key) {
            // Enabled, and restored again.
            return match target {
                Some(event) => model.arm(place, event, |file| {
                    file.need();
                    file.need_no_longer();
                }),
                None => Ok(()),
            }
            .and(Err("EINVAL"));
        }
        model.commands.insert(key, (target, count));
        if !model.order.contains(&user) {
            model.order.insert(0, user);
        }
        target.map_or(Ok(()), |event| model.arm(place, event, |file| file.need()))
    }

    fn step(&self, _: &Model) -> String {
        let (place, function, command, event) = self.parts();
        let (not, count) = match self {
            Commands::Add(.., count) => ("", *count),
            Commands::Remove(..) => ("!", 0),
        };
        let count = if command.is_counted { format!(":{count}") } else { String::new() };
        let text = format!("{not}{}:{}{count}", function.symbol(), action_text(command.action, event));
        write(&path(place, "set_ftrace_filter"), &text, true)
    }

    fn look(model: &Model) -> Vec<String> {
        let mut steps = Vec::new();
        for (place, at) in &model.tracing {
            if model.facts.known.mod_listed && at.awaits > 0 && !at.filter.is_empty() {
                continue;
            }
            let mut lines: Vec<String> = at.filter.iter().map(|function| function.listed()).collect();
            let all = "#### all functions enabled ####".to_owned();
            lines.extend(at.has_no_filter().then_some(all));
            lines.extend((0..at.awaits).map(|_| awaited()));
            let here = model.commands.iter().filter(|((other, ..), _)| other == place);
            for ((_, command, function), (event, count)) in here {
                let action = match event {
                    Some(event) => action_text(command.action, *event),
                    None => command.action.name().to_owned(),
                };
                let count =
                    if command.is_counted { format!("count={count}") } else { "unlimited".to_owned() };
                lines.push(format!("{}:{action}:{count}", function.listed()));
            }
            steps.push(read_any_order(&path(*place, "set_ftrace_filter"), &lines));
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<Commands> {
        let removal = |(place, command, function): &(Place, Command, Function), event: Option<Event>| {
            // Of a command without an event, none is written.
            let event = event.unwrap_or(Event::Syscall);
            Commands::Remove(*place, *function, *command, event)
        };
        model.commands.iter().map(|(key, (event, _))| removal(key, *event)).collect()
    }
}

impl Model {
    /// Drops the users of which no command is left.
    pub(in crate::explore) fn forget_commands(&mut self) {
        let commands = &self.commands;
        self.order.retain(|user| match user {
            User::Commands(place, command) => {
                commands.keys().any(|(other, kind, _)| other == place && kind == command)
            }
            _ => true,
        });
    }
}
