//! Commits of a git repository, searched by `git bisect run`.
//!
//! The repository itself is only read: its references, work trees and configuration never change, even
//! if the lab is killed. Commits are checked out in a repository of the cache that borrows its objects,
//! always in the same directory, so that each build is incremental to that of the previous commit. git's
//! run script asks the lab for a verdict over a socket, its stdin; if the lab exits, the script reads
//! end-of-file, and git stops.

use super::{
    BisectError,
    candidates::Commit,
    search::{Answer, Remaining},
};
use crate::{
    cache::{Cache, KeyBuilder, Lock},
    host::{git::git, process::which},
};
use anyhow::{Context, Result, anyhow, bail};
use fs_err as fs;
use std::{
    io::{ErrorKind, Read, Write},
    os::unix::{ffi::OsStrExt, net::UnixStream},
    path::{Path, PathBuf},
};

/// The script that git runs for each commit. Without an answer it aborts the bisection.
const SCRIPT: &str = "echo test >&0 && read -r code && exit \"$code\"; exit 255";

/// The script's exit codes, as defined by `git bisect run`.
const EARLY: u8 = 0;
const LATE: u8 = 1;
const SKIP: u8 = 125;
const ABORT: u8 = 255;

/// Commits of a repository, and a locked directory to check them out in.
#[derive(Debug)]
pub struct Commits {
    repository: PathBuf,
    tree: PathBuf,
    _lock: Lock,
}

/// The names of the two sides of a bisection, as they appear in git's log.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The early commits.
    pub early: &'static str,
    /// The late ones.
    pub late: &'static str,
}

impl Commits {
    /// Opens the repository that contains `path`.
    pub fn open(cache: &Cache, path: &Path, waiting: impl FnOnce()) -> Result<Commits> {
        if which("git").is_none() {
            bail!("cannot bisect `{}` without git: install the package `git`", path.display());
        }
        let common = git(path).args(["rev-parse", "--git-common-dir"]).run().map_err(|error| {
            let message = format!("cannot bisect commits: `{}` is not in a git repository", path.display());
            error.context(BisectError(message))
        })?;
        let common = path.join(common.trim_end_matches('\n'));
        let common = fs::canonicalize(common)?;
        let key = KeyBuilder::default().input("repository", common.as_os_str().as_bytes()).finish("tree");
        let lock = cache.lock(&format!("bisect-{}", key.as_str()), waiting)?;
        let tree = cache.directory("bisect")?.join(key.as_str());
        borrow(&common, &tree)
            .with_context(|| format!("cannot make a repository in `{}`", tree.display()))?;
        let repository = path.to_owned();
        Ok(Commits { repository, tree, _lock: lock })
    }

    /// The directory in which commits are checked out.
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Resolves `name`, a branch, tag or hash, to a commit.
    pub fn resolve(&self, name: &str) -> Result<Commit> {
        let wanted = format!("{name}^{{commit}}");
        let found =
            git(&self.repository).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]);
        let found = found.run().map_err(|error| {
            let shown = self.repository.display();
            error.context(BisectError(format!("`{name}` is not a commit of the git repository `{shown}`")))
        })?;
        // Older versions of git also print --end-of-options.
        self.commit(found.lines().next_back().unwrap_or_default())
    }

    fn commit(&self, id: &str) -> Result<Commit> {
        let shown = git(&self.tree).args(["show", "--no-patch", "--format=%H %s", id, "--"]).run()?;
        let (id, subject) = shown.trim_end().split_once(' ').unwrap_or((shown.trim_end(), ""));
        Ok(Commit { id: id.to_owned(), subject: subject.to_owned() })
    }

    /// Returns a commit's author, date, message and changed files as text.
    pub fn describe(&self, commit: &Commit) -> Result<String> {
        git(&self.tree).args(["show", "--stat", "--format=medium", &commit.id, "--"]).run()
    }

    /// Returns whether `of_old` is an ancestor of `new`.
    pub fn is_ancestor(&self, of_old: &Commit, new: &Commit) -> Result<bool> {
        let range = format!("{}..{}", new.id, of_old.id);
        Ok(git(&self.tree).args(["rev-list", "--count", &range, "--"]).run()?.trim() == "0")
    }

    /// Checks out a commit. Files that do not change are not rewritten.
    pub fn check_out(&self, commit: &Commit) -> Result<()> {
        git(&self.tree)
            .args(["checkout", "--quiet", "--force", "--detach", &commit.id, "--"])
            .run()
            .with_context(|| format!("cannot check out {}", commit.id))?;
        // Left behind by a killed checkout.
        git(&self.tree).args(["clean", "--quiet", "-ffdx"]).run().map(|_| ())
    }

    /// Searches with git for the first commit like `late`. Calls `answer` for each commit that git checks
    /// out, and writes git's output to `said`. Returns the commit, or several candidates if some were
    /// skipped.
    pub fn bisect(
        &self,
        (early, late): (&Commit, &Commit),
        terms: Terms,
        said: &Path,
        mut answer: impl FnMut(&Commit, Remaining) -> Result<Answer>,
    ) -> Result<Vec<Commit>> {
        self.check_out(late)?;
        let started = git(&self.tree).args(["bisect", "start"]);
        let started = started.arg(format!("--term-old={}", terms.early));
        let started = started.arg(format!("--term-new={}", terms.late));
        started.args([&late.id, &early.id, "--"]).run().context("cannot start the bisection")?;
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut failed = None;
        let run = git(&self.tree).args(["bisect", "run", "sh", "-c", SCRIPT]).stdin(theirs).log(said);
        let ran = if self.found()?.is_some() {
            Ok(String::new())
        } else {
            run.run_watched(|| {
                if let Some(error) = self.serve(&ours, terms, &mut answer).err() {
                    failed.get_or_insert(error);
                }
            })
        };
        if let Some(error) = failed {
            return Err(error);
        }
        // git fails if only skipped commits are left.
        match (self.found()?, ran) {
            (Some(found), _) => found.iter().map(|id| self.commit(id)).collect(),
            (None, Err(error)) => Err(error.context("git cannot bisect these commits")),
            (None, Ok(_)) => Err(anyhow!("git ended the bisection without naming a commit")),
        }
    }

    /// Returns git's bisection log, the input of `git bisect replay`.
    pub fn log(&self) -> Result<String> {
        git(&self.tree).args(["bisect", "log"]).run()
    }

    /// Answers a request of the script, if there is one.
    fn serve(
        &self,
        mut script: &UnixStream,
        terms: Terms,
        answer: &mut impl FnMut(&Commit, Remaining) -> Result<Answer>,
    ) -> Result<()> {
        let mut asked = [0; 64];
        match script.read(&mut asked) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("cannot read from git's run script"),
            Ok(0) => return Ok(()),
            Ok(_) => {}
        }
        let answered = self.head(terms).and_then(|(commit, left)| answer(&commit, left));
        let code = match &answered {
            Ok(Answer::Early) => EARLY,
            Ok(Answer::Late) => LATE,
            Ok(Answer::Skip) => SKIP,
            Err(_) => ABORT,
        };
        // If git has exited, its exit status is reported instead.
        let _ = writeln!(script, "{code}");
        answered.map(|_| ())
    }

    /// Returns the commit that git checked out, and how many are left.
    fn head(&self, terms: Terms) -> Result<(Commit, Remaining)> {
        let head = git(&self.tree).args(["rev-parse", "HEAD"]).run()?;
        let late = format!("refs/bisect/{}", terms.late);
        let early = format!("--glob=refs/bisect/{}-*", terms.early);
        let left = git(&self.tree).args(["rev-list", "--count", &late, "--not", &early]).run()?;
        Ok((self.commit(head.trim())?, Remaining::of(left.trim().parse().unwrap_or(1))))
    }

    /// Returns the commits that git's log names at the end.
    fn found(&self) -> Result<Option<Vec<String>>> {
        Ok(named_in(&self.log()?))
    }
}

/// Parses `# first bad commit: [ID] SUBJECT`, or after skips several lines
/// `# possible first bad commit: [ID] SUBJECT`.
fn named_in(log: &str) -> Option<Vec<String>> {
    let named = |begins: &str| -> Vec<String> {
        let lines = log.lines().filter(|line| line.starts_with(begins));
        let id = |line: &str| Some(line.split_once(" commit: [")?.1.split_once(']')?.0.to_owned());
        lines.filter_map(id).collect()
    };
    let (first, possible) = (named("# first "), named("# possible first "));
    match first.last() {
        Some(first) => Some(vec![first.clone()]),
        None if !possible.is_empty() => Some(possible),
        None => None,
    }
}

/// Makes a repository in `tree` unless there is one, and lets it borrow the objects of `common`.
fn borrow(common: &Path, tree: &Path) -> Result<()> {
    let own = tree.join(".git");
    if !own.join("HEAD").is_file() {
        fs::create_dir_all(tree)?;
        git(tree).args(["init", "--quiet", "--template="]).run()?;
        // Missing objects may reappear, and garbage collection would save nothing.
        git(tree).args(["config", "gc.auto", "0"]).run()?;
    }
    let mut objects = common.join("objects").into_os_string().into_encoded_bytes();
    objects.push(b'\n');
    fs::create_dir_all(own.join("objects/info"))?;
    fs::write(own.join("objects/info/alternates"), objects)?;
    let (theirs, ours) = (common.join("shallow"), own.join("shallow"));
    if theirs.is_file() {
        fs::copy(theirs, ours)?;
    } else if ours.is_file() {
        fs::remove_file(ours)?;
    }
    // A killed git may have left it; the lock excludes other processes.
    let _ = fs::remove_file(own.join("index.lock"));
    // An interrupted bisection starts over in git; its verdicts are in the lab's log.
    if own.join("BISECT_START").is_file() {
        git(tree).args(["bisect", "reset", "HEAD"]).run()?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
