//! Commands on a disk that is full or read-only.

use crate::{
    kernel_commits::{Repository, SCENARIO},
    killed_anywhere::Stored,
    mount::Mount,
    stage::{TRIVIAL, cache, check, run, said, scenarios, scratch, share_host, xtask},
    tree::{restore, tree, unfinished},
};
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// A small disk that can be filled.
struct Disk {
    place: PathBuf,
    mount: Mount,
}

impl Disk {
    /// Mounts it. Returns `None` if this user cannot mount.
    fn new(directory: &Path) -> Option<Disk> {
        let place = directory.join("disk");
        Some(Disk { mount: Mount::tmpfs(&place, "size=64m")?, place })
    }

    /// Fills it except for `left` KiB.
    fn fill(&self, left: usize) {
        let mut filler = File::create(self.filler()).unwrap();
        let error = loop {
            if let Err(error) = filler.write_all(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let size = filler.metadata().unwrap().len();
        filler.set_len(size - (left as u64) * 1024).unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.place.join("filler")
    }
}

#[test]
fn a_report_on_a_disk_without_room_stays_as_it_was() {
    let _host = share_host();
    let directory = scratch();
    let stored = Stored::new(directory.path());
    let Some(disk) = Disk::new(directory.path()) else { return };
    let report = disk.place.join("report");
    restore(&stored.report(), &report);
    check(xtask().args(["lab", "report"]).arg(&report), 0, &["1 passed"]);
    let merge = || {
        let mut merge = stored.merge_into(&report, &["first", "second"]);
        merge.env_remove("GITHUB_STEP_SUMMARY");
        merge
    };
    let renew = || {
        let mut renew = xtask();
        renew.args(["lab", "report"]).arg(&report);
        renew
    };
    let before = tree(&report);
    let fails = |command: &mut Command, why: &str| {
        check(command, 3, &[why, &*disk.place.to_string_lossy()]);
        assert!(tree(&report) == before, "the report changed");
        assert_eq!(unfinished(&disk.place), Vec::<PathBuf>::new());
    };
    for left in [0, 4, 64] {
        disk.fill(left);
        fails(&mut merge(), "No space left on device");
        if left < 64 {
            fails(&mut renew(), "No space left on device");
        }
        // It only reads.
        check(xtask().args(["lab", "judge"]).arg(&report), 0, &[]);
        disk.free();
    }
    disk.mount.change("ro");
    fails(&mut merge(), "Read-only file system");
    fails(&mut renew(), "Read-only file system");
    check(xtask().args(["lab", "judge"]).arg(&report), 0, &[]);
    disk.mount.change("rw");
    check(&mut renew(), 0, &["1 passed"]);
    assert!(tree(&report) == before);
    check(&mut merge(), 0, &["2 passed"]);
    check(xtask().args(["lab", "judge"]).arg(&report), 0, &["6.12/b"]);
    stored.check_older();
}

#[test]
fn new_results_on_a_disk_without_room_leave_the_latest_ones() {
    let _host = share_host();
    let directory = scratch();
    let stored = Stored::new(directory.path());
    let Some(disk) = Disk::new(directory.path()) else { return };
    let merge = |run: &str| {
        let mut merge = xtask();
        merge.args(["lab", "merge"]).arg(stored.place.join("results").join(run));
        merge.env("FTRACE_LAB_RESULTS", disk.place.join("results")).env_remove("GITHUB_STEP_SUMMARY");
        merge
    };
    check(&mut merge("first"), 0, &["1 passed"]);
    let before = tree(&disk.place);
    disk.fill(64);
    check(&mut merge("second"), 3, &["No space left on device", &*disk.place.to_string_lossy()]);
    disk.free();
    assert!(tree(&disk.place) == before);
    disk.mount.change("ro");
    check(&mut merge("second"), 3, &["Read-only file system", &*disk.place.to_string_lossy()]);
    disk.mount.change("rw");
    assert!(tree(&disk.place) == before);
    check(&mut merge("second"), 0, &["1 passed"]);
    let made = fs::canonicalize(disk.place.join("results/latest")).unwrap();
    assert!(made.join("6.12/b").is_dir());
}

#[test]
fn times_that_do_not_fit_into_the_cache_are_a_warning_and_the_old_ones_stay() {
    let _host = share_host();
    let directory = scratch();
    let Some(disk) = Disk::new(directory.path()) else { return };
    let own = cache(&disk.place, &["times.json"], true);
    let trivial = scenarios(directory.path(), [("a", TRIVIAL)]);
    let lab = || {
        let mut lab = run(&directory.path().join("results"), &trivial);
        lab.env("FTRACE_LAB_CACHE", &own);
        lab
    };
    check(&mut lab(), 0, &["1 passed"]);
    let before = fs::read(own.join("times.json")).unwrap();
    disk.fill(0);
    check(&mut lab(), 0, &["1 passed", "cannot store the times", "No space left on device"]);
    assert!(fs::read(own.join("times.json")).unwrap() == before);
    assert_eq!(unfinished(&own), Vec::<PathBuf>::new());
    disk.free();
    let output = check(&mut lab(), 0, &["1 passed"]);
    assert!(!said(&output).contains("warning"), "{}", said(&output));
}

#[test]
fn a_bisection_on_a_disk_without_room_goes_on_when_there_is() {
    let _host = share_host();
    let directory = scratch();
    let Some(disk) = Disk::new(directory.path()) else { return };
    let repository = Repository::new(directory.path());
    let own = cache(directory.path(), &["bisect", "builds", "snapshots", "times.json"], true);
    let file = directory.path().join("howto.yaml");
    fs::write(&file, SCENARIO).unwrap();
    let state = repository.state();
    let bisect = || {
        let [good, bad] = [3, 4].map(|index| &*repository.commits[index]);
        let mut bisect = repository.bisect(&file, [good, bad], &disk.place.join("results"));
        bisect.args(["--failure-rate", "1"]).env("FTRACE_LAB_CACHE", &own);
        bisect
    };
    let fails = |why: &str| {
        check(&mut bisect(), 3, &[why, &*disk.place.to_string_lossy()]);
        assert_eq!(repository.state(), state);
    };
    disk.mount.change("ro");
    fails("Read-only file system");
    disk.mount.change("rw");
    // Room for the results of one kernel.
    disk.fill(1400);
    fails("No space left on device");
    disk.free();
    check(&mut bisect(), 0, &["resuming with 1 verdicts", &repository.commits[4]]);
    assert_eq!(repository.state(), state);
    assert_eq!(unfinished(&disk.place), Vec::<PathBuf>::new());
}
