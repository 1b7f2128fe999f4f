//! The pods of a fleet of Kubernetes: podman runs the container of each part, then the one that merges, with the installed
//! command in it and the volumes that its manifest names.

use lab::{cache::Cache, progress::Progress, results::Results};
use serde::Deserialize;
use serde_yaml::Value;
use std::{env, fs, path::PathBuf, process::Command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ftrace-lab");

/// Two parts of each of two kernels; the filter has what shells and Kubernetes treat specially.
const PLAN: &str = "matrix --engine kubernetes --image registry.example/lab --kernel 6.12 --kernel debian-13 --shards 2 \
                    --filter ^probes/(eventfd-write|remove)$";

/// Runs a command that must succeed. Returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs the container of a job's pod, on top of this host's files as its image.
fn pod(job: &Value, index: usize, volumes: &[(&str, PathBuf)]) {
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut podman = Command::new("podman");
    podman.args(["run", "--rm", "--network=host", "--rootfs", "--workdir", &text(&container["workingDir"])]);
    // Where the test itself runs in a container, limits cannot be raised, and crun does not like its control groups.
    podman.args(["--runtime=runc", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]);
    podman.args(["--env=PATH", "--env", &format!("JOB_COMPLETION_INDEX={index}")]);
    podman.arg(format!("--volume={PROGRAM}:/usr/local/bin/ftrace-lab:ro"));
    for mount in container["volumeMounts"].as_sequence().unwrap() {
        let (_, from) = volumes.iter().find(|(name, _)| mount["name"] == *name).unwrap();
        podman.arg(format!("--volume={}:{}", from.display(), text(&mount["mountPath"])));
    }
    let command = container["command"].as_sequence().unwrap().iter().map(text);
    podman.arg("/:O").args(command.map(|word| word.replace("$$(", "$(")));
    println!("{}", run(&mut podman));
}

#[test]
fn the_containers_of_all_parts_make_one_report() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let kernels = Cache::open(&Progress::silent()).unwrap();
    let volumes = [("work", place.path().to_owned()), ("cache", kernels.root().to_owned())];
    let manifest = run(Command::new(PROGRAM).args(PLAN.split(' ')).current_dir(place.path()));
    let objects: Vec<Value> = serde_yaml::Deserializer::from_str(&manifest)
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    let [_, parts, merge] = &objects[..] else { panic!("{manifest}") };
    assert_eq!(parts["spec"]["completions"], 4);
    for index in 0..4 {
        pod(parts, index, &volumes);
    }
    pod(merge, 0, &volumes);
    let report = fs::read(place.path().join("report/results.json")).unwrap();
    let report: Results = serde_json::from_slice(&report).unwrap();
    assert!(report.run.complete && report.scenarios.len() == 4, "{report:?}");
}
