//! `lab run --coverage` and `lab coverage` on the default kernel.

#[expect(dead_code, reason = "only other tests kill runs")]
mod stage;

use stage::{ONE_RUN, TRIVIAL, check, run, said, scenarios, scratch, xtask};
use std::{fs, path::Path, process::Command};

/// Writes to an eventfd.
const WRITES: &str = "summary: an eventfd is written\nsteps: [workload: eventfd --sleep 0 1 2]\n";

fn coverage(results: &Path, arguments: &[&str]) -> Command {
    let mut command = xtask();
    command.args(["lab", "coverage"]).arg(results.join("latest")).args(arguments);
    command
}

#[test]
fn a_run_knows_which_lines_each_scenario_ran() {
    let _one = ONE_RUN.lock();
    let directory = scratch();
    let results = directory.path().join("results");
    let scenarios = scenarios(directory.path(), [("nothing", TRIVIAL), ("writes", WRITES)]);
    check(run(&results, &scenarios).arg("--coverage"), 0, &["2 passed"]);

    let table =
        said(&check(&mut coverage(&results, &["fs/eventfd.c", "kernel/trace/trace_e*probe.c"]), 0, &[]));
    let row =
        |file: &str| table.lines().find(|line| line.starts_with(file)).unwrap_or_else(|| panic!("{table}"));
    assert!(!row("fs/eventfd.c").contains(" 0 of"), "{table}");
    assert!(row("kernel/trace/trace_eprobe.c").contains(" 0 of"), "{table}");

    let shown =
        ["eventfd_write on 6.12, fs/eventfd.c:", "\nrun by: writes\n", "never", "ctx->count += ucnt;"];
    let function =
        check(&mut coverage(&results, &["fs/eventfd.c", "--function", "eventfd_write"]), 0, &shown);
    let written =
        said(&function).lines().find(|line| line.contains("ctx->count += ucnt;")).unwrap().to_owned();
    assert!(written.trim_start().starts_with("1 "), "{written}");

    let number: u32 = written.split_whitespace().nth(1).unwrap().parse().unwrap();
    the_report_shows_it(&results.join("latest").canonicalize().unwrap(), number);

    let never = said(&check(&mut coverage(&results, &["fs/eventfd.c", "--never"]), 0, &["fs/eventfd.c"]));
    assert!(never.contains("eventfd_show_fdinfo") && !never.contains("eventfd_write"), "{never}");

    let info = directory.path().join("out.info");
    check(coverage(&results, &["fs/eventfd.c", "--lcov"]).arg(&info), 0, &[]);
    let text = fs::read_to_string(&info).unwrap();
    assert!(text.lines().any(|line| line == format!("DA:{number},1")), "{text}");
    let html = directory.path().join("html");
    let genhtml = ["--branch-coverage", "--quiet", "--output-directory"];
    check(Command::new("genhtml").args(genhtml).arg(&html).arg(&info), 0, &[]);
    assert!(html.join("index.html").is_file());
}

/// Checks the pages of a run. `number` is that of a line that only `writes` ran.
fn the_report_shows_it(run: &Path, number: u32) {
    let read = |file: &str| fs::read_to_string(run.join(file)).unwrap();
    assert!(read("report.html").contains("\"coverage\":{\"index\":\"coverage/index.html\""));
    assert!(read("coverage/index.html").contains("<a href=\"6.12/fs/eventfd.c.html\">fs/eventfd.c</a>"));
    let page = read("coverage/6.12/fs/eventfd.c.html");
    let row = page.split("<tr").find(|row| row.contains("ctx-&gt;count += ucnt;"));
    let row = row.unwrap();
    assert!(
        row.contains("class=\"ran\" title=\"writes\"><td>1<td>") && row.contains(&format!("{number}\n")),
        "{row}"
    );
    // Without the build, the report says so and is complete otherwise.
    let results = read("results.json");
    let hash = results.split_once("\"config_hash\": \"").unwrap().1.split_once('"').unwrap().0;
    fs::write(run.join("results.json"), results.replace(hash, "gone")).unwrap();
    check(xtask().args(["lab", "report"]).arg(run), 0, &["2 passed"]);
    let report = read("report.html");
    assert!(
        report.contains("the build of 6.12 that was measured is not in the cache")
            && report.contains("</html>")
    );
    assert!(report.contains("\"coverage\":{\"index\":\"coverage/index.html\",\"kernels\":[]"));
    fs::write(run.join("results.json"), results).unwrap();
}

#[test]
fn a_few_scenarios_run_what_all_run() {
    let _one = ONE_RUN.lock();
    let directory = scratch();
    let results = directory.path().join("results");
    let scenarios = scenarios(directory.path(), [("a", WRITES), ("b", WRITES), ("nothing", TRIVIAL)]);
    check(
        run(&results, &scenarios).arg("--smoke"),
        2,
        &["no coverage of 6.12 in `", "run `lab run --coverage`"],
    );
    check(run(&results, &scenarios).arg("--coverage"), 0, &["3 passed"]);
    // The second one adds nothing to the first.
    let smoke =
        said(&check(run(&results, &scenarios).arg("--smoke"), 0, &["of 3 scenarios ran", "0 failed"]));
    assert!(!(smoke.contains("passed       a on") && smoke.contains("passed       b on")), "{smoke}");

    let run_of = |name: &str| {
        let runs = fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path());
        let mut runs: Vec<_> =
            runs.filter(|run| run.join("6.12").join(name).is_dir() && !run.is_symlink()).collect();
        runs.sort();
        runs.swap_remove(0)
    };
    // Merged, it is still there.
    let report = directory.path().join("report");
    check(xtask().args(["lab", "merge", "--into"]).arg(&report).arg(run_of("a")), 0, &[]);
    let same = ["lab", "diff", "--coverage"];
    check(xtask().args(same).arg(&report).arg(run_of("a")), 0, &["both ran the same code"]);
    let one = directory.path().join("one");
    fs::create_dir(&one).unwrap();
    fs::copy(scenarios.join("nothing.yaml"), one.join("nothing.yaml")).unwrap();
    check(run(&results, &one).arg("--coverage"), 0, &["1 passed"]);
    let differ = xtask().args(same).arg(&report).arg(results.join("latest")).output().unwrap();
    assert_eq!(differ.status.code(), Some(1));
    let differ = String::from_utf8_lossy(&differ.stdout).into_owned();
    assert!(differ.contains("functions that only A ran") && differ.contains("eventfd_write"), "{differ}");
}

#[test]
fn what_cannot_be_shown_says_why() {
    let _one = ONE_RUN.lock();
    let directory = scratch();
    let results = directory.path().join("results");
    let scenarios = scenarios(directory.path(), [("nothing", TRIVIAL)]);
    check(&mut run(&results, &scenarios), 0, &["1 passed"]);
    check(&mut coverage(&results, &[]), 3, &["was not measured; run scenarios with `--coverage`"]);
    check(run(&results, &scenarios).arg("--coverage"), 0, &["1 passed"]);
    check(
        &mut coverage(&results, &["fs/eventfd.c", "--function", "eventfd_wrote"]),
        2,
        &["6.12 has no function `eventfd_wrote` of its own in the files that are counted"],
    );
    check(&mut coverage(&results, &["fs/eventfd.cc"]), 2, &["6.12 has no code in `fs/eventfd.cc`"]);
}
