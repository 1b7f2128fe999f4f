//! Shows side by side where two traces diverge.

use crate::words;
use trace::diff::{Comparison, IGNORED};

/// Returns the common part of two traces, A and B, and the events where they diverge, as text.
pub fn side_by_side(comparison: &Comparison) -> String {
    let mut lines = Vec::new();
    match comparison {
        Comparison::Same(count) => lines.push(format!("the sequences of {count} events are the same")),
        Comparison::Different(difference) => {
            let same = difference.same;
            lines.push(match same {
                0 => "they diverge at the first event".to_owned(),
                same => format!("{same} events are the same; they diverge at event {}", same + 1),
            });
            for (a, b) in difference.before[0].iter().zip(&difference.before[1]) {
                lines.push(format!("  A {}", printable(a)));
                lines.push(format!("  B {}", printable(b)));
            }
            for (name, after) in ["A", "B"].iter().zip(&difference.after) {
                match after.split_first() {
                    None => lines.push(format!("> {name} has no more events")),
                    Some((first, rest)) => {
                        lines.push(format!("> {name} {}", printable(first)));
                        lines.extend(rest.iter().map(|line| format!("  {name} {}", printable(line))));
                    }
                }
            }
        }
    }
    lines.push(IGNORED.to_owned());
    lines.join("\n") + "\n"
}

/// Replaces control characters of the guest's text. The frames of a stack stay on separate lines.
fn printable(line: &str) -> String {
    words::printable(line).replace('\n', "\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::diff::Difference;

    #[test]
    fn what_is_the_same_stands_in_pairs_and_the_rest_apart() {
        let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let difference = Difference {
            same: 7,
            before: [lines(&["one-1"]), lines(&["one-2"])],
            after: [lines(&["two\u{1b}[2J", "three"]), lines(&[])],
        };
        let text = side_by_side(&Comparison::Different(difference));
        let expect = "7 events are the same; they diverge at event 8\n  A one-1\n  B one-2\n> A two\u{fffd}[2J\n  A three\n\
                      > B has no more events\nignored: ";
        assert!(text.starts_with(expect), "{text}");
        assert!(side_by_side(&Comparison::Same(3)).starts_with("the sequences of 3 events are the same\n"));
    }
}
