//! Results for tests.

use super::{Host, Qemu, Results, Run, SCHEMA, ScenarioResult};
use crate::verdict::Status;

/// What a scenario came to on 6.12, with no files.
pub(crate) fn result(name: &str, status: Status) -> ScenarioResult {
    ScenarioResult {
        name: name.to_owned(),
        kernel: "6.12".to_owned(),
        repeat: None,
        status,
        reason: String::new(),
        seconds: 1.0,
        directory: String::new(),
        vmcore: None,
        reproducer: None,
        steps: Vec::new(),
        expectations: Vec::new(),
        splats: Vec::new(),
        stacks: Vec::new(),
        left_behind: Vec::new(),
        notes: Vec::new(),
    }
}

/// A whole run of these.
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
        },
        host: Host { architecture: "x86_64".to_owned(), cpus: 2, accelerator: "tcg".to_owned() },
        qemu: Qemu { version: String::new() },
        kernels: Vec::new(),
        scenarios,
    }
}
