//! Events enabled and disabled, one by one or by group, and filtered.

use super::Family;
use crate::explore::{
    draw::Draw,
    filter::{FILTERS, Filter},
    names::{Event, Place, Sequence, event_path, path, switch, write},
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Events {
    /// Enables or disables an event.
    Enable(Place, Event, bool),
    /// Enables or disables all events of a sequence.
    EnableGroup(Place, Sequence, bool),
    /// Sets an event's filter.
    Filter(Place, Event, Filter),
}

impl Family for Events {
    const WEIGHT: usize = 10;
    const ALWAYS: bool = true;

    fn draw(draw: &mut Draw<'_>) -> Events {
        let (place, event, on) = (draw.place(), draw.event(), draw.on());
        match draw.random.u8(..10) {
            0 => Events::EnableGroup(place, draw.sequence, on),
            1..4 => Events::Filter(place, event, draw.one(&FILTERS)),
            _ => Events::Enable(place, event, on),
        }
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        match *self {
            Events::Enable(place, event, on) => model.arm(place, event, |file| file.switch(on)),
            Events::EnableGroup(place, sequence, on) => {
                let here = |(event, at): &&(Event, Place)| {
                    matches!(event, Event::Probes(of, _) if *of == sequence) && *at == place
                };
                let events: Vec<Event> = model.files.keys().filter(here).map(|(event, _)| *event).collect();
                let found = if events.is_empty() { Err("ENOENT") } else { Ok(()) };
                let each = events.into_iter().map(|event| model.arm(place, event, |file| file.switch(on)));
                each.fold(found, Result::and)
            }
            Events::Filter(place, event, filter) => {
                let has_value = model.has_value(event);
                let file = model.file(place, event)?;
                if filter == Filter::Malformed || (filter != Filter::Clear && !has_value) {
                    file.filter = None;
                    return Err("EINVAL");
                }
                file.filter = Some(filter);
                Ok(())
            }
        }
    }

    fn step(&self, _: &Model) -> String {
        match *self {
            Events::Enable(place, event, on) => write(&event_path(place, event, "enable"), switch(on), false),
            Events::EnableGroup(place, sequence, on) => {
                write(&path(place, &format!("events/x{}/enable", sequence.0)), switch(on), false)
            }
            Events::Filter(place, event, filter) => {
                write(&event_path(place, event, "filter"), filter.text(), false)
            }
        }
    }

    fn look(model: &Model) -> Vec<String> {
        let mut steps = Vec::new();
        for ((event, place), file) in &model.files {
            let read = |name: &str, text: &str| {
                format!("read: {:?}, text: {{ equal: {text:?} }}", event_path(*place, *event, name))
            };
            steps.push(read("enable", &file.text()));
            if let Some(filter) = file.filter {
                steps.push(read("filter", if filter == Filter::Clear { "none" } else { filter.text() }));
            }
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<Events> {
        // What triggers keep armed is not, once these are removed.
        let enabled = model.files.iter().filter(|(_, file)| file.enabled && !file.soft_disabled);
        let enabled = enabled.map(|((event, place), _)| Events::Enable(*place, *event, false));
        // Those of probes go with their events.
        let filtered = model
            .files
            .iter()
            .filter(|((event, _), file)| *event == Event::Syscall && file.filter != Some(Filter::Clear));
        let filtered = filtered.map(|((event, place), _)| Events::Filter(*place, *event, Filter::Clear));
        enabled.chain(filtered).collect()
    }
}
