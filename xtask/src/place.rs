//! Where things are: the lab's own files, and the scenarios and results of the current directory's project.

use anyhow::Result;
use lab::{
    cache::Cache,
    kernel::{self, SpecError},
    lay_out,
    progress::Progress,
    scenario::{self, Project, Scenario, ScenarioError, ScenarioFile},
    words::is_installed,
};
use std::{
    env,
    path::{Path, PathBuf},
    sync::OnceLock,
};

static ROOT: OnceLock<PathBuf> = OnceLock::new();

static PROJECT: OnceLock<Option<Project>> = OnceLock::new();

/// Lays out the checkout that is in the program, unless that was done.
pub(crate) fn lay_out_checkout(files: &[(&str, &[u8])]) -> Result<()> {
    if ROOT.get().is_none() {
        let laid_out = lay_out(files, &Cache::open(&Progress::new())?)?;
        ROOT.get_or_init(|| laid_out);
    }
    Ok(())
}

/// Finds the project that the current directory belongs to.
pub(crate) fn find_project() -> Result<(), ScenarioError> {
    if PROJECT.get().is_none() {
        let project = Project::above(&env::current_dir().unwrap_or_default())?;
        PROJECT.get_or_init(|| project);
    }
    Ok(())
}

/// The checkout that this program was built from; of an installed program, its copy in the cache.
pub(crate) fn root() -> &'static Path {
    ROOT.get_or_init(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}

/// The project that the current directory belongs to.
pub(crate) fn project() -> Option<&'static Project> {
    PROJECT.get()?.as_ref()
}

/// The directory in which scenarios are looked up by name and new ones are created.
pub(crate) fn scenarios() -> PathBuf {
    match (env::var_os("FTRACE_LAB_SCENARIOS"), project()) {
        (Some(directory), _) => directory.into(),
        (None, Some(project)) => project.scenarios.clone(),
        (None, None) => ready_scenarios(),
    }
}

/// The directory of the lab's own scenarios, which projects can run, too.
pub(crate) fn ready_scenarios() -> PathBuf {
    root().join("scenarios")
}

/// The directory of results, including the link `latest`.
pub(crate) fn results() -> PathBuf {
    match (env::var_os("FTRACE_LAB_RESULTS"), project()) {
        (Some(directory), _) => directory.into(),
        (None, Some(project)) => results_of(project),
        (None, None) if is_installed() => "results".into(),
        (None, None) => root().join("results"),
    }
}

/// The directory of a project's results.
pub(crate) fn results_of(project: &Project) -> PathBuf {
    project.directory.join("results")
}

/// Returns the scenarios that `paths` name, those of the project first; without paths, all of the project.
pub(crate) fn selected_scenarios(paths: &[PathBuf]) -> Result<Vec<(ScenarioFile, Scenario)>, ScenarioError> {
    let (ready, own): (Vec<_>, Vec<_>) = paths.iter().cloned().partition(|path| is_ready(path));
    let mut selected = Vec::new();
    if !own.is_empty() || ready.is_empty() {
        selected = scenario::select(&scenarios(), &own)?;
    }
    if !ready.is_empty() {
        selected.extend(scenario::select(&ready_scenarios(), &ready)?);
    }
    Ok(selected)
}

/// Returns whether a path that names nothing of the project names one of the lab's own scenarios.
fn is_ready(path: &Path) -> bool {
    let own = scenarios();
    let path = [path.to_owned()];
    own != ready_scenarios()
        && scenario::select(&own, &path).is_err()
        && scenario::select(&ready_scenarios(), &path).is_ok()
}

/// The kernels to use if the command line names none: those of the project, or the default.
pub(crate) fn default_kernels() -> Result<Vec<String>, SpecError> {
    match project() {
        Some(project) if !project.kernels.is_empty() => kernel::choose(root(), &project.kernels),
        _ => Ok(vec![kernel::DEFAULT.to_owned()]),
    }
}
