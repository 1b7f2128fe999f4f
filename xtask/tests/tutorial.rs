//! Follows docs/tutorial.md, docs/workloads.md and docs/dtrace.md like a new user: writes their files, runs their
//! commands on the real default kernel, and compares their output with that on the page.
//!
//! The first word after the fence of a block determines what the test does:
//!
//! | block | action |
//! |---|---|
//! | `sh` | runs it; `exit=1` is the expected exit status, otherwise 0 |
//! | `text` | compares it with the output of the preceding `sh` block, ignoring times, addresses and paths; a line `…` matches any lines, `[…]` anything within a line |
//! | `yaml`, `c` or `make`, and a path | writes the file |
//! | `console` | nothing: commands that create a checkout |
//! | `yaml` | nothing: a part of a file |

use lab::host::process::write_program;
use regex::Regex;
use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A fenced block of a page.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    /// The words after the fence.
    info: Vec<&'a str>,
    body: String,
    /// The line number of its fence, from 1.
    line: usize,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(info), None) => {
                let info = info.split_whitespace().collect();
                open = Some(Block { info, body: String::new(), line: index + 1 });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.body.push_str(line);
                block.body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed: {open:?}");
    blocks
}

/// Text that differs between runs, and the word that replaces it.
const VARYING: [(&str, &str); 6] = [
    // A second run within the same second has a number appended to its name.
    (r"results/[0-9TZ:.-]+-6\.12(\.[0-9]+)?", "results/RUN"),
    (r"\b6\.12\.[0-9]+", "VERSION"),
    (r"\b(0x)?ffff[0-9a-f]{12}\b", "ADDRESS"),
    (r"-?\b[0-9]{10,}\b", "NUMBER"),
    (r"\b[0-9]+(\.[0-9]+)?( ?(ns|us|µs|ms|s|min))\b", "TIME"),
    (r" *\b[0-9]+\.[0-9]{3,9}:", " TIME:"),
];

/// Returns the lines of `text`, with everything that differs between runs replaced.
fn lines(text: &str, place: &Path) -> Vec<String> {
    let mut text = text.replace(&format!("{}/", place.display()), "");
    for (varying, word) in VARYING {
        text = Regex::new(varying).unwrap().replace_all(&text, word).into_owned();
    }
    // The CPU at the start of a line of the graph tracer.
    let text = Regex::new(r"(?m)^ [0-9]+\)").unwrap().replace_all(&text, " CPU)");
    let process = Regex::new(r"\beventfd-[0-9]+ +\[[0-9]+\]").unwrap();
    let text = process.replace_all(&text, "eventfd-PID [CPU]");
    text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Returns whether `found` matches `told`, in which a line `…` matches any lines.
fn matches(told: &[String], found: &[String]) -> bool {
    match told.split_first() {
        None => found.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=found.len()).any(|skipped| matches(rest, &found[skipped..]))
        }
        Some((first, rest)) => {
            found.first().is_some_and(|line| is_line(first, line)) && matches(rest, &found[1..])
        }
    }
}

/// Returns whether a line matches `told`, in which `[…]` matches anything.
fn is_line(told: &str, found: &str) -> bool {
    let parts: Vec<_> = told.split("[…]").map(regex::escape).collect();
    Regex::new(&format!("^{}$", parts.join(".*"))).unwrap().is_match(found)
}

/// A stand-in for a new user's checkout: the scenarios, and a `cargo` that calls the built xtask.
struct Checkout {
    place: tempfile::TempDir,
    programs: PathBuf,
}

impl Checkout {
    fn new() -> Checkout {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let programs = place.path().join("bin");
        copy(&Path::new(ROOT).join("scenarios"), &place.path().join("scenarios"));
        symlink(Path::new(ROOT).join("guest"), place.path().join("guest")).unwrap();
        fs::create_dir(&programs).unwrap();
        let xtask = env!("CARGO_BIN_EXE_xtask");
        let script = format!("#!/bin/sh\n[ \"$1\" = xtask ] || exit 99\nshift\nexec '{xtask}' \"$@\"\n");
        write_program(&programs.join("cargo"), &script).unwrap();
        Checkout { place, programs }
    }

    fn path(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap()
    }

    fn sh(&self, commands: &str) -> Output {
        let path = env::var("PATH").unwrap();
        Command::new("sh")
            .args(["-eu", "-c", commands])
            .current_dir(self.path())
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("FTRACE_LAB_SCENARIOS", self.path().join("scenarios"))
            .env("FTRACE_LAB_RESULTS", self.path().join("results"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn write(&self, path: &str, body: &str) {
        let inside = path.starts_with("scenarios/") && !path.contains("..");
        assert!(inside, "`{path}` is not below scenarios/");
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn the_tutorial_does_what_it_says() {
    let (ran, compared) = follow("tutorial.md");
    assert!(ran >= 8 && compared >= 6, "{ran} commands ran, {compared} outputs were compared");
}

#[test]
fn workloads_are_looked_at_as_their_page_says() {
    let (ran, compared) = follow("workloads.md");
    assert!(ran >= 2 && compared >= 1, "{ran} commands ran, {compared} outputs were compared");
}

#[test]
fn one_liners_of_dtrace_are_scenarios_and_bpftrace_agrees() {
    let (ran, compared) = follow("dtrace.md");
    assert!(ran >= 1 && compared >= 1, "{ran} commands ran, {compared} outputs were compared");
}

/// Follows a page of docs/. Returns the number of commands run and of outputs compared.
fn follow(page: &str) -> (usize, usize) {
    let name = page;
    let page = fs::read_to_string(Path::new(ROOT).join("docs").join(name)).unwrap();
    let checkout = Checkout::new();
    let mut printed: Option<String> = None;
    let (mut ran, mut compared) = (0, 0);
    for block in blocks(&page) {
        let at = format!("docs/{name}:{}", block.line);
        match block.info.as_slice() {
            ["sh", status @ ..] => {
                let status = match status {
                    [] => 0,
                    [status] => status.strip_prefix("exit=").and_then(|code| code.parse().ok()).unwrap(),
                    _ => panic!("{at}: {block:?}"),
                };
                let output = checkout.sh(&block.body);
                let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
                assert_eq!(output.status.code(), Some(status), "{at}:\n{}{out}{error}", block.body);
                printed = Some(out.into_owned());
                ran += 1;
            }
            ["text"] => {
                let printed = printed.take().unwrap_or_else(|| panic!("{at}: no command before it"));
                let (told, found) = (lines(&block.body, &checkout.path()), lines(&printed, &checkout.path()));
                assert!(matches(&told, &found), "{at}: page\n{told:#?}\nfound\n{found:#?}\nin\n{printed}");
                compared += 1;
            }
            ["yaml" | "c" | "make", path] => checkout.write(path, &block.body),
            ["console" | "yaml"] => {}
            _ => panic!("{at}: unknown kind of block"),
        }
    }
    (ran, compared)
}

#[test]
fn a_page_is_taken_apart_and_outputs_are_compared() {
    let page = "a\n```sh exit=1\nls\n```\nb\n```text\nx\n```\n";
    let found = blocks(page);
    let expect = [(vec!["sh", "exit=1"], "ls\n", 2), (vec!["text"], "x\n", 6)];
    let expect = expect.map(|(info, body, line)| Block { info, body: body.to_owned(), line });
    assert_eq!(found, expect);
    let check = |told: &str, found: &str, expect: bool| {
        let place = Path::new("/somewhere");
        assert_eq!(matches(&lines(told, place), &lines(found, place)), expect, "{told}: {found}");
    };
    check("a 1.2s\n…\nb", "a 300ms\nx\ny\nb\n", true);
    check("a\n…", "a", true);
    check("a\n…\nb", "a\nx", false);
    check("a", "a\nb", false);
    check("a […] c", "a b c", true);
    check("a […] c", "a b d", false);
    check("found 3", "found 4", false);
    check("at 0xffff800080000000 in x", "at 0xffff800080000008 in /somewhere/x", true);
}
