//! Runs the fuzz targets without a fuzzer on every seed and on every input in `lab/fuzz/found`. Nothing may
//! panic; an input that takes too long shows as a hanging test.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../fuzz/src/bodies/mod.rs"]
mod bodies;

type Body = fn(&[u8]);

/// The targets, each with the directories of its seeds in `lab`. Other tests read the seeds of `scenarios` and
/// `kernels`.
const TARGETS: [(&str, Body, &[&str]); 12] = [
    ("pages", bodies::pages, &["fuzz/seeds/pages"]),
    ("layouts", bodies::layouts, &["fuzz/seeds/layouts"]),
    ("formats", bodies::formats, &["fuzz/seeds/formats"]),
    ("frames", bodies::frames, &["fuzz/seeds/frames"]),
    ("trace_dat", bodies::trace_dat, &["tests/fixtures/trace"]),
    ("scenarios", bodies::scenarios, &[]),
    ("results", bodies::results, &["fuzz/seeds/results"]),
    ("recordings", bodies::recordings, &["fuzz/seeds/recordings"]),
    ("logs", bodies::logs, &["tests/fixtures/splats", "tests/fixtures/selftests"]),
    ("vmcore", bodies::vmcore, &["fuzz/seeds/vmcore"]),
    ("kernels", bodies::kernels, &[]),
    ("reproducers", bodies::reproducers, &["fuzz/seeds/reproducers"]),
];

/// Returns the entries of a directory of `lab`, which must exist.
fn list(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Runs a target on every file of a directory, of which there must be at least one.
fn check(directory: &str, body: Body) {
    let inputs = list(directory);
    for path in &inputs {
        eprintln!("{}", path.display());
        body(&fs::read(path).unwrap());
    }
    assert!(!inputs.is_empty(), "no inputs in `{directory}`");
}

#[test]
fn seeds() {
    for (_, body, seeds) in TARGETS {
        seeds.iter().for_each(|directory| check(directory, body));
    }
}

#[test]
fn found_cases() {
    for path in list("fuzz/found").iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let target = TARGETS.iter().find(|(target, ..)| *target == name);
        let (_, body, _) = target.unwrap_or_else(|| panic!("no fuzz target is `{name}`"));
        check(&format!("fuzz/found/{name}"), *body);
    }
}

#[test]
fn each_target_runs_here() {
    let files = list("fuzz/targets");
    for path in &files {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(TARGETS.iter().any(|(target, ..)| *target == name), "`{name}` is not in the table");
    }
    assert_eq!(files.len(), TARGETS.len());
}
