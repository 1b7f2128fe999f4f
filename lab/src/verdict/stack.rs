//! `stack:`, the frames of a stack trace that follows an event.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, describe},
    pairs::task,
    selector::Selector,
};
use crate::scenario::{Line, Stack};
use std::collections::HashMap;
use trace::Value;

/// The event of ftrace with a stack trace.
const KERNEL_STACK: &str = "kernel_stack";

/// The maximum number of stacks that are shown.
const SHOWN: usize = 3;

pub(super) struct Stacks {
    selector: Selector,
    frames: Vec<Line>,
    strict: bool,
    /// Selects the stack event itself, not the event before it.
    direct: bool,
    /// Selected events that wait for their stack, by CPU.
    waiting: HashMap<u32, ((i32, u32), String)>,
    found: u64,
    stacks: u64,
    others: Vec<String>,
}

impl Stacks {
    pub(super) fn new(stack: &Stack) -> Stacks {
        Stacks {
            selector: Selector::new(&stack.event, stack.condition.as_ref()),
            frames: stack.frames.clone(),
            strict: stack.strict,
            direct: stack.event.name == KERNEL_STACK,
            waiting: HashMap::new(),
            found: 0,
            stacks: 0,
            others: Vec::new(),
        }
    }

    fn judge(&mut self, stack: &dyn Observed, of: &str) {
        self.stacks += 1;
        let names = frames(stack);
        if self.fits(&names) {
            self.found += 1;
        } else if self.others.len() < SHOWN {
            let (missing, _) = self.first_missing(&names);
            let shown: Vec<_> = names.iter().take(24).map(String::as_str).collect();
            let missing =
                missing.map_or("another frame comes between".to_owned(), |frame| format!("no `{frame}`"));
            self.others.push(format!("{of}\n      {}\n      {missing}", shown.join(" < ")));
        }
    }

    fn fits(&self, names: &[String]) -> bool {
        let same = |(name, frame): (&String, &Line)| name == frame.as_str();
        if self.strict {
            return names.windows(self.frames.len()).any(|window| window.iter().zip(&self.frames).all(same));
        }
        self.first_missing(names).0.is_none()
    }

    /// Returns the first frame that is missing or out of order, and the number of those before it.
    fn first_missing(&self, names: &[String]) -> (Option<&Line>, usize) {
        let mut rest = names.iter();
        for (index, frame) in self.frames.iter().enumerate() {
            if !rest.any(|name| name == frame.as_str()) {
                return (Some(frame), index);
            }
        }
        (None, self.frames.len())
    }
}

/// Returns the functions of a stack event, innermost first.
fn frames(stack: &dyn Observed) -> Vec<String> {
    let Some(Value::List(callers)) = stack.field("caller") else { return Vec::new() };
    let name = |caller: &Value<'_>| match caller {
        // The list may be padded to its full length.
        Value::Unsigned(0 | u64::MAX) => None,
        Value::Unsigned(address) => Some(match stack.symbol(*address) {
            Some((name, _)) => name.to_owned(),
            None => format!("{address:#x}"),
        }),
        _ => None,
    };
    callers.iter().filter_map(name).collect()
}

impl Evaluate for Stacks {
    fn wants(&self, group: &str, name: &str) -> bool {
        name == KERNEL_STACK || self.selector.wants(group, name)
    }

    fn observe(&mut self, event: &dyn Observed) {
        if event.name() == KERNEL_STACK {
            if self.direct {
                if self.selector.matches(event, &[]) {
                    self.judge(event, &describe(event));
                }
            } else if let Some((waiting, _)) = self.waiting.get(&event.cpu())
                && *waiting == task(event)
                && let Some((_, of)) = self.waiting.remove(&event.cpu())
            {
                self.judge(event, &of);
            }
        } else if self.selector.matches(event, &[]) {
            self.waiting.insert(event.cpu(), (task(event), describe(event)));
        }
    }

    /// With losses, a stack that was found passes; otherwise the result is inconclusive.
    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.selector.error() {
            return Finding::failed(error);
        }
        let found = format!("found the frames in {} of {} stacks", self.found, self.stacks);
        if self.found > 0 {
            return Finding::passed(found);
        }
        if after.losses.any() {
            return after.inconclusive(&found);
        }
        if self.stacks == 0 {
            let none = if self.direct { "" } else { "; is the option or trigger `stacktrace` on?" };
            return Finding::failed(format!("no stack follows an event{none}{}", self.selector.explain()));
        }
        let others: String = self.others.iter().map(|stack| format!("\n    {stack}")).collect();
        Finding::failed(format!("{found}\n  the first:{others}"))
    }
}
