//! Every input that a fuzz target was begun with, or was ever found to be wrong on, through the same
//! code without a fuzzer. Nothing may panic; what takes long would be seen as a test that hangs.

use std::{fs, path::Path};

#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
#[path = "../fuzz/src/bodies.rs"]
mod bodies;

fn check(directory: &str, body: fn(&[u8]), at_least: usize) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut inputs = 0;
    for file in fs::read_dir(&directory).into_iter().flatten() {
        let path = file.unwrap().path();
        eprintln!("{}", path.display());
        body(&fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs >= at_least, "{inputs} inputs in `{}`", directory.display());
}

#[test]
fn seeds() {
    check("fuzz/seeds/pages", bodies::pages, 1);
    check("fuzz/seeds/layouts", bodies::layouts, 1);
    check("fuzz/seeds/formats", bodies::formats, 1);
    check("fuzz/seeds/frames", bodies::frames, 1);
    check("tests/fixtures/trace", bodies::trace_dat, 1);
}

#[test]
fn found_cases() {
    check("fuzz/found/pages", bodies::pages, 0);
    check("fuzz/found/layouts", bodies::layouts, 0);
    check("fuzz/found/formats", bodies::formats, 0);
    check("fuzz/found/frames", bodies::frames, 0);
    check("fuzz/found/trace_dat", bodies::trace_dat, 0);
    check("fuzz/found/scenarios", bodies::scenarios, 0);
}
