//! The files of engines are as the engines' published schemas require.

use crate::{
    pip,
    stage::{check, scratch, xtask},
};
use serde_json::Value;
use std::{env, fs, path::Path};

const REQUIREMENTS: &str = include_str!("../published/requirements.txt");

/// Two parts of each of two kernels; the filter has what shells and engines treat specially.
const PLAN: [&str; 8] = [
    "--kernel",
    "6.12",
    "--kernel",
    "debian-13",
    "--shards",
    "2",
    "--filter",
    "^probes/(eventfd-write|remove)$",
];

/// Returns the file of an engine.
fn file(engine: &str, arguments: &[&str]) -> String {
    let mut matrix = xtask();
    matrix.args(["lab", "matrix", "--engine", engine]).args(PLAN).args(arguments);
    String::from_utf8(check(&mut matrix, 0, &[]).stdout).unwrap()
}

/// Parses the documents of a file.
fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| serde::Deserialize::deserialize(document).unwrap())
        .collect()
}

/// Returns how a value differs from a published schema.
fn differences(schema: &str, value: &Value) -> String {
    let packages = pip::packages(REQUIREMENTS);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/published/validate.py");
    let place = scratch();
    let file = place.path().join("file.json");
    fs::write(&file, value.to_string()).unwrap();
    pip::python(&packages, &program).arg(schema).stdin(fs::File::open(file).unwrap()).run().unwrap()
}

#[test]
fn a_pipeline_is_as_gitlab_publishes() {
    let place = scratch();
    let text = file("gitlab", &["--image", "registry.example/lab"]);
    let parsed = documents(&text);
    let [pipeline] = &parsed[..] else { panic!("{text}") };
    assert_eq!(differences("gitlab", pipeline), "");
    // The schema has a say.
    let mut wrong = pipeline.clone();
    wrong["merge"]["artifact"] = wrong["merge"]["artifacts"].take();
    assert!(differences("gitlab", &wrong).contains("$.merge"), "{wrong}");
    let run = &pipeline["run debian-13-2-of-2"];
    assert_eq!(run["needs"], serde_json::json!(["build debian-13"]));
    assert_eq!(run["cache"][0]["key"], pipeline["build debian-13"]["cache"][0]["key"]);
    assert_eq!(pipeline["default"]["image"], "registry.example/lab");
    // Only the times of the last report are there in a pipeline.
    let mut matrix = xtask();
    fs::create_dir(place.path().join("elsewhere")).unwrap();
    let results = r#"{ "schema": 1, "run": { "started": "", "seconds": 1.0, "first_machine_micros": 0, "complete": true },
        "host": { "architecture": "", "cpus": 1, "accelerator": "" }, "qemu": { "version": "" }, "kernels": [],
        "scenarios": [] }"#;
    fs::write(place.path().join("elsewhere/results.json"), results).unwrap();
    matrix.args(["lab", "matrix", "--engine", "gitlab"]).args(PLAN).current_dir(place.path());
    check(matrix.args(["--times", "elsewhere"]), 2, &["plan with --last report"]);
    fs::rename(place.path().join("elsewhere"), place.path().join("report")).unwrap();
    let mut matrix = xtask();
    matrix
        .args(["lab", "matrix", "--engine", "gitlab", "--last", "report"])
        .args(PLAN)
        .current_dir(place.path());
    let text = String::from_utf8(check(&mut matrix, 0, &["--times report"]).stdout).unwrap();
    let parsed = documents(&text);
    let [pipeline] = &parsed[..] else { panic!("{text}") };
    assert_eq!(differences("gitlab", pipeline), "");
    assert_eq!(pipeline["run 6.12-1-of-2"]["needs"][1]["job"], "plan");
}

#[test]
fn a_job_is_as_kubernetes_publishes() {
    let mut matrix = xtask();
    matrix.args(["lab", "matrix", "--engine", "kubernetes"]).args(PLAN);
    check(&mut matrix, 2, &["name it by --image"]);
    let text = file("kubernetes", &["--image", "registry.example/lab"]);
    let objects = Value::Array(documents(&text));
    assert_eq!(differences("kubernetes", &objects), "");
    let mut wrong = objects.clone();
    wrong[1]["spec"]["completions"] = "four".into();
    assert!(differences("kubernetes", &wrong).contains("$.spec.completions"), "{wrong}");
}
