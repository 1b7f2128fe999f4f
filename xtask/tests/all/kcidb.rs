//! `lab history --kcidb`, checked by KernelCI's own package, which pip fetches into the cache.

use crate::{
    pip,
    stage::{scratch, xtask},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kcidb_client").join(name)
}

/// Returns the result of a scenario on 6.12, as a lab writes it.
fn result(name: &str, status: &str) -> Value {
    let reason = if status == "passed" { "" } else { "the run: found 3" };
    json!({ "name": name, "kernel": "6.12", "status": status, "reason": reason, "seconds": 0.5, "directory": "", "steps": [],
            "expectations": [] })
}

fn history(arguments: &[&str], directory: &Path) -> Command {
    let mut command = xtask();
    command.args(["lab", "history"]).args(arguments).current_dir(directory);
    command
}

#[test]
fn kernelcis_own_package_accepts_a_night() {
    let directory = scratch();
    let directory = directory.path();
    let mut again = result("area/flaky", "passed");
    again["retry"] = 1.into();
    let scenarios = [
        result("area/passes", "passed"),
        result("area/fails é", "failed"),
        result("area/panics", "panic"),
        result("area/flaky", "failed"),
        again,
        result("area/unsupported", "unsupported"),
        result("area/unsure", "inconclusive"),
        result("area/lab", "lab_error"),
    ];
    let results = json!({
        "schema": 1, "run": { "started": "2026-01-31T02:17:00Z", "seconds": 9.0, "first_machine_micros": 0, "complete": true },
        "host": { "architecture": "x86_64", "cpus": 2, "accelerator": "tcg" }, "qemu": { "version": "QEMU emulator version 10.0.0" },
        "kernels": [{ "name": "6.12", "source_version": "6.12.117", "config_hash": "ab" }], "scenarios": scenarios,
    });
    fs::write(directory.join("results.json"), results.to_string()).unwrap();
    let run = |arguments: &[&str]| {
        let output = history(arguments, directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["add", "results.json", "--into", "history"]);
    run(&["--kcidb", "kcidb.json", "--from", "history"]);
    let packages = pip::packages(include_str!("../kcidb_client/requirements.txt"));
    let validate = |name: &str| pip::python(&packages, &file("validate.py")).arg(directory.join(name)).run();
    let counts = "{'builds': 1, 'checkouts': 1, 'incidents': 4, 'issues': 3, 'tests': 7}";
    assert_eq!(validate("kcidb.json").unwrap().trim(), counts);
    let text = fs::read_to_string(directory.join("kcidb.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let status = |name: &str| {
        let tests = report["tests"].as_array().unwrap();
        let test = tests.iter().find(|test| test["misc"]["scenario"] == name).unwrap();
        (test["status"].as_str().unwrap().to_owned(), test["path"].as_str().unwrap().to_owned())
    };
    for (name, expect, path) in [
        ("area/passes", "PASS", "ftrace-lab.area.passes"),
        ("area/fails é", "FAIL", "ftrace-lab.area.fails__"),
        ("area/flaky", "FAIL", "ftrace-lab.area.flaky"),
        ("area/unsupported", "SKIP", "ftrace-lab.area.unsupported"),
        ("area/lab", "ERROR", "ftrace-lab.area.lab"),
    ] {
        assert_eq!(status(name), (expect.to_owned(), path.to_owned()));
    }
    // The package refuses what is wrong.
    fs::write(directory.join("wrong.json"), text.replace("\"SKIP\"", "\"SKIPPED\"")).unwrap();
    let error = validate("wrong.json").unwrap_err().to_string();
    assert!(error.contains("SKIPPED"), "{error}");
}
