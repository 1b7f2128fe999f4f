//! An event at one place: enabled, filtered, armed by triggers and commands.

use super::{
    families::triggers::{Action, Spec, Trigger},
    filter::Filter,
    names::{Event, Place},
    probe::Kind,
    state::{Aside, Errno, Model, User},
};

/// An event's state at one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventFile {
    /// Whether its probes are armed for this place.
    pub(super) enabled: bool,
    /// Whether it is armed without being recorded.
    pub(super) soft_disabled: bool,
    /// How many triggers and commands need it armed.
    pub(super) soft: u8,
    /// Its filter; `None` after one that was not accepted, which is shown and filters nothing.
    pub(super) filter: Option<Filter>,
    /// Its triggers, the last one first, but histograms last.
    pub(super) triggers: Vec<Trigger>,
    /// Whether the event was ever armed here. If so, removing it clears the buffer.
    pub(super) used: Aside<bool>,
}

impl EventFile {
    pub(super) fn new() -> EventFile {
        EventFile {
            enabled: false,
            soft_disabled: false,
            soft: 0,
            filter: Some(Filter::Clear),
            triggers: Vec::new(),
            used: Aside(false),
        }
    }

    /// As by a write to `enable`.
    pub(super) fn switch(&mut self, on: bool) {
        if on {
            self.soft_disabled = false;
            self.enabled = true;
            *self.used = true;
        } else {
            // What triggers need stays armed.
            self.enabled &= self.soft > 0;
            self.soft_disabled = self.soft > 0;
        }
    }

    /// Notes that one more trigger or command needs it armed.
    pub(super) fn need(&mut self) {
        self.soft += 1;
        if self.soft == 1 && !self.enabled {
            self.soft_disabled = true;
            self.enabled = true;
            *self.used = true;
        }
    }

    /// Notes that one less does.
    pub(super) fn need_no_longer(&mut self) {
        self.soft -= 1;
        if self.soft == 0 {
            self.enabled &= !self.soft_disabled;
            self.soft_disabled = false;
        }
    }

    /// The text of `enable`.
    pub(super) fn text(&self) -> String {
        let star = if self.soft_disabled || self.soft > 0 { "*" } else { "" };
        format!("{}{star}", u8::from(self.enabled && !self.soft_disabled))
    }
}

impl Model {
    /// Returns an event's state at a place.
    ///
    /// # Errors
    /// There is no such event or no such instance.
    pub(super) fn file(&mut self, place: Place, event: Event) -> Result<&mut EventFile, Errno> {
        self.files.get_mut(&(event, place)).ok_or("ENOENT")
    }

    /// Changes an event's state at a place, and notes when its uprobes were registered.
    ///
    /// # Errors
    /// There is no such event or no such instance.
    pub(super) fn arm(
        &mut self,
        place: Place,
        event: Event,
        change: impl FnOnce(&mut EventFile),
    ) -> Result<(), Errno> {
        let was_armed = self.is_armed(event);
        let file = self.file(place, event)?;
        let was_armed_here = file.enabled;
        change(file);
        let is_armed_here = file.enabled;
        if was_armed_here != is_armed_here && self.probes(event).any(|line| line.probe.kind == Kind::Eprobe) {
            self.attach(place, event, is_armed_here)?;
        }
        let user = User::Uprobes(event);
        match (was_armed, self.is_armed(event)) {
            (false, true) if self.probes(event).any(|line| line.probe.kind.is_user()) => {
                self.order.insert(0, user);
            }
            (true, false) => self.order.retain(|other| *other != user),
            _ => {}
        }
        if was_armed != self.is_armed(event) {
            let lines = self.lines.iter_mut().filter(|line| line.event == event);
            lines.for_each(|line| line.is_lost = false);
        }
        Ok(())
    }

    /// Attaches an event probe to its event at a place, or detaches it.
    fn attach(&mut self, place: Place, probe: Event, on: bool) -> Result<(), Errno> {
        let spec = Spec { action: Action::Probe, target: probe, count: None, filter: Filter::Clear };
        self.arm(place, Event::Syscall, |file| {
            if on {
                file.triggers.push(Trigger::new(spec));
                file.need();
            } else {
                file.triggers.retain(|trigger| trigger.spec != spec);
                file.need_no_longer();
            }
        })
    }

    /// Returns whether an event probe is enabled in several places.
    pub(super) fn has_eprobe_twice(&self) -> bool {
        self.lines.iter().filter(|line| line.probe.kind == Kind::Eprobe).any(|line| {
            let files = self.files.iter().filter(|((event, _), _)| *event == line.event);
            files.filter(|(_, file)| file.enabled).count() > 1
        })
    }

    /// Returns whether the probes of an event are armed.
    pub(super) fn is_armed(&self, event: Event) -> bool {
        self.files.iter().any(|((name, _), file)| *name == event && file.enabled)
    }

    /// Returns whether an event cannot be removed.
    pub(super) fn is_busy(&self, event: Event) -> bool {
        let traces = |trigger: &Trigger| trigger.spec.action == Action::Trace && trigger.spec.target == event;
        self.is_armed(event) || self.files.values().flat_map(|file| &file.triggers).any(traces)
    }
}
