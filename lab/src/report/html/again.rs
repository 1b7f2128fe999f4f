//! The command that reruns a scenario.

use crate::{results::ScenarioResult, words::called};

/// Returns the command: from the reproducer if there is one, else by name. `RUN` stands for the run's
/// directory, which the reader of a report may have moved.
pub(super) fn again(result: &ScenarioResult) -> String {
    match &result.reproducer {
        Some(file) => {
            format!(
                "{} {}",
                called("cargo xtask lab repro"),
                quoted(&format!("RUN/{}/{file}", result.directory))
            )
        }
        None => {
            let name = regex::escape(&result.name).replace("\\-", "-");
            let kernel = quoted(&result.kernel);
            format!("{} --kernel {kernel} --filter '^{name}$'", called("cargo xtask lab run"))
        }
    }
}

/// Quotes a word for the shell if necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@,:=".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Status, fixture::result};

    #[test]
    fn a_failure_is_repeated_from_its_file_and_a_pass_by_its_name() {
        let mut found = result("probes/a.b-c", Status::Failed);
        assert_eq!(again(&found), "cargo xtask lab run --kernel 6.12 --filter '^probes/a\\.b-c$'");
        found.directory = "6.12/probes/it's".to_owned();
        found.reproducer = Some("repro.yaml".to_owned());
        assert_eq!(again(&found), "cargo xtask lab repro 'RUN/6.12/probes/it'\\''s/repro.yaml'");
    }
}
