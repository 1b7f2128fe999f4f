//! Results for tests.

use super::{Host, Qemu, Results, Run, SCHEMA, ScenarioResult};
use crate::results::Status;

/// Returns the result of a scenario on 6.12, without files.
pub(crate) fn result(name: &str, status: Status) -> ScenarioResult {
    ScenarioResult { seconds: 1.0, ..ScenarioResult::bare(name, "6.12", status) }
}

/// Returns a complete run with these results.
pub(crate) fn results(scenarios: Vec<ScenarioResult>) -> Results {
    Results {
        schema: SCHEMA,
        run: Run {
            started: "2026-01-01T00:00:00Z".to_owned(),
            seconds: 1.0,
            first_machine_micros: 0,
            restored_ahead: 0,
            complete: true,
            shuffle: None,
            shard: None,
            cases: None,
            options: None,
        },
        host: Host { architecture: "x86_64".to_owned(), cpus: 2, accelerator: "tcg".to_owned() },
        qemu: Qemu { version: String::new() },
        kernels: Vec::new(),
        scenarios,
    }
}
