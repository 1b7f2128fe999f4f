//! `git bisect run` on real repositories of a few commits. A file stands for the kernel; the tests of the
//! whole lab also build and boot kernels.

use super::*;
use crate::host::interrupt::Interrupted;
use std::collections::BTreeSet;

const BREAKS: Terms = Terms { early: "good", late: "bad" };

struct Repository {
    directory: tempfile::TempDir,
    cache: Cache,
    commits: Vec<String>,
}

impl Repository {
    /// Creates a repository whose commits have a file `kernel` with these contents.
    fn of(contents: &[&str]) -> Repository {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path().join("cache")).unwrap();
        let mut repository = Repository { directory, cache, commits: Vec::new() };
        fs::create_dir(repository.path()).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        for (number, content) in contents.iter().enumerate() {
            fs::write(repository.path().join("kernel"), content).unwrap();
            repository.git(&["add", "kernel"]);
            let message = format!("change number {number}");
            repository.git(&["commit", "--quiet", "--allow-empty", "-m", &message]);
            let head = repository.git(&["rev-parse", "HEAD"]);
            repository.commits.push(head.trim().to_owned());
        }
        repository
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("linux")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=A", "-c", "user.email=a@b.test"];
        git(&self.path()).args(identity).args(arguments).run().unwrap()
    }

    fn open(&self) -> Commits {
        Commits::open(&self.cache, &self.path(), || {}).unwrap()
    }

    /// Returns the state of the repository except its objects: references, configuration, files.
    fn state(&self) -> Vec<String> {
        let asked: [&[&str]; 4] = [
            &["status", "--porcelain=v2", "--branch"],
            &["for-each-ref"],
            &["worktree", "list"],
            &["config", "--list", "--local"],
        ];
        let mut state: Vec<String> = asked.iter().map(|arguments| self.git(arguments)).collect();
        let mut names: Vec<_> = fs::read_dir(self.path().join(".git")).unwrap().flatten().collect();
        names.sort_by_key(|entry| entry.file_name());
        state.extend(names.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()));
        state
    }

    /// Bisects by the contents of the file. Returns the numbers of the commits found and of those tested.
    fn bisect(&self, early: usize, late: usize) -> (BTreeSet<usize>, Vec<usize>) {
        let commits = self.open();
        let number = |commit: &Commit| self.commits.iter().position(|id| *id == commit.id).unwrap();
        let mut asked = Vec::new();
        let ends = [early, late].map(|number| commits.resolve(&self.commits[number]).unwrap());
        let said = self.directory.path().join("said");
        let found = commits.bisect((&ends[0], &ends[1]), BREAKS, &said, |commit, left| {
            assert!(left.candidates >= 1, "{left:?}");
            asked.push(number(commit));
            assert_eq!(commit.subject, format!("change number {}", number(commit)));
            Ok(match fs::read_to_string(commits.tree().join("kernel")).unwrap().as_str() {
                content if content.starts_with("good") => Answer::Early,
                content if content.starts_with("bad") => Answer::Late,
                _ => Answer::Skip,
            })
        });
        (found.unwrap().iter().map(number).collect(), asked)
    }
}

#[test]
fn git_finds_the_first_bad_commit_and_the_repository_is_as_it_was() {
    let contents: Vec<String> =
        (0..40).map(|number| format!("{} {number}", if number < 23 { "good" } else { "bad" })).collect();
    let repository = Repository::of(&contents.iter().map(String::as_str).collect::<Vec<_>>());
    fs::write(repository.path().join("kernel"), "in the middle of some work").unwrap();
    fs::write(repository.path().join("untracked"), "").unwrap();
    let before = repository.state();
    let (found, asked) = repository.bisect(0, 39);
    assert_eq!(found, BTreeSet::from([23]));
    assert!(asked.len() <= 6, "{asked:?}");
    // Again, with the state that the first bisection left.
    assert_eq!(repository.bisect(0, 39).0, BTreeSet::from([23]));
    assert_eq!(repository.state(), before);
    assert_eq!(fs::read_to_string(repository.path().join("kernel")).unwrap(), "in the middle of some work");
}

#[test]
fn neighbours_need_no_run() {
    let (found, _) = Repository::of(&["good", "bad"]).bisect(0, 1);
    assert_eq!(found, BTreeSet::from([1]));
}

#[test]
fn what_does_not_build_is_skipped_and_may_hide_the_commit() {
    let (found, _) = Repository::of(&["good", "good 1", "broken", "bad", "bad 4", "bad 5"]).bisect(0, 5);
    assert_eq!(found, BTreeSet::from([2, 3]));
    let (found, _) = Repository::of(&["good", "broken", "good 2", "bad", "broken", "bad 5"]).bisect(0, 5);
    assert_eq!(found, BTreeSet::from([3]));
}

#[test]
fn an_error_of_the_lab_ends_it_and_the_next_one_works() {
    let repository = Repository::of(&["good", "good 1", "good 2", "bad", "bad 4"]);
    let before = repository.state();
    let commits = repository.open();
    let ends = [0, 4].map(|number| commits.resolve(&repository.commits[number]).unwrap());
    let said = repository.directory.path().join("said");
    let mut asked = 0;
    let error = commits.bisect((&ends[0], &ends[1]), BREAKS, &said, |_, _| {
        asked += 1;
        Err(Interrupted.into())
    });
    assert!(error.unwrap_err().is::<Interrupted>());
    assert_eq!(asked, 1);
    drop(commits);
    // As left by a killed git.
    let tree = repository.open().tree().to_owned();
    fs::write(tree.join(".git/index.lock"), "").unwrap();
    fs::write(tree.join("left.o"), "").unwrap();
    assert_eq!(repository.bisect(0, 4).0, BTreeSet::from([3]));
    assert!(!tree.join("left.o").exists());
    assert_eq!(repository.state(), before);
}

#[test]
fn what_is_no_commit_or_no_repository_is_refused() {
    let repository = Repository::of(&["good"]);
    let commits = repository.open();
    for wrong in ["no-such", "--all", "HEAD~7", ""] {
        let error = commits.resolve(wrong).unwrap_err();
        assert!(error.is::<BisectError>() && error.to_string().contains("is not a commit"), "{error:#}");
    }
    assert_eq!(commits.resolve("main").unwrap().id, repository.commits[0]);
    let empty = tempfile::tempdir().unwrap();
    let error = Commits::open(&repository.cache, empty.path(), || {}).unwrap_err();
    assert!(
        error.is::<BisectError>() && error.to_string().contains("is not in a git repository"),
        "{error:#}"
    );
}

#[test]
fn which_of_two_is_older() {
    let repository = Repository::of(&["a", "b"]);
    let commits = repository.open();
    let [old, new] = [0, 1].map(|number| commits.resolve(&repository.commits[number]).unwrap());
    assert!(commits.is_ancestor(&old, &new).unwrap());
    assert!(!commits.is_ancestor(&new, &old).unwrap());
}

#[test]
fn a_log_names_the_commit_or_those_that_may_be_it() {
    let check = |log: &str, expect: Option<&[&str]>| {
        let expect = expect.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
        assert_eq!(named_in(log), expect, "{log}");
    };
    check("# bad: [aa] x\n# good: [bb] y\ngit bisect start\n", None);
    check("# bad: [aa] x\n# first bad commit: [aa] x [y]\n", Some(&["aa"]));
    check("# first fixed commit: [aa] x\n", Some(&["aa"]));
    let skipped = "# only skipped commits left to test\n\
                   # possible first bad commit: [aa] x\n# possible first bad commit: [bb] y\n";
    check(skipped, Some(&["aa", "bb"]));
}
