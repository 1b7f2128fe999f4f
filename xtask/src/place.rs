//! Where things are: the lab's own files, and the scenarios and results of the current directory's project.

use anyhow::{Context, Result};
use lab::{
    Checkout,
    cache::Cache,
    kernel, lay_out,
    progress::Progress,
    scenario::{self, PROJECT_FILE, Project, Scenario, ScenarioError, ScenarioFile},
    words::is_installed,
};
use std::{
    env,
    path::{Path, PathBuf},
    slice,
    sync::OnceLock,
};

static ROOT: OnceLock<PathBuf> = OnceLock::new();

static PROJECT: OnceLock<Option<Project>> = OnceLock::new();

/// Lays out the checkout that is in the program, unless that was done.
pub(crate) fn lay_out_checkout(checkout: &Checkout) -> Result<()> {
    if ROOT.get().is_none() {
        let laid_out = lay_out(checkout, &Cache::open(&Progress::new())?)?;
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
    named_by(paths, scenario::select)
}

/// Like [`selected_scenarios`], but returns their files without reading them.
pub(crate) fn found_scenarios(paths: &[PathBuf]) -> Result<Vec<ScenarioFile>, ScenarioError> {
    named_by(paths, scenario::find)
}

/// Returns what `find` finds for `paths` among the scenarios of the project and among the lab's own.
fn named_by<T>(
    paths: &[PathBuf],
    find: fn(&Path, &[PathBuf]) -> Result<Vec<T>, ScenarioError>,
) -> Result<Vec<T>, ScenarioError> {
    let is_ready = |path: &PathBuf| is_ready(slice::from_ref(path), find);
    let (ready, own): (Vec<_>, Vec<_>) = paths.iter().cloned().partition(is_ready);
    let mut found = Vec::new();
    if !own.is_empty() || ready.is_empty() {
        found = find(&scenarios(), &own)?;
    }
    if !ready.is_empty() {
        found.extend(find(&ready_scenarios(), &ready)?);
    }
    Ok(found)
}

/// Returns whether a path that names nothing of the project names one of the lab's own scenarios.
fn is_ready<T>(path: &[PathBuf], find: fn(&Path, &[PathBuf]) -> Result<Vec<T>, ScenarioError>) -> bool {
    let own = scenarios();
    own != ready_scenarios()
        && scenario::find(&own, path).is_err()
        && find(&own, path).is_err()
        && find(&ready_scenarios(), path).is_ok()
}

/// The kernels to use if the command line names none: those of the project, or the default.
pub(crate) fn default_kernels() -> Result<Vec<String>> {
    match project() {
        Some(project) if !project.kernels.is_empty() => kernel::choose(root(), &project.kernels)
            .with_context(|| format!("{}: kernels", project.directory.join(PROJECT_FILE).display())),
        _ => Ok(vec![kernel::DEFAULT.to_owned()]),
    }
}
