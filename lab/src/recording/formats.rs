//! The formats of events, which change while a scenario runs: a dynamic event or a module may be removed,
//! and another one defined under its name, its number, or both.
//!
//! Since 6.2, the kernel reuses the lowest free number at once, so that a number alone does not identify an
//! event. The trace file has one number per definition: a definition whose number another one had before
//! gets a number of its own, and later records of the guest are renumbered as they are stored.

use super::link::Link;
use crate::machine::Death;
use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

/// The number of records whose event no longer exists. No event has it.
const NONE: u16 = 0;

/// Every definition of an event so far.
#[derive(Debug, Default)]
pub(super) struct Formats {
    /// `SYSTEM:NAME` to the text of the `format` file of the current definition.
    current: BTreeMap<String, String>,
    /// Events that were listed in `dynamic_events` the last time.
    dynamic: BTreeSet<String>,
    /// System and text of each definition, with its number in the trace file.
    defined: BTreeMap<(String, String), u16>,
    /// These numbers.
    taken: BTreeSet<u16>,
    /// The numbers in the trace file of the guest's event numbers.
    numbers: BTreeMap<u16, u16>,
}

/// A number of the guest that now belongs to another definition, or to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renumbered {
    /// The number in the guest.
    pub(super) guest: u16,
    /// The number of its records in the trace file up to now; `None` if no event had it.
    pub(super) before: Option<u16>,
    /// The number of its records in the trace file from now on.
    pub(super) now: u16,
}

impl Formats {
    /// Reads the formats of newly `enabled` events, and again those of the events that `dynamic_events` lists now or
    /// listed the last time and, if `modules` may have been loaded or unloaded, of all others. Returns the numbers
    /// that have changed hands.
    pub(super) fn learn(
        &mut self,
        link: &mut Link<'_>,
        enabled: &BTreeSet<String>,
        dynamic_events: &str,
        modules: bool,
    ) -> Result<Vec<Renumbered>, Death> {
        let listed: BTreeSet<String> = dynamic_events.lines().filter_map(dynamic).collect();
        let before = std::mem::replace(&mut self.dynamic, listed);
        // A module may have recorded dynamic events that are no longer enabled.
        let new = enabled.iter().filter(|event| !self.current.contains_key(*event)).chain(&self.dynamic);
        let again = self.current.keys().filter(|_| modules);
        let events: BTreeSet<String> = new.chain(&before).chain(again).cloned().collect();
        let path = |event: &String| format!("events/{}/format", event.replacen(':', "/", 1));
        let paths: Vec<String> = events.iter().map(path).collect();
        let mut texts = link.files(&paths)?;
        let read: Vec<_> = events.into_iter().zip(paths.iter().map(|path| texts.remove(path))).collect();
        Ok(self.update(read))
    }

    /// Takes the formats that were read; `None` is that of an event that does not exist any more.
    fn update(&mut self, mut read: Vec<(String, Option<String>)>) -> Vec<Renumbered> {
        read.retain(|(event, text)| self.current.get(event) != text.as_ref());
        let mut changed = BTreeMap::new();
        for (event, _) in &read {
            // Another event may get the number that this one had.
            changed.extend(self.current.remove(event).and_then(|text| Some((number(&text)?, NONE))));
        }
        for (event, text) in read {
            let Some(text) = text else { continue };
            let Some(guest) = number(&text) else { continue };
            changed.insert(guest, self.define(&event, &text, guest));
            self.current.insert(event, text);
        }
        let renumbered = |(guest, now)| Renumbered { guest, before: self.numbers.insert(guest, now), now };
        changed.into_iter().map(renumbered).filter(|one| one.before != Some(one.now)).collect()
    }

    /// Returns the number of a definition in the trace file: that of the guest, unless another one had it.
    fn define(&mut self, event: &str, text: &str, guest: u16) -> u16 {
        let system = event.split(':').next().unwrap_or_default();
        let definition = (system.to_owned(), text.to_owned());
        if let Some(number) = self.defined.get(&definition) {
            return *number;
        }
        // The kernel allocates from below.
        let mut free = iter::once(guest).chain((1..=u16::MAX).rev()).filter(|one| !self.taken.contains(one));
        let number = free.next().unwrap_or(NONE);
        self.taken.insert(number);
        self.defined.insert(definition, number);
        number
    }

    /// Returns the system and the format of each definition, with its number in the trace file.
    pub(super) fn texts(&self) -> Vec<(String, String)> {
        let text = |((system, text), id): (&(String, String), &u16)| {
            let line = |line: &str| match line.starts_with(ID) {
                true => format!("{ID} {id}\n"),
                false => format!("{line}\n"),
            };
            (system.clone(), text.lines().map(line).collect())
        };
        self.defined.iter().map(text).collect()
    }
}

/// The beginning of the line with an event's number.
const ID: &str = "ID:";

/// Returns the number of an event from its format.
fn number(format: &str) -> Option<u16> {
    format.lines().find_map(|line| line.strip_prefix(ID)?.trim().parse().ok())
}

/// Parses a line of `dynamic_events`: `p:kprobes/x vfs_write` to `kprobes:x`, `u:x u32 y` to `user_events:x`.
fn dynamic(line: &str) -> Option<String> {
    let name = line.split_once(':')?.1.split_whitespace().next()?;
    Some(match name.split_once('/') {
        Some((system, event)) => format!("{system}:{event}"),
        None => format!("user_events:{name}"),
    })
}

/// Returns the event of an `inject` file.
pub(super) fn injected(path: &str) -> Option<String> {
    let event = path.strip_suffix("/inject")?;
    let (_, event) =
        event.strip_prefix("events/").map(|event| ("", event)).or(event.split_once("/events/"))?;
    let (system, name) = event.split_once('/')?;
    Some(format!("{system}:{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes events with their numbers and a field, and returns the numbers that changed.
    fn update(formats: &mut Formats, read: &[(&str, Option<(u16, &str)>)]) -> Vec<(u16, Option<u16>, u16)> {
        let text = |event: &str, (id, field): (u16, &str)| {
            format!("name: {event}\nID: {id}\nformat:\n\tfield:{field};\n")
        };
        let read = read
            .iter()
            .map(|(event, format)| ((*event).to_owned(), format.map(|format| text(event, format))))
            .collect();
        formats.update(read).into_iter().map(|one| (one.guest, one.before, one.now)).collect()
    }

    #[test]
    fn each_definition_has_a_number_of_its_own() {
        let mut formats = Formats::default();
        let check = |formats: &mut Formats, read: &[_], expect: &[_]| {
            assert_eq!(update(formats, read), expect, "{read:?}");
        };
        check(
            &mut formats,
            &[("a:x", Some((7, "int i"))), ("a:y", Some((8, "int i")))],
            &[(7, None, 7), (8, None, 8)],
        );
        check(&mut formats, &[("a:x", Some((7, "int i")))], &[]);
        // Redefined under its number, and back.
        check(&mut formats, &[("a:x", Some((7, "long l")))], &[(7, Some(7), 65535)]);
        check(&mut formats, &[("a:x", Some((7, "int i")))], &[(7, Some(65535), 7)]);
        // Under a new number.
        check(&mut formats, &[("a:x", Some((9, "int i")))], &[(7, Some(7), 0), (9, None, 9)]);
        // Removed, and another event gets the number.
        check(&mut formats, &[("a:y", None)], &[(8, Some(8), 0)]);
        check(&mut formats, &[("a:y", None)], &[]);
        check(&mut formats, &[("b:z", Some((8, "int i")))], &[(8, Some(0), 65534)]);
        // Two events swap their numbers.
        let swapped = [("b:z", Some((9, "int i"))), ("a:x", Some((8, "int i")))];
        check(&mut formats, &swapped, &[(8, Some(65534), 65532), (9, Some(9), 65533)]);
        let texts = formats.texts();
        assert_eq!(texts.len(), 7);
        let text = "name: a:x\nID: 65535\nformat:\n\tfield:long l;\n";
        assert!(texts.contains(&("a".to_owned(), text.to_owned())), "{texts:?}");
    }

    #[test]
    fn an_injected_event_is_named_by_its_file() {
        let check = |path, expect: Option<&str>| assert_eq!(injected(path).as_deref(), expect, "{path}");
        check("events/sched/sched_waking/inject", Some("sched:sched_waking"));
        check("instances/a/events/sched/sched_waking/inject", Some("sched:sched_waking"));
        check("/sys/kernel/tracing/events/sched/sched_waking/inject", Some("sched:sched_waking"));
        check("events/sched/sched_waking/enable", None);
        check("inject", None);
    }

    #[test]
    fn dynamic_events_are_listed() {
        let check = |line, expect: Option<&str>| assert_eq!(dynamic(line).as_deref(), expect, "{line}");
        check("p:kprobes/x vfs_write a=$arg1", Some("kprobes:x"));
        check("r16:mine/y vfs_write", Some("mine:y"));
        check("s:synthetic/lat\tu64 lat", Some("synthetic:lat"));
        check("u:tick u32 count", Some("user_events:tick"));
        check("", None);
    }
}
