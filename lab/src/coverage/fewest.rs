//! A few scenarios that together run nearly all that all scenarios run.

use super::Measured;

/// A few of the scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Fewest {
    /// Their names, the one that gives most for its time first.
    pub scenarios: Vec<String>,
    /// The number of lines that they ran.
    pub lines: usize,
    /// The number of lines that all scenarios ran.
    pub of_lines: usize,
    /// The seconds that they took.
    pub seconds: f64,
    /// The seconds that all took.
    pub of_seconds: f64,
}

/// Chooses scenarios that ran `percent` of the lines that all ran, in little time, given the seconds that
/// each took.
pub fn fewest(measured: &Measured, percent: usize, seconds: impl Fn(&str) -> Option<f64>) -> Fewest {
    let lines = |code| {
        let ran = measured.source.lines_in(code).into_iter().enumerate();
        ran.filter(|(_, ran)| *ran).map(|(line, _)| line).collect()
    };
    let candidates = measured.scenarios.iter().map(|(name, code)| Candidate {
        name,
        // Nothing is free.
        seconds: seconds(name).unwrap_or_default().max(0.05),
        lines: lines(code),
    });
    choose(candidates.collect(), percent)
}

struct Candidate<'a> {
    name: &'a str,
    seconds: f64,
    /// The lines that it ran, and none of those chosen before.
    lines: Vec<usize>,
}

impl Candidate<'_> {
    #[expect(clippy::cast_precision_loss, reason = "there are fewer lines")]
    fn lines_per_second(&self) -> f64 {
        self.lines.len() as f64 / self.seconds
    }
}

fn choose(mut candidates: Vec<Candidate<'_>>, percent: usize) -> Fewest {
    let mut all: Vec<usize> = candidates.iter().flat_map(|candidate| candidate.lines.clone()).collect();
    all.sort_unstable();
    all.dedup();
    let mut chosen = Fewest {
        scenarios: Vec::new(),
        lines: 0,
        of_lines: all.len(),
        seconds: 0.0,
        of_seconds: candidates.iter().map(|candidate| candidate.seconds).sum(),
    };
    let mut ran = vec![false; all.last().map_or(0, |last| last + 1)];
    while 100 * chosen.lines < percent * chosen.of_lines {
        let best = candidates
            .iter()
            .enumerate()
            .max_by(|(_, a), (_, b)| a.lines_per_second().total_cmp(&b.lines_per_second()));
        let Some(best) = best.map(|(index, _)| index) else { break };
        let best = candidates.swap_remove(best);
        best.lines.iter().for_each(|line| ran[*line] = true);
        chosen.lines += best.lines.len();
        chosen.seconds += best.seconds;
        chosen.scenarios.push(best.name.to_owned());
        candidates.iter_mut().for_each(|other| other.lines.retain(|line| !ran[*line]));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_second_decide() {
        let candidate = |name, seconds, lines: &[usize]| Candidate { name, seconds, lines: lines.into() };
        let candidates = || {
            vec![
                candidate("all", 20.0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
                candidate("few", 1.0, &[0, 1, 2, 3]),
                candidate("same", 1.0, &[1, 2, 3]),
                candidate("rest", 2.0, &[3, 4, 5, 6, 7, 8]),
            ]
        };
        let check = |percent, expect: &[&str], lines, seconds: f64| {
            let chosen = choose(candidates(), percent);
            assert_eq!(chosen.scenarios, expect);
            assert_eq!((chosen.lines, chosen.of_lines), (lines, 10));
            assert!((chosen.seconds - seconds).abs() < 0.001 && (chosen.of_seconds - 24.0).abs() < 0.001);
        };
        check(0, &[], 0, 0.0);
        check(40, &["few"], 4, 1.0);
        check(41, &["few", "rest"], 9, 3.0);
        check(90, &["few", "rest"], 9, 3.0);
        check(100, &["few", "rest", "all"], 10, 23.0);
    }

    #[test]
    fn of_nothing_nothing_is_chosen() {
        assert!(choose(Vec::new(), 95).scenarios.is_empty());
    }
}
