use super::*;
use crate::scenario::{ModuleRef, Scenario, ScenarioFile, Step, means_the_same, stand_alone};
use std::fs;

fn place(project: &str, scenario: &str) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("scenarios")).unwrap();
    fs::write(place.path().join(PROJECT_FILE), project).unwrap();
    let file = place.path().join("scenarios/s.yaml");
    fs::write(&file, scenario).unwrap();
    (place, file)
}

const PROJECT: &str = "version: 1\n\
    modules: { mine: { source: . } }\n\
    workloads: { exercise: { source: tests/exercise.c } }\n\
    defaults: { timeout: 5s }\n\
    expect:\n  - kernel_log: { never: mine.*refused }\n";

#[test]
fn a_scenario_has_what_its_project_shares() {
    let (place, file) = place(
        PROJECT,
        "summary: s\nsteps:\n  - load: mine\n    parameters: a=1\n  - workload: exercise 1 2\n  - load: other\n\
         expect:\n  - kernel_log: { contains: loaded }\n",
    );
    let scenario = Scenario::load(&file).unwrap();
    let root = place.path().canonicalize().unwrap();
    let mine = ModuleRef::Source { directory: root.clone(), name: Some("mine".into()), build: None };
    assert!(scenario.modules().contains(&mine));
    assert!(scenario.modules().contains(&ModuleRef::Named("other".into())));
    let Step::Workload(step) = &scenario.steps[1].value else { panic!("{:?}", scenario.steps[1]) };
    assert_eq!(step.workload.source().unwrap().path(), root.join("tests/exercise.c"));
    assert_eq!(step.workload.arguments(), ["1", "2"]);
    assert_eq!(scenario.timeout.as_secs(), 5);
    let lines: Vec<_> = scenario.expect.iter().map(|item| (item.line, item.text.as_str())).collect();
    assert_eq!(lines, [(8, "kernel_log: { contains: loaded }"), (6, "kernel_log: { never: mine.*refused }")]);
    let alone = stand_alone(&ScenarioFile { name: "s".into(), path: file.clone() }).unwrap();
    let again = Scenario::parse(Path::new("elsewhere.yaml"), &alone).unwrap();
    assert!(means_the_same(&scenario, &again), "{alone}");
}

#[test]
fn what_a_scenario_sets_is_no_default_and_a_git_repository_ends_a_project() {
    let (place, file) = place(PROJECT, "summary: s\ntimeout: 7s\nsteps: [ { read: trace } ]\n");
    assert_eq!(Scenario::load(&file).unwrap().timeout.as_secs(), 7);
    fs::create_dir(place.path().join("scenarios/.git")).unwrap();
    assert!(Scenario::load(&file).unwrap().expect.is_empty());
}

#[test]
fn what_is_wrong_with_a_project_is_named() {
    let check = |project: &str, expect: &str| {
        let (_place, file) = place(project, "summary: s\nsteps: [ { read: trace } ]\n");
        let error = Scenario::load(&file).unwrap_err().to_string();
        assert!(error.contains("ftrace-lab.yaml") && error.contains(expect), "{error}");
    };
    check("version: 2\nmatrixes: {}\n", "format 2 needs a newer ftrace-lab: this one reads format 1");
    check("scenarios: a\n", "missing field `version`, expected `version: 1`");
    for wrong in ["0", "-1", "1.5", "\"1\"", "[1]"] {
        check(&format!("version: {wrong}\n"), "not a format of this file, expected `version: 1`");
    }
    check("version: 1\nscenarios: ../a\n", "`../a` is not inside of the project");
    check("version: 1\nmodules: { a: { source: a }, a: { source: b } }\n", "`a` appears twice");
    check(
        "version: 1\nmodules: { a-b: { source: a }, a_b: { source: b } }\n",
        "`a-b` and `a_b` have one name in the kernel",
    );
    check("version: 1\nworkloads: { a: { source: b.c } }\n", "expected a file called `a.c`");
    check("version: 1\nkernel: [debian-13]\n", "unknown field `kernel`");
}
