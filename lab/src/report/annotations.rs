//! Failures as annotations of GitHub Actions, on the lines of scenarios and of module sources.

use crate::{
    results::{OutcomeStatus, ScenarioResult},
    scenario::Scenario,
};
use std::{fmt, path::Path};

/// Maximum length of a message, in characters: it is shown beside a line.
const MESSAGE_MAX: usize = 600;

/// A remark on a line of a file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The file, relative to the repository.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What failed where.
    pub title: String,
    /// Why.
    pub message: String,
}

/// The command of a workflow.
impl fmt::Display for Annotation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Annotation { file, line, title, message } = self;
        write!(
            out,
            "::error file={},line={line},title={}::{}",
            property(file),
            property(title),
            data(message)
        )
    }
}

/// Returns the annotations of a failed result. `file` is that of its scenario, and `scenario` what is in it;
/// `is_source` says whether a path is a file of the repository.
pub fn annotations(
    result: &ScenarioResult,
    file: &str,
    scenario: &Scenario,
    is_source: impl Fn(&Path) -> bool,
) -> Vec<Annotation> {
    if result.status.is_good() {
        return Vec::new();
    }
    let title = format!("{} on {}: {}", result.name, result.kernel, result.status);
    let of_scenario = |line: Option<usize>, message: &str| Annotation {
        file: file.to_owned(),
        line: line.unwrap_or(1),
        title: title.clone(),
        message: message.chars().take(MESSAGE_MAX).collect(),
    };
    let mut all = Vec::new();
    for (index, step) in result.steps.iter().enumerate().filter(|(_, step)| !step.passed) {
        all.push(of_scenario(scenario.steps.get(index).map(|step| step.line), &step.detail));
    }
    let failed = |status| matches!(status, OutcomeStatus::Failed | OutcomeStatus::Inconclusive);
    for (index, outcome) in
        result.expectations.iter().enumerate().filter(|(_, outcome)| failed(outcome.status))
    {
        all.push(of_scenario(scenario.expect.get(index).map(|item| item.line), &outcome.detail));
    }
    for splat in &result.splats {
        let places =
            splat.frames.iter().filter(|frame| frame.module.is_some()).flat_map(|frame| &frame.places);
        // The sources of a module are named after their directory, which may be the repository's.
        let source = places.into_iter().find_map(|place| {
            let path = Path::new(&place.file);
            let below: &Path = path.strip_prefix(path.components().next()?).ok()?;
            [path, below].into_iter().find(|path| is_source(path)).map(|path| (path.to_owned(), place.line))
        });
        if let Some((path, line)) = source {
            all.push(Annotation {
                file: path.to_string_lossy().into_owned(),
                line: line as usize,
                title: title.clone(),
                message: splat.title.clone(),
            });
        }
    }
    if all.is_empty() {
        all.push(of_scenario(None, &result.reason));
    }
    all
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Status, StepResult};

    #[test]
    fn a_failure_is_noted_on_its_line_and_commands_in_it_are_text() {
        let text = "summary: s\nsteps:\n  - read: a\n  - read: b\n";
        let scenario = Scenario::parse(Path::new("s.yaml"), text).unwrap();
        let step = |passed, detail: &str| StepResult { passed, detail: detail.into(), ..Default::default() };
        let json = r#"{ "name": "a/s", "kernel": "6.12", "status": "failed", "reason": "", "seconds": 1,
            "directory": "", "steps": [], "expectations": [] }"#;
        let mut result: ScenarioResult = serde_json::from_str(json).unwrap();
        result.steps = vec![step(true, ""), step(false, "50 %\n::error::x")];
        let said = |result: &ScenarioResult| -> Vec<String> {
            let all = annotations(result, "scenarios/a/s.yaml", &scenario, |_| false);
            all.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            said(&result),
            ["::error file=scenarios/a/s.yaml,line=4,title=a/s on 6.12%3A failed::50 %25%0A::error::x"]
        );
        (result.steps, result.reason) = (Vec::new(), "it died".into());
        assert_eq!(
            said(&result),
            ["::error file=scenarios/a/s.yaml,line=1,title=a/s on 6.12%3A failed::it died"]
        );
        result.status = Status::Passed;
        assert!(said(&result).is_empty());
    }
}
