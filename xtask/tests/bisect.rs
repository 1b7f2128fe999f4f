//! `lab bisect` as a user calls it, to the end: kernels that are booted, a git repository that is searched.

#[expect(dead_code, reason = "other tests of whole runs need more of it")]
mod stage;
mod watched;

use stage::{ONE_RUN, cache, check, said, scratch, stored, xtask};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};
use watched::Mark;

/// A kernel tree whose make takes the kernel that was built, but for a text in it: that of the README
/// in tracefs. `$(LAB)` is where that kernel is.
const MAKEFILE: &str = r"VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 1
EXTRAVERSION =
include settings
OUTPUTS = vmlinux System.map Module.symvers

allnoconfig:
	@cp $(LAB)/.config $(O)/.config

Image modules: everything
everything:
	@$(BEFORE)
	@mkdir -p $(O)/arch/arm64/boot $(O)/include/config
	@sed 's/mini-HOWTO/mini-$(TEXT)/' $(LAB)/arch/arm64/boot/Image > $(O)/arch/arm64/boot/Image
	@for file in $(OUTPUTS); do ln -sf $(LAB)/$$file $(O)/$$file; done
	@: > $(O)/modules.order
	@cp $(LAB)/include/config/kernel.release $(O)/include/config/kernel.release
";

const SCENARIO: &str =
    "summary: the README is a HOWTO\nsteps: [{ read: README, text: { contains: [tracing mini-HOWTO] } }]\n";

/// A repository of seven kernels: the fourth takes as long as `slow` is there, from the fifth on the text is
/// another one, and the sixth, which git comes by, cannot be built.
struct Repository {
    place: PathBuf,
    slow: PathBuf,
    building: PathBuf,
    commits: Vec<String>,
}

impl Repository {
    fn new(directory: &Path) -> Repository {
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
        let mut git = Command::new("git");
        git.args(["-c", "user.name=A", "-c", "user.email=a@b.test"]).current_dir(&self.place);
        let output = git.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    }

    /// What a user may have in it beside objects.
    fn state(&self) -> [String; 4] {
        let asked: [&[&str]; 4] = [
            &["status", "--porcelain=v2", "--branch"],
            &["for-each-ref"],
            &["worktree", "list"],
            &["config", "--list", "--local"],
        ];
        asked.map(|arguments| self.git(arguments))
    }
}

/// The output directory of the default kernel.
fn built_kernel() -> PathBuf {
    let output = check(xtask().args(["lab", "build", "6.12"]), 0, &["vmlinux"]);
    let vmlinux = said(&output);
    let vmlinux = vmlinux.lines().find_map(|line| Some(line.strip_prefix("vmlinux")?.trim().to_owned()));
    Path::new(&vmlinux.unwrap()).parent().unwrap().to_owned()
}

/// Directories of the cache that no other lab is to see what this one makes of.
const OWN: [&str; 4] = ["bisect", "builds", "snapshots", "times.json"];

#[test]
fn commits_are_bisected_on_booted_kernels_and_one_that_was_killed_goes_on() {
    let _one = ONE_RUN.lock();
    let directory = scratch();
    let repository = Repository::new(directory.path());
    let own = cache(directory.path(), &OWN, true);
    let (file, results) = (directory.path().join("howto.yaml"), directory.path().join("results"));
    fs::write(&file, SCENARIO).unwrap();
    let bisect = |good: &str, bad: &str| {
        let mut lab = xtask();
        lab.args(["lab", "bisect"]).arg(&file).args(["--good", good, "--bad", bad]).arg("--kernel-tree");
        lab.arg(&repository.place).arg("--results").arg(&results).env("FTRACE_LAB_CACHE", &own);
        lab
    };
    let before = repository.state();
    let [first, last] = [&*repository.commits[0], "main"];

    fs::write(&repository.slow, "").unwrap();
    let mut lab = bisect(first, last);
    let mark = Mark::on(&mut lab);
    let mut lab = lab.spawn().unwrap();
    while !repository.building.exists() {
        assert!(lab.try_wait().unwrap().is_none(), "it ended before it came to the fourth");
        thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &lab.id().to_string()]).status().unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(3));
    mark.is_over();
    assert_eq!(repository.state(), before);
    fs::remove_file(&repository.slow).unwrap();

    let fifth = format!("the first bad one is {} tracing: change number 5", repository.commits[4]);
    let output = check(
        &mut bisect(first, last),
        0,
        &[
            &fifth,
            "going on with",
            "as an earlier bisection found",
            "skipped: ",
            "kernel/trace/trace.c:1:1: error: no such thing",
            "4 of 4 runs fail; that something else is right has a probability of at most",
        ],
    );
    assert_eq!(repository.state(), before);
    let output = said(&output);
    let kept = output.lines().find_map(|line| line.strip_prefix("results: ")).unwrap();
    let kept = Path::new(kept);
    assert!(kept.join("bisect.json").is_file());
    let replay = fs::read_to_string(kept.join("git-bisect.log")).unwrap();
    assert!(replay.contains("# first bad commit: ["), "{replay}");
    let of_fourth = kept.join(&repository.commits[3][..12]).join("latest");
    assert_eq!(stored(&of_fourth).unwrap().scenarios.len(), 3, "three passes make a good verdict");

    // Good and bad the wrong way round, and an end that is not what it is said to be.
    check(&mut bisect(last, first), 2, &["is not bad: it passed"]);
    check(&mut bisect(&repository.commits[4], last), 2, &["is not good: it fails, too"]);
    check(&mut bisect("no-such", last), 2, &["`no-such` is no commit"]);
    assert_eq!(repository.state(), before);
}

#[test]
fn what_cannot_be_bisected_is_said_before_anything_is_built() {
    let directory = scratch();
    let file = directory.path().join("howto.yaml");
    fs::write(&file, SCENARIO).unwrap();
    let bisect = |arguments: &[&str]| {
        let mut lab = xtask();
        lab.args(["lab", "bisect"]).arg(&file).args(arguments);
        lab
    };
    check(&mut bisect(&["--good", "6.12", "--bad", "6.12"]), 2, &["the same kernel"]);
    check(&mut bisect(&["--good", "6.12"]), 2, &["--bad"]);
    check(&mut bisect(&["--good", "6.1", "--bad", "7.2", "--confidence", "1"]), 2, &["below 1"]);
    check(&mut bisect(&["--good", "a", "--bad", "b", "--kernel-tree", "/"]), 2, &["no git repository"]);
    let mut many = xtask();
    many.args(["lab", "bisect", "ipmodify/conflicts", "--good", "6.1", "--bad", "7.2"]);
    check(&mut many, 2, &["and one is bisected", "--filter"]);
}
