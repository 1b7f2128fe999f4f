//! `--json`: what programs read of one run on the default kernel, by each verb that prints a table.

use crate::stage::{TRIVIAL, run, scenarios, scratch, share_host, xtask};
use serde_json::Value;
use std::{fs, process::Command};

/// Writes to an eventfd, and expects what does not happen.
const WRONG: &str = "summary: an eventfd is written\ntrace: { events: [{ event: syscalls:sys_enter_eventfd2 }] }\n\
                     steps: [workload: eventfd --sleep 0 1 2]\n\
                     expect: [never: { event: syscalls:sys_enter_eventfd2 }]\n";

/// Returns what a command prints on standard output, which must be JSON and nothing else.
fn json(command: &mut Command, code: i32) -> Value {
    let output = command.arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{command:?}: {error}: {}", String::from_utf8_lossy(&output.stdout)))
}

fn lab(arguments: &[&str]) -> Command {
    let mut command = xtask();
    command.arg("lab").args(arguments);
    command
}

#[test]
fn a_run_and_what_is_asked_about_it() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let scenarios = scenarios(directory.path(), [("nothing", TRIVIAL), ("wrong", WRONG)]);

    let ran = json(run(&results, &scenarios).arg("--coverage"), 1);
    assert_eq!((&ran["passed"], &ran["not_passed"], &ran["complete"]), (&1.into(), &1.into(), &true.into()));
    let wrong =
        ran["scenarios"].as_array().unwrap().iter().find(|scenario| scenario["name"] == "wrong").unwrap();
    assert_eq!((&wrong["status"], &wrong["kernel"]), (&"failed".into(), &"6.12".into()), "{wrong}");
    assert!(wrong["reason"].as_str().unwrap().contains("found 1, expected none"), "{wrong}");
    let files = wrong["directory"].as_str().unwrap();
    assert!(fs::metadata(files).unwrap().is_dir());
    let directory = ran["directory"].as_str().unwrap();

    let judged = json(&mut lab(&["judge", files]), 1);
    assert_eq!(
        (&judged[0]["status"], &judged[0]["expectations"][0]["status"]),
        (&"failed".into(), &"failed".into())
    );

    let same = json(&mut lab(&["diff", directory, directory]), 0);
    assert_eq!((&same["alike"], same["changes"].as_array().map(Vec::len)), (&2.into(), Some(0)), "{same}");

    let into = results.join("merged");
    let merged = json(lab(&["merge", directory, "--into"]).arg(&into), 1);
    assert_eq!(merged["scenarios"].as_array().map(Vec::len), Some(2), "{merged}");

    let covered = json(&mut lab(&["coverage", directory, "fs/eventfd.c"]), 0);
    let file = &covered[0]["files"][0];
    assert_eq!(file["file"], "fs/eventfd.c");
    assert!(
        file["lines"]["ran"].as_u64() > Some(0)
            && file["lines"]["ran"].as_u64() < file["lines"]["all"].as_u64()
    );
    let function = json(&mut lab(&["coverage", directory, "fs/eventfd.c", "--function", "eventfd_write"]), 0);
    assert_eq!(function[0]["run_by"], serde_json::json!(["wrong"]), "{function}");
    let line = function[0]["lines"].as_array().unwrap().iter().find(|line| line["ran"] == 1).unwrap();
    let place = format!("fs/eventfd.c:{}", line["number"]);
    let never = json(&mut lab(&["coverage", directory, "fs/eventfd.c", "--never"]), 0);
    assert!(
        never.as_array().unwrap().iter().any(|never| never["function"] == "eventfd_show_fdinfo"),
        "{never}"
    );

    let affected = json(&mut lab(&["affected", &place, "--results", directory]), 0);
    assert_eq!((&affected["all"], &affected["scenarios"][0]["scenario"]), (&Value::Null, &"wrong".into()));
}

#[test]
fn what_needs_no_machine() {
    let has = |list: &Value, field: &str, value: &str| {
        list.as_array().unwrap().iter().find(|entry| entry[field] == value).cloned().unwrap()
    };
    let kernel = has(&json(&mut lab(&["kernels"]), 0), "name", "6.12");
    assert_eq!((&kernel["default"], &kernel["opt_in"]), (&true.into(), &false.into()));
    has(&json(&mut lab(&["list"]), 0), "name", "probes/eventfd-write");
    has(&json(xtask().arg("doctor"), 0), "name", "qemu-system-aarch64");
    assert!(json(&mut lab(&["cache"]), 0)["entries"][0]["bytes"].is_u64());

    let directory = scratch();
    let path = directory.path().join("bad.yaml");
    fs::write(&path, "summary: misspelled\nstep: []\n").unwrap();
    let checked = json(lab(&["check"]).arg(&path), 2);
    assert_eq!(checked[0]["validity"], "invalid");
    assert!(checked[0]["reason"].as_str().unwrap().contains("did you mean `steps`"), "{checked}");

    let paths = ["file->f_inode->i_sb->s_type->name", "file->nothing"];
    let resolved = json(lab(&["resolve", "6.12", "vfs_read"]).args(paths), 2);
    assert!(
        resolved["paths"][0]["resolved"]["fetch_arg"].as_str().unwrap().ends_with(":string"),
        "{resolved}"
    );
    assert_eq!(resolved["paths"][1]["resolved"], Value::Null);
    assert!(resolved["paths"][1]["error"].as_str().unwrap().contains("nothing"), "{resolved}");
}
