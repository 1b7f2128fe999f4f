//! `kernel_text:`, the kernel's own text of the trace compared with the raw ring buffer.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::Observed,
};
use crate::{recording::stored_text, results::OutcomeStatus, scenario::KernelText, words::excerpt};
use trace::text::{Comparison, Difference};

/// The maximum length of a line that is shown, in characters.
const SHOWN: usize = 400;

/// Compares the text that was read with the trace of its tracing instance.
pub(super) struct TextCheck(pub(super) KernelText);

impl Evaluate for TextCheck {
    fn wants(&self, _: &str, _: &str) -> bool {
        false
    }

    fn observe(&mut self, _: &dyn Observed) {}

    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        let (Some(trace), Some(stored)) = (after.trace, stored_text(&self.0, after.files)) else {
            return inconclusive("the kernel's text was not read");
        };
        if let Some(refused) = stored.refused {
            return Finding::failed(format!("the kernel rejects the trace option `{refused}`"));
        }
        match trace.compare_text(&stored.setting, &stored.bytes) {
            Ok(comparison) => finding(&self.0, &comparison),
            Err(error) => Finding::failed(format!(
                "cannot compare the kernel's text: {}",
                excerpt(&format!("{error:#}"), SHOWN)
            )),
        }
    }
}

fn inconclusive(detail: &str) -> Finding {
    Finding { status: OutcomeStatus::Inconclusive, detail: detail.to_owned() }
}

fn finding(text: &KernelText, comparison: &Comparison) -> Finding {
    let Comparison { events, lines, difference, cut } = comparison;
    if let Some(difference) = difference {
        return Finding::failed(message(difference));
    }
    if *cut {
        return inconclusive(&format!("the kernel's text is too long: only {lines} lines were read"));
    }
    let found = format!("found {lines} lines for {events} events");
    match text.events {
        Some(amount) if !amount.allows(*events as u64) => {
            Finding::failed(format!("{found}, expected {amount} events"))
        }
        None if *events == 0 => Finding::failed(format!("{found}, expected at least one event")),
        _ => Finding::passed(found),
    }
}

fn message(difference: &Difference) -> String {
    let Difference { line, kernel, expected, event } = difference;
    let quoted = |text: &Option<String>, absent: &str| match text {
        Some(text) => format!("\"{}\"", excerpt(text, SHOWN)),
        None => absent.to_owned(),
    };
    let event =
        event.as_ref().map_or_else(String::new, |event| format!("\n  event     {}", excerpt(event, SHOWN)));
    format!(
        "line {line} of the kernel's text is {}\n  expected  {}{event}",
        quoted(kernel, "missing"),
        quoted(expected, "the end of the text")
    )
}
