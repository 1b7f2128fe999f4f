//! Runs the fuzz targets without a fuzzer on every seed and on every input in `lab/fuzz/found`. Nothing may
//! panic; an input that takes too long shows as a hanging test.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[path = "../../fuzz/src/bodies/mod.rs"]
mod bodies;

use bodies::TARGETS;

/// The directories of seeds in `lab`, each with its target. Other tests read the seeds of `scenarios` and
/// `kernels`.
const SEEDS: [(&str, &str); 12] = [
    ("pages", "fuzz/seeds/pages"),
    ("layouts", "fuzz/seeds/layouts"),
    ("formats", "fuzz/seeds/formats"),
    ("frames", "fuzz/seeds/frames"),
    ("trace_dat", "tests/fixtures/trace"),
    ("results", "fuzz/seeds/results"),
    ("recordings", "fuzz/seeds/recordings"),
    ("logs", "tests/fixtures/splats"),
    ("logs", "tests/fixtures/selftests"),
    ("vmcore", "fuzz/seeds/vmcore"),
    ("reproducers", "fuzz/seeds/reproducers"),
    ("histories", "fuzz/seeds/histories"),
];

/// Returns the entries of a directory of `lab`, which must exist.
fn list(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Runs a target on every file of a directory, of which there must be at least one.
fn check(directory: &str, target: &str) {
    let (_, body) = TARGETS.into_iter().find(|(name, _)| *name == target).expect("a fuzz target");
    let inputs = list(directory);
    for path in &inputs {
        eprintln!("{}", path.display());
        body(&fs::read(path).unwrap());
    }
    assert!(!inputs.is_empty(), "no inputs in `{directory}`");
}

#[test]
fn seeds() {
    SEEDS.iter().for_each(|(target, directory)| check(directory, target));
}

#[test]
fn found_cases() {
    for path in list("fuzz/found").iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        check(&format!("fuzz/found/{name}"), name);
    }
}
