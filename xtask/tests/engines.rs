//! The files of engines are as the engines' published schemas require, and what they start makes one report.

mod pip;
#[expect(dead_code, reason = "other tests run their own scenarios")]
mod stage;

use serde_json::Value;
use stage::{ONE_RUN, cache, check, said, scratch, stored, xtask};
use std::{env, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

const REQUIREMENTS: &str = include_str!("published/requirements.txt");

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
fn a_job_is_as_kubernetes_publishes_and_its_pods_make_one_report() {
    let _one = ONE_RUN.lock();
    let mut matrix = xtask();
    matrix.args(["lab", "matrix", "--engine", "kubernetes"]).args(PLAN);
    check(&mut matrix, 2, &["name it by --image"]);
    let text = file("kubernetes", &["--image", "registry.example/lab"]);
    let objects = Value::Array(documents(&text));
    assert_eq!(differences("kubernetes", &objects), "");
    let mut wrong = objects.clone();
    wrong[1]["spec"]["completions"] = "four".into();
    assert!(differences("kubernetes", &wrong).contains("$.spec.completions"), "{wrong}");

    // No container can be started here: each pod's command runs in a directory that is its volume.
    let place = scratch();
    let (work, programs) = (place.path().join("work"), place.path().join("programs"));
    fs::create_dir(&work).unwrap();
    fs::create_dir(&programs).unwrap();
    let program = programs.join("ftrace-lab");
    fs::write(&program, format!("#!/bin/sh\nexec {} lab \"$@\"\n", env!("CARGO_BIN_EXE_xtask"))).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let cache = cache(place.path(), &["times.json"], true);
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let pod = |job: &Value, index: &str| {
        let command = job["spec"]["template"]["spec"]["containers"][0]["command"].as_array().unwrap();
        let command: Vec<_> =
            command.iter().map(|word| word.as_str().unwrap().replace("$$(", "$(")).collect();
        let mut pod = Command::new(&command[0]);
        pod.args(&command[1..]).current_dir(&work).env("PATH", &path).env("FTRACE_LAB_CACHE", &cache);
        said(&check(pod.env("JOB_COMPLETION_INDEX", index), 0, &[" 0 failed"]))
    };
    let completions = objects[1]["spec"]["completions"].as_u64().unwrap();
    assert_eq!(completions, 4);
    for index in 0..completions {
        pod(&objects[1], &index.to_string());
    }
    pod(&objects[2], "");
    let report = stored(&work.join("report")).unwrap();
    assert!(report.run.complete && report.scenarios.len() == 4, "{report:?}");
}
