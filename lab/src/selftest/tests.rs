//! Golden results, parsed from recorded output of real tests. `UPDATE_EXPECT=1` rewrites the expected
//! results.

use super::{Ended, read};
use std::{fs, path::Path};

/// Parses the second line of a recording's header: a status, or `killed`.
fn ended(log: &str) -> Ended {
    let line = log.lines().nth(1).unwrap();
    match line.strip_prefix("# ended: ").unwrap() {
        "killed" => Ended::TimedOut,
        status => Ended::Exited(status.parse().unwrap()),
    }
}

#[test]
fn real_output_is_read_as_recorded() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/selftests");
    let mut logs: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    assert!(logs.len() >= 6, "only {} recordings in {}", logs.len(), directory.display());
    for path in logs {
        let log = fs::read_to_string(&path).unwrap();
        assert!(log.starts_with("# "), "`{}` does not say where it comes from", path.display());
        let results = read(&log, ended(&log)).into_iter();
        let found: String = results
            .map(|result| format!("{:?} `{}` {:?}\n", result.outcome, result.name, result.detail))
            .collect();
        let expected = path.with_extension("expect");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        let expect = fs::read_to_string(&expected).unwrap_or_default();
        assert!(found == expect, "`{}` is read differently:\n{found}", path.display());
    }
}
