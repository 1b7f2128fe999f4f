//! [`Lives`] → KCIDB: a night as JSON of version 5.3 of KernelCI's database, which `kcidb-validate` accepts.
//!
//! A kernel is a checkout and a build, a try of a scenario a test, a fingerprint an issue, and a test that failed with it
//! an incident. What is unsupported is SKIP, and what the lab could not do is ERROR.

use super::{Ending, Lived, Lives};
use crate::words::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The version of the schema.
const VERSION: (u32, u32) = (5, 3);

/// Returns a night as KCIDB reports it; `origin` is the name of the CI system that sends it.
pub fn kcidb(lives: &Lives, night: u32, origin: &str) -> Option<Value> {
    let info = lives.nights.get(night as usize)?;
    let id = |kind: &str, parts: &[&str]| {
        let digest = Sha256::digest(parts.join("\n"));
        format!("{origin}:{kind}-{}", hex(&digest[..10]))
    };
    let build_of = |kernel: &str| id("build", &[&info.time(), kernel]);
    let (mut checkouts, mut builds) = (Vec::new(), Vec::new());
    for kernel in &info.kernels {
        let checkout = id("checkout", &[&kernel.name, &kernel.version]);
        checkouts.push(json!({
            "id": checkout, "origin": origin, "tree_name": kernel.name, "git_commit_name": kernel.version,
            "start_time": info.time(), "valid": true,
        }));
        builds.push(json!({
            "id": build_of(&kernel.name), "checkout_id": checkout, "origin": origin, "architecture": "arm64",
            "config_name": kernel.name, "start_time": info.time(), "status": "PASS",
            "misc": { "config_hash": kernel.config, "qemu": info.qemu },
        }));
    }
    let (mut tests, mut incidents, mut seen) = (Vec::new(), Vec::new(), std::collections::BTreeSet::new());
    for life in &lives.lives {
        let Some(lived) = life.at(night).filter(|_| info.kernel(&life.kernel).is_some()) else { continue };
        let test = id("test", &[&info.time(), &life.kernel, &life.scenario]);
        tests.push(json!({
            "id": test, "build_id": build_of(&life.kernel), "origin": origin, "path": path(&life.scenario),
            "status": status(lived), "start_time": info.time(), "duration": f64::from(lived.seconds),
            "environment": { "comment": info.qemu },
            "misc": { "scenario": life.scenario, "ending": lived.ending.name(), "failed_tries": lived.failed },
        }));
        let Some(fingerprint) = lives.fingerprint(lived.failure) else { continue };
        seen.extend(lived.failure);
        incidents.push(json!({
            "id": id("incident", &[&test, fingerprint]), "origin": origin, "issue_id": format!("{origin}:{fingerprint}"),
            "issue_version": 1, "test_id": test, "present": true,
        }));
    }
    let issue = |failure: u32| {
        let (fingerprint, what) = lives.failures.get(failure as usize)?;
        Some(json!({
            "id": format!("{origin}:{fingerprint}"), "version": 1, "origin": origin,
            "comment": format!("{}: {}", what.broken, what.finding),
        }))
    };
    let issues: Vec<_> = seen.into_iter().filter_map(issue).collect();
    Some(json!({
        "version": { "major": VERSION.0, "minor": VERSION.1 },
        "checkouts": checkouts, "builds": builds, "tests": tests, "issues": issues, "incidents": incidents,
    }))
}

/// Returns the status of a test. One that failed and passed at another try is a failure that happened.
fn status(lived: &Lived) -> &'static str {
    match lived.ending {
        Ending::Passed => "PASS",
        Ending::Failed | Ending::Flaky | Ending::KnownBug => "FAIL",
        Ending::Unsupported => "SKIP",
        Ending::LabError => "ERROR",
    }
}

/// Returns a scenario's name as the path of a test: words of letters, digits, `_` and `-`, separated by points.
fn path(scenario: &str) -> String {
    let words = scenario.split('/').map(|word| {
        word.chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
            .collect::<String>()
    });
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    format!("ftrace-lab.{}", words.join("."))
}
