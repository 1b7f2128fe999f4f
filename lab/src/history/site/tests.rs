//! Tests of the site's files: every link has a target, and names are only text.

use super::*;
use crate::history::simulated::Fleet;
use regex::Regex;
use std::collections::BTreeSet;

/// A name that a page must not interpret.
const HOSTILE: &str = "area/../<script>alert(1)</script>\"'&\u{1b}[31m";

fn site(directory: &Path) {
    let mut history = History::create(&directory.join("history")).unwrap();
    let mut fleet = Fleet::new(2, 3, 5);
    for number in 1..=10 {
        let mut night =
            fleet.night(number, |_, scenario| (if scenario == 1 && number > 6 { 1.0 } else { 0.0 }, 1.0));
        night
            .tries
            .iter_mut()
            .filter(|tried| tried.scenario.ends_with('2'))
            .for_each(|tried| tried.scenario = HOSTILE.into());
        night.info.kernels.iter_mut().for_each(|kernel| kernel.version += HOSTILE);
        history.add(&night).unwrap();
    }
    write_site(&history, &DenyList::default(), &directory.join("site"), "ftrace-lab").unwrap();
}

#[test]
fn every_link_has_a_target_and_names_are_text() {
    let directory = tempfile::tempdir().unwrap();
    site(directory.path());
    let site = directory.path().join("site");
    let link = Regex::new("href=\"([^\"]*)\"").unwrap();
    let tag = Regex::new("<(/?[a-z!][a-z0-9]*)").unwrap();
    let mut tags = BTreeSet::new();
    let mut pages = 0;
    for entry in fs::read_dir(&site).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&entry).unwrap();
        if entry.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        pages += 1;
        for target in link.captures_iter(&text) {
            assert!(site.join(&target[1]).is_file(), "{}: {}", entry.display(), &target[1]);
        }
        tags.extend(tag.captures_iter(&text).map(|tag| tag[1].to_owned()));
        assert!(!text.contains('\u{1b}'), "{}", entry.display());
        assert!(text.contains("default-src 'none'; style-src 'sha256-"));
    }
    // The overview, two kernels, three scenarios, and the failure.
    assert_eq!(pages, 7);
    assert!(!tags.contains("script") && tags.contains("svg"), "{tags:?}");
    let index = fs::read_to_string(site.join("index.html")).unwrap();
    assert!(index.contains("&lt;script&gt;alert(1)"), "{index}");
    let failure = fs::read_dir(&site).unwrap().map(|entry| entry.unwrap().path());
    let failure = failure.into_iter().find(|path| {
        path.to_string_lossy().contains("failure-failed-")
            && path.extension().is_some_and(|html| html == "html")
    });
    let failure = fs::read_to_string(failure.unwrap()).unwrap();
    assert!(failure.contains("ftrace-lab repro failure-failed-"), "{failure}");
    assert!(
        failure.contains("ftrace-lab bisect failure-failed-") && failure.contains(" --good &#39;6.0.0"),
        "{failure}"
    );
}

#[test]
fn only_an_older_site_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    site(directory.path());
    let site = directory.path().join("site");
    fs::write(site.join("old.html"), "").unwrap();
    let history = History::open(&directory.path().join("history")).unwrap();
    write_site(&history, &DenyList::default(), &site, "ftrace-lab").unwrap();
    assert!(!site.join("old.html").exists() && site.join("index.html").is_file());
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("mine"), "").unwrap();
    let error = write_site(&history, &DenyList::default(), &other, "ftrace-lab").unwrap_err().to_string();
    assert!(error.contains("is neither empty nor an older site"), "{error}");
}
