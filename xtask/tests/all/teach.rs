//! Everything that helps a new user: a first scenario, explanations, completions, and `--help`.

use crate::stage::{check, root, scratch, xtask};
use regex::Regex;
use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns a command `lab …` with scenarios and results below `place`.
fn lab(place: &Path, arguments: &[&str]) -> Command {
    let mut command = xtask();
    command.arg("lab").args(arguments).current_dir(place);
    command
        .env("FTRACE_LAB_SCENARIOS", place.join("scenarios"))
        .env("FTRACE_LAB_RESULTS", place.join("results"));
    command
}

#[test]
fn new_scenarios_pass_as_they_are() {
    let place = scratch();
    let place = place.path().canonicalize().unwrap();
    fs::create_dir(place.join("scenarios")).unwrap();
    check(&mut lab(&place, &["new", "values"]), 0, &["wrote scenarios/values.yaml\n"]);
    check(&mut lab(&place, &["new", "area/probe", "--kprobe", "vfs_write"]), 0, &["wrote"]);
    check(&mut lab(&place, &["new", "area/hook", "--hook", "vfs_write"]), 0, &["wrote"]);
    check(&mut lab(&place, &["run", "--jobs", "1"]), 0, &["3 passed, 0 failed"]);
    // The expectation is not vacuous: without calls by the workload it fails.
    let probe = place.join("scenarios/area/probe.yaml");
    let written = fs::read_to_string(&probe).unwrap();
    fs::write(&probe, written.replace("kprobe: vfs_write", "kprobe: eventfd_release")).unwrap();
    check(&mut lab(&place, &["run", "area/probe", "--jobs", "1"]), 0, &["1 passed"]);
    fs::write(&probe, written.replace("kprobe: vfs_write", "kprobe: do_mkdirat")).unwrap();
    check(&mut lab(&place, &["run", "area/probe", "--jobs", "1"]), 1, &["found 0, expected at least 1"]);
}

#[test]
fn a_new_scenario_takes_no_others_place() {
    let place = scratch();
    let place = place.path().canonicalize().unwrap();
    let scenarios = place.join("scenarios");
    fs::create_dir(&scenarios).unwrap();
    check(&mut lab(&place, &["new", "area/mine"]), 0, &[]);
    let file = scenarios.join("area/mine.yaml");
    fs::write(&file, "summary: mine\n").unwrap();
    check(&mut lab(&place, &["new", "area/mine"]), 2, &["area/mine.yaml` already exists"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "summary: mine\n");
    for name in ["area", "area/mine/deeper"] {
        check(&mut lab(&place, &["new", name]), 2, &["would overlap"]);
    }
    for name in ["../mine", "/mine", "a//b", ".mine", "m ine", ""] {
        check(&mut lab(&place, &["new", name]), 2, &["bad name"]);
    }
    check(&mut lab(&place, &["new", "f", "--kprobe", "a b"]), 2, &["is not a function's name"]);
    check(&mut lab(&place, &["new", "f", "--kprobe", "a", "--hook", "b"]), 2, &["cannot be used with"]);
    fs::create_dir(place.join("elsewhere")).unwrap();
    symlink(place.join("elsewhere"), scenarios.join("link")).unwrap();
    check(&mut lab(&place, &["new", "link/mine"]), 2, &["is outside of"]);
    assert!(!place.join("elsewhere/mine.yaml").exists());
}

/// Scenarios with a golden explanation in `tests/explained`; addresses and the kernel version, which
/// depend on the build, are replaced.
const EXPLAINED: [&str; 5] =
    ["probes/eventfd-write", "probes/paths", "probes/fprobe", "ipmodify/return", "crash/inspect-eventfd"];

#[test]
fn scenarios_are_explained_for_the_default_kernel() {
    let varying = [(r"0xffff[0-9a-f]{12}", "ADDRESS"), (r"\b6\.12\.[0-9]+", "VERSION")];
    for name in EXPLAINED {
        let output = check(xtask().args(["lab", "explain", name]), 0, &[]);
        let mut found = String::from_utf8(output.stdout).unwrap();
        for (pattern, word) in varying {
            found = Regex::new(pattern).unwrap().replace_all(&found, word).into_owned();
        }
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/explained");
        let golden = golden.join(name.replace('/', "-")).with_extension("txt");
        if env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&golden, &found).unwrap();
        }
        let expect = fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, expect, "`{}` is stale; refresh it with UPDATE_EXPECT=1", golden.display());
    }
}

/// Every scenario can be explained, and no heading lacks its text.
#[test]
fn every_scenario_is_explained() {
    let scenarios = root().join("scenarios");
    let output = check(xtask().args(["lab", "explain"]).arg(scenarios), 0, &[]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("static_keys/sched-switch\n"), "{told}");
    let empty = |line: &&str| line.trim_end().ends_with(':') && !line.starts_with("  ");
    assert_eq!(told.lines().find(empty), None);
}

/// Returns what bash offers as completions of the last of these words.
fn completed(words: &[&str]) -> Vec<String> {
    let script = check(xtask().args(["completions", "bash"]), 0, &[]).stdout;
    let place = scratch();
    fs::write(place.path().join("completions.bash"), script).unwrap();
    let ask = r#"
        set -u
        before() { COMPREPLY=("before:$2"); }
        complete -F before cargo
        source completions.bash
        source completions.bash        # twice is once
        [[ $(complete -p cargo) == *"-F _ftrace_lab_cargo cargo" ]] || exit 9
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _ftrace_lab_cargo cargo "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, "bash"]).args(words).current_dir(place.path()).stdin(Stdio::null());
    let output = check(&mut bash, 0, &[]);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_options_kernels_and_scenarios() {
    assert_eq!(completed(&["cargo", "xtask", "lab", "run", "--k"]), ["--kernel", "--kernel-tree"]);
    assert_eq!(completed(&["cargo", "xtask", "lab", "run", "--kernel", "7."]), ["7.2", "7.2-clang", "7.3"]);
    assert_eq!(completed(&["cargo", "xtask", "lab", "expla"]), ["explain"]);
    let scenarios = completed(&["cargo", "xtask", "lab", "explain", "probes/ev"]);
    assert_eq!(scenarios, ["probes/eventfd-write"]);
    assert_eq!(completed(&["cargo", "xtask", "completions", "z"]), ["zsh"]);
    // Anything but xtask is passed to the completion that cargo had before.
    assert_eq!(completed(&["cargo", "bui"]), ["before:bui"]);
    assert_eq!(completed(&["cargo", "xta"]), ["before:xta"]);
}

#[test]
fn every_command_teaches_by_an_example() {
    let verbs = |arguments: &[&str]| {
        let help = String::from_utf8(check(xtask().args(arguments).arg("--help"), 0, &[]).stdout).unwrap();
        let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
        let listed = listed.lines().take_while(|line| !line.is_empty());
        let verb = |line: &str| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned);
        listed.filter_map(verb).filter(|verb| !verb.is_empty() && verb != "help").collect::<Vec<_>>()
    };
    let top = verbs(&[]);
    assert!(top.len() >= 6, "{top:?}");
    let below = verbs(&["lab"]);
    assert!(below.len() >= 20, "{below:?}");
    for verb in &top {
        if verb != "lab" {
            check(xtask().args([verb, "--help"]), 0, &["Example"]);
        }
    }
    for verb in &below {
        check(xtask().args(["lab", verb, "--help"]), 0, &["Example"]);
    }
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let letter = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(letter)
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let links = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut followed = 0;
    for page in pages.chain([root().join("README.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        for link in links.captures_iter(&text).map(|found| found[1].to_owned()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: `{link}` leads nowhere", page.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(
                    headings.any(|found| found == heading),
                    "{}: no heading for `{link}`",
                    page.display()
                );
            }
            followed += 1;
        }
    }
    assert!(followed > 100, "{followed} links");
}
