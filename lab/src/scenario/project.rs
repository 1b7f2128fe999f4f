//! `ftrace-lab.yaml` → [`Project`]: what the scenarios of a repository share.
//!
//! A scenario belongs to the project whose file is in its directory or the nearest one above, in the same
//! git repository. What the project adds becomes part of the scenario's own YAML, so results and reproducers
//! need no project.

use super::{
    Expectation, ScenarioError, SourceModule, Written, file,
    read::{
        locate,
        name_map::Named,
        scalar::{FromText, from_text},
    },
    schema_of,
    values::{
        names::{Line, ModuleName, ProgramName},
        timespan::Timespan,
    },
    whole::{Allowed, UserlandSpec},
};
use crate::{
    words::stays_inside,
    yaml::{self, Mapping, Value},
};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};

/// The name of a project's file.
pub const PROJECT_FILE: &str = "ftrace-lab.yaml";

/// The format of the file. Raised when a reader of the old format would misread the new one.
const VERSION: u64 = 1;

/// Maximum number of directories from a scenario up to its project.
const HEIGHT_MAX: usize = 16;

/// What the scenarios of a repository share.
#[derive(Clone, Debug)]
pub struct Project {
    /// The directory of the file; its paths are relative to it.
    pub directory: PathBuf,
    /// The directory of the scenarios.
    pub scenarios: PathBuf,
    /// The kernels on which they run.
    pub kernels: Vec<String>,
    modules_written: Mapping,
    workloads_written: Mapping,
    defaults: Mapping,
    expectations: Vec<Value>,
    expectations_written: Vec<Written<Expectation>>,
}

/// The scenarios of a repository: where they are, the kernels on which they run, and what they share.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ftrace-lab project, format 1")]
struct ProjectDocument {
    /// The format of this file: 1.
    #[expect(dead_code, reason = "read alone, before the rest")]
    version: u64,
    /// The directory of the scenarios. Default: `scenarios`.
    #[serde(default)]
    scenarios: Option<Below>,
    /// The kernels on which scenarios run unless `--kernel` names others: names such as `debian-13`, version
    /// ranges such as `">=6.1"`, or `all`. Default: the lab's default kernel.
    #[serde(default)]
    kernels: Vec<String>,
    /// The modules that scenarios load by name, with `load:`; paths are relative to this file.
    #[serde(default, deserialize_with = "modules")]
    #[schemars(with = "std::collections::BTreeMap<String, SourceModule>")]
    modules: IndexMap<ModuleName, SourceModule>,
    /// The programs that scenarios run by name, with `workload:`; paths are relative to this file.
    #[serde(default, deserialize_with = "workloads")]
    #[schemars(with = "std::collections::BTreeMap<String, ProjectProgram>")]
    workloads: IndexMap<ProgramName, ProjectProgram>,
    /// What holds after every scenario, in addition to its own `expect`.
    #[serde(default)]
    expect: Vec<Expectation>,
    /// Values of fields that a scenario does not set.
    #[serde(default)]
    #[expect(dead_code, reason = "checked here, and used as written")]
    defaults: Defaults,
}

#[derive(Deserialize)]
#[serde(expecting = "a map with `version: 1`")]
struct Format {
    version: Option<Value>,
}

/// A program of a project.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProjectProgram {
    /// The C file, which has the name of the program. It can include the headers next to it and those of the
    /// lab's workloads. With `build`, the directory in which that runs.
    source: Line,
    /// The command that makes the program, as for `sh -c`: `make LDFLAGS=-static`, `cargo build --release`. It runs in
    /// a copy of the directory, without network. Compilers for arm64 are set for every make and cargo, and as `CC` and
    /// `CXX`; a program must be linked statically.
    #[serde(default)]
    build: Option<Line>,
}

/// Values of fields that a scenario does not set.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Defaults {
    /// Time limit for all steps in total, on the reference machine.
    timeout: Option<Timespan>,
    /// Gives the guest a complete Debian userland.
    userland: Option<UserlandSpec>,
    /// Expected splats.
    allow: Option<Vec<Allowed>>,
}

/// A path inside of the project.
#[derive(Clone, Debug)]
struct Below(PathBuf);

impl FromText for Below {
    const EXPECTED: &'static str = "a directory of this project, such as scenarios";

    fn from_text(text: &str) -> Result<Below, String> {
        match stays_inside(Path::new(text)) {
            true => Ok(Below(text.into())),
            false => Err(format!("`{text}` is not inside of the project, expected {}", Self::EXPECTED)),
        }
    }
}

from_text!(Below, { "type": "string", "minLength": 1, "examples": ["scenarios", "tests/kernel"] });

fn modules<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<IndexMap<ModuleName, SourceModule>, D::Error> {
    Named { what: "module", map: "module names to their sources", max: 100 }.read(deserializer)
}

fn workloads<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<IndexMap<ProgramName, ProjectProgram>, D::Error> {
    Named { what: "workload", map: "program names to their sources", max: 100 }.read(deserializer)
}

/// Checks the format that a file states.
fn check_version(version: Option<&Value>) -> Result<(), String> {
    match version.map(Value::as_u64) {
        Some(Some(VERSION)) => Ok(()),
        Some(Some(later)) if later > VERSION => Err(format!(
            "version: format {later} needs a newer ftrace-lab: this one reads format {VERSION}; install the current one"
        )),
        Some(_) => Err(format!("version: not a format of this file, expected `version: {VERSION}`")),
        None => Err(format!("missing field `version`, expected `version: {VERSION}`")),
    }
}

/// Checks that no two modules have keys, or a key and a name, that the kernel does not distinguish. Two keys may
/// state one `name:`, as for two versions of a module.
fn distinct<'a>(modules: impl Iterator<Item = (&'a ModuleName, &'a ModuleName)>) -> Result<(), String> {
    let mut known = IndexMap::new();
    for (key, name) in modules.filter(|(key, name)| key == name) {
        if let Some(other) = known.insert(name.replace('-', "_"), key) {
            return Err(format!(
                "modules: `{other}` and `{key}` have one name in the kernel, where `-` is `_`; remove or rename one"
            ));
        }
    }
    Ok(())
}

impl Project {
    /// Returns the project that `directory` belongs to.
    ///
    /// # Errors
    /// Its file cannot be read, or is not a well-formed project.
    pub fn above(directory: &Path) -> Result<Option<Project>, ScenarioError> {
        let Ok(directory) = directory.canonicalize() else { return Ok(None) };
        for place in directory.ancestors().take(HEIGHT_MAX) {
            let file = place.join(PROJECT_FILE);
            if file.exists() {
                return Project::parse(&file, &file::read(&file)?).map(Some);
            }
            if place.join(".git").exists() {
                break;
            }
        }
        Ok(None)
    }

    /// Parses `source` as the file at `path`.
    ///
    /// # Errors
    /// It is not a well-formed project.
    pub fn parse(path: &Path, source: &str) -> Result<Project, ScenarioError> {
        let error = |error| ScenarioError::from_yaml(path, source, &error);
        yaml::within_budget(source).map_err(error)?;
        // Read alone: what else a later format has is not known here.
        let Format { version } = yaml::from_str(source).map_err(error)?;
        check_version(version.as_ref()).map_err(|message| ScenarioError::of_file(path, message))?;
        let document: ProjectDocument = yaml::from_str(source).map_err(error)?;
        let modules = document.modules.iter().map(|(key, module)| (key, module.name.as_ref().unwrap_or(key)));
        distinct(modules).map_err(|message| ScenarioError::of_file(path, message))?;
        let written: Value = yaml::from_str(source).map_err(error)?;
        for (name, program) in &document.workloads {
            let source = program.source.to_string();
            let file = format!("{name}.c");
            if program.build.is_none() && Path::new(&source).file_name() != Some(file.as_ref()) {
                let message = format!(
                    "workloads: `{name}` is built from `{source}`, expected a file called `{name}.c`, or a `build` \
                     that makes it"
                );
                return Err(ScenarioError::of_file(path, message));
            }
        }
        let map = |key: &str| written.get(key).and_then(Value::as_mapping).cloned().unwrap_or_default();
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        let list = written.get("expect").and_then(Value::as_sequence).cloned().unwrap_or_default();
        Ok(Project {
            scenarios: directory.join(document.scenarios.map_or("scenarios".into(), |below| below.0)),
            directory,
            kernels: document.kernels,
            modules_written: map("modules"),
            workloads_written: map("workloads"),
            defaults: map("defaults"),
            expectations: list,
            expectations_written: locate::written(source, "expect", document.expect),
        })
    }

    /// What holds after every scenario.
    pub(super) fn expectations(&self) -> &[Written<Expectation>] {
        &self.expectations_written
    }

    /// Adds to a scenario what it shares with others. Returns whether that changed anything.
    fn complete(&self, scenario: &mut Value) -> bool {
        let before = scenario.clone();
        let steps = scenario.get_mut("steps").and_then(Value::as_sequence_mut);
        steps.into_iter().flatten().for_each(|step| self.complete_step(step));
        let parts = scenario.get_mut("matrix").and_then(|matrix| matrix.get_mut("parts"));
        for (_, part) in parts.and_then(Value::as_mapping_mut).into_iter().flatten() {
            for key in ["steps", "check"] {
                let steps = part.get_mut(key).and_then(Value::as_sequence_mut);
                steps.into_iter().flatten().for_each(|step| self.complete_step(step));
            }
        }
        if let Some(map) = scenario.as_mapping_mut() {
            for (key, value) in &self.defaults {
                map.entry(key.clone()).or_insert_with(|| value.clone());
            }
            if !self.expectations.is_empty() {
                let all = map.entry("expect".into()).or_insert_with(|| Value::Sequence(Vec::new()));
                all.as_sequence_mut()
                    .into_iter()
                    .for_each(|all| all.extend(self.expectations.iter().cloned()));
            }
        }
        *scenario != before
    }

    /// Replaces the name of one of the project's modules or programs by its sources.
    fn complete_step(&self, step: &mut Value) {
        let Some(step) = step.as_mapping_mut() else { return };
        let name = |key: &str| step.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = name("load")
            && let Some(module) = self.module(&name)
        {
            // The first key selects the kind of the step.
            let rest = std::mem::take(step);
            step.insert("module".into(), module);
            step.extend(rest.into_iter().filter(|(key, _)| key.as_str() != Some("load")));
        } else if let Some(command) = name("workload") {
            let (name, arguments) = command.split_once(char::is_whitespace).unwrap_or((&command, ""));
            if let Some(mut program) = self.program(name) {
                if !arguments.is_empty() {
                    program.insert("arguments".into(), arguments.into());
                }
                step.insert("workload".into(), Value::Mapping(program));
            }
        }
    }

    /// Returns the directory of one of the project's modules, and the command that builds it instead of kbuild.
    pub fn module_build(&self, name: &str) -> Option<(PathBuf, Option<String>)> {
        let module = self.module(name)?;
        let text = |key: &str| module.get(key).and_then(Value::as_str).map(str::to_owned);
        Some((text("source")?.into(), text("build")))
    }

    /// Returns `module:` of a step that loads one of the project's modules.
    fn module(&self, name: &str) -> Option<Value> {
        let mut module = self.modules_written.get(name)?.as_mapping()?.clone();
        let source = self.path(module.get("source")?);
        module.insert("source".into(), source);
        module.entry("name".into()).or_insert_with(|| name.into());
        Some(Value::Mapping(module))
    }

    /// Returns `workload:` of a step that runs one of the project's programs, without arguments.
    fn program(&self, name: &str) -> Option<Mapping> {
        let mut program = self.workloads_written.get(name)?.as_mapping()?.clone();
        let source = self.path(program.get("source")?);
        program.insert("source".into(), source);
        if program.contains_key("build") {
            program.insert("name".into(), name.into());
        }
        Some(program)
    }

    fn path(&self, written: &Value) -> Value {
        let path = self.directory.join(written.as_str().unwrap_or_default());
        // `.` at the end would be the name of the directory.
        let path: PathBuf = path.components().collect();
        path.to_string_lossy().into_owned().into()
    }
}

/// Returns the text of the scenario at `path` with what its project shares, unless that is nothing.
pub(super) fn complete(path: &Path, source: &str) -> Result<Option<(Project, String)>, ScenarioError> {
    let Some(project) = Project::above(path.parent().unwrap_or(path))? else { return Ok(None) };
    let error = |error| ScenarioError::from_yaml(path, source, &error);
    let mut document: Value = yaml::from_str(source).map_err(error)?;
    if !project.complete(&mut document) {
        return Ok(None);
    }
    let text = yaml::to_string(&document).map_err(error)?;
    Ok(Some((project, text)))
}

/// Returns the JSON Schema of the file.
pub fn project_schema() -> String {
    schema_of::<ProjectDocument>()
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
