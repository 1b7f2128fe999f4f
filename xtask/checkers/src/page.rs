//! Follows a page of documentation like a new user: writes its files, runs its commands, and compares their output
//! with that on the page.
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

use regex::Regex;
use std::{fs, io, path::Path, process::Output};

/// Where a page is followed.
pub trait Reader {
    /// The directory that the page is read in. Its path is left out of outputs.
    fn place(&self) -> &Path;

    /// Runs commands as `sh -eu -c` does.
    fn sh(&self, commands: &str) -> Output;

    /// Writes a file of the page.
    fn write(&self, path: &str, body: &str);
}

/// Follows the page in a file. Returns the number of commands run and of outputs compared.
///
/// # Panics
/// A command does not end as the page says, or prints something else.
pub fn follow(page: &Path, reader: &impl Reader) -> (usize, usize) {
    let name = page.file_name().unwrap_or_default().to_string_lossy();
    let page = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let mut printed: Option<String> = None;
    let (mut ran, mut compared) = (0, 0);
    for block in blocks(&page) {
        let at = format!("docs/{name}:{}", block.line);
        match block.info.as_slice() {
            ["sh", status @ ..] => {
                let status = match status {
                    [] => Some(0),
                    [status] => status.strip_prefix("exit=").and_then(|code| code.parse().ok()),
                    _ => panic!("{at}: {block:?}"),
                };
                let output = reader.sh(&block.body);
                let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
                assert!(
                    status.is_some() && output.status.code() == status,
                    "{at}:\n{}{out}{error}",
                    block.body
                );
                printed = Some(out.into_owned());
                ran += 1;
            }
            ["text"] => {
                let printed = printed.take().unwrap_or_else(|| panic!("{at}: no command before it"));
                let (told, found) = (lines(&block.body, reader.place()), lines(&printed, reader.place()));
                assert!(matches(&told, &found), "{at}: page\n{told:#?}\nfound\n{found:#?}\nin\n{printed}");
                compared += 1;
            }
            ["yaml" | "c" | "make", path] => reader.write(path, &block.body),
            ["console" | "yaml"] => {}
            _ => panic!("{at}: unknown kind of block"),
        }
    }
    (ran, compared)
}

/// Copies a directory to where there is none.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let from = entry?.path();
        let to = to.join(from.file_name().unwrap_or_default());
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

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
    (r"\b(results|base)/[0-9TZ:.-]+-(6\.12|debian-13)(\.[0-9]+)?", "$1/RUN"),
    (r"\b6\.12\.[0-9]+", "VERSION"),
    (r"\b(0x)?ffff[0-9a-f]{12}\b", "ADDRESS"),
    (r"-?\b[0-9]{10,}\b", "NUMBER"),
    (r"\b[0-9]+(\.[0-9]+)?( ?(ns|us|µs|ms|s|min))\b", "TIME"),
    (r" *\b[0-9]+\.[0-9]{3,9}:", " TIME:"),
];

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the lines of `text`, with everything that differs between runs replaced.
fn lines(text: &str, place: &Path) -> Vec<String> {
    let mut text = text.replace(&format!("{}/", place.display()), "");
    for (varying, word) in VARYING {
        text = regex(varying).replace_all(&text, word).into_owned();
    }
    // The CPU at the start of a line of the graph tracer.
    let text = regex(r"(?m)^ [0-9]+\)").replace_all(&text, " CPU)");
    let process = regex(r"\beventfd-[0-9]+ +\[[0-9]+\]");
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
    regex(&format!("^{}$", parts.join(".*"))).is_match(found)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
