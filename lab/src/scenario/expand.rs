//! A scenario as stand-alone YAML: the file itself, or one cell of its matrix expanded.
//!
//! Expanded YAML parses to the scenario that the matrix makes, and the same order of the same parts
//! always yields the same YAML.

use super::{
    EnabledFunctions, Matrix, Part, Refusal, Scenario, ScenarioError, ScenarioFile, Step, Written, file,
    project, values::names::ModuleName,
};
use crate::yaml::{Mapping, Value};

/// Returns the YAML of the scenario `found`, with what its project shares and its matrix expanded.
///
/// # Errors
/// Like [`Scenario::load`]; also fails for a cell that the matrix does not have.
pub fn stand_alone(found: &ScenarioFile) -> Result<String, ScenarioError> {
    let text = file::read(&found.path)?;
    let failed = |message: &str| ScenarioError::of_file(&found.path, message);
    let text = match project::complete(&found.path, &text)? {
        Some((_, complete)) => complete,
        None => text,
    };
    let base = Scenario::parse(&found.path, &text)?;
    let Some(matrix) = &base.matrix else { return Ok(text) };
    let cell = found.name.rsplit('/').next().unwrap_or_default();
    let order: Option<Vec<_>> = cell.split('.').map(|name| matrix.part(name)).collect();
    let order = order.ok_or_else(|| failed(&format!("its matrix has no cell `{cell}`")))?;
    let document: Value = crate::yaml::from_str(&text).map_err(|error| failed(&error.to_string()))?;
    let written = written(document, matrix, &order).ok_or_else(|| failed("its matrix is not a map"))?;
    crate::yaml::to_string(&written).map_err(|error| failed(&error.to_string()))
}

/// Returns whether two scenarios are equal, apart from their formatting and location.
pub(crate) fn means_the_same(one: &Scenario, two: &Scenario) -> bool {
    fn bare(scenario: &Scenario) -> Scenario {
        let mut bare = scenario.clone();
        bare.directory = Default::default();
        // Orders of a matrix may be.
        bare.opt_in = false;
        bare.steps.iter_mut().for_each(forget);
        bare.expect.iter_mut().for_each(forget);
        bare
    }
    fn forget<T>(item: &mut Written<T>) {
        item.text.clear();
        item.line = 0;
    }
    bare(one) == bare(two)
}

/// Expands one order in the document. The matrix decides what follows from parts and order; this only
/// writes it.
fn written(mut document: Value, matrix: &Matrix, order: &[(&ModuleName, &Part)]) -> Option<Value> {
    let map = document.as_mapping_mut()?;
    let parts = map.remove("matrix")?.get("parts")?.clone();
    let summary = map.get("summary")?.as_str()?.to_owned();
    let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
    map.insert("summary".into(), format!("{summary}: {}", names.join(", then ")).into());
    let list = |name: &str, key: &str| parts.get(name).and_then(|part| part.get(key)?.as_sequence()).cloned();
    let mut steps = Vec::new();
    let mut taken: Vec<(&ModuleName, &Part)> = Vec::new();
    for &(name, part) in order {
        let mut own = list(name.as_str(), "steps")?;
        match part.refused_behind(&taken) {
            Some(Refusal { errno, .. }) => {
                own.last_mut()?.as_mapping_mut()?.insert("errno".into(), errno.to_string().into());
            }
            None => taken.push((name, part)),
        }
        steps.extend(own);
        require(map, parts.get(name.as_str())?.get("requires"))?;
    }
    let Step::EnabledFunctions(outcome) = matrix.outcome(&taken).value else { return None };
    steps.push(enabled(&outcome));
    steps.extend(map.remove("steps").and_then(|own| own.as_sequence().cloned()).unwrap_or_default());
    steps.extend(taken.iter().filter_map(|(name, _)| list(name.as_str(), "check")).flatten());
    map.insert("steps".into(), Value::Sequence(steps));
    Some(document)
}

fn enabled(outcome: &EnabledFunctions) -> Value {
    let flags = |flags: &super::Flags| Value::from(flags.0.iter().collect::<String>());
    let mut step = Mapping::new();
    step.insert("enabled_functions".into(), outcome.enabled_functions.to_string().into());
    if outcome.absent {
        step.insert("absent".into(), true.into());
    }
    if let Some(count) = outcome.count.and_then(|count| count.at_least) {
        step.insert("count".into(), count.into());
    }
    step.insert("flags".into(), flags(&outcome.flags));
    step.insert("not_flags".into(), flags(&outcome.not_flags));
    Value::Mapping(step)
}

/// Adds the requirements of a part to those of the whole scenario.
fn require(map: &mut Mapping, more: Option<&Value>) -> Option<()> {
    let Some(more) = more.and_then(Value::as_mapping) else { return Some(()) };
    let all = map.entry("requires".into()).or_insert_with(|| Value::Mapping(Mapping::new()));
    let all = all.as_mapping_mut()?;
    if let Some(kernel) = more.get("kernel").and_then(Value::as_str) {
        let both = match all.get("kernel").and_then(Value::as_str) {
            Some(before) => format!("{before}, {kernel}"),
            None => kernel.to_owned(),
        };
        all.insert("kernel".into(), both.into());
    }
    if let Some(config) = more.get("config").and_then(Value::as_sequence) {
        let list = all.entry("config".into()).or_insert_with(|| Value::Sequence(Vec::new()));
        list.as_sequence_mut()?.extend(config.iter().cloned());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Flags, FromText, find, load_all};
    use std::path::Path;

    /// Sorts the flags into the kernel's order, which parsing also does.
    fn with_sorted_flags(mut scenario: Scenario) -> Scenario {
        for step in &mut scenario.steps {
            if let Step::EnabledFunctions(step) = &mut step.value {
                let text = |flags: &Flags| Flags::from_text(&flags.0.iter().collect::<String>()).unwrap();
                (step.flags, step.not_flags) = (text(&step.flags), text(&step.not_flags));
            }
        }
        scenario
    }

    #[test]
    fn each_scenario_of_the_repository_means_what_its_text_means() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let mut cells = 0;
        for file in find(&root, &[]).unwrap() {
            for (found, scenario) in load_all(&file).unwrap() {
                let text = stand_alone(&found).unwrap();
                let again = Scenario::parse(&found.path, &text).unwrap();
                assert!(
                    means_the_same(&with_sorted_flags(scenario), &with_sorted_flags(again)),
                    "{}: {text}",
                    found.name
                );
                cells += usize::from(found.name != file.name);
            }
        }
        assert!(cells > 10, "{cells} cells of matrices");
    }

    #[test]
    fn a_cell_that_is_not_there_is_named() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/ipmodify/conflicts.yaml");
        let error =
            stand_alone(&ScenarioFile { name: "ipmodify/conflicts/kprobe.none".into(), path }).unwrap_err();
        assert!(error.to_string().contains("no cell `kprobe.none`"), "{error}");
    }
}
