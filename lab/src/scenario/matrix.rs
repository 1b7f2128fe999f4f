//! `matrix:`, one file for many scenarios: one cell per order of its parts.
//!
//! The expected outcome of a cell follows from its parts and their order: which part is refused, how
//! many ftrace_ops the function finally has, and with which flags.

use super::{
    Amount, EnabledFunctions, Errno, Flags, Load, LoadModule, Requires, Scenario, ScenarioError,
    ScenarioFile, Step, Written,
    file::find,
    read::locate::{PathSegment, Problem},
    steps::{Write, hook::Hook},
    values::names::{Line, ModuleName},
};
use crate::words::unknown;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Makes one scenario per order of the parts. `steps` run after the parts, `expect` applies to all of
/// them.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The function that the parts attach to. After them, `enabled_functions` must show the ftrace_ops
    /// and flags that result from the parts.
    pub function: Line,
    /// The orders to test. `pairs`: any two parts, in both orders. `triples`: all parts, in so few orders
    /// that any three of them occur in each order; the others are opt-in. `all`: all parts, in every order.
    pub orders: Orders,
    /// The parts, by name.
    #[schemars(with = "std::collections::BTreeMap<String, Part>")]
    pub parts: IndexMap<ModuleName, Part>,
}

/// The orders of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Orders {
    /// Any two parts, in both orders.
    Pairs,
    /// All parts, in every order; those that add no new order of three parts are opt-in.
    Triples,
    /// All parts, in every order.
    All,
}

/// A part of a matrix: one user of the function.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Requirements of this part on the kernel, in addition to those of all.
    #[serde(default)]
    pub requires: Requires,
    /// Steps that attach the part. If the part is refused, the last of them fails.
    pub steps: Vec<Step>,
    /// Steps after those of the file, which check that the part saw them. They are omitted if the part
    /// is refused.
    #[serde(default)]
    pub check: Vec<Step>,
    /// Number of ftrace_ops that the part adds. Default 0.
    #[serde(default)]
    pub ops: u64,
    /// Flags that the part adds to the function.
    #[serde(default)]
    pub flags: Flags,
    /// The parts after which this one is refused.
    #[serde(default)]
    pub refused: Option<Refusal>,
}

/// The rejection of a part.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Attached parts, any of which makes the kernel refuse this one.
    pub after: Vec<ModuleName>,
    /// The errno of the part's last step.
    pub errno: Errno,
}

/// Maximum number of cells of one file.
const CELLS_MAX: usize = 1000;

impl Orders {
    fn count(self, parts: usize) -> usize {
        match self {
            Orders::Pairs => parts.saturating_mul(parts.saturating_sub(1)),
            Orders::Triples | Orders::All => {
                (1..=parts).try_fold(1_usize, usize::checked_mul).unwrap_or(usize::MAX)
            }
        }
    }

    /// Returns each order of `parts` parts, as indices.
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

    /// Returns which of the `orders` run without being named.
    fn usual(self, orders: &[Vec<usize>]) -> Vec<bool> {
        if self != Orders::Triples {
            return vec![true; orders.len()];
        }
        let mut missing: BTreeSet<[usize; 3]> = orders.iter().flat_map(|order| triples(order)).collect();
        let mut usual = vec![false; orders.len()];
        while !missing.is_empty() {
            let adds = |order: &Vec<usize>| triples(order).filter(|triple| missing.contains(triple)).count();
            // The first one of those that add most.
            let Some((place, order)) = orders.iter().enumerate().rev().max_by_key(|(_, order)| adds(order))
            else {
                break;
            };
            triples(order).for_each(|triple| _ = missing.remove(&triple));
            usual[place] = true;
        }
        usual
    }
}

/// Returns any three parts of an order, in that order.
fn triples(order: &[usize]) -> impl Iterator<Item = [usize; 3]> {
    let two = |first: usize| (first + 1..order.len()).map(move |second| (first, second));
    let three = move |(first, second): (usize, usize)| {
        (second + 1..order.len()).map(move |third| [order[first], order[second], order[third]])
    };
    (0..order.len()).flat_map(two).flat_map(three)
}

/// Checks a parsed matrix.
pub(super) fn check(matrix: &Matrix) -> Result<(), Problem> {
    let path = |keys: &[&'static str]| keys.iter().map(|key| PathSegment::Key(key)).collect::<Vec<_>>();
    let problem = |keys: &[&'static str], message| Err(Problem { path: path(keys), message });
    let names: Vec<&str> = matrix.parts.keys().map(|name| &**name).collect();
    let cells = matrix.orders.count(names.len());
    let least = if matrix.orders == Orders::Triples { 3 } else { 2 };
    if names.len() < least || cells > CELLS_MAX {
        let message = format!(
            "{} parts make {cells} scenarios, expected {least} parts or more and at most {CELLS_MAX} scenarios",
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

/// Returns the same step with an expected errno.
fn with_errno(step: &Step, errno: Errno) -> Option<Step> {
    let errno = Some(errno);
    match step.clone() {
        Step::Hook(step) => Some(Step::Hook(Hook { errno, ..step })),
        Step::Load(step) => Some(Step::Load(Load { errno, ..step })),
        Step::LoadModule(step) => Some(Step::LoadModule(LoadModule { errno, ..step })),
        Step::Write(step) => Some(Step::Write(Write { errno, ..step })),
        _ => None,
    }
}

impl Part {
    /// Returns how it is refused if `taken` are already attached; `None` if it is not.
    pub(super) fn refused_behind(&self, taken: &[(&ModuleName, &Part)]) -> Option<&Refusal> {
        let before = |refused: &&Refusal| taken.iter().any(|(before, _)| refused.after.contains(before));
        self.refused.as_ref().filter(before)
    }
}

impl Matrix {
    /// Returns all steps of its parts.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.values().flat_map(|part| part.steps.iter().chain(&part.check))
    }

    /// Returns the scenario of one order.
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

    /// Returns the part of this name, with its name.
    pub(super) fn part(&self, name: &str) -> Option<(&ModuleName, &Part)> {
        self.parts.iter().find(|(known, _)| known.as_str() == name)
    }

    /// Returns the step that checks `enabled_functions` when these parts are attached.
    pub(super) fn outcome(&self, taken: &[(&ModuleName, &Part)]) -> Written<Step> {
        let ops = taken.iter().map(|(_, part)| part.ops).sum();
        let flags: Vec<char> = taken.iter().flat_map(|(_, part)| part.flags.0.iter().copied()).collect();
        // Flags that no part adds must be absent. The kernel sets O and M by itself.
        let without = ['I', 'D'].into_iter().filter(|flag| !flags.contains(flag)).collect();
        let step = EnabledFunctions {
            enabled_functions: self.function.clone(),
            absent: ops == 0,
            count: Some(Amount::exactly(ops)),
            flags: Flags(flags),
            not_flags: Flags(without),
        };
        written(format!("enabled_functions: {}", self.function), Step::EnabledFunctions(step))
    }
}

fn written(text: String, value: Step) -> Written<Step> {
    Written { text, line: 1, value }
}

/// Returns the scenarios of a file: itself, or the cells of its matrix, `NAME/FIRST.SECOND`.
///
/// # Errors
/// Like [`Scenario::load`].
pub fn load_all(found: &ScenarioFile) -> Result<Vec<(ScenarioFile, Scenario)>, ScenarioError> {
    let base = Scenario::load(&found.path)?;
    let Some(matrix) = &base.matrix else { return Ok(vec![(found.clone(), base)]) };
    let orders = matrix.orders.of(matrix.parts.len());
    let cell = |(order, usual): (&Vec<usize>, bool)| {
        let (name, mut scenario) = matrix.cell(&base, order);
        scenario.opt_in |= !usual;
        (ScenarioFile { name: format!("{}/{name}", found.name), path: found.path.clone() }, scenario)
    };
    Ok(orders.iter().zip(matrix.orders.usual(&orders)).map(cell).collect())
}

/// Returns the scenarios that `paths` name: those of all files that [`find`] returns, and single cells
/// of a matrix such as `ipmodify/together/kprobe.graph`.
///
/// # Errors
/// Like [`find`] and [`load_all`]; also fails for a cell that its matrix does not have.
pub fn select(root: &Path, paths: &[PathBuf]) -> Result<Vec<(ScenarioFile, Scenario)>, ScenarioError> {
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

/// Returns the matrix file whose cell a path may name: the path itself does not exist, and its parent
/// is a scenario.
fn matrix_of(root: &Path, path: &Path) -> Option<ScenarioFile> {
    if find(root, &[path.to_owned()]).is_ok() {
        return None;
    }
    let name = path.parent()?.to_str()?;
    find(root, &[name.into()]).ok()?.into_iter().find(|found| found.name == name)
}

#[cfg(test)]
#[path = "matrix_tests.rs"]
mod tests;
