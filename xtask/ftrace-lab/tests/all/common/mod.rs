//! A repository of others, from which the lab's checkout cannot be seen, and the installed command in it.

use checkers::page::{Reader, copy};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A module's repository, from which the checkout cannot be seen.
pub(crate) struct Repository {
    _place: tempfile::TempDir,
    pub(crate) path: PathBuf,
    /// The directory of the installed command.
    programs: PathBuf,
}

impl Repository {
    /// A copy of an example, or an empty repository.
    pub(crate) fn of(example: Option<&str>) -> Repository {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap().join("watch");
        let programs = place.path().join("bin");
        fs::create_dir(&programs).unwrap();
        match example {
            Some(name) => copy(&Path::new(ROOT).join("examples").join(name), &path).unwrap(),
            None => fs::create_dir(&path).unwrap(),
        }
        fs::create_dir(path.join(".git")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_ftrace-lab"), programs.join("ftrace-lab")).unwrap();
        Repository { _place: place, path, programs }
    }
}

impl Reader for Repository {
    fn place(&self) -> &Path {
        &self.path
    }

    fn sh(&self, commands: &str) -> Output {
        let root = Path::new(ROOT).canonicalize().unwrap();
        let hidden = format!("mount -t tmpfs none '{}' && exec sh -eu -c \"$1\"", root.display());
        let path = env::var("PATH").unwrap();
        Command::new("unshare")
            .args(["--mount", "sh", "-eu", "-c", &hidden, "sh", commands])
            .current_dir(&self.path)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env_remove("FTRACE_LAB_SCENARIOS")
            .env_remove("FTRACE_LAB_RESULTS")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn write(&self, path: &str, body: &str) {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
