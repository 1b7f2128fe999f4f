//! The pages of the site.

use super::{
    super::{Between, DenyList, Ending, FailureShown, Judged, Life, Lives, Paces, Rate, Since, judge},
    html::{class, escaped, line, link, page, strip, table},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// The maximum number of rows of a table that grows with the number of nights.
const ROWS_MAX: usize = 500;

/// The number of last nights in a heat map.
const NIGHTS_SHOWN: usize = 120;

/// What the pages are made from.
pub(super) struct Site<'a> {
    pub(super) lives: &'a Lives,
    pub(super) night: u32,
    /// How the command is called.
    pub(super) lab: &'a str,
}

impl<'a> Site<'a> {
    pub(super) fn kernels(&self) -> BTreeSet<&'a str> {
        self.lives.lives.iter().map(|life| life.kernel.as_str()).collect()
    }

    pub(super) fn scenarios(&self) -> BTreeMap<&'a str, Vec<&'a Life>> {
        let mut scenarios: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
        self.lives.lives.iter().for_each(|life| scenarios.entry(&life.scenario).or_default().push(life));
        scenarios
    }

    pub(super) fn index(&self, denied: &DenyList) -> String {
        let lives = self.lives;
        let last = lives.time(self.night);
        let mut body = format!(
            "<h1>ftrace-lab: {} nights</h1>\n<p class=\"soft\">from {} to {last}</p>\n",
            lives.nights.len(),
            lives.time(0)
        );
        if let Some(judged) = judge(lives, self.night, denied) {
            body += &last_night(&judged);
        }
        body += "<h2>Kernels</h2>\n";
        let rows: Vec<_> = self.kernels().into_iter().map(|kernel| self.kernel_row(kernel)).collect();
        body += &table(&["kernel", "last version", "last night", "nights"], &rows);
        body += "<h2>Flakes</h2>\n";
        let flake = |flake: super::super::FlakeShown| {
            vec![
                link("scenario", &flake.scenario),
                escaped(flake.kernel),
                escaped(flake.rate),
                escaped(flake.last),
            ]
        };
        let flakes: Vec<_> = lives.flakes().into_iter().take(ROWS_MAX).map(flake).collect();
        body += &table_or(&["scenario", "kernel", "failed first tries", "last"], &flakes, "None.");
        body += "<h2>Failures</h2>\n";
        let failure = |failure: FailureShown| {
            let state = if failure.is_current {
                "<span class=\"bad\">last night</span>".into()
            } else {
                escaped(&failure.last)
            };
            let where_seen =
                format!("{} scenarios on {}", failure.scenarios.len(), failure.kernels.join(", "));
            vec![
                link("failure", &failure.fingerprint),
                escaped(failure.finding),
                state,
                failure.nights.to_string(),
                escaped(where_seen),
            ]
        };
        let failures: Vec<_> = lives.failures().into_iter().take(ROWS_MAX).map(failure).collect();
        body += &table_or(&["fingerprint", "found", "last seen", "nights", "in"], &failures, "None.");
        body += "<h2>Slower</h2>\n";
        let grown = |grown: super::super::Grown| {
            let what = grown
                .scenario
                .as_ref()
                .map_or_else(|| "everything".to_owned(), |scenario| link("scenario", scenario));
            vec![
                what,
                escaped(grown.kernel),
                format!("{:.2} s → {:.2} s", grown.before, grown.now),
                escaped(grown.since),
            ]
        };
        let slower: Vec<_> = Paces::of(lives, self.night).grown().into_iter().map(grown).collect();
        body += &table_or(&["scenario", "kernel", "seconds", "since about"], &slower, "Nothing.");
        body += "<h2>Trends</h2>\n";
        self.kernels().into_iter().for_each(|kernel| body += &self.trends(kernel));
        body += "<h2>Scenarios</h2>\n<p>";
        for scenario in self.scenarios().keys() {
            let _ = write!(body, "{} ", link("scenario", scenario));
        }
        page("ftrace-lab: history", &(body + "</p>\n"))
    }

    fn kernel_row(&self, kernel: &str) -> Vec<String> {
        let nights: Vec<_> = (0..self.lives.nights.len() as u32)
            .filter(|night| self.lives.nights[*night as usize].kernel(kernel).is_some())
            .collect();
        let last = nights.last().copied().unwrap_or_default();
        let info = self.lives.nights[last as usize].kernel(kernel);
        let version = info.map(|kernel| kernel.version.clone()).unwrap_or_default();
        let of = self.lives.lives.iter().filter(|life| life.kernel == kernel);
        let endings: Vec<_> = of.filter_map(|life| life.at(last)).map(|lived| lived.ending).collect();
        let counts = Ending::ALL.iter().filter_map(|(ending, name)| {
            let count = endings.iter().filter(|other| *other == ending).count();
            (count > 0).then(|| format!("{count} {name}"))
        });
        vec![
            link("kernel", kernel),
            escaped(version),
            counts.collect::<Vec<_>>().join(", "),
            nights.len().to_string(),
        ]
    }

    /// Returns the cost of the suite on a kernel, and its coverage, over time.
    fn trends(&self, kernel: &str) -> String {
        let nights = self.lives.nights.len();
        let mut seconds = vec![0.0; nights];
        for life in self.lives.lives.iter().filter(|life| life.kernel == kernel) {
            life.nights.iter().for_each(|lived| seconds[lived.night as usize] += f64::from(lived.seconds));
        }
        let seconds: Vec<_> = (0..).zip(seconds).filter(|(_, seconds)| *seconds > 0.0).collect();
        let of = |at: usize| {
            let share =
                |night: &super::super::NightInfo| night.kernel(kernel)?.covered.map(|covered| covered[at]);
            let shares =
                (0..).zip(&self.lives.nights).filter_map(|(number, night)| Some((number, share(night)?)));
            shares
                .map(|(number, share)| (number, 100.0 * share.ran as f64 / share.all.max(1) as f64))
                .collect::<Vec<_>>()
        };
        line(&seconds, nights, "s", &format!("{kernel}: seconds of all scenarios"))
            + &line(&of(0), nights, "%", &format!("{kernel}: lines that ran"))
            + &line(&of(1), nights, "%", &format!("{kernel}: functions that ran"))
    }

    pub(super) fn kernel(&self, kernel: &str) -> String {
        let nights = self.lives.nights.len();
        let first = nights.saturating_sub(NIGHTS_SHOWN);
        let mut body = format!("{NAVIGATION}<h1>{}</h1>\n{}", escaped(kernel), key());
        let _ = writeln!(
            body,
            "<p class=\"soft\">from {} to {}</p>",
            self.lives.time(first as u32),
            self.lives.time(self.night)
        );
        body += "<table class=\"heat\"><tbody>\n";
        for life in self.lives.lives.iter().filter(|life| life.kernel == kernel) {
            let _ = writeln!(
                body,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                link("scenario", &life.scenario),
                self.strip(life, first)
            );
        }
        body += "</tbody></table>\n<h2>Trends</h2>\n";
        page(&format!("{kernel}: history"), &(body + &self.trends(kernel)))
    }

    fn strip(&self, life: &Life, first: usize) -> String {
        let mut nights = vec![None; self.lives.nights.len() - first];
        for lived in &life.nights {
            if let Some(at) = (lived.night as usize).checked_sub(first) {
                nights[at] = Some(lived.ending);
            }
        }
        let count = |ending| nights.iter().filter(|night| **night == Some(ending)).count();
        let label = format!(
            "{} nights: {} failed, {} flaky",
            nights.len(),
            count(Ending::Failed),
            count(Ending::Flaky)
        );
        strip(&nights, &label)
    }

    pub(super) fn scenario(&self, scenario: &str, lives: &[&Life]) -> String {
        let nights = self.lives.nights.len();
        let mut body = format!("{NAVIGATION}<h1>{}</h1>\n{}", escaped(scenario), key());
        for life in lives {
            let sum = |of: fn(&super::super::Lived) -> u32| life.nights.iter().map(of).sum();
            let rate = Rate::of(sum(|lived| lived.failed_first), sum(|lived| lived.first_tries));
            let _ = writeln!(
                body,
                "<h2>{}</h2>\n<p>first tries that failed: {}</p>",
                link("kernel", &life.kernel),
                escaped(rate)
            );
            body += &self.strip(life, 0);
            let seconds = life.nights.iter().filter(|lived| lived.ending.holds());
            let seconds: Vec<_> = seconds.map(|lived| (lived.night, f64::from(lived.seconds))).collect();
            body += &line(&seconds, nights, "s", "time of passes");
            let bad =
                life.nights.iter().rev().filter(|lived| lived.failed > 0 || lived.ending == Ending::LabError);
            let rows: Vec<_> = bad
                .take(ROWS_MAX)
                .map(|lived| {
                    let print = self
                        .lives
                        .fingerprint(lived.failure)
                        .map(|print| link("failure", print))
                        .unwrap_or_default();
                    let info = &self.lives.nights[lived.night as usize];
                    let version =
                        info.kernel(&life.kernel).map(|kernel| escaped(&kernel.version)).unwrap_or_default();
                    vec![info.time(), lived.ending.name().into(), print, version]
                })
                .collect();
            if !rows.is_empty() {
                body += &table(&["night", "ending", "failure", "kernel"], &rows);
            }
        }
        page(&format!("{scenario}: history"), &body)
    }

    /// `reproducer` is the file next to the page, if there is one.
    pub(super) fn failure(&self, failure: &FailureShown, reproducer: Option<&str>) -> String {
        let mut body = format!(
            "{NAVIGATION}<h1>{}</h1>\n<p>{}</p>\n<pre class=\"wrap\">{}</pre>\n<p>first seen {}, last seen {}, in {} nights</p>\n",
            escaped(&failure.fingerprint),
            escaped(&failure.broken),
            escaped(&failure.finding),
            escaped(&failure.first),
            escaped(&failure.last),
            failure.nights
        );
        let all = self.lives.since(&failure.fingerprint, None).unwrap_or_default();
        let row = |since: &Since| {
            let state = if since.is_current {
                "<span class=\"bad\">fails</span>"
            } else {
                "<span class=\"good\">passes</span>"
            };
            let between = since.between.as_ref().map(escaped).unwrap_or_default();
            vec![link("scenario", &since.scenario), link("kernel", &since.kernel), state.to_owned(), between]
        };
        body += "<h2>Where</h2>\n";
        body += &table(&["scenario", "kernel", "now", "began"], &all.iter().map(row).collect::<Vec<_>>());
        body += "<h2>Reproduce</h2>\n";
        let file = match reproducer {
            Some(file) => {
                let _ = writeln!(
                    body,
                    "<p><a href=\"{file}\" download>{file}</a></p>\n<pre>{} repro {file}</pre>",
                    escaped(self.lab)
                );
                file.to_owned()
            }
            None => {
                body += "<p>No reproducer was kept. Run the scenario:</p>\n";
                let first = all.first();
                let (scenario, kernel) =
                    first.map(|since| (since.scenario.as_str(), since.kernel.as_str())).unwrap_or_default();
                let _ = writeln!(
                    body,
                    "<pre>{} run --kernel {} {}</pre>",
                    escaped(self.lab),
                    quoted(kernel),
                    quoted(scenario)
                );
                format!("scenarios/{scenario}.yaml")
            }
        };
        body += "<h2>Bisect</h2>\n";
        body += &self.bisect(&all, &file);
        page(&failure.fingerprint, &body)
    }

    /// Returns the command that searches the kernels between the last good and the first bad night, or what else differs.
    fn bisect(&self, all: &[Since], file: &str) -> String {
        let versions =
            |between: &Between| Some((between.good.as_ref()?.kernel.clone(), between.bad.kernel.clone()));
        let between = all.iter().filter_map(|since| Some((since, versions(since.between.as_ref()?)?)));
        let differing = between.clone().find(|(_, (good, bad))| good != bad);
        if let Some((since, (good, bad))) = differing {
            let command = format!(
                "bisect {} --kernel {} --good {} --bad {}",
                quoted(file),
                quoted(&since.kernel),
                quoted(&good),
                quoted(&bad)
            );
            return format!("<pre>{} {command}</pre>\n", escaped(self.lab));
        }
        // A failure of some kernels is searched between them.
        let bad: BTreeSet<_> =
            all.iter().filter(|since| since.is_current).map(|since| since.kernel.as_str()).collect();
        let passes = |kernel: &&str| {
            let life = |since: &&Since| {
                self.lives.life(kernel, &since.scenario).and_then(|life| life.at(self.night))
            };
            !bad.contains(kernel)
                && all
                    .iter()
                    .filter(|since| since.is_current)
                    .any(|since| life(&since).is_some_and(|lived| lived.ending.holds()))
        };
        match (bad.first(), self.kernels().into_iter().find(passes)) {
            (Some(bad), Some(good)) => {
                format!("<pre>{} bisect {} --good {} --bad {}</pre>\n", escaped(self.lab), quoted(file), quoted(good), quoted(bad))
            }
            _ => "<p>The kernel was the same in the nights before and after it began: see what else differs above.</p>\n".into(),
        }
    }
}

const NAVIGATION: &str = "<nav><a href=\"index.html\">all nights</a></nav>\n";

/// Returns the words of a shell command as HTML.
fn quoted(word: &str) -> String {
    escaped(crate::words::shell_words([word]))
}

fn table_or(headings: &[&str], rows: &[Vec<String>], none: &str) -> String {
    if rows.is_empty() { format!("<p class=\"soft\">{none}</p>\n") } else { table(headings, rows) }
}

/// Returns what the colours mean.
fn key() -> String {
    let mut html = String::from("<p>");
    for (ending, name) in Ending::ALL {
        let _ = write!(html, "<span class=\"key {}\"></span>{name}", class(ending));
    }
    html + "</p>\n"
}

fn last_night(judged: &Judged) -> String {
    let verdict = if judged.fails {
        "<span class=\"bad\">fails</span>"
    } else {
        "<span class=\"good\">does not fail</span>"
    };
    let mut html = format!(
        "<h2>Last night</h2>\n<p>{} {verdict}: {} verdicts</p>\n",
        escaped(&judged.night),
        judged.verdicts
    );
    let mut rows = Vec::new();
    let mut row = |what: &str, case: &super::super::Case, more: String| {
        let print = case.fingerprint.as_ref().map(|print| link("failure", print)).unwrap_or_default();
        rows.push(vec![
            link("scenario", &case.scenario),
            escaped(&case.kernel),
            what.to_owned(),
            print,
            escaped(more),
        ]);
    };
    for alarm in &judged.alarms {
        let between = alarm.between.as_ref().map(ToString::to_string).unwrap_or_default();
        row("<span class=\"bad\">new</span>", &alarm.case, between);
    }
    judged.flaky.iter().for_each(|flaky| row("flaky", &flaky.case, format!("failed {}", flaky.rate)));
    judged.unrepeated.iter().for_each(|case| row("failed once", case, String::new()));
    judged
        .still_failing
        .iter()
        .for_each(|failing| row("still failing", &failing.case, format!("since {}", failing.since)));
    judged
        .fixed
        .iter()
        .for_each(|failing| row("fixed", &failing.case, format!("failed since {}", failing.since)));
    judged.lab_errors.iter().for_each(|case| row("lab error", case, String::new()));
    for known in &judged.known {
        row("known", &known.case, format!("{}, {}, until {}", known.reason, known.owner, known.expires));
    }
    html += &table_or(&["scenario", "kernel", "what", "failure", ""], &rows, "Everything passed, as before.");
    for stale in &judged.stale {
        let _ = writeln!(
            html,
            "<p class=\"bad\">deny list: {}, of {}: {}</p>",
            escaped(&stale.scenario),
            escaped(&stale.owner),
            escaped(&stale.cause)
        );
    }
    html
}
