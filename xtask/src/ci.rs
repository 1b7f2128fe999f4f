//! `cargo xtask lab ci`

use crate::{
    exit,
    matrix::github_outputs,
    merge::{REPORT, append_summary, is_report, reproducer},
    place::{default_kernels, project, root, scenarios},
    run::Run,
};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::{
    cache::KeyBuilder,
    host::{prerequisites::Need, workflow},
    kernel::{self, prune},
    report::{Page, annotations},
    results::{Results, ScenarioResult, since, stored_results},
    scenario::Scenario,
};
use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
};

/// Run scenarios in a workflow: summary, annotations, comparison with the last report
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab ci                                       what `lab run` runs, as in a workflow\n  \
    cargo xtask lab ci --kernel debian-13 --last last        and what is new since the report in last/\n\n\
    The summary is appended to the file that GITHUB_STEP_SUMMARY names. In a workflow of GitHub, each failure is noted \
    on the line of its scenario, and each splat on that of a module's source. action.yml runs this.\n\n\
    Exit codes: those of `lab run`.")]
pub(crate) struct Ci {
    /// Compare with the report in this directory, if there is one, and put the new one in its place
    #[arg(long, value_name = "DIR")]
    last: Option<PathBuf>,
    /// Run nothing; write `key` and `paths` of the cache that the kernels need to $GITHUB_OUTPUT
    #[arg(long)]
    plan: bool,
    /// Kernels, separated by spaces, as if each were given with --kernel
    #[arg(long = "kernels", value_name = "NAMES", env = "FTRACE_LAB_KERNELS", default_value = "")]
    several: String,
    /// Append the report to this file, as Markdown
    #[arg(long, value_name = "FILE", env = "GITHUB_STEP_SUMMARY")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: Run,
}

impl Ci {
    pub(crate) fn run(mut self) -> Result<u8> {
        self.run.kernels.extend(self.several.split_whitespace().map(str::to_owned));
        if self.plan {
            return self.plan();
        }
        let (code, directory) = self.run.run_once()?;
        let Some(directory) = directory else { return Ok(code) };
        let results = stored_results(&directory)?;
        for command in self.annotations(&results) {
            workflow::command(command);
        }
        self.summarize(&results, &directory)?;
        if let Some(last) = &self.last {
            fs::create_dir_all(last)?;
            fs::copy(directory.join(REPORT), last.join(REPORT))?;
        }
        Ok(code)
    }

    /// Names what a workflow should keep from one run to the next.
    fn plan(&self) -> Result<u8> {
        let named = self.run.kernels.as_slice();
        let names = if named.is_empty() { default_kernels()? } else { kernel::choose(root(), named)? };
        let lab = self.run.setup.ensure(Need::Run)?;
        let (mut key, mut paths) = (KeyBuilder::default(), BTreeSet::new());
        for name in &names {
            let identity = kernel::identify(&lab, name)?;
            key = key.input(name, &identity.key);
            paths.extend(prune::paths(&lab.cache, &identity));
        }
        let key = key.finish("ftrace-lab");
        let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        println!("cache key {} for {}", key.as_str(), names.join(", "));
        github_outputs(&format!("key={}\npaths<<END\n{}\nEND\n", key.as_str(), paths.join("\n")))?;
        Ok(exit::SUCCESS)
    }

    fn summarize(&self, results: &Results, directory: &Path) -> Result<()> {
        let last = self.last.as_deref().filter(|last| is_report(last)).map(stored_results).transpose()?;
        let delta = last.map(|last| since(&last, results));
        let reproducer = |result: &ScenarioResult| reproducer(result, directory);
        let page = Page { results, gaps: &[], since: delta.as_ref(), reproducer: &reproducer };
        append_summary(self.summary.as_deref(), &page)
    }

    fn annotations(&self, results: &Results) -> Vec<String> {
        let here = env::current_dir().unwrap_or_default();
        let root = project().map_or(here.as_path(), |project| &project.directory);
        // GitHub names files from the top of the repository.
        let top = env::var_os("GITHUB_WORKSPACE").map_or_else(|| root.to_owned(), PathBuf::from);
        let prefix = root.strip_prefix(&top).unwrap_or(Path::new("")).to_owned();
        let mut all = Vec::new();
        for result in results.scenarios.iter().filter(|result| !result.status.is_good()) {
            let path = scenarios().join(format!("{}.yaml", result.name));
            // A cell of a matrix has no file of its own, and its steps are in no order of a file.
            let Ok(scenario) = Scenario::load(&path) else { continue };
            let file = path.strip_prefix(&top).unwrap_or(&path).to_string_lossy().into_owned();
            for mut found in annotations(result, &file, &scenario, |path| root.join(path).is_file()) {
                if found.file != file {
                    found.file = prefix.join(&found.file).to_string_lossy().into_owned();
                }
                all.push(found.to_string());
            }
        }
        all
    }
}
