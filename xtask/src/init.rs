//! `cargo xtask lab init`

use crate::{Usage, exit, place::results_of};
use anyhow::{Context, Result};
use clap::Args;
use fs_err::{self as fs, File};
use lab::{
    init::{SCHEMAS, Subject},
    scenario::{Project, project_schema, schema},
};
use std::{
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Begin to test the module, program or kernel tree of a directory
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab init             look at this directory\n  \
    cargo xtask lab init drivers/x   or at another\n\n\
    It writes ftrace-lab.yaml, which says what is tested on which kernels, and scenarios/first.yaml, which passes if \
    a module loads and unloads and leaves nothing behind, or if a program succeeds. No file is overwritten.")]
pub(crate) struct Init {
    /// The directory
    #[arg(default_value = ".")]
    directory: PathBuf,
}

impl Init {
    pub(crate) fn run(self) -> Result<u8> {
        let subject = Subject::of(&self.directory).map_err(|error| Usage(error.to_string()))?;
        let files = subject.files()?;
        if let Some((name, _)) = files.iter().find(|(name, _)| self.directory.join(name).exists()) {
            let message = format!(
                "`{}` already exists; change it, or remove it to begin again",
                self.directory.join(name).display()
            );
            return Err(Usage(message).into());
        }
        for (name, text) in &files {
            let path = self.directory.join(name);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create_new(&path)?.write_all(text.as_bytes())?;
            println!("wrote {}", path.strip_prefix(".").unwrap_or(&path).display());
        }
        if let Some(project) = Project::above(&self.directory)? {
            prepare_results(&results_of(&project))?;
        }
        println!("run it: {}", subject.command());
        Ok(exit::SUCCESS)
    }
}

/// Creates a project's directory of results, which git ignores, with the schemas for editors.
pub(crate) fn prepare_results(results: &Path) -> Result<()> {
    prepare(results).with_context(|| {
        format!(
            "cannot write to `{}`; make it writable, or set FTRACE_LAB_RESULTS to another directory",
            results.display()
        )
    })
}

fn prepare(results: &Path) -> Result<()> {
    let schemas = results.join(SCHEMAS);
    fs::create_dir_all(&schemas)?;
    match File::create_new(results.join(".gitignore")) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        file => file?.write_all(b"*\n")?,
    }
    fs::write(schemas.join("scenario.json"), schema())?;
    Ok(fs::write(schemas.join("project.json"), project_schema())?)
}
