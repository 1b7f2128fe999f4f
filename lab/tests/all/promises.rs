//! The tests that docs/trust.md names exist.

use crate::built::root;
use std::{fs, path::Path};

#[test]
fn every_promise_names_tests_that_exist() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/trust.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 15, "{rows:?}");
    let mut sources = String::new();
    for directory in
        ["lab/src", "lab/tests", "lab/trace/src", "xtask/ftrace-lab/tests", "xtask/src", "xtask/tests"]
    {
        read(&root.join(directory), &mut sources);
    }
    for row in rows {
        let tests: Vec<&str> = row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
        let functions: Vec<&&str> = tests.iter().filter(|name| !name.contains(' ')).collect();
        assert!(!functions.is_empty(), "no test in {row}");
        for name in functions {
            assert!(sources.contains(&format!("fn {name}()")), "there is no test `{name}`");
        }
    }
}

fn read(directory: &Path, into: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
