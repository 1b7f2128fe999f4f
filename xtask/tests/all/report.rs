//! `report.html` in headless Chromium, from a real run of scenarios that pass, fail and cause a splat.
//! Screenshots are kept in `target/screenshots/`.

use crate::stage::{check, run, scenarios, scratch, share_host};
use checkers::browser::Browser;
use lab::{
    host::prerequisites::{self, Need},
    progress::Progress,
};
use serde_json::{Value, json};
use std::{
    env,
    path::{Path, PathBuf},
};

const PASSING: &str = "summary: a kprobe sees each value that is written
trace:
  events:
    - { kprobe: eventfd_write, name: efd_write, args: { value: '+u0($arg2):u64' } }
    - { event: 'sched:sched_switch' }
    - { event: 'raw_syscalls:sys_enter' }
steps:
  - workload: eventfd --sleep 0 1 2 4 7 14
expect:
  - values: { event: efd_write, field: value, equal: [1, 2, 4, 7, 14] }
";

/// Fails by a text check and an expectation, and has text that a page must not interpret as markup.
const FAILING: &str = "summary: six <b>values</b> are seen where five are written
trace:
  events:
    - { kprobe: eventfd_write, name: efd_write, args: { value: '+u0($arg2):u64' } }
    - { event: 'raw_syscalls:sys_enter' }
    - { event: 'sched:sched_switch' }
steps:
  - workload: eventfd --sleep 0 1 2 4 7 14
  - workload: turns 200
  - { write: trace_marker, text: '</script><img src=x onerror=alert(1)>' }
  - { text: { ftrace_site: vfs_read }, is: [nop, nop] }
expect:
  - values: { event: efd_write, field: value, equal: [1, 2, 4, 7, 14, 28], where: 'comm == \"eventfd\"' }
  - count: { event: efd_write, at_least: 5 }
";

const COMPLAINING: &str = "summary: a module loads in silence
steps:
  - { load: deaths, parameters: now=warn }
";

/// An open page.
struct Page {
    browser: Browser,
    shots: PathBuf,
}

impl Page {
    fn open(report: &Path) -> Page {
        let yes = env::var("CI").is_ok_and(|value| value == "true");
        prerequisites::ensure(Need::Test, yes, &Progress::new()).unwrap();
        let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
        let mut page = Page { browser: Browser::start().unwrap(), shots };
        page.browser.resize(1280, 900).unwrap();
        page.browser.prefer("light").unwrap();
        page.browser.open(&format!("file://{}", report.display())).unwrap();
        page.wait("document.readyState === 'complete' && document.querySelector('#rows tr')");
        page
    }

    fn get(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression).unwrap()
    }

    fn wait(&mut self, expression: &str) {
        self.browser.wait_for(expression).unwrap();
    }

    fn number(&mut self, expression: &str) -> f64 {
        let value = self.get(expression);
        value.as_f64().unwrap_or_else(|| panic!("`{expression}` is {value}"))
    }

    /// Saves a screenshot once requested frames are drawn.
    fn shot(&mut self, name: &str) {
        self.get("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
        self.browser.screenshot(&self.shots.join(format!("{name}.png"))).unwrap();
    }

    /// Clicks in the middle of an element.
    fn click(&mut self, selector: &str) {
        let place = self.get(&format!(
            "(() => {{ const one = document.querySelector({selector:?}); one.scrollIntoView({{ block: 'center' }}); \
             const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        self.browser.click(place[0].as_f64().unwrap(), place[1].as_f64().unwrap()).unwrap();
    }

    /// Returns the names of the listed scenarios.
    fn listed(&mut self) -> Vec<String> {
        let names = self.get("[...document.querySelectorAll('#rows .name')].map((name) => name.textContent)");
        serde_json::from_value(names).unwrap()
    }

    /// Opens a result's details by clicking on its verdict.
    fn details(&mut self, name: &str) {
        let index = format!("list.results.findIndex((row) => row.name === {name:?})");
        let index = self.number(&index);
        self.click(&format!("button[data-index='{index}']"));
        self.wait("document.querySelector('section.details')");
    }

    fn text(&mut self, selector: &str) -> String {
        let text = self.get(&format!("document.querySelector({selector:?})?.textContent ?? 'nothing'"));
        text.as_str().unwrap().to_owned()
    }

    fn nothing_is_wrong(&mut self) {
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
        let wide = self.get("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, json!(0), "the page is wider than the window");
    }
}

/// Makes the report of a real run.
fn report(directory: &Path) -> PathBuf {
    let results = directory.join("results");
    let scenarios = scenarios(directory, [("fails", FAILING), ("passes", PASSING), ("warns", COMPLAINING)]);
    check(&mut run(&results, &scenarios), 1, &["1 passed, 1 failed, 1 splat"]);
    results.join("latest").canonicalize().unwrap().join("report.html")
}

#[test]
fn a_report_is_read_by_mouse_and_keyboard_in_the_light_and_in_the_dark_on_a_desk_and_on_a_phone() {
    let _host = share_host();
    let directory = scratch();
    let mut page = Page::open(&report(directory.path()));
    the_list_has_every_result(&mut page);
    filters_leave_what_was_asked_for(&mut page);
    a_failures_details_open(&mut page);
    the_timeline_zooms(&mut page);
    hidden_kinds_are_gone(&mut page);
    a_splat_is_marked(&mut page);
    it_is_read_by_keyboard(&mut page);
    it_is_dark_in_the_dark(&mut page);
    it_fits_a_phone(&mut page);
    it_is_named_for_a_screen_reader(&mut page);
}

fn the_list_has_every_result(page: &mut Page) {
    assert_eq!(page.listed(), ["fails", "warns", "passes"], "failures come first");
    assert_eq!(page.text("#count"), "3 of 3 results");
    // The claim is shown as text, not as markup.
    assert!(page.text("#rows .claim").contains("six <b>values</b>"));
    page.shot("list");
    page.nothing_is_wrong();
}

fn filters_leave_what_was_asked_for(page: &mut Page) {
    page.click("[data-status=splat]");
    assert_eq!(page.listed(), ["warns"]);
    assert_eq!(page.text("#count"), "1 of 3 results");
    assert_eq!(
        page.get("document.querySelector('[data-status=passed]').getAttribute('aria-pressed')"),
        "false"
    );
    page.click("#clear");
    page.wait("document.querySelectorAll('#rows .name').length === 3");
    page.browser.press("/").unwrap();
    for letter in ["k", "p", "r", "o", "b", "e"] {
        page.browser.press(letter).unwrap();
    }
    page.wait("document.querySelectorAll('#rows .name').length === 1");
    assert_eq!(page.listed(), ["passes"]);
    page.shot("filtered");
    page.get("document.getElementById('search').value = 'no such'; document.getElementById('search').dispatchEvent(new Event('input'))");
    page.wait("!document.getElementById('nothing').hidden");
    page.click("#all");
    page.wait("document.querySelectorAll('#rows .name').length === 3");
    page.nothing_is_wrong();
}

fn a_failures_details_open(page: &mut Page) {
    page.details("fails");
    let text = page.text("section.details");
    for expect in [
        "six <b>values</b>",
        "value 6, 28, is missing",
        "nearest of ",
        "unexpected instruction at vfs_read",
        "lab repro RUN/6.12/fails/repro.yaml",
        "Parent read 28 (0x1c) from efd",
    ] {
        assert!(text.contains(expect), "no `{expect}` in {text}");
    }
    let differs = page.text("tr.differs");
    assert!(
        differs.contains("mov x9, x30") && differs.contains("vfs_read+0x0") && differs.contains("nop"),
        "{differs}"
    );
    assert_eq!(page.get("document.querySelectorAll('section.details img').length"), 0);
    let href = page.get("document.querySelector('a[download=\"trace.dat\"]').href");
    let path = PathBuf::from(href.as_str().unwrap().trim_start_matches("file://"));
    assert!(path.is_file(), "{href}");
    page.shot("details");
    page.nothing_is_wrong();
}

/// Returns the number of events in view, from the line next to the buttons.
fn in_view(page: &mut Page) -> u64 {
    page.get("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    let text = page.text("[data-role=range]").replace(',', "");
    text.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{text}"))
}

fn the_timeline_zooms(page: &mut Page) {
    let whole = in_view(page);
    assert!(whole > 1000, "{whole} events");
    // With the wheel, once the timeline has the focus.
    page.get("document.querySelector('canvas').focus(); document.querySelector('canvas').scrollIntoView({ block: 'center' })");
    let place = page.get(
        "(() => { const box = document.querySelector('canvas').getBoundingClientRect(); \
                          return [box.x + box.width * 0.8, box.y + 35]; })()",
    );
    page.browser.wheel(place[0].as_f64().unwrap(), place[1].as_f64().unwrap(), -600.0).unwrap();
    page.wait(
        "document.querySelector('.timeline').timeline.to - document.querySelector('.timeline').timeline.from \
               < document.querySelector('.timeline').timeline.end * 0.9",
    );
    let zoomed = in_view(page);
    assert!(zoomed < whole, "{zoomed} of {whole}");
    page.shot("zoomed");
    page.browser.press("0").unwrap();
    assert_eq!(in_view(page), whole);
    // With keys: zoom in by a factor of two, and move right.
    let span = "(({ from, to }) => to - from)(document.querySelector('.timeline').timeline)";
    let before = page.number(span);
    page.browser.press("+").unwrap();
    let half = page.number(span);
    assert!((half * 2.0 / before - 1.0).abs() < 1e-6, "{half} is not half of {before}");
    let from = page.number("document.querySelector('.timeline').timeline.from");
    page.browser.press("ArrowRight").unwrap();
    assert!(page.number("document.querySelector('.timeline').timeline.from") > from);
    page.browser.press("-").unwrap();
    // With buttons.
    page.click("button[aria-label^='Zoom in']");
    assert!(in_view(page) < whole);
    page.click("button[aria-label^='Show the whole']");
    assert_eq!(in_view(page), whole);
    // From one event to the next; the table follows.
    page.click(".timeline details summary");
    page.get("document.querySelector('canvas').focus()");
    page.browser.press(".").unwrap();
    let first = page.text(".readout");
    page.browser.press(".").unwrap();
    let second = page.text(".readout");
    assert!(first != second && second.contains("CPU 0"), "{first} then {second}");
    page.wait("document.querySelector('.timeline tr.chosen')");
    let row = page.text("tr.chosen td");
    assert!(second.starts_with(&row), "{row}: {second}");
    assert_eq!(page.number("document.querySelectorAll('.timeline tbody tr').length"), 100.0);
    page.nothing_is_wrong();
}

fn hidden_kinds_are_gone(page: &mut Page) {
    let whole = in_view(page);
    let count: u64 = page.text(".kinds button span").replace(',', "").parse().unwrap();
    page.click(".kinds button");
    assert_eq!(in_view(page), whole - count);
    page.click(".kinds button");
    assert_eq!(in_view(page), whole);
}

fn a_splat_is_marked(page: &mut Page) {
    page.details("warns");
    page.wait("document.querySelector('.log mark')");
    assert_eq!(page.get("document.querySelectorAll('section.details').length"), 1, "more than one is open");
    let marked = page.text(".log mark");
    assert!(marked.contains("WARNING:") && marked.contains("---[ end trace"), "{marked}");
    let decoded = page.text(".complaint");
    assert!(decoded.contains("guest/modules/deaths/deaths.c:"), "{decoded}");
    page.get("document.querySelector('.complaint').scrollIntoView()");
    page.shot("splat");
    page.nothing_is_wrong();
}

fn it_is_read_by_keyboard(page: &mut Page) {
    page.browser.press("Escape").unwrap();
    page.wait("!document.querySelector('section.details')");
    let focus = page.get("document.activeElement.dataset.index !== undefined");
    assert_eq!(focus, true, "the focus did not return to the verdict");
    page.browser.press("Tab").unwrap();
    page.browser.press("Enter").unwrap();
    page.wait("document.querySelector('section.details h2') === document.activeElement");
    assert!(page.text("section.details h2").contains("passes"));
    assert_eq!(page.get("document.querySelectorAll('[aria-expanded=true]').length"), 1);
    // From there to the timeline, by Tab alone.
    let mut tabs = 0;
    while page.get("document.activeElement.tagName") != "CANVAS" {
        page.browser.press("Tab").unwrap();
        tabs += 1;
        assert!(tabs < 60, "the timeline cannot be reached");
    }
    assert_eq!(
        page.get("getComputedStyle(document.activeElement).outlineStyle"),
        "solid",
        "the focus cannot be seen"
    );
    page.browser.press("Escape").unwrap();
}

/// Returns the brightness of a colour of the page, from 0 to 255.
fn brightness(page: &mut Page, expression: &str) -> f64 {
    page.number(&format!(
        "(() => {{ const [r, g, b] = {expression}.match(/[\\d.]+/g).map(Number); return (r + g + b) / 3; }})()"
    ))
}

fn it_is_dark_in_the_dark(page: &mut Page) {
    let back = "getComputedStyle(document.documentElement).backgroundColor";
    let text = "getComputedStyle(document.body).color";
    assert!(brightness(page, back) > 200.0 && brightness(page, text) < 80.0);
    page.browser.prefer("dark").unwrap();
    assert!(brightness(page, back) < 60.0 && brightness(page, text) > 180.0);
    page.details("fails");
    page.shot("dark");
    // The user's choice overrides the system's.
    page.click("#theme");
    assert_eq!(page.text("#theme"), "Colours: light");
    assert!(brightness(page, back) > 200.0);
    page.click("#theme");
    page.click("#theme");
    assert_eq!(page.text("#theme"), "Colours: auto");
    page.browser.prefer("light").unwrap();
    page.nothing_is_wrong();
}

fn it_fits_a_phone(page: &mut Page) {
    page.browser.resize(375, 800).unwrap();
    page.get("scrollTo(0, 0)");
    page.shot("phone-list");
    page.nothing_is_wrong();
    page.get("document.querySelector('section.details').scrollIntoView()");
    page.shot("phone-details");
    page.get("document.querySelector('canvas').scrollIntoView({ block: 'center' })");
    page.shot("phone-timeline");
    // Buttons must be large enough for a finger.
    let low = page
        .number("Math.min(...[...document.querySelectorAll('#rows button')].map((one) => one.offsetHeight))");
    assert!(low >= 32.0, "a verdict is {low} pixels high");
    page.browser.press("Escape").unwrap();
    page.nothing_is_wrong();
    page.browser.resize(1280, 900).unwrap();
}

fn it_is_named_for_a_screen_reader(page: &mut Page) {
    page.details("fails");
    page.browser.call("Accessibility.enable", json!({})).unwrap();
    let tree = page.browser.call("Accessibility.getFullAXTree", json!({})).unwrap();
    let mut roles = Vec::new();
    for node in tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true) {
        let (role, name) =
            (node["role"]["value"].as_str().unwrap_or_default(), node["name"]["value"].as_str());
        if ["button", "searchbox", "combobox", "link", "application", "table", "region"].contains(&role) {
            assert!(name.is_some_and(|name| !name.trim().is_empty()), "a {role} has no name: {node}");
        }
        roles.push((role.to_owned(), name.unwrap_or_default().to_owned()));
    }
    let has = |role: &str, name: &str| roles.iter().any(|(is, of)| is == role && of.contains(name));
    for (role, name) in [
        ("table", "Results"),
        ("columnheader", "6.12"),
        ("rowheader", "fails"),
        ("button", "passed"),
        ("search", ""),
        ("status", ""),
        ("heading", "Expectations"),
        ("region", "fails on 6.12"),
    ] {
        assert!(has(role, name), "no {role} `{name}`");
    }
}
