//! `junit.xml` and `results.ktap`, read by third-party programs: xmllint with the schema, and the kernel's
//! own KTAP parser.

use crate::built::built;
use lab::{
    host::prerequisites::{self, Need},
    progress::Progress,
    report::write_forms,
    results::{Results, Status},
};
use serde_json::json;
use std::{env, path::Path, process::Command};

/// Makes sure that the programs are installed.
fn prepare() {
    let yes = env::var("CI").is_ok_and(|value| value == "true");
    prerequisites::ensure(Need::Test, yes, &Progress::new()).unwrap();
}

/// Returns a run with every status, repeats, test cases of a step, and hostile output from the guest.
fn results() -> Results {
    let hostile = "</failure>]]><b> &amp; \u{1b}[31m\u{0}\u{fffe} # not ok 1\nnot ok 2 x\n1..9";
    let result = |number: usize, status: &str| {
        json!({
            "name": format!("area/{number}"), "kernel": "6.12", "status": status, "reason": hostile,
            "seconds": 1.5, "directory": "", "expectations": [],
            "steps": [{ "text": hostile, "passed": true, "detail": "", "output": [] }],
        })
    };
    let mut scenarios: Vec<_> =
        Status::ALL.iter().enumerate().map(|(number, status)| result(number, status.name())).collect();
    for repeat in 1..3 {
        let mut repeated = result(0, "passed");
        (repeated["name"], repeated["repeat"]) = ("again".into(), repeat.into());
        scenarios.push(repeated);
    }
    let mut tests = result(99, "failed");
    let cases = ["passed", "failed", "timed_out", "unexpected_pass", "known_failure", "skipped", "left_out"];
    let case = |status: &&str| json!({ "name": format!("t # {status}"), "status": status, "seconds": 0.5, "detail": hostile });
    tests["steps"][0]["cases"] = cases.iter().map(case).collect();
    scenarios.push(tests);
    let kernel = |name: &str| json!({ "name": name, "source_version": "6.12.1", "config_hash": "" });
    let results = json!({
        "schema": 1,
        "run": { "started": "2026-01-01T00:00:00Z", "seconds": 2.0, "first_machine_micros": 0, "complete": true },
        "host": { "architecture": "x86_64", "cpus": 2, "accelerator": "tcg" },
        "qemu": { "version": "QEMU" },
        "kernels": [kernel("6.12"), kernel("7.2")],
        "scenarios": scenarios,
    });
    serde_json::from_value(results).unwrap()
}

/// Runs a program and returns its output.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text.into_owned()
}

#[test]
fn junit_is_as_its_schema_says() {
    prepare();
    let directory = tempfile::tempdir().unwrap();
    write_forms(&results(), directory.path(), directory.path(), None).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/junit.xsd");
    let lint = |file: &Path| {
        Command::new("xmllint").args(["--noout", "--schema"]).args([&schema, file]).output().unwrap()
    };
    let file = directory.path().join("junit.xml");
    let output = lint(&file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The schema does reject errors.
    let xml = std::fs::read_to_string(&file).unwrap();
    for (from, to) in [("classname=", "class="), ("<failure message=", "<failed message="), ("@2\"", "@1\"")]
    {
        assert!(xml.contains(from), "{from}");
        std::fs::write(&file, xml.replace(from, to)).unwrap();
        assert!(!lint(&file).status.success(), "`{to}` was accepted");
    }
}

#[test]
fn ktap_is_what_the_kernels_parser_reads() {
    prepare();
    let directory = tempfile::tempdir().unwrap();
    let results = results();
    write_forms(&results, directory.path(), directory.path(), None).unwrap();
    let script = "\
import json, sys
sys.path.insert(0, sys.argv[1])
import io, contextlib
with contextlib.redirect_stdout(io.StringIO()):
    import kunit_parser
    lines = kunit_parser.extract_tap_lines(open(sys.argv[2], encoding='utf-8'))
    test = kunit_parser.parse_test(lines, 0, [], False)
def tree(test):
    return [test.name.strip(), test.status.name, [tree(sub) for sub in test.subtests]]
print(json.dumps({'tree': tree(test), 'errors': test.counts.errors}))
";
    let parser = built().kernel.source.join("tools/testing/kunit");
    let text = said(
        Command::new("python3")
            .args(["-B", "-c", script])
            .arg(parser)
            .arg(directory.path().join("results.ktap")),
    );
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["errors"], 0, "{text}");
    let kernels = found["tree"][2].as_array().unwrap();
    assert_eq!((kernels.len(), &kernels[0][0], &kernels[0][1]), (2, &json!("6.12"), &json!("FAILURE")));
    assert_eq!(kernels[1], json!(["7.2", "SKIPPED", []]));
    let tests = kernels[0][2].as_array().unwrap();
    assert_eq!(tests.len(), results.scenarios.len());
    for (test, result) in tests.iter().zip(&results.scenarios) {
        let expect = match result.status {
            Status::Passed => "SUCCESS",
            Status::Unsupported | Status::KnownBug => "SKIPPED",
            _ => "FAILURE",
        };
        assert_eq!((&test[0], &test[1]), (&json!(result.label()), &json!(expect)), "{text}");
    }
    let cases: Vec<_> =
        tests.last().unwrap()[2].as_array().unwrap().iter().map(|case| case[1].clone()).collect();
    assert_eq!(cases, ["SUCCESS", "FAILURE", "FAILURE", "FAILURE", "SKIPPED", "SKIPPED", "SKIPPED"]);
}
