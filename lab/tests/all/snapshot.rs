//! Machines restored from snapshots: each is pristine, many run at once, and a corrupt snapshot is
//! replaced. All are real, with a private cache.

use crate::built::built;
use lab::{
    Lab,
    cache::Cache,
    machine::{Machine, MachineSpec, Snapshots, StandbyMachine, machine_spec},
};
use protocol::{Reply, Request, WriteMode};
use std::{
    env,
    fs::{self, File, FileTimes},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longer than any request of these tests takes.
const DEADLINE: Duration = Duration::from_secs(30);

fn spec() -> MachineSpec {
    machine_spec(&built().kernel, &built().guest).unwrap()
}

/// An empty cache, and a directory for machines.
struct Setting {
    directory: TempDir,
    spec: MachineSpec,
}

fn setting() -> Setting {
    Setting { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), spec: spec() }
}

impl Setting {
    /// Opens the snapshots like a new lab, without the knowledge of other labs.
    fn snapshots(&self) -> Snapshots {
        let cache = Cache::at(self.directory.path().join("cache")).unwrap();
        Snapshots::new(&Lab { cache, ..built().lab.clone() }).unwrap()
    }

    fn machine(&self, snapshots: &Snapshots) -> Machine {
        let place = tempfile::tempdir_in(self.directory.path()).unwrap().keep();
        let mut machine = Machine::pristine(&self.spec, snapshots, &place).unwrap();
        assert!(matches!(machine.call(&Request::Hello, DEADLINE), Ok(Reply::Hello(_))));
        machine
    }

    /// Returns the only snapshot.
    fn entry(&self) -> PathBuf {
        let entries = fs::read_dir(self.directory.path().join("cache/snapshots")).unwrap();
        let entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        entry.clone()
    }
}

/// Returns whether the machine came from a snapshot: QEMU was started with `-incoming`.
fn is_restored(machine: &Machine) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", machine.pid())).unwrap();
    line.split(|&byte| byte == 0).any(|word| word == b"-incoming")
}

fn probes(machine: &mut Machine) -> String {
    let read = Request::ReadFile { path: "kprobe_events".into(), max: 4096 };
    match machine.call(&read, DEADLINE).unwrap() {
        Reply::Data(data) => String::from_utf8(data).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn define_probe(machine: &mut Machine) {
    let write = Request::WriteFile {
        path: "kprobe_events".into(),
        data: b"p:left_behind vfs_read\n".to_vec(),
        mode: WriteMode::Append,
    };
    assert_eq!(machine.call(&write, DEADLINE).unwrap(), Reply::Done);
    assert!(probes(machine).contains("left_behind"));
}

#[test]
fn what_one_machine_does_is_not_in_the_next_nor_in_one_beside_it() {
    let setting = setting();
    let snapshots = setting.snapshots();
    let (mut first, mut second) = (setting.machine(&snapshots), setting.machine(&snapshots));
    assert!(is_restored(&first) && is_restored(&second));
    define_probe(&mut first);
    assert_eq!(probes(&mut second), "");
    drop(first);
    let mut third = setting.machine(&snapshots);
    assert_eq!(probes(&mut third), "");
}

#[test]
fn labs_that_need_the_same_snapshot_at_once_make_it_once() {
    let setting = setting();
    thread::scope(|scope| {
        let labs: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let machine = setting.machine(&setting.snapshots());
                    assert!(is_restored(&machine));
                })
            })
            .collect();
        for lab in labs {
            lab.join().unwrap();
        }
    });
    // Exactly one snapshot exists.
    setting.entry();
}

#[test]
fn memory_is_kept_without_its_zeros() {
    let setting = setting();
    drop(setting.machine(&setting.snapshots()));
    let ram = fs::metadata(setting.entry().join("ram")).unwrap();
    assert_eq!(ram.size(), 512 << 20);
    assert!(ram.blocks() * 512 < 100 << 20, "{} bytes on disk", ram.blocks() * 512);
}

/// Returns the guest's uptime.
fn uptime(machine: &mut Machine) -> Duration {
    let read = Request::ReadFile { path: "/proc/uptime".into(), max: 64 };
    match machine.call(&read, DEADLINE).unwrap() {
        Reply::Data(data) => {
            let text = String::from_utf8(data).unwrap();
            Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_that_slept_is_like_any_other_and_has_its_files_where_it_is_woken() {
    let setting = setting();
    let snapshots = setting.snapshots();
    let place = |name: &str| {
        let place = setting.directory.path().join(name);
        fs::create_dir(&place).unwrap();
        place
    };
    let (first, last) = (place("first"), place("last"));
    assert!(StandbyMachine::restore(&setting.spec, &snapshots, &first).is_none(), "there is no snapshot yet");
    let mut like = setting.machine(&snapshots);
    let like_uptime = uptime(&mut like);
    drop(like);
    let restoring = Instant::now();
    let mut asleep = StandbyMachine::restore(&setting.spec, &snapshots, &first).unwrap();
    let restored = restoring.elapsed();
    thread::sleep(Duration::from_secs(2));
    asleep.move_to(&last).unwrap();
    let woken = Instant::now();
    let mut machine = asleep.resume().unwrap();
    let uptime = uptime(&mut machine);
    assert!(is_restored(&machine));
    // A guest's clock never runs faster than the host's, and this one stood still until the guest was woken.
    let most = like_uptime + restored + woken.elapsed() + Duration::from_millis(20);
    assert!(uptime <= most, "the uptime is {uptime:?}, expected at most {most:?}");
    define_probe(&mut machine);
    machine.mark_console("marked");
    assert_eq!(machine.console(), "marked\n");
    let write = Request::WriteFile {
        path: "/dev/console".into(),
        data: b"said\n".to_vec(),
        mode: WriteMode::Truncate,
    };
    assert_eq!(machine.call(&write, DEADLINE).unwrap(), Reply::Done);
    drop(machine);
    assert_eq!(fs::read_to_string(last.join("console.txt")).unwrap().replace('\r', ""), "marked\nsaid\n");
    assert!(last.join("qemu.log").is_file());
    assert_eq!(fs::read_dir(&first).unwrap().count(), 0);
}

#[test]
fn one_that_is_never_woken_is_gone_when_it_is_dropped() {
    let setting = setting();
    let snapshots = setting.snapshots();
    drop(setting.machine(&snapshots));
    let place = tempfile::tempdir_in(setting.directory.path()).unwrap();
    let of_this = || {
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
        let path = setting.entry().into_os_string().into_string().unwrap();
        let runs = |line: &Vec<u8>| String::from_utf8_lossy(line).contains(&path);
        processes.filter_map(|line| fs::read(line).ok()).filter(runs).count()
    };
    let asleep = StandbyMachine::restore(&setting.spec, &snapshots, place.path()).unwrap();
    assert_eq!(of_this(), 1);
    drop(asleep);
    assert_eq!(of_this(), 0);
}

/// Checks that after `damage` to a snapshot's directory, the next lab restores a machine from a new
/// snapshot.
fn check_damaged(damage: impl FnOnce(&Path)) {
    let setting = setting();
    drop(setting.machine(&setting.snapshots()));
    let entry = setting.entry();
    // The inode number alone is not enough: a new file may reuse that of a removed one.
    let made = |entry: &Path| fs::metadata(entry.join("ram")).unwrap().created().unwrap();
    let first = made(&entry);
    damage(&entry);
    let machine = setting.machine(&setting.snapshots());
    assert!(is_restored(&machine));
    assert_ne!(made(&setting.entry()), first);
}

fn truncate(path: &Path, length: u64) {
    File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn a_truncated_state_is_made_again() {
    check_damaged(|entry| truncate(&entry.join("state"), 1000));
}

#[test]
fn truncated_memory_is_made_again() {
    check_damaged(|entry| truncate(&entry.join("ram"), 1 << 20));
}

#[test]
fn a_state_that_only_qemu_finds_damaged_is_made_again() {
    check_damaged(|entry| {
        let state = File::options().write(true).open(entry.join("state")).unwrap();
        let modified = state.metadata().unwrap().modified().unwrap();
        state.write_all_at(&[0xff; 4096], 0).unwrap();
        state.set_times(FileTimes::new().set_modified(modified)).unwrap();
    });
}

#[test]
fn memory_that_no_kernel_can_run_from_is_made_again() {
    check_damaged(|entry| {
        let ram = File::options().write(true).open(entry.join("ram")).unwrap();
        let modified = ram.metadata().unwrap().modified().unwrap();
        // This overwrites the kernel's text.
        ram.write_all_at(&vec![0; 24 << 20], 0).unwrap();
        ram.set_times(FileTimes::new().set_modified(modified)).unwrap();
    });
}

#[test]
fn where_no_snapshot_can_be_kept_machines_boot() {
    let setting = setting();
    let snapshots = setting.snapshots();
    // A file in place of the directory of snapshots.
    fs::write(setting.directory.path().join("cache/snapshots"), "").unwrap();
    for _ in 0..2 {
        assert!(!is_restored(&setting.machine(&snapshots)));
    }
}

#[test]
fn whatever_shapes_a_machine_is_in_the_key_of_its_snapshot() {
    let setting = setting();
    let snapshots = setting.snapshots();
    let key = |change: fn(&mut MachineSpec)| {
        let mut spec = setting.spec.clone();
        change(&mut spec);
        snapshots.key(&spec).unwrap()
    };
    let same = key(|_| {});
    assert_eq!(same, key(|_| {}));
    assert_ne!(same, key(|spec| spec.cmdline.push("ftrace=function".into())));
    assert_ne!(same, key(|spec| spec.memory = "1G".into()));
    assert_ne!(same, key(|spec| spec.cpus = 1));
    assert_ne!(same, key(|spec| spec.initramfs = spec.image.clone()));
    let image = setting.directory.path().join("Image");
    let key_of_image = |content: &str| {
        fs::write(&image, content).unwrap();
        snapshots.key(&MachineSpec { image: image.clone(), ..setting.spec.clone() }).unwrap()
    };
    assert_ne!(key_of_image("one"), key_of_image("other"));
}
