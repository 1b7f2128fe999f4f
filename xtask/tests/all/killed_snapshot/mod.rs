//! A lab killed by SIGKILL while it makes a snapshot: no QEMU is left, and the next lab does not use
//! the incomplete snapshot.

use crate::{
    patience::{PATIENCE, wait_for},
    stage::{TRIVIAL, cache, check, kill_hard, run, said, scenarios, scratch, share_host},
};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

/// The number of attempts to hit a moment that lasts for a few milliseconds.
const ATTEMPTS: usize = 8;

/// The externally visible state of a snapshot that is being made.
struct Seen<'a> {
    /// The directory that will become the snapshot.
    making: Option<&'a Path>,
    /// Whether a QEMU is running from it.
    qemu: bool,
}

impl Seen<'_> {
    fn file(&self, name: &str) -> Option<fs::Metadata> {
        fs::metadata(self.making?.join(name)).ok()
    }

    fn is_state_there(&self) -> bool {
        self.file("state").is_some_and(|state| state.size() > 0)
    }
}

fn entries(snapshots: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let all = fs::read_dir(snapshots).into_iter().flatten().flatten().map(|entry| entry.path());
    all.partition(|path| path.file_name().unwrap().to_string_lossy().starts_with(".making-"))
}

/// Returns whether a QEMU has its memory below `directory`.
fn qemu_runs(directory: &Path) -> bool {
    let name = directory.to_string_lossy();
    let of = |process: fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.starts_with("qemu-system") && line.contains(&*name)
    };
    fs::read_dir("/proc").unwrap().flatten().any(of)
}

/// Kills the lab at the moment; returns false if the moment was missed.
fn kill_at(lab: &mut Child, snapshots: &Path, moment: fn(&Seen<'_>) -> bool) -> bool {
    let start = Instant::now();
    loop {
        let (making, made) = entries(snapshots);
        if !made.is_empty() || lab.try_wait().unwrap().is_some() {
            lab.kill().unwrap();
            lab.wait().unwrap();
            return false;
        }
        if moment(&Seen { making: making.first().map(PathBuf::as_path), qemu: qemu_runs(snapshots) }) {
            kill_hard(lab);
            return true;
        }
        assert!(start.elapsed() < PATIENCE, "no such moment within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn check_moment(moment: fn(&Seen<'_>) -> bool) {
    let _host = share_host();
    let directory = scratch();
    let cache = cache(directory.path(), &["snapshots", "times.json"], true);
    let (snapshots, results) = (cache.join("snapshots"), directory.path().join("results"));
    let trivial = scenarios(directory.path(), [("a", TRIVIAL)]);
    let killed = (0..ATTEMPTS).any(|_| {
        let _ = fs::remove_dir_all(&snapshots);
        kill_at(&mut run(&results, &trivial).spawn().unwrap(), &snapshots, moment)
    });
    assert!(killed, "the moment was missed {ATTEMPTS} times");
    wait_for("end of QEMU", || (!qemu_runs(&snapshots)).then_some(()));
    let (half, made) = entries(&snapshots);
    assert_eq!((half.len(), made.len()), (1, 0));
    let output = check(&mut run(&results, &trivial), 0, &["1 passed", "making a snapshot"]);
    assert!(!said(&output).contains("warning"), "{}", said(&output));
    let (half, made) = entries(&snapshots);
    assert_eq!((half.len(), made.len()), (0, 1), "{half:?} {made:?}");
    let output = check(&mut run(&results, &trivial), 0, &["1 passed"]);
    assert!(!said(&output).contains("making a snapshot"), "{}", said(&output));
}

#[test]
fn when_it_has_begun() {
    check_moment(|seen| seen.making.is_some());
}

#[test]
fn while_the_machine_boots() {
    check_moment(|seen| seen.qemu && seen.file("ram").is_some_and(|ram| ram.blocks() * 512 > 32 << 20));
}

#[test]
fn while_qemu_writes_the_state() {
    check_moment(|seen| seen.qemu && seen.is_state_there());
}

#[test]
fn when_qemu_is_done_and_the_snapshot_not_yet_in_its_place() {
    check_moment(|seen| !seen.qemu && seen.is_state_there());
}
