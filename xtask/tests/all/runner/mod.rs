//! The part of a workflow runner that the lab's workflows need: jobs in order, each in its own
//! directory, with steps, outputs, artifacts and a matrix. It rejects anything it does not know, so
//! that support for new features must be added here as well.

use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A workflow file; fields that matter only to a real runner are ignored.
#[derive(Deserialize)]
pub(crate) struct Workflow {
    pub(crate) permissions: BTreeMap<String, String>,
    /// The jobs, in the order of the file.
    pub(crate) jobs: serde_yaml::Mapping,
}

#[derive(Deserialize)]
pub(crate) struct Job {
    #[serde(default)]
    needs: Option<serde_yaml::Value>,
    #[serde(default)]
    outputs: BTreeMap<String, String>,
    #[serde(default)]
    strategy: Option<Strategy>,
    pub(crate) container: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Strategy {
    /// An expression; of jobs that do not run here, also what it stands for.
    matrix: serde_yaml::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Step {
    id: Option<String>,
    #[expect(dead_code, reason = "each step runs here, whatever its condition")]
    r#if: Option<String>,
    pub(crate) run: Option<String>,
    pub(crate) uses: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) with: BTreeMap<String, serde_yaml::Value>,
    #[serde(default)]
    continue_on_error: bool,
}

impl Workflow {
    pub(crate) fn load(path: &Path) -> Workflow {
        serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    pub(crate) fn jobs(&self) -> Vec<(String, Job)> {
        let job = |(name, job): (&serde_yaml::Value, &serde_yaml::Value)| {
            (name.as_str().unwrap().to_owned(), serde_yaml::from_value(job.clone()).unwrap())
        };
        self.jobs.iter().map(job).collect()
    }
}

/// The first parts of the keys of what a night leaves to the next one.
const KEPT: [&str; 2] = ["report", "history"];

/// Runs the steps of a workflow.
pub(crate) struct Runner {
    /// The directory that has a directory per job, and `artifacts`.
    pub(crate) root: PathBuf,
    pub(crate) cache: PathBuf,
    /// The values of `${{ … }}` expressions.
    pub(crate) values: BTreeMap<String, String>,
    /// What an earlier run left in the cache, by the first part of its key: the report and the history.
    pub(crate) kept: BTreeMap<String, PathBuf>,
    /// The commands that were run, with their environment.
    pub(crate) ran: Vec<String>,
}

impl Runner {
    /// Runs all jobs in the order of the file, which must respect `needs`.
    pub(crate) fn all(&mut self, workflow: &Workflow) {
        let mut done: Vec<String> = Vec::new();
        for (name, job) in workflow.jobs() {
            let needs = match &job.needs {
                None => Vec::new(),
                Some(serde_yaml::Value::Sequence(needs)) => needs.clone(),
                Some(one) => vec![one.clone()],
            };
            for need in needs {
                assert!(
                    done.iter().any(|done| need.as_str() == Some(done)),
                    "{name} precedes {need:?}, which it needs"
                );
            }
            match &job.strategy {
                None => self.job(&name, &name, &job),
                Some(strategy) => {
                    let matrix = strategy.matrix.as_str().unwrap();
                    let matrix: Value = serde_json::from_str(&self.filled(matrix)).unwrap();
                    let entries = matrix["include"].as_array().unwrap();
                    assert!(!entries.is_empty(), "empty matrix");
                    for (number, entry) in entries.iter().enumerate() {
                        self.values.retain(|name, _| !name.starts_with("matrix."));
                        for (key, value) in entry.as_object().unwrap() {
                            self.values.insert(format!("matrix.{key}"), value.as_str().unwrap().to_owned());
                        }
                        self.job(&name, &format!("{name}-{number}"), &job);
                    }
                }
            }
            done.push(name);
        }
    }

    fn job(&mut self, name: &str, place: &str, job: &Job) {
        let directory = self.root.join(place);
        fs::create_dir_all(&directory).unwrap();
        self.values.retain(|name, _| !name.starts_with("steps."));
        for step in &job.steps {
            match (&step.run, &step.uses) {
                (Some(run), None) => self.step(&directory, step, run),
                (None, Some(action)) => self.action(&directory, action, step),
                _ => panic!("a step of {name} neither runs nor uses anything"),
            }
        }
        for (output, value) in &job.outputs {
            let value = self.filled(value);
            self.values.insert(format!("needs.{name}.outputs.{output}"), value);
        }
    }

    fn step(&mut self, directory: &Path, step: &Step, run: &str) {
        let own = run.replace("cargo xtask", "\"$XTASK\"");
        assert_ne!(own, run, "`{run}` is not xtask");
        let env: BTreeMap<_, _> = step.env.iter().map(|(name, value)| (name, self.filled(value))).collect();
        let command = format!("{run} {env:?}");
        let output = directory.join("outputs");
        let ended = Command::new("sh")
            .args(["-e", "-c", &own])
            .current_dir(directory)
            .envs(env)
            .env("XTASK", env!("CARGO_BIN_EXE_xtask"))
            .env("FTRACE_LAB_CACHE", &self.cache)
            .env("GITHUB_OUTPUT", &output)
            .env("GITHUB_STEP_SUMMARY", directory.join("summary.md"))
            .output()
            .unwrap();
        let code = ended.status.code().unwrap_or(-1);
        let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        // xargs ends with 123 if its command failed.
        assert!(
            code == 0 || step.continue_on_error && [1, 123].contains(&code),
            "`{command}` ended with {code}: {said}"
        );
        self.ran.push(command);
        let Some(id) = &step.id else { return };
        for line in fs::read_to_string(output).unwrap().lines() {
            let (name, value) = line.split_once('=').unwrap();
            self.values.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
        }
    }

    fn action(&mut self, directory: &Path, action: &str, step: &Step) {
        let with = |name: &str| {
            let value = step.with.get(name)?;
            Some(self.filled(value.as_str().map_or_else(|| format!("{value:?}"), str::to_owned).as_str()))
        };
        let artifacts = self.root.join("artifacts");
        let (name, _version) = action.split_once('@').unwrap();
        match name {
            "actions/checkout" => {}
            // The lab's cache always exists; apart from it, only what nights leave to each other is cached.
            "actions/cache" | "actions/cache/restore" => {
                let (path, key) = (with("path").unwrap(), with("key").unwrap());
                let key = key.split('-').next().unwrap();
                if !KEPT.contains(&key) {
                    assert!(path.lines().next().unwrap().starts_with('/'), "{path}");
                } else if let Some(kept) = self.kept.get(key) {
                    let path = directory.join(path);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    if kept.is_dir() {
                        copy(kept, &path);
                    } else {
                        fs::copy(kept, path).unwrap();
                    }
                }
            }
            "actions/cache/save" => {
                let key = with("key").unwrap();
                let key = key.split('-').next().unwrap();
                assert!(KEPT.contains(&key), "{key}");
                self.kept.insert(key.to_owned(), directory.join(with("path").unwrap()));
            }
            "actions/upload-artifact" => {
                let paths = with("path").unwrap();
                // Lines with `!` exclude links, which are not copied here anyway.
                let [from] = paths.lines().filter(|line| !line.starts_with('!')).collect::<Vec<_>>()[..]
                else {
                    panic!("expected one path: {paths}")
                };
                let (from, to) = (directory.join(from), artifacts.join(with("name").unwrap()));
                if from.exists() {
                    copy(&from, &to);
                } else {
                    assert_eq!(with("if-no-files-found").as_deref(), Some("ignore"), "{from:?} is missing");
                }
            }
            "actions/download-artifact" => {
                let (pattern, path) = (with("pattern").unwrap(), directory.join(with("path").unwrap()));
                for artifact in fs::read_dir(artifacts).into_iter().flatten().flatten() {
                    let name = artifact.file_name().into_string().unwrap();
                    if pattern.strip_suffix('*').map_or(name == pattern, |begin| name.starts_with(begin)) {
                        let merged = step.with.contains_key("merge-multiple");
                        copy(&artifact.path(), &if merged { path.clone() } else { path.join(name) });
                    }
                }
            }
            _ => panic!("unknown action {action}"),
        }
    }

    /// Returns `text` with each `${{ … }}` replaced.
    fn filled(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${{") {
            let (expression, after) = behind.split_once("}}").unwrap();
            filled.push_str(before);
            filled.push_str(&self.value(expression.trim()));
            rest = after;
        }
        filled + rest
    }

    fn value(&self, expression: &str) -> String {
        let Some(inner) = expression.strip_prefix("fromJSON(") else {
            let value = self.values.get(expression);
            return value.unwrap_or_else(|| panic!("`{expression}` has no value")).clone();
        };
        let (name, path) = inner.split_once(')').unwrap();
        let json = self.value(name);
        let Some(field) = path.strip_prefix(".include[0].") else { return json };
        let json: Value = serde_json::from_str(&json).unwrap();
        json["include"][0][field].as_str().unwrap().to_owned()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
