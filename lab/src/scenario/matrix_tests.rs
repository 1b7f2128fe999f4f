//! Matrices: the cells of a file, their names, and the errors of malformed ones.

use super::*;
use std::fs;

const YAML: &str = "
summary: x
requires: { kernel: '>=5.10' }
matrix:
  function: f
  orders: ORDERS
  parts:
    kprobe: { steps: [ { write: kprobe_events, text: p f } ], check: [ { read: kprobe_profile } ] }
    ops: { steps: [ { hook: +o symbol=f } ], ops: 1 }
    live:
      requires: { config: [LIVEPATCH] }
      steps: [ { read: x }, { load: live } ]
      ops: 1
      flags: I
      refused: { after: [ops, kprobe], errno: EBUSY }
steps:
  - read: y
";

fn base(yaml: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(Path::new("x.yaml"), yaml)
}

fn cells(orders: &str) -> Vec<(String, Scenario)> {
    let base = base(&YAML.replace("ORDERS", orders)).unwrap();
    let matrix = base.matrix.clone().unwrap();
    matrix.orders.of(matrix.parts.len()).iter().map(|order| matrix.cell(&base, order)).collect()
}

#[test]
fn each_order_is_a_cell() {
    let names = |orders| cells(orders).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(
        names("pairs"),
        ["kprobe.ops", "kprobe.live", "ops.kprobe", "ops.live", "live.kprobe", "live.ops"]
    );
    assert_eq!(names("all").len(), 6);
    assert_eq!(names("all")[5], "live.ops.kprobe");
    assert_eq!(Orders::All.count(5), 120);
}

#[test]
fn any_three_parts_meet_in_each_order_in_the_usual_ones() {
    let check = |parts: usize, expect: usize| {
        let orders = Orders::Triples.of(parts);
        let usual: Vec<_> = orders.iter().zip(Orders::Triples.usual(&orders)).collect();
        let chosen = || usual.iter().filter(|(_, usual)| *usual).map(|(order, _)| *order);
        let met: BTreeSet<_> = chosen().flat_map(|order| triples(order)).collect();
        assert_eq!(met.len(), parts * (parts - 1) * (parts - 2), "{parts} parts");
        assert_eq!(chosen().count(), expect, "{parts} parts");
    };
    check(3, 6);
    check(4, 6);
    check(5, 8);
    let names = cells("triples").into_iter().map(|(name, _)| name);
    assert!(names.eq(cells("all").into_iter().map(|(name, _)| name)));
}

#[test]
fn orders_that_add_nothing_are_opt_in() {
    let root = tempfile::tempdir().unwrap();
    let fourth = "parts:\n    more: { steps: [ { read: z } ] }\n";
    let yaml = YAML.replace("ORDERS", "triples").replace("parts:\n", fourth);
    fs::write(root.path().join("m.yaml"), yaml).unwrap();
    let all = select(root.path(), &[]).unwrap();
    assert_eq!(all.len(), 24);
    assert_eq!(all.iter().filter(|(_, scenario)| !scenario.opt_in).count(), 6);
}

#[test]
fn what_a_cell_comes_to_follows_from_its_order() {
    let check = |name: &str, texts: &[&str], outcome: (u64, &str)| {
        let (_, cell) = cells("pairs").into_iter().find(|(cell, _)| cell == name).unwrap();
        let found: Vec<_> = cell.steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(found, texts, "{name}");
        let step = cell.steps.iter().find_map(|step| match &step.value {
            Step::EnabledFunctions(step) => Some(step.clone()),
            _ => None,
        });
        let step = step.unwrap();
        let (count, flags) = outcome;
        assert_eq!((step.count, step.absent), (Some(Amount::exactly(count)), count == 0), "{name}");
        assert_eq!(step.flags, Flags(flags.chars().collect()), "{name}");
        assert_eq!(step.not_flags.0.contains(&'I'), flags.is_empty(), "{name}");
    };
    let end = "enabled_functions: f";
    check("live.ops", &["live: read", "live: load", "ops: hook", end, "read: y"], (2, "I"));
    check(
        "ops.live",
        &["ops: hook", "live: read", "live: load, refused with EBUSY", end, "read: y"],
        (1, ""),
    );
    check(
        "kprobe.live",
        &[
            "kprobe: write",
            "live: read",
            "live: load, refused with EBUSY",
            end,
            "read: y",
            "kprobe saw it: read",
        ],
        (0, ""),
    );
    let (_, cell) = &cells("pairs")[3];
    let Step::Load(load) = &cell.steps[2].value else { panic!("{cell:?}") };
    assert_eq!(load.errno.map(|errno| errno.to_string()).as_deref(), Some("EBUSY"));
    assert_eq!(cell.requires.config.len(), 1);
    assert_eq!(cell.summary, "x: ops, then live");
}

#[test]
fn a_cell_is_selected_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("m.yaml"), YAML.replace("ORDERS", "pairs")).unwrap();
    fs::write(root.path().join("plain.yaml"), "summary: x\nsteps: [ { read: x } ]\n").unwrap();
    let check = |paths: &[&str], expect: Result<&[&str], &str>| {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let found = select(root.path(), &paths).map_err(|error| error.to_string());
        let names =
            |all: Vec<(ScenarioFile, Scenario)>| all.into_iter().map(|(found, _)| found.name).collect();
        match (found.map(names), expect) {
            (Ok::<Vec<String>, _>(names), Ok(expect)) => assert_eq!(names, expect, "{paths:?}"),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
            (found, _) => panic!("{paths:?}: {found:?}"),
        }
    };
    check(&["m/ops.live"], Ok(&["m/ops.live"]));
    check(&["m/ops.live", "plain", "m/ops.live"], Ok(&["plain", "m/ops.live"]));
    check(
        &["m", "m/ops.live"],
        Ok(&["m/kprobe.ops", "m/kprobe.live", "m/ops.kprobe", "m/ops.live", "m/live.kprobe", "m/live.ops"]),
    );
    check(&["m/ops.ops"], Err("m/ops.ops: no such scenario, expected one like `m/kprobe.ops`"));
    check(&["plain/ops.live"], Err("no such scenario, expected one like `plain`"));
    check(&["n/ops.live"], Err("no such file or directory"));
    check(&["../m/ops.live"], Err("no such file or directory"));
    check(&["m/../m/ops.live"], Err("no such file or directory"));
}

#[test]
fn an_odd_matrix_is_refused() {
    let check = |from: &str, to: &str, expect: &str| {
        let yaml = YAML.replace("ORDERS", "pairs");
        assert!(yaml.contains(from));
        let error = base(&yaml.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check("after: [ops, kprobe]", "after: [opps]", "unknown part `opps`");
    check("{ load: live }", "{ read: live }", "`read` cannot be refused");
    check("orders: pairs", "orders: pair", "unknown variant `pair`");
    let [first, second] = ["    ops: { steps: [ { hook: +o symbol=f } ], ops: 1 }\n", "after: [ops, kprobe]"];
    let two = YAML.replace("ORDERS", "triples").replace(first, "").replace(second, "after: [kprobe]");
    let error = base(&two).unwrap_err().to_string();
    assert!(error.contains("expected 3 parts or more"), "{error}");
    check("steps: [ { hook: +o symbol=f } ]", "steps: []", "`ops` has no steps");
}
