//! Files that may come from another machine or another person.

use super::{assert_printable, in_memory, parts};
use lab::{
    coverage::{FileChange, Ran},
    history::{self, DenyList, History, Lives, judge, kcidb, write_site},
    kernel::{Config, KernelSpec, KernelVersion, requested_symbols},
    recording::Recording,
    report::{Page, REPORT, Terminal, markdown, summary, write_forms},
    reproducer::{Reproducer, check_trust},
    results::{
        COVERAGE, MergeInput, RECORDING, Results, SCENARIO, Status, compare, merge, since, stored_results,
    },
    verdict::judge_again,
};
use std::{
    fs,
    path::{Component, Path},
    sync::LazyLock,
};

/// The tags of `junit.xml`.
const JUNIT_TAGS: [&str; 7] = ["?xml", "testsuites", "testsuite", "testcase", "failure", "error", "skipped"];

/// Results without scenarios.
const EMPTY: &str = r#"{ "schema": 1, "run": { "started": "", "seconds": 0, "first_machine_micros": 0,
    "complete": true }, "host": { "architecture": "", "cpus": 1, "accelerator": "" },
    "qemu": { "version": "" }, "kernels": [], "scenarios": [] }"#;

/// The number of `<` in a report without results.
static OWN_TAGS: LazyLock<usize> = LazyLock::new(|| {
    let place = directory();
    let results = stored(place.path(), "empty", EMPTY.as_bytes()).expect("valid results");
    write_forms(&results, place.path(), place.path(), None).expect("a report");
    tags(&read(&place.path().join(REPORT)))
});

/// Reads what a scenario ran, and a diff. Reads `results.json` and, after a NUL each, another one and the
/// kernel log of results; merges and compares the two, and writes every form of them.
pub(super) fn results(bytes: &[u8]) {
    let [one, other, log] = parts(bytes);
    let place = directory();
    let parts: Vec<MergeInput> = [("a", one), ("b", other)]
        .into_iter()
        .filter_map(|(name, json)| {
            let results = stored(place.path(), name, json)?;
            Some(MergeInput { directory: place.path().join(name), results })
        })
        .collect();
    if fs::write(place.path().join(COVERAGE), one).is_ok() {
        let _ = Ran::load(place.path(), COVERAGE);
    }
    let _ = FileChange::parse_diff(&String::from_utf8_lossy(one));
    let Some(first) = parts.first() else { return };
    // Only below one name, so that none of the directories has the name of a form.
    let named = |directory: &&str| directory.starts_with("6.12/") && !log.is_empty();
    let directories = first.results.scenarios.iter().map(|result| result.directory.as_str()).filter(named);
    for directory in directories.take(4).map(|directory| first.directory.join(directory)) {
        // The name may be too long for a directory.
        if fs::create_dir_all(&directory).is_ok() {
            let _ = fs::write(directory.join("kernel.log"), log);
        }
    }
    render(&first.results, &first.directory);
    if let Some(second) = parts.get(1) {
        let a: Vec<_> = first.results.scenarios.iter().collect();
        let b: Vec<_> = second.results.scenarios.iter().collect();
        let changes = compare(&a, &b);
        changes.changes.iter().for_each(|change| assert_printable(&change.to_string()));
        assert_printable(&changes.summary());
    }
    let kernels: Vec<String> = first.results.kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let Ok(merged) = merge(&parts, &kernels) else { return };
    assert_eq!(merged.results.scenarios.len(), merged.origins.len(), "a result without an origin");
    let changes = since(&first.results, &merged.results);
    let again = |_: &_| "again".to_owned();
    let (results, gaps) = (&merged.results, &merged.gaps[..]);
    let page = markdown(&Page { results, gaps, since: Some(&changes), reproducer: &again });
    assert_eq!(tags(&page), 0, "markup: {page}");
    assert_printable(&page);
}

/// Writes all forms of results, and checks that nothing in them became markup.
fn render(results: &Results, directory: &Path) {
    let terminal = Terminal::new(true);
    results.scenarios.iter().for_each(|result| assert_printable(&terminal.result(result, directory)));
    assert_printable(&summary(results));
    write_forms(results, directory, directory, None).expect("every form of results that were read");
    // Each result has one block, in an element of its own.
    let html = read(&directory.join(REPORT));
    assert_eq!(tags(&html), *OWN_TAGS + 2 * results.scenarios.len(), "markup in the report");
    let xml = read(&directory.join("junit.xml"));
    for tag in xml.split('<').skip(1) {
        let tag = tag.trim_start_matches('/');
        let end = tag.find(|c: char| c != '?' && !c.is_ascii_alphabetic()).unwrap_or(tag.len());
        assert!(JUNIT_TAGS.contains(&&tag[..end]), "<{tag}");
    }
    for line in read(&directory.join("results.ktap")).lines() {
        assert_printable(line);
        let line = line.trim_start();
        let begins = ["KTAP version 1", "1..", "# ", "ok ", "not ok "];
        assert!(begins.iter().any(|begin| line.starts_with(begin)) || line == "#", "{line}");
    }
}

fn tags(text: &str) -> usize {
    text.matches('<').count()
}

/// Reads `recording.json` and, after a NUL each, the scenario, the kernel log and `files.json`, and judges
/// them.
pub(super) fn recordings(bytes: &[u8]) {
    let [recording, scenario, log, files] = parts(bytes);
    let place = directory();
    let write = |name: &str, data: &[u8]| fs::write(place.path().join(name), data).expect("a file");
    write(RECORDING, recording);
    write(SCENARIO, scenario);
    write("kernel.log", log);
    write("files.json", if files.is_empty() { b"{}" } else { files });
    if let Ok(Some(recording)) = Recording::load(place.path()) {
        let ended = recording.stored(place.path()).end;
        let again = Recording::load(place.path()).expect("facts that were stored");
        assert_eq!(again.expect("facts that were stored").end, ended);
    }
    if let Ok(verdict) = judge_again(place.path(), None) {
        let died = String::from_utf8_lossy(scenario).contains("expect_panic");
        assert!(died || verdict.status != Status::Passed, "a pass without a trace");
        assert_printable(&Terminal::new(true).verdict(&verdict));
    }
}

/// Reads the file of a history, or a deny list: judges the last night, and writes the site and KCIDB's JSON.
pub(super) fn histories(bytes: &[u8]) {
    let place = directory();
    fs::write(place.path().join(history::FILE), bytes).expect("a file");
    let (_file, path) = in_memory(bytes);
    let denied = DenyList::read(&path).unwrap_or_default();
    let Ok(history) = History::open(place.path()) else { return };
    if let Ok(lives) = Lives::read(&history, usize::MAX)
        && let Some(night) = lives.last()
    {
        judge(&lives, night, &denied).expect("a judgement of a night");
        kcidb(&lives, night, "x").expect("KCIDB of a night");
        let _ = (lives.changes(night), lives.flakes(), lives.failures());
    }
    let site = place.path().join("site");
    let _ = write_site(&history, &denied, &site, "lab");
    let names = |path: &Path| fs::read_dir(path).expect("a directory").count();
    assert!(names(place.path()) <= 2, "the site leaves its directory");
}

/// Reads the description of a kernel, or a configuration fragment.
pub(super) fn kernels(bytes: &[u8]) {
    let place = directory();
    let text = String::from_utf8_lossy(bytes);
    let config = Config::parse(&text);
    let _ = (config.get("CONFIG_FTRACE"), config.is_set("FTRACE"));
    if let Some(spec) = described(place.path(), "x", bytes) {
        let plain =
            |file: &String| Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        assert!(spec.files().iter().all(plain), "{:?}", spec.files());
    }
    fs::write(place.path().join("kernels/x.config"), bytes).expect("a file");
    let asked = requested_symbols(place.path(), &["x".to_owned()], &KernelVersion::new(6, 12, 1));
    for symbol in asked.into_iter().flatten() {
        assert_eq!(symbol.to_string().lines().count(), 1, "{symbol}");
    }
}

/// Reads a `repro.yaml`, and what its files say of its kernel.
pub(super) fn reproducers(bytes: &[u8]) {
    let (_file, path) = in_memory(bytes);
    Reproducer::is_meant(&path);
    let found = match Reproducer::read(&path) {
        Ok(found) => found,
        Err(error) => return assert!(!error.cause.is_empty(), "an error without a message"),
    };
    for path in found.files.keys().chain(found.left_out.iter().map(|file| &file.path)) {
        let plain = |part| matches!(part, Component::Normal(_));
        assert!(Path::new(path).components().all(plain), "{path:?} leaves the directory");
    }
    let scenario = found.scenario(Path::new("scenario.yaml")).expect("a scenario that was checked");
    assert!(scenario.matrix.is_none(), "several scenarios");
    assert!(found.verdict.is_same(&found.verdict), "another failure");
    let _ = found.verdict.broken.to_string();
    let (_again, path) = in_memory(found.to_yaml().expect("a reproducer as YAML").as_bytes());
    assert_eq!(Reproducer::read(&path).expect("a reproducer that was written"), found);
    let description = format!("kernels/{}.yaml", found.kernel.name);
    if let Some(text) = found.files.get(&description) {
        described(directory().path(), &found.kernel.name, text.as_bytes());
    }
}

/// Reads the description of a kernel. One that may come from anyone names no file of this machine.
fn described(root: &Path, name: &str, text: &[u8]) -> Option<KernelSpec> {
    fs::create_dir_all(root.join("kernels")).expect("a directory");
    fs::write(root.join(format!("kernels/{name}.yaml")), text).expect("a file");
    let spec = KernelSpec::load(root, name).ok()?;
    if check_trust(&spec).is_ok() {
        assert!(!spec.machine.machine.contains('/') && !spec.machine.cpu.contains('/'), "{:?}", spec.machine);
    }
    Some(spec)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Stores a `results.json` in a new directory and reads it.
fn stored(place: &Path, name: &str, json: &[u8]) -> Option<Results> {
    let run = place.join(name);
    fs::create_dir(&run).expect("a directory");
    fs::write(run.join("results.json"), json).expect("a file");
    stored_results(&run).ok()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a form of the results")
}
