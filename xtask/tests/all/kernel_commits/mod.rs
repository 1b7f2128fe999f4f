//! A git repository of kernels for tests of `lab bisect`.

use crate::stage::{check, said, xtask};
use lab::host::git::git;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A kernel tree whose make copies the already built kernel in `$(LAB)` and changes one string in it, in
/// the README of tracefs.
const MAKEFILE: &str = include_str!("Makefile");

pub(crate) const SCENARIO: &str =
    "summary: the README is a HOWTO\nsteps: [{ read: README, text: { contains: [tracing mini-HOWTO] } }]\n";

/// A repository of seven kernels: the build of the fourth takes as long as `slow` exists, the fifth and later
/// ones have a different string, and the sixth, which git bisect visits, cannot be built.
pub(crate) struct Repository {
    pub(crate) place: PathBuf,
    pub(crate) slow: PathBuf,
    pub(crate) building: PathBuf,
    pub(crate) commits: Vec<String>,
}

impl Repository {
    pub(crate) fn new(directory: &Path) -> Repository {
        let place = directory.join("linux");
        let (slow, building) = (directory.join("slow"), directory.join("building"));
        fs::create_dir(&place).unwrap();
        let mut repository = Repository { place, slow, building, commits: Vec::new() };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        fs::write(repository.place.join("Makefile"), MAKEFILE).unwrap();
        let lab = built_kernel();
        let (slow, building) = (repository.slow.display(), repository.building.display());
        let wait = format!("touch {building}; while [ -e {slow} ]; do sleep 0.05; done");
        for number in 1..=7 {
            let before = match number {
                6 => "echo 'kernel/trace/trace.c:1:1: error: no such thing' >&2; exit 1",
                4 => &wait,
                _ => ":",
            };
            let text = if number < 5 { "HOWTO" } else { "WHATS" };
            let settings = format!("LAB = {}\nTEXT = {text}\nBEFORE = {before}\n# {number}\n", lab.display());
            fs::write(repository.place.join("settings"), settings).unwrap();
            repository.git(&["add", "."]);
            repository.git(&["commit", "--quiet", "-m", &format!("tracing: change number {number}")]);
            let head = repository.git(&["rev-parse", "HEAD"]);
            repository.commits.push(head.trim().to_owned());
        }
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=A", "-c", "user.email=a@b.test"];
        git(&self.place).args(identity).args(arguments).run().unwrap()
    }

    /// Returns a command that bisects between two of its commits.
    pub(crate) fn bisect(&self, file: &Path, [good, bad]: [&str; 2], results: &Path) -> Command {
        let mut bisect = xtask();
        // make takes the built kernel from outside of the tree.
        bisect.env("FTRACE_LAB_CONFINEMENT", "none");
        bisect.args(["lab", "bisect"]).arg(file).args(["--good", good, "--bad", bad]);
        bisect.arg("--kernel-tree").arg(&self.place).arg("--results").arg(results);
        bisect
    }

    /// Returns the state of the repository that a user cares about, other than its objects.
    pub(crate) fn state(&self) -> [String; 4] {
        let asked: [&[&str]; 4] = [
            &["status", "--porcelain=v2", "--branch"],
            &["for-each-ref"],
            &["worktree", "list"],
            &["config", "--list", "--local"],
        ];
        asked.map(|arguments| self.git(arguments))
    }
}

/// Returns the build directory of the default kernel.
fn built_kernel() -> PathBuf {
    let output = check(xtask().args(["lab", "build", "6.12"]), 0, &["vmlinux"]);
    let vmlinux = said(&output);
    let vmlinux = vmlinux.lines().find_map(|line| Some(line.strip_prefix("vmlinux")?.trim().to_owned()));
    Path::new(&vmlinux.unwrap()).parent().unwrap().to_owned()
}
