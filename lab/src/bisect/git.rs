//! Commits of a git repository, searched by `git bisect run`.
//!
//! The repository itself is only read: not a reference, a work tree or a configuration of it changes,
//! whatever becomes of the lab. Commits are checked out in a repository of the cache that borrows its
//! objects, always at the same place, so that a kernel is built on top of what was built of the commit
//! before. git's run script asks the lab for a verdict over a socket that is its stdin; when the lab is
//! gone it reads the end of that, and git stops.

use super::{
    Refused,
    candidates::Commit,
    search::{Answer, Left},
};
use crate::{
    cache::{Cache, KeyBuilder, Lock},
    host::process::{Tool, which},
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::{ffi::OsStrExt, net::UnixStream},
    path::{Path, PathBuf},
};

/// What git runs for each commit. An answer that does not come aborts the bisection.
const SCRIPT: &str = "echo test >&0 && read -r code && exit \"$code\"; exit 255";

/// The script's exit codes, which are git's.
const EARLY: u8 = 0;
const LATE: u8 = 1;
const SKIP: u8 = 125;
const ABORT: u8 = 255;

/// Variables of git's own, as hooks have them, that would name another repository.
const FOREIGN: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
];

/// Commits, and a place to check them out. Nobody else uses it meanwhile.
#[derive(Debug)]
pub struct Commits {
    repository: PathBuf,
    tree: PathBuf,
    _lock: Lock,
}

/// What a bisection calls its two sides: git has these words in its log.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The early commits.
    pub early: &'static str,
    /// The late ones.
    pub late: &'static str,
}

impl Commits {
    /// Those of the repository that `path` is in.
    pub fn open(cache: &Cache, path: &Path, waiting: impl FnOnce()) -> Result<Commits> {
        if which("git").is_none() {
            bail!("cannot bisect `{}` without git: install the package `git`", path.display());
        }
        let common = git(path).args(["rev-parse", "--git-common-dir"]).run().map_err(|error| {
            let message = format!("`{}` is no git repository whose commits can be bisected", path.display());
            error.context(Refused(message))
        })?;
        let common = path.join(common.trim_end_matches('\n'));
        let common = common.canonicalize().with_context(|| format!("cannot find `{}`", common.display()))?;
        let key = KeyBuilder::default().input("repository", common.as_os_str().as_bytes()).finish("tree");
        let lock = cache.lock(&format!("bisect-{}", key.as_str()), waiting)?;
        let tree = cache.directory("bisect")?.join(key.as_str());
        borrow(&common, &tree)
            .with_context(|| format!("cannot make a place for commits in `{}`", tree.display()))?;
        let repository = path.to_owned();
        Ok(Commits { repository, tree, _lock: lock })
    }

    /// Where commits are checked out.
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// The commit that `name`, a branch, a tag or a digest, stands for.
    pub fn resolve(&self, name: &str) -> Result<Commit> {
        let wanted = format!("{name}^{{commit}}");
        let found =
            git(&self.repository).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]);
        let found = found.run().map_err(|error| {
            let shown = self.repository.display();
            error.context(Refused(format!("`{name}` is no commit of the git repository `{shown}`")))
        })?;
        // --end-of-options is repeated in what older ones print.
        self.commit(found.lines().next_back().unwrap_or_default())
    }

    fn commit(&self, id: &str) -> Result<Commit> {
        let shown = git(&self.tree).args(["show", "--no-patch", "--format=%H %s", id, "--"]).run()?;
        let (id, subject) = shown.trim_end().split_once(' ').unwrap_or((shown.trim_end(), ""));
        Ok(Commit { id: id.to_owned(), subject: subject.to_owned() })
    }

    /// Who wrote a commit, when, and what it says and changes.
    pub fn describe(&self, commit: &Commit) -> Result<String> {
        git(&self.tree).args(["show", "--stat", "--format=medium", &commit.id, "--"]).run()
    }

    /// Whether one commit has the other among its ancestors.
    pub fn is_ancestor(&self, of_old: &Commit, new: &Commit) -> Result<bool> {
        let range = format!("{}..{}", new.id, of_old.id);
        Ok(git(&self.tree).args(["rev-list", "--count", &range, "--"]).run()?.trim() == "0")
    }

    /// Puts the files of a commit in place. Files that are in both are left as they are.
    pub fn check_out(&self, commit: &Commit) -> Result<()> {
        git(&self.tree)
            .args(["checkout", "--quiet", "--force", "--detach", &commit.id, "--"])
            .run()
            .with_context(|| format!("cannot check out {}", commit.id))?;
        // What a checkout that was killed left behind.
        git(&self.tree).args(["clean", "--quiet", "-ffdx"]).run().map(|_| ())
    }

    /// Has git search for the first commit that is as `late`. `answer` is asked about each commit that
    /// git checked out, and what git says meanwhile is written to `said`. Gives back the commit, or those
    /// of which any may be it since they were skipped.
    pub fn bisect(
        &self,
        (early, late): (&Commit, &Commit),
        terms: Terms,
        said: &Path,
        mut answer: impl FnMut(&Commit, Left) -> Result<Answer>,
    ) -> Result<Vec<Commit>> {
        self.check_out(late)?;
        let started = git(&self.tree).args(["bisect", "start"]);
        let started = started.arg(format!("--term-old={}", terms.early));
        let started = started.arg(format!("--term-new={}", terms.late));
        started.args([&late.id, &early.id, "--"]).run().context("cannot begin to bisect")?;
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
        // That it ends among skipped ones is an error of git's.
        match (self.found()?, ran) {
            (Some(found), _) => found.iter().map(|id| self.commit(id)).collect(),
            (None, Err(error)) => Err(error.context("git cannot bisect these commits")),
            (None, Ok(_)) => Err(anyhow!("git ended the bisection and named no commit")),
        }
    }

    /// git's own log, which `git bisect replay` reads.
    pub fn log(&self) -> Result<String> {
        git(&self.tree).args(["bisect", "log"]).run()
    }

    /// Answers the script, if it asks.
    fn serve(
        &self,
        mut script: &UnixStream,
        terms: Terms,
        answer: &mut impl FnMut(&Commit, Left) -> Result<Answer>,
    ) -> Result<()> {
        let mut asked = [0; 64];
        match script.read(&mut asked) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("cannot hear git's run script"),
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
        // Where git is gone, its end is what is told.
        let _ = writeln!(script, "{code}");
        answered.map(|_| ())
    }

    /// The commit that git checked out, and how many are left.
    fn head(&self, terms: Terms) -> Result<(Commit, Left)> {
        let head = git(&self.tree).args(["rev-parse", "HEAD"]).run()?;
        let late = format!("refs/bisect/{}", terms.late);
        let early = format!("--glob=refs/bisect/{}-*", terms.early);
        let left = git(&self.tree).args(["rev-list", "--count", &late, "--not", &early]).run()?;
        Ok((self.commit(head.trim())?, Left::of(left.trim().parse().unwrap_or(1))))
    }

    /// The commits that git's log names in the end.
    fn found(&self) -> Result<Option<Vec<String>>> {
        Ok(named_in(&self.log()?))
    }
}

/// `# first bad commit: [ID] SUBJECT`, or after skips several `# possible first bad commit: [ID] SUBJECT`.
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

/// git in a repository, that asks nobody and runs no one's hooks.
fn git(directory: &Path) -> Tool {
    let tool = Tool::new("git").args(["-c", "core.hooksPath=/dev/null"]).directory(directory);
    let tool = tool.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    FOREIGN.into_iter().fold(tool, Tool::env_remove)
}

/// Makes a repository in `tree`, or has the one that is there borrow the objects of `common`.
fn borrow(common: &Path, tree: &Path) -> Result<()> {
    let own = tree.join(".git");
    if !own.join("HEAD").is_file() {
        fs::create_dir_all(tree)?;
        git(tree).args(["init", "--quiet", "--template="]).run()?;
        // Objects that are missed may come back, and there is nothing to be gained.
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
    // A git that was killed held it; nobody else is here.
    let _ = fs::remove_file(own.join("index.lock"));
    // A bisection that was cut off is begun anew; its verdicts are elsewhere.
    if own.join("BISECT_START").is_file() {
        git(tree).args(["bisect", "reset", "HEAD"]).run()?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
