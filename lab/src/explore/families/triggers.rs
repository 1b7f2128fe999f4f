//! Triggers of events, with counts and filters.

use super::Family;
use crate::explore::{
    draw::Draw,
    filter::Filter,
    names::{Event, Place, event_path, read_lines, write},
    state::{Aside, Errno, Model},
};
use serde::{Deserialize, Serialize};

/// What a trigger, or a command in `set_ftrace_filter`, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Action {
    /// `traceon`
    On,
    /// `traceoff`
    Off,
    /// `snapshot`
    Snapshot,
    /// `stacktrace`
    Stack,
    /// `enable_event`
    Enable,
    /// `disable_event`
    Disable,
    /// `hist`, of triggers only.
    Histogram,
    /// `hist` with `onchange().trace()`, of triggers only: records a synthetic event if `value` is not that of the same
    /// process before.
    Trace,
    /// An event probe of the event, which is not set as a trigger and not listed.
    Probe,
}

impl Action {
    /// Its word.
    pub(in crate::explore) fn name(self) -> &'static str {
        match self {
            Action::On => "traceon",
            Action::Off => "traceoff",
            Action::Snapshot => "snapshot",
            Action::Stack => "stacktrace",
            Action::Enable => "enable_event",
            Action::Disable => "disable_event",
            Action::Histogram | Action::Trace => "hist",
            Action::Probe => "eprobe",
        }
    }

    /// Returns whether it arms another event.
    pub(in crate::explore) fn has_event(self) -> bool {
        matches!(self, Action::Enable | Action::Disable)
    }

    /// The one that stands for all of which an event has only one.
    fn kind(self) -> Action {
        match self {
            Action::Off => Action::On,
            Action::Disable => Action::Enable,
            other => other,
        }
    }
}

/// The action with its event, as written and as listed.
pub(in crate::explore) fn action_text(action: Action, event: Event) -> String {
    match action {
        Action::Enable | Action::Disable => {
            format!("{}:{}", action.name(), event.to_string().replace('/', ":"))
        }
        Action::Histogram => "hist:keys=common_pid".to_owned(),
        Action::Trace => {
            let (event, variable) = (event.name(), variable(event));
            format!("hist:keys=common_pid:{variable}=value:onchange(${variable}).trace({event},${variable})")
        }
        _ => action.name().to_owned(),
    }
}

/// The variable of a histogram that records a synthetic event. It can be defined only once for an event.
fn variable(event: Event) -> String {
    format!("v{}", event.name())
}

/// A trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Spec {
    /// What it does.
    pub(in crate::explore) action: Action,
    /// The event that it concerns, if it concerns one.
    pub(in crate::explore) target: Event,
    /// How often it acts at most.
    pub(in crate::explore) count: Option<u32>,
    /// For which events it acts.
    pub(in crate::explore) filter: Filter,
}

/// A trigger that an event has, with what is left of its count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::explore) struct Trigger {
    /// The trigger.
    pub(in crate::explore) spec: Spec,
    /// The hits of a histogram.
    pub(in crate::explore) hits: Aside<u64>,
    /// The `value` that a histogram saw last of the process.
    pub(in crate::explore) seen: Aside<u64>,
}

impl Trigger {
    pub(in crate::explore) fn new(spec: Spec) -> Trigger {
        Trigger { spec, hits: Aside(0), seen: Aside(0) }
    }
}

impl Spec {
    /// Returns whether an event cannot have both.
    fn excludes(self, other: Spec) -> bool {
        let is_of_event = self.action.has_event() || self.action == Action::Trace;
        self.action.kind() == other.action.kind() && (!is_of_event || self.target == other.target)
    }

    /// Returns whether it acts only after the event is recorded.
    pub(in crate::explore) fn is_after(self) -> bool {
        matches!(self.action, Action::Stack | Action::Off)
    }

    /// Returns whether it needs the record of an event.
    pub(in crate::explore) fn needs_record(self) -> bool {
        self.filter != Filter::Clear || self.is_after() || self.is_histogram() || self.action == Action::Probe
    }

    /// Returns whether it has a histogram.
    pub(in crate::explore) fn is_histogram(self) -> bool {
        matches!(self.action, Action::Histogram | Action::Trace)
    }

    fn line(self) -> String {
        if self.action == Action::Histogram {
            return r"hist:keys=common_pid:.* \[active\]\n".to_owned();
        }
        if self.action == Action::Trace {
            let (event, variable) = (self.target.name(), variable(self.target));
            return format!(
                r"hist:keys=common_pid:.*:onchange\(\${variable}\)\.trace\({event},\${variable}\) \[active\]\n"
            );
        }
        let count = self.count.map_or_else(|| "unlimited".to_owned(), |count| format!("count={count}"));
        let filter = match self.filter {
            Filter::Clear => String::new(),
            filter => format!(" if {}", filter.text()),
        };
        let text = format!("{}:{count}{filter}", action_text(self.action, self.target));
        format!("{}\n", regex::escape(&text))
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Triggers {
    /// Adds a trigger.
    Add(Place, Event, Spec),
    /// Removes it.
    Remove(Place, Event, Spec),
}

impl Triggers {
    fn parts(self) -> (Place, Event, Spec) {
        match self {
            Triggers::Add(place, event, spec) | Triggers::Remove(place, event, spec) => (place, event, spec),
        }
    }
}

impl Family for Triggers {
    const WEIGHT: usize = 6;

    fn draw(draw: &mut Draw<'_>) -> Triggers {
        let actions = [
            Action::On,
            Action::Off,
            Action::Snapshot,
            Action::Stack,
            Action::Enable,
            Action::Disable,
            Action::Histogram,
            if draw.model.facts.synthetic { Action::Trace } else { Action::Histogram },
        ];
        let action = draw.one(&actions);
        let is_plain = matches!(action, Action::Histogram | Action::Trace);
        let spec = Spec {
            action,
            target: if action == Action::Trace { draw.synthetic() } else { draw.event() },
            count: (!is_plain && draw.random.bool()).then(|| draw.random.u32(1..4)),
            filter: if is_plain || draw.random.bool() { Filter::Clear } else { Filter::Above },
        };
        let (place, event) = (draw.place(), draw.event());
        if draw.on() { Triggers::Add(place, event, spec) } else { Triggers::Remove(place, event, spec) }
    }

    /// The snapshot of the top level lacks what was drained. A synthetic event does not record another.
    fn knows(&self, model: &Model) -> bool {
        let (place, event, spec) = self.parts();
        if spec.action == Action::Trace {
            return !matches!(event, Event::Synthetic(..));
        }
        let is_held =
            model.facts.known.trigger_release && spec.action.has_event() && spec.target != Event::Syscall;
        !is_held && (place.is_some() || spec.action != Action::Snapshot)
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        let (place, event, spec) = self.parts();
        model.file(place, event)?;
        if spec.action.has_event() {
            model.file(place, spec.target).map_err(|_| "EINVAL")?;
        }
        let targets = |model: &mut Model, spec: Spec, on: bool| match spec.action.has_event() {
            true if on => model.arm(place, spec.target, |file| file.need()),
            true => model.arm(place, spec.target, |file| file.need_no_longer()),
            false => Ok(()),
        };
        let (has_value, is_defined) = (model.has_value(event), model.probes(spec.target).next().is_some());
        let file = model.file(place, event)?;
        let other = file.triggers.iter().position(|trigger| trigger.spec.excludes(spec));
        if spec.action == Action::Trace {
            let is_new = matches!(self, Triggers::Add(..));
            if !has_value || is_new && (!is_defined || other.is_some()) {
                return Err("EINVAL");
            }
        }
        if let Triggers::Remove(..) = self {
            // Nothing happens if there is none; of traceon and traceoff, each removes the other, too.
            let Some(index) = other else { return Ok(()) };
            let removed = file.triggers.remove(index);
            model.arm(place, event, |file| file.need_no_longer())?;
            return targets(model, removed.spec, false);
        }
        if spec.filter != Filter::Clear && !has_value {
            return Err("EINVAL");
        }
        if spec.action == Action::Snapshot {
            model.place(place)?.allocate();
        }
        targets(model, spec, true)?;
        if other.is_some() {
            targets(model, spec, false)?;
            return Err("EEXIST");
        }
        model.arm(place, event, |file| {
            // A histogram is the only one that is added at the end.
            let at = if spec.is_histogram() { file.triggers.len() } else { 0 };
            file.triggers.insert(at, Trigger::new(spec));
            file.need();
        })
    }

    fn step(&self, _: &Model) -> String {
        let (place, event, spec) = self.parts();
        let text = action_text(spec.action, spec.target);
        let text = match self {
            Triggers::Remove(..) => format!("!{text}"),
            Triggers::Add(..) => {
                let count = spec.count.map_or_else(String::new, |count| format!(":{count}"));
                let filter = match spec.filter {
                    Filter::Clear => String::new(),
                    filter => format!(" if {}", filter.text()),
                };
                format!("{text}{count}{filter}")
            }
        };
        write(&event_path(place, event, "trigger"), &text, true)
    }

    fn look(model: &Model) -> Vec<String> {
        let mut steps = Vec::new();
        for ((event, place), file) in &model.files {
            let listed = file.triggers.iter().filter(|trigger| trigger.spec.action != Action::Probe);
            let lines: Vec<String> = listed.map(|trigger| trigger.spec.line()).collect();
            if !lines.is_empty() {
                steps.push(read_lines(&event_path(*place, *event, "trigger"), &lines));
            }
            // One after the other.
            let histograms = file.triggers.iter().filter(|trigger| trigger.spec.is_histogram());
            let totals: Vec<String> =
                histograms.map(|histogram| format!(r"^    Hits: {}$", *histogram.hits)).collect();
            if !totals.is_empty() {
                let (file, totals) = (event_path(*place, *event, "hist"), totals.join("(?s:.*)"));
                steps.push(format!("read: {file:?}, text: {{ matches: {totals:?} }}"));
            }
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<Triggers> {
        let mut all = Vec::new();
        for ((event, place), file) in &model.files {
            let triggers = file.triggers.iter().filter(|trigger| trigger.spec.action != Action::Probe);
            all.extend(triggers.map(|trigger| Triggers::Remove(*place, *event, trigger.spec)));
        }
        all
    }
}
