use super::*;
use crate::results::{KernelInfo, Status, StepResult, TRACE, fixture};
use std::{fs, os::unix::fs::symlink};

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{2028}{data}<!--<script>";

/// Creates a run in `directory`: a failure and a pass with hostile text, the pass with a real trace.
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
    let page = html(&run(directory.path()), directory.path(), directory.path(), &Summary::default()).unwrap();
    assert!(!page.contains("<img") && !page.contains('\u{2028}') && !page.contains("<!--"), "markup");
    let scripts = page.matches("<script").count();
    // The list, the script, two blocks of details and a timeline.
    assert_eq!((scripts, page.matches("</script>").count()), (5, 5));
    // Text that looks like a placeholder of the shell is not replaced.
    assert_eq!((page.matches("id=\"timeline-0\"").count(), page.matches("id=\"list\"").count()), (1, 1));
    assert!(page.contains("\\u003c/script\\u003e"), "the reason is not there");
}

#[test]
fn links_in_a_result_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (run_directory, home) = (directory.path().join("run"), directory.path().join("home"));
    let mut results = run(&run_directory);
    fs::create_dir_all(home.join("steps")).unwrap();
    let listing = r#"{"words":[],"more":7,"literal":false}"#;
    for (name, text) in [("steps/1-instructions.json", listing), ("kernel.log", "secret"), (TRACE, "secret")]
    {
        fs::write(home.join(name), text).unwrap();
    }
    let page = |results: &Results| {
        let (place, closed) = split(place(&results.scenarios[0], &run_directory).map_err(Error::from));
        let trace = place.as_deref().map(timeline::open);
        let details = details::details(results, &results.scenarios[0], place.as_deref(), None, closed);
        (
            serde_json::to_string(&details).unwrap(),
            trace.and_then(Result::err).map(|error| format!("{error:#}")),
        )
    };
    let place = run_directory.join("6.12/probes/a");
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir(&place).unwrap();
    for name in ["steps", "kernel.log", TRACE] {
        symlink(home.join(name), place.join(name)).unwrap();
    }
    results.scenarios[0].steps[0].output = vec![
        "steps/1-instructions.json".to_owned(),
        "../../../../home/kernel.log".to_owned(),
        home.join("kernel.log").to_str().unwrap().to_owned(),
    ];
    let (shown, trace) = page(&results);
    assert!(!shown.contains("secret") && shown.contains("\"listings\":[]"), "{shown}");
    assert!(trace.unwrap().contains("trace.dat`: it is a link"));
    fs::remove_dir_all(&place).unwrap();
    symlink(&home, &place).unwrap();
    let (shown, trace) = page(&results);
    assert!(!shown.contains("secret") && shown.contains("6.12/probes/a`: it is a link"), "{shown}");
    assert_eq!(trace, None);
}

#[test]
fn the_policy_allows_this_script_and_style_and_no_network() {
    let directory = tempfile::tempdir().unwrap();
    let page = html(&run(directory.path()), directory.path(), directory.path(), &Summary::default()).unwrap();
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
