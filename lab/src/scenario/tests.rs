//! Whole scenarios: what they mean, and what is said of wrong ones.

use super::*;

fn parse(source: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(Path::new("x.yaml"), source)
}

#[test]
fn smoke() {
    let s = parse("summary: x\nsteps:\n  - workload: eventfd 1 2\n    stdout: hi\n").unwrap();
    assert_eq!(s.steps.len(), 1);
}

fn scenarios() -> Vec<Found> {
    find(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios")), &[]).unwrap()
}

#[test]
fn every_scenario_of_the_project_is_well_formed() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 5, "{scenarios:?}");
    for found in scenarios {
        if let Err(error) = Scenario::load(&found.path) {
            panic!("{error}");
        }
        let source = std::fs::read_to_string(&found.path).unwrap();
        let depth = found.name.matches('/').count();
        let header = format!("# yaml-language-server: $schema={}schema.json\n", "../".repeat(depth));
        assert!(source.starts_with(&header), "`{}` does not begin with {header}", found.path.display());
    }
}

#[test]
fn the_schema_file_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/schema.json");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, schema()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == schema(), "scenarios/schema.json is stale; refresh it with `cargo xtask lab schema`");
}
