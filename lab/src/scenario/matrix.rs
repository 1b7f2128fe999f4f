//! `matrix:`, one file for many scenarios: parts in each order, a cell an order.
//!
//! What a cell must come to follows from its parts and their order: which part is refused, and how
//! many ftrace_ops the function has in the end, with which flags.

use super::{
    Amount, EnabledFunctions, Errno, Flags, Found, Insert, Load, Requires, Scenario, ScenarioError, Step,
    Written,
    file::find,
    hook::Hook,
    locate::{At, Problem},
    names::{Line, ModuleName},
    nearest::unknown,
    step::Write,
};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Makes one scenario of each order of its parts. `steps` come behind the parts, `expect` is for
/// all.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The function that the parts are about: behind them, `enabled_functions` must say of it what
    /// follows from them.
    pub function: Line,
    /// `pairs`: any two parts, in both orders. `all`: all parts, in each order.
    pub orders: Orders,
    /// The parts by name.
    #[schemars(with = "std::collections::BTreeMap<String, Part>")]
    pub parts: IndexMap<ModuleName, Part>,
}

/// Which orders a matrix has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Orders {
    /// Any two parts, in both orders.
    Pairs,
    /// All parts, in each order.
    All,
}

/// Something that gets on the function.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What a kernel must have for it beside what all need.
    #[serde(default)]
    pub requires: Requires,
    /// How it gets there. The last of them is the one that may be refused.
    pub steps: Vec<Step>,
    /// Steps behind those of the file, which check that it saw what they did; left out where it
    /// was refused.
    #[serde(default)]
    pub check: Vec<Step>,
    /// How many ftrace_ops that is. Default 0.
    #[serde(default)]
    pub ops: u64,
    /// The flags it gives the function.
    #[serde(default)]
    pub flags: Flags,
    /// Behind what it is refused.
    #[serde(default)]
    pub refused: Option<Refused>,
}

/// That a part is refused.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The parts that were there before.
    pub after: Vec<ModuleName>,
    /// The errno of its last step.
    pub errno: Errno,
}

/// Cells that one file may make.
const CELLS_MAX: usize = 1000;

impl Orders {
    fn count(self, parts: usize) -> usize {
        match self {
            Orders::Pairs => parts.saturating_mul(parts.saturating_sub(1)),
            Orders::All => (1..=parts).try_fold(1_usize, usize::checked_mul).unwrap_or(usize::MAX),
        }
    }

    /// Each order of `parts` parts, as their indices.
    fn of(self, parts: usize) -> Vec<Vec<usize>> {
        let length = if self == Orders::Pairs { 2 } else { parts };
        let longer = |orders: Vec<Vec<usize>>, _| -> Vec<Vec<usize>> {
            let with = |order: Vec<usize>| {
                let others = (0..parts).filter(|part| !order.contains(part)).collect::<Vec<_>>();
                others.into_iter().map(move |part| [order.as_slice(), &[part]].concat())
            };
            orders.into_iter().flat_map(with).collect()
        };
        (0..length).fold(vec![Vec::new()], longer)
    }
}

/// What is wrong with a matrix that YAML and types found nothing wrong with.
pub(super) fn check(matrix: &Matrix) -> Result<(), Problem> {
    let path = |keys: &[&'static str]| keys.iter().map(|key| At::Key(key)).collect::<Vec<_>>();
    let problem = |keys: &[&'static str], message| Err(Problem { path: path(keys), message });
    let names: Vec<&str> = matrix.parts.keys().map(|name| &**name).collect();
    let cells = matrix.orders.count(names.len());
    if names.len() < 2 || cells > CELLS_MAX {
        let message = format!(
            "{} parts make {cells} scenarios, expected two parts or more and at most {CELLS_MAX} scenarios",
            names.len()
        );
        return problem(&["matrix", "parts"], message);
    }
    for (name, part) in &matrix.parts {
        let Some(last) = part.steps.last() else {
            return problem(&["matrix", "parts"], format!("`{name}` has no steps, expected at least one"));
        };
        let Some(refused) = &part.refused else { continue };
        if with_errno(last, refused.errno).is_none() {
            let message = format!("`{}` cannot be refused, expected a step with `errno`", last.verb());
            return problem(&["matrix", "parts"], message);
        }
        if let Some(other) = refused.after.iter().find(|other| !names.contains(&&***other)) {
            return problem(&["matrix", "parts"], unknown("part", other, &names));
        }
    }
    Ok(())
}

/// The same step, which must give an errno.
fn with_errno(step: &Step, errno: Errno) -> Option<Step> {
    let errno = Some(errno);
    match step.clone() {
        Step::Hook(step) => Some(Step::Hook(Hook { errno, ..step })),
        Step::Load(step) => Some(Step::Load(Load { errno, ..step })),
        Step::Insert(step) => Some(Step::Insert(Insert { errno, ..step })),
        Step::Write(step) => Some(Step::Write(Write { errno, ..step })),
        _ => None,
    }
}

impl Part {
    /// How it is refused where these were there before; none if it is not.
    pub(super) fn refused_behind(&self, taken: &[(&ModuleName, &Part)]) -> Option<&Refused> {
        let before = |refused: &&Refused| taken.iter().any(|(before, _)| refused.after.contains(before));
        self.refused.as_ref().filter(before)
    }
}

impl Matrix {
    /// All steps of its parts.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.values().flat_map(|part| part.steps.iter().chain(&part.check))
    }

    /// The scenario of one order.
    fn cell(&self, base: &Scenario, order: &[usize]) -> (String, Scenario) {
        let mut scenario = Scenario { matrix: None, steps: Vec::new(), ..base.clone() };
        let parts: Vec<_> = order.iter().filter_map(|part| self.parts.get_index(*part)).collect();
        let mut taken: Vec<(&ModuleName, &Part)> = Vec::new();
        for (name, part) in parts.iter().copied() {
            scenario.requires = scenario.requires.and(&part.requires);
            let steps =
                part.steps.iter().map(|step| written(format!("{name}: {}", step.verb()), step.clone()));
            scenario.steps.extend(steps);
            let Some(refused) = part.refused_behind(&taken) else {
                taken.push((name, part));
                continue;
            };
            if let Some(last) = scenario.steps.last_mut()
                && let Some(step) = with_errno(last, refused.errno)
            {
                *last = written(format!("{}, refused with {}", last.text, refused.errno), step);
            }
        }
        scenario.steps.push(self.outcome(&taken));
        scenario.steps.extend(base.steps.iter().cloned());
        for (name, part) in taken {
            let check = part
                .check
                .iter()
                .map(|step| written(format!("{name} saw it: {}", step.verb()), step.clone()));
            scenario.steps.extend(check);
        }
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        scenario.summary = format!("{}: {}", base.summary, names.join(", then "));
        (names.join("."), scenario)
    }

    /// The part of this name, with its name.
    pub(super) fn part(&self, name: &str) -> Option<(&ModuleName, &Part)> {
        self.parts.iter().find(|(known, _)| known.as_str() == name)
    }

    /// What `enabled_functions` must say when these parts are there.
    pub(super) fn outcome(&self, taken: &[(&ModuleName, &Part)]) -> Written<Step> {
        let ops = taken.iter().map(|(_, part)| part.ops).sum();
        let flags: Vec<char> = taken.iter().flat_map(|(_, part)| part.flags.0.iter().copied()).collect();
        // Those that nobody gave are not there. O and M are the kernel's own account.
        let without = ['I', 'D'].into_iter().filter(|flag| !flags.contains(flag)).collect();
        let step = EnabledFunctions {
            enabled_functions: self.function.clone(),
            absent: ops == 0,
            count: Some(Amount::exactly(ops)),
            flags: Flags(flags),
            without: Flags(without),
        };
        written(format!("enabled_functions: {}", self.function), Step::EnabledFunctions(step))
    }
}

fn written(text: String, value: Step) -> Written<Step> {
    Written { text, line: 1, value }
}

/// The scenarios of a file: itself, or the cells of its matrix, `NAME/FIRST.SECOND`.
///
/// # Errors
/// As [`Scenario::load`].
pub fn load_all(found: &Found) -> Result<Vec<(Found, Scenario)>, ScenarioError> {
    let base = Scenario::load(&found.path)?;
    let Some(matrix) = &base.matrix else { return Ok(vec![(found.clone(), base)]) };
    let cell = |order: Vec<usize>| {
        let (name, scenario) = matrix.cell(&base, &order);
        (Found { name: format!("{}/{name}", found.name), path: found.path.clone() }, scenario)
    };
    Ok(matrix.orders.of(matrix.parts.len()).into_iter().map(cell).collect())
}

/// The scenarios that `paths` name: all of the files that [`find`] finds, and cells of a matrix that are
/// named by themselves, such as `ipmodify/together/kprobe.graph`.
///
/// # Errors
/// As [`find`] and [`load_all`], and for a cell that its matrix does not have.
pub fn select(root: &Path, paths: &[PathBuf]) -> Result<Vec<(Found, Scenario)>, ScenarioError> {
    let (mut files, mut cells) = (Vec::new(), Vec::new());
    for path in paths {
        match matrix_of(root, path) {
            Some(matrix) => cells.push((path, matrix)),
            None => files.push(path.clone()),
        }
    }
    let mut selected = Vec::new();
    if !files.is_empty() || cells.is_empty() {
        for found in find(root, &files)? {
            selected.extend(load_all(&found)?);
        }
    }
    for (path, matrix) in cells {
        let all = load_all(&matrix)?;
        let Some(cell) = all.iter().find(|(found, _)| Path::new(&found.name) == path) else {
            let such = all.first().map_or("", |(found, _)| &found.name);
            return Err(ScenarioError::of_file(
                path,
                format!("no such scenario, expected one like `{such}`"),
            ));
        };
        if selected.iter().all(|(found, _)| found.name != cell.0.name) {
            selected.push(cell.clone());
        }
    }
    Ok(selected)
}

/// The file whose cell a path may name: it is not there itself, and what it would be in is a scenario.
fn matrix_of(root: &Path, path: &Path) -> Option<Found> {
    if find(root, &[path.to_owned()]).is_ok() {
        return None;
    }
    let name = path.parent()?.to_str()?;
    find(root, &[name.into()]).ok()?.into_iter().find(|found| found.name == name)
}

#[cfg(test)]
mod tests {
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
            assert_eq!(step.without.0.contains(&'I'), flags.is_empty(), "{name}");
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
            let names = |all: Vec<(Found, Scenario)>| all.into_iter().map(|(found, _)| found.name).collect();
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
            Ok(&[
                "m/kprobe.ops",
                "m/kprobe.live",
                "m/ops.kprobe",
                "m/ops.live",
                "m/live.kprobe",
                "m/live.ops",
            ]),
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
        check("steps: [ { hook: +o symbol=f } ]", "steps: []", "`ops` has no steps");
    }
}
