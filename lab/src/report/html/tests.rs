use super::*;
use crate::{
    report::{KernelInfo, StepResult, fixture},
    verdict::Status,
};
use std::fs;

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{2028}{data}<!--<script>";

/// A run in `directory` with a failure that says hostile things and a pass with a real trace.
fn run(directory: &Path) -> Results {
    let place = directory.join("6.12/probes/a");
    fs::create_dir_all(place.join("steps")).unwrap();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace/kprobes.dat");
    fs::copy(trace, place.join(TRACE)).unwrap();
    fs::write(place.join("kernel.log"), HOSTILE).unwrap();
    fs::write(place.join("steps/1-stdout.txt"), HOSTILE).unwrap();
    let mut passed = fixture::result("probes/a", Status::Passed);
    passed.directory = "6.12/probes/a".to_owned();
    passed.steps = vec![StepResult {
        text: HOSTILE.to_owned(),
        output: vec!["steps/1-stdout.txt".to_owned(), "../../../secret".to_owned()],
        ..StepResult::default()
    }];
    let mut failed = fixture::result("probes/b", Status::Failed);
    (failed.reason, failed.directory) = (HOSTILE.to_owned(), "../outside".to_owned());
    let mut results = fixture::results(vec![passed, failed]);
    results.kernels = vec![KernelInfo {
        name: HOSTILE.to_owned(),
        source_version: String::new(),
        config_hash: String::new(),
    }];
    results
}

#[test]
fn nothing_that_a_guest_says_is_markup() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), "secret").unwrap();
    let page = html(&run(directory.path()), directory.path()).unwrap();
    assert!(!page.contains("<img") && !page.contains('\u{2028}') && !page.contains("<!--"), "markup");
    let scripts = page.matches("<script").count();
    // The list, the script, and details of two and a timeline.
    assert_eq!((scripts, page.matches("</script>").count()), (5, 5));
    // What looks like a place of the shell is not filled.
    assert_eq!((page.matches("id=\"timeline-0\"").count(), page.matches("id=\"list\"").count()), (1, 1));
    assert!(page.contains("\\u003c/script\\u003e"), "the reason is not there");
}

#[test]
fn the_policy_allows_this_script_and_style_and_no_network() {
    let directory = tempfile::tempdir().unwrap();
    let page = html(&run(directory.path()), directory.path()).unwrap();
    let between =
        |begin: &str, end: &str| page.split_once(begin).unwrap().1.split_once(end).unwrap().0.to_owned();
    let policy = between("Content-Security-Policy\" content=\"", "\">");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    for text in [between("<script>", "</script>"), between("<style>", "</style>")] {
        assert!(policy.contains(&format!("'{}'", Hash::of(&text))), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
}

#[test]
fn a_page_that_is_full_keeps_failures_and_says_what_it_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let results = run(directory.path());
    let mut blocks = all_blocks(&results, directory.path()).unwrap();
    let bytes: usize = blocks.iter().map(Blocks::bytes).sum();
    let without = fit(&results, &mut blocks, bytes - 1);
    assert_eq!(without, 1);
    assert!(blocks[0].timeline.is_empty() && !blocks[0].details.is_empty() && !blocks[1].details.is_empty());
    assert_eq!(fit(&results, &mut blocks, 0), 0);
    assert!(blocks.iter().all(|block| block.bytes() == 0));
}
