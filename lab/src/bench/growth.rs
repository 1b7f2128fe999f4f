//! Formats how the time of a run scales with its scenarios and with machines at once, as a table.

use std::collections::BTreeMap;

/// Formats the seconds of runs by scenarios and jobs: a row per number of scenarios, a column per
/// number of jobs. Each cell has the time of the run, followed by the time per scenario.
pub(super) fn table(runs: &BTreeMap<(usize, usize), f64>) -> String {
    let mut rows: Vec<usize> = runs.keys().map(|&(scenarios, _)| scenarios).collect();
    let mut columns: Vec<usize> = runs.keys().map(|&(_, jobs)| jobs).collect();
    rows.dedup();
    columns.sort_unstable();
    columns.dedup();
    let mut lines = vec![header(&columns)];
    for scenarios in rows {
        let cell = |&jobs: &usize| match runs.get(&(scenarios, jobs)) {
            Some(seconds) => format!("{:>18}", format!("{seconds:.1} s ({:.2})", seconds / scenarios as f64)),
            None => format!("{:>18}", "-"),
        };
        lines.push(format!("{scenarios:>9}{}", columns.iter().map(cell).collect::<String>()));
    }
    lines.join("\n") + "\n"
}

fn header(columns: &[usize]) -> String {
    let name = |jobs: &usize| format!("{:>18}", format!("{jobs} job{}", if *jobs == 1 { "" } else { "s" }));
    format!("scenarios{}", columns.iter().map(name).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_place_and_what_was_not_measured_a_dash() {
        let runs = BTreeMap::from([((100, 2), 41.0), ((10, 1), 9.0), ((10, 2), 4.5)]);
        assert_eq!(
            table(&runs),
            "scenarios             1 job            2 jobs\n\
             \x20      10      9.0 s (0.90)      4.5 s (0.45)\n\
             \x20     100                 -     41.0 s (0.41)\n"
        );
    }
}
