use super::*;
use crate::{
    coverage::{AnnotatedFile, AnnotatedLine},
    results::{Status, fixture},
};
use std::os::unix::fs::symlink;

const HOSTILE: &str = "</table><script>alert('\"')</script>&\u{1b}";

fn kernel(name: &str) -> KernelInfo {
    KernelInfo { name: name.into(), source_version: HOSTILE.into(), config_hash: String::new() }
}

/// Returns a line that was run by scenarios.
fn line<'a>(scenarios: &[&'a str]) -> AnnotatedLine<'a> {
    AnnotatedLine { ran: true, boot: true, scenarios: scenarios.to_vec() }
}

/// Returns the rows of a page: attributes and cells.
fn rows(file: &AnnotatedFile<'_>, text: &str) -> Vec<String> {
    let page = source::page(&kernel("6.12"), "6.12/a.c.html", file, text);
    let table = page.split_once("<table class=\"source\">\n").unwrap().1.split_once("</table>").unwrap().0;
    table.split("<tr").skip(1).map(str::to_owned).collect()
}

#[test]
fn lines_have_the_colour_and_the_scenarios_of_what_ran() {
    let never = |boot| AnnotatedLine { boot, ..AnnotatedLine::default() };
    let lines = [
        (2, line(&["b", "a"])),
        (3, line(&["b", "a"])),
        (4, line(&[])),
        (6, never(false)),
        (7, never(false)),
        (8, never(true)),
    ];
    let file = AnnotatedFile { lines: lines.into(), never: vec![("f", 7)], ..AnnotatedFile::default() };
    let expect = [
        " id=\"L1\"><td><td>1\n<td>one\n",
        " id=\"L2\" class=\"ran\" title=\"b\na\"><td>2<td>2\n3\n<td>\ttwo\nthree\n",
        " id=\"L4\" class=\"ran\" title=\"an empty scenario runs it, too\"><td>all<td>4\n<td>\n",
        " id=\"L5\"><td><td>5\n<td>five\n",
        " id=\"L6\" class=\"never\"><td>never<td>6\n<td>six\n",
        // The function that never ran begins here.
        " id=\"L7\" class=\"never\"><td>never<td>7\n<td>seven\n",
        " id=\"L8\" class=\"never\" title=\"ran during boot\"><td>never<td>8\n<td>eight\n",
    ];
    assert_eq!(rows(&file, "one\n\ttwo\nthree\n\nfive\nsix\nseven\neight\n"), expect);
    let page = source::page(&kernel("6.12"), "6.12/a.c.html", &file, "");
    assert!(page.contains("Functions that no scenario ran: <a href=\"#L7\">f</a>"), "{page}");
    for link in ["../index.html", "../../report.html"] {
        assert!(page.contains(&format!("<a href=\"{link}\">")), "{page}");
    }
}

#[test]
fn a_long_list_of_scenarios_ends_with_the_number_of_the_others() {
    let names: Vec<String> = (10..40).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let file = AnnotatedFile { lines: [(1, line(&names))].into(), ..AnnotatedFile::default() };
    let rows = rows(&file, "one");
    assert!(
        rows[0].contains("title=\"s10\ns11\n") && rows[0].contains("\ns21\nand 18 more\"><td>30<td>"),
        "{rows:?}"
    );
}

#[test]
fn nothing_of_a_guest_or_a_tree_is_markup() {
    let coverage = FileCoverage { file: HOSTILE.into(), ..FileCoverage::default() };
    let file = AnnotatedFile { coverage, lines: [(1, line(&[HOSTILE]))].into(), never: vec![(HOSTILE, 1)] };
    let page = source::page(&kernel(HOSTILE), "x", &file, HOSTILE);
    assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
    assert_eq!(page.matches("</table>").count(), 1);
    let escaped = "&lt;/table&gt;&lt;script&gt;alert(&#39;&quot;&#39;)&lt;/script&gt;&amp;\u{fffd}";
    // Title, heading, kernel and version, function, scenario, text.
    assert_eq!(page.matches(escaped).count(), 8, "{page}");
    let policy = format!("default-src 'none'; style-src '{}';", Hash::of(STYLE));
    assert!(page.contains(&policy) && page.contains(&format!("<style>{STYLE}</style>")), "{page}");
}

#[test]
fn a_page_has_a_path_below_the_directory() {
    let check = |name: &str, file: &str, expect: Option<&str>| {
        assert_eq!(page_of(&kernel(name), file).as_deref(), expect, "{name} {file}");
    };
    check("6.12", "kernel/trace/trace.c", Some("6.12/kernel/trace/trace.c.html"));
    for file in ["../a.c", "/a.c", "a//b.c", "./a.c", "a/.b.c", "a\"b.c", "a b.c", "a%2fb.c", "a#b.c"] {
        check("6.12", file, None);
    }
    check("..", "a.c", None);
    check("", "a.c", None);
}

#[test]
fn pages_replace_those_of_an_earlier_report_and_no_results() {
    let root = tempfile::tempdir().unwrap();
    let (run, home) = (root.path().join("run"), root.path().join("home"));
    fs::create_dir_all(home.join("6.12")).unwrap();
    fs::create_dir(&run).unwrap();
    // A link in results of another machine.
    symlink(&home, run.join(DIRECTORY)).unwrap();
    let results = fixture::results(vec![fixture::result("a", Status::Passed)]);
    let pages =
        |path: &str| Pages { tables: "table".into(), files: vec![(path.into(), "page".into())], bytes: 0 };
    pages("6.12/a.c.html").write(&results, &run).unwrap();
    assert_eq!(fs::read_to_string(run.join("coverage/6.12/a.c.html")).unwrap(), "page");
    assert_eq!(fs::read_dir(home.join("6.12")).unwrap().count(), 0);
    pages("6.12/b.c.html").write(&results, &run).unwrap();
    assert!(run.join("coverage/6.12/b.c.html").is_file() && !run.join("coverage/6.12/a.c.html").exists());
    assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
    let mut own = results;
    own.scenarios[0].directory = "coverage/a".into();
    let error = pages("6.12/c.c.html").write(&own, &run).unwrap_err().to_string();
    assert!(error.contains("the kernel `coverage` has its results there"), "{error}");
    assert!(run.join("coverage/6.12/b.c.html").is_file());
}
