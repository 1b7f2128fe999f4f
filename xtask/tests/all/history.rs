//! Nights of real runs on the default kernel: what `lab run --retry` keeps, what `lab history` says of it, and its site
//! in headless Chromium. Screenshots are kept in `target/screenshots/`.

use crate::stage::{
    TRIVIAL, check, labels, run, run_directory, said, scenarios, scratch, share_host, stored, xtask,
};
use checkers::browser::Browser;
use lab::{
    host::prerequisites::{self, Need},
    progress::Progress,
    results::now,
};
use serde_json::{Value, json as value};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

/// Fails whenever the last digit of the guest's uptime is above 4.
const FLAKE: &str = "summary: half of all uptimes\nsteps:\n  - sh: cat /proc/uptime\n    stdout: { matches: '^[0-9]+\\.[0-9][0-4] ' }\n";

const BROKEN: &str = "summary: a machine has a clock of its own\nsteps:\n  - sh: cat /proc/uptime\n    stdout: { matches: '^never' }\n";

fn history(arguments: &[&str], directory: &Path) -> Command {
    let mut command = xtask();
    command.args(["lab", "history"]).args(arguments).arg("--from").arg(directory.join("history"));
    command
}

fn add(run: &Path, directory: &Path) -> Command {
    let mut command = xtask();
    command.args(["lab", "history", "add"]).arg(run).arg("--into").arg(directory.join("history"));
    command
}

fn json(command: &mut Command, code: i32) -> Value {
    let output = command.arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs the scenarios, in a second in which no earlier run of a test started: no two nights start at once.
fn run_again(results: &Path, scenarios: &Path) -> Output {
    let started = || Some(stored(&run_directory(results)?)?.run.started);
    while started().is_some_and(|started| started == now()) {
        thread::yield_now();
    }
    run(results, scenarios).args(["--retry", "2"]).output().unwrap()
}

/// Runs the scenarios as one more night, and adds it. Returns the directory of the run.
fn night(directory: &Path, scenarios: &Path, code: i32) -> PathBuf {
    let results = directory.join("results");
    let output = run_again(&results, scenarios);
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    let run = run_directory(&results).unwrap();
    check(&mut add(&run, directory), 0, &[" of the night ", " added: "]);
    run
}

#[test]
fn a_failure_is_run_again_and_a_night_fails_for_what_is_new() {
    let _host = share_host();
    let directory = scratch();
    let directory = directory.path();
    check(&mut history(&["night"], directory), 2, &["no history in `", "lab history add REPORT --into"]);
    let good = scenarios(directory, [("steady", TRIVIAL), ("breaks", TRIVIAL)]);
    let run = night(directory, &good, 0);
    check(&mut add(&run, directory), 0, &[" was there before: "]);
    check(&mut history(&["night"], directory), 0, &["does not fail: 2 verdicts, 0 new"]);

    let bad = scenarios(directory, [("breaks", BROKEN)]);
    let run = night(directory, &bad, 1);
    let labels = labels(&stored(&run).unwrap().scenarios);
    assert_eq!(labels, ["breaks", "breaks@retry1", "breaks@retry2", "steady"]);
    assert!(run.join("6.12/breaks@retry2/repro.yaml").is_file());
    let said = [
        "NEW: breaks on 6.12 [failed-",
        "failed 3 times in a row, never in 1 tries before",
        "same kernel 6.12.",
    ];
    check(&mut history(&["night"], directory), 1, &said);
    let judged = json(&mut history(&["night"], directory), 1);
    assert_eq!(
        (&judged["alarms"][0]["kind"], &judged["alarms"][0]["tries"]),
        (&"new_failure".into(), &3.into())
    );
    let print = judged["alarms"][0]["fingerprint"].as_str().unwrap();

    night(directory, &bad, 1);
    check(&mut history(&["night"], directory), 0, &["still failing since ", "does not fail"]);
    check(&mut history(&["since", print], directory), 0, &["breaks on 6.12 fails ["]);
    check(&mut history(&["changes"], directory), 0, &["nothing changed"]);
    check(&mut history(&["life", "breaks"], directory), 0, &["breaks on 6.12: failed 2 of 3", "\n  .FF\n"]);
    check(&mut history(&["life", "break"], directory), 2, &["no scenario `break`; did you mean `breaks`?"]);
    let failures = json(&mut history(&["failures", "--current"], directory), 0);
    assert_eq!((&failures[0]["fingerprint"], &failures[0]["nights"]), (&print.into(), &2.into()));
    check(&mut history(&["slower"], directory), 0, &["no duration grew"]);

    scenarios(directory, [("breaks", TRIVIAL)]);
    night(directory, &good, 0);
    check(&mut history(&["night"], directory), 0, &["fixed: breaks on 6.12, which failed since "]);
    check(&mut history(&["changes"], directory), 0, &["breaks on 6.12: failed → passed"]);
}

#[test]
fn a_failure_that_passes_the_next_time_is_a_flake() {
    let _host = share_host();
    let directory = scratch();
    let directory = directory.path();
    let scenarios = scenarios(directory, [("flake", FLAKE)]);
    // Half of all first tries fail, and one in eight does so three times.
    let results = directory.join("results");
    let flaky = (0..40).any(|_| {
        run_again(&results, &scenarios);
        let run = run_directory(&results).unwrap();
        let tries = stored(&run).unwrap().scenarios;
        assert!((1..=3).contains(&tries.len()));
        let last = tries.last().unwrap();
        // It is run again exactly as long as it fails.
        assert!(tries[..tries.len() - 1].iter().all(|tried| !tried.status.is_good()));
        assert!(last.status.is_good() || tries.len() == 3);
        check(&mut add(&run, directory), 0, &[" added: "]);
        tries.len() > 1 && last.status.is_good()
    });
    assert!(flaky, "it never failed and then passed");
    check(&mut history(&["flakes"], directory), 0, &["flake on 6.12: failed "]);
    let judged = json(&mut history(&["night"], directory), 0);
    let flake = &judged["flaky"][0];
    assert_eq!(flake["scenario"], "flake");
    assert!(flake["rate"]["failed"].as_u64() >= Some(1), "{judged}");
    fs::remove_dir_all(directory.join("history")).unwrap();
}

/// The number of real nights of the site, and the one in which a scenario breaks.
const NIGHTS: usize = 12;
const BREAKS: usize = 9;

#[test]
fn the_site_of_real_nights_is_read_in_the_light_in_the_dark_and_on_a_phone() {
    let _host = share_host();
    let directory = scratch();
    let directory = directory.path();
    let results = directory.join("results");
    let all = scenarios(directory, [("steady", TRIVIAL), ("breaks", TRIVIAL), ("flake", FLAKE)]);
    for number in 1..=NIGHTS {
        if number == BREAKS {
            scenarios(directory, [("breaks", BROKEN)]);
        }
        run_again(&results, &all);
        check(&mut add(&run_directory(&results).unwrap(), directory), 0, &[" added: "]);
    }
    let site = directory.join("site");
    for _ in 0..2 {
        // The second one replaces the first.
        check(history(&["site"], directory).arg("--into").arg(&site), 0, &["index.html"]);
    }
    let yes = env::var("CI").is_ok_and(|value| value == "true");
    prerequisites::ensure(Need::Test, yes, &Progress::new()).unwrap();
    let mut browser = Browser::start().unwrap();
    let index = site.join("index.html");
    let text = look(&mut browser, &index, "history");
    for expect in ["ftrace-lab: 12 nights", "Last night", "breaks", "still failing", "flake", "6.12"] {
        assert!(text.contains(expect), "no `{expect}` in {text}");
    }
    let page = |begin: &str| {
        let entries = fs::read_dir(&site).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| {
            path.file_name().unwrap().to_string_lossy().starts_with(begin)
                && path.extension().unwrap() == "html"
        };
        entries.into_iter().find(is_it).unwrap_or_else(|| panic!("no page {begin}"))
    };
    let kernel = look(&mut browser, &page("kernel-6-12-"), "history-kernel");
    assert!(kernel.contains("steady") && kernel.contains("known bug"), "{kernel}");
    let scenario = look(&mut browser, &page("scenario-breaks-"), "history-scenario");
    assert!(scenario.contains("first tries that failed: 4 of 12"), "{scenario}");
    let failures = json(&mut history(&["failures"], directory), 0);
    let of_breaks = failures
        .as_array()
        .unwrap()
        .iter()
        .find(|failure| failure["scenarios"] == value!(["breaks"]))
        .unwrap();
    let failure = page(&format!("failure-{}", of_breaks["fingerprint"].as_str().unwrap()));
    let failure = look(&mut browser, &failure, "history-failure");
    assert!(failure.contains("lab repro failure-failed-") && failure.contains("in 4 nights"), "{failure}");
}

/// Looks at a page on a desk and on a phone, in the light and in the dark. Returns its text.
fn look(browser: &mut Browser, page: &Path, name: &str) -> String {
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    let mut backgrounds = Vec::new();
    for (kind, width, height, scheme) in
        [("desk", 1280, 900, "light"), ("dark", 1280, 900, "dark"), ("phone", 390, 844, "light")]
    {
        browser.resize(width, height).unwrap();
        browser.prefer(scheme).unwrap();
        browser.open(&format!("file://{}", page.display())).unwrap();
        browser.wait_for("document.readyState === 'complete'").unwrap();
        browser.screenshot(&shots.join(format!("{name}-{kind}.png"))).unwrap();
        assert_eq!(browser.complaints(), Vec::<String>::new());
        let wide =
            browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide.unwrap(), value!(0), "{name} is wider than a {kind}");
        backgrounds
            .push(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor").unwrap());
    }
    assert_ne!(backgrounds[0], backgrounds[1], "{name} is not dark in the dark");
    let strips = "[...document.querySelectorAll('svg.strip path')].every((path) => path.getBoundingClientRect().width > 0)";
    assert_eq!(browser.evaluate(strips).unwrap(), true, "{name} has an empty strip");
    // It is all text: nothing needs a script.
    assert_eq!(browser.evaluate("document.scripts.length").unwrap(), value!(0));
    browser.evaluate("document.body.innerText").unwrap().as_str().unwrap().to_owned()
}
