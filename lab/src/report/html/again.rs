//! The command that runs a scenario again.

use crate::report::ScenarioResult;

/// From the file that holds all that a failure needs, where there is one, else by name. `RUN` stands
/// for the run's directory, which the reader of a report may have put anywhere.
pub(super) fn again(result: &ScenarioResult) -> String {
    match &result.reproducer {
        Some(file) => {
            format!("cargo xtask lab repro {}", quoted(&format!("RUN/{}/{file}", result.directory)))
        }
        None => {
            let name = regex::escape(&result.name).replace("\\-", "-");
            let kernel = quoted(&result.kernel);
            format!("cargo xtask lab run --kernel {kernel} --filter '^{name}$'")
        }
    }
}

/// One word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@,:=".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::fixture::result, verdict::Status};

    #[test]
    fn a_failure_is_repeated_from_its_file_and_a_pass_by_its_name() {
        let mut found = result("probes/a.b-c", Status::Failed);
        assert_eq!(again(&found), "cargo xtask lab run --kernel 6.12 --filter '^probes/a\\.b-c$'");
        found.directory = "6.12/probes/it's".to_owned();
        found.reproducer = Some("repro.yaml".to_owned());
        assert_eq!(again(&found), "cargo xtask lab repro 'RUN/6.12/probes/it'\\''s/repro.yaml'");
    }
}
