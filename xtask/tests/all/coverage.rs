//! `lab run --coverage`, `lab coverage` and `lab affected` on the default kernel.

use crate::stage::{TRIVIAL, check, run, said, scenarios, scratch, share_host, xtask};
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
    let _host = share_host();
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
    check(xtask().args(["lab", "report"]).arg(run), 0, &["2 passed"]);
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
    let _host = share_host();
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
    let _host = share_host();
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

/// A module whose init does some work.
const MODULE: &str = "\
#include <linux/module.h>
#include \"mine.h\"

static int times;
module_param(times, int, 0444);

static noinline int mine_work(int count)
{
	if (count > MINE_MAX) {
		pr_info(\"many\\n\");
		return -EINVAL;
	}
	return 0;
}

static int __init mine_init(void)
{
	return mine_work(times);
}
module_init(mine_init);

static void __exit mine_exit(void)
{
	pr_info(\"bye\\n\");
}
module_exit(mine_exit);

MODULE_DESCRIPTION(\"Coverage of a module\");
MODULE_LICENSE(\"GPL\");
";

/// Creates the sources of the module outside of the checkout, under git.
fn module(mine: &Path) {
    let files = [("Kbuild", "obj-m := mine.o\n"), ("mine.h", "#define MINE_MAX 3\n"), ("mine.c", MODULE)];
    for (name, text) in files {
        fs::write(mine.join(name), text).unwrap();
    }
    let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
    for arguments in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message=first"]] {
        check(Command::new("git").arg("-C").arg(mine).args(identity).args(arguments), 0, &[]);
    }
}

#[test]
fn a_run_knows_which_lines_of_modules_each_scenario_ran() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let outside = tempfile::tempdir().unwrap();
    let mine = outside.path().canonicalize().unwrap().join("mine");
    fs::create_dir(&mine).unwrap();
    module(&mine);
    let source = mine.display();
    let load = format!("module: {{ source: {source} }}");
    let scenarios = scenarios(directory.path(), [("nothing", TRIVIAL)]);
    let twice = format!(
        "summary: a module is loaded twice\nsteps:\n  - {load}\n  - unload: mine\n  - load: deaths\n  - {load}\n  \
         - unload: deaths\n  - unload: mine\n"
    );
    fs::write(scenarios.join("twice.yaml"), twice).unwrap();
    let refused = format!(
        "summary: a module refuses to be loaded\nsteps:\n  - {load}\n    parameters: times=9\n    errno: EINVAL\n"
    );
    fs::write(scenarios.join("refused.yaml"), refused).unwrap();
    check(run(&results, &scenarios).arg("--coverage"), 0, &["3 passed"]);

    let file = mine.join("mine.c").display().to_string();
    let refused = "what mine ran while the kernel refused to load it is not counted: refused";
    check(&mut coverage(&results, &[&source.to_string()]), 0, &[&format!("\n{file} "), refused]);
    let shown = said(&check(
        &mut coverage(&results, &[&file, "--function", "mine_work"]),
        0,
        &["mine_work on 6.12, ", "\nrun by: twice\n", "     1     9  \tif (count > MINE_MAX) {"],
    ));
    assert!(shown.contains(" never    10  \t\tpr_info"), "{shown}");
    let never = said(&check(&mut coverage(&results, &[&file, "guest/modules/deaths", "--never"]), 0, &[]));
    assert!(never.contains("guest/modules/deaths/deaths.c") && !never.contains("mine_"), "{never}");
    let info = directory.path().join("out.info");
    check(coverage(&results, &[&file, "--lcov"]).arg(&info), 0, &[]);
    let text = fs::read_to_string(&info).unwrap();
    assert!(text.contains("DA:9,1\nDA:10,0\n"), "{text}");

    let affected = |arguments: &[&str], expect: &[&str], not: &str| {
        let mut command = xtask();
        command.args(["lab", "affected", "--results"]).arg(results.join("latest")).args(arguments);
        let listed = said(&check(&mut command, 0, expect));
        assert!(!listed.contains(not), "{listed}");
    };
    affected(&[&format!("{file}:9-10")], &["twice", "1 changed lines"], "refused");
    affected(&[&format!("{}/mine.h", mine.display())], &["twice", "refused"], "nothing");
    fs::write(mine.join("mine.c"), MODULE.replace("count > MINE_MAX", "count >= MINE_MAX")).unwrap();
    affected(&["--tree", &source.to_string(), "--since", "HEAD"], &["twice", "1 changed lines"], "refused");
    // The lines are those that were measured.
    check(&mut coverage(&results, &[&file, "--function", "mine_work"]), 0, &["if (count > MINE_MAX)"]);

    let louder = MODULE.replace("count > MINE_MAX", "count >= MINE_MAX").replace("many", "too many");
    fs::write(mine.join("mine.c"), louder).unwrap();
    let concerned = || {
        let mut command = run(&results, &scenarios);
        command.arg("--affected").arg("--module-tree").arg(&mine);
        command
    };
    let never = format!("no scenario ran these changed lines of {file} in 6.12:\n    10  \t\tpr_info");
    check(&mut concerned(), 0, &["1 of 3 scenarios ran what changed", "1 passed, 0 failed", &never]);
    check(run(&results, &scenarios).arg("--affected"), 2, &["add --kernel-tree or --module-tree PATH"]);
    check(concerned().arg("--kernel-tree").arg(&mine), 2, &["cannot be used with"]);
}
