//! Robustness of runs: kills, full and read-only disks, corrupt caches, many scenarios, hostile files
//! and guests. Each is provoked for real; afterwards no results are lost and the next run works.

use crate::{
    mount::Mount,
    patience::wait_for,
    slow_tree::SlowTree,
    stage::{
        TRIVIAL, UNSUPPORTED, cache, check, kill_hard, labels, run, run_directory, said, scenarios, scratch,
        share_host, stored, whole_host,
    },
};
use lab::{cache::Cache, progress::Progress, results::Status};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

#[test]
fn a_run_killed_hard_leaves_what_it_found_and_the_next_one_works() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let three = scenarios(directory.path(), [("a", UNSUPPORTED), ("b", TRIVIAL), ("c", TRIVIAL)]);
    let mut lab = run(&results, &three).args(["--jobs", "1"]).spawn().unwrap();
    let killed = wait_for("run", || run_directory(&results));
    let half = || {
        let entries = fs::read_dir(killed.join("6.12")).ok()?.flatten();
        entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(".partial-"))
    };
    // While the second machine works, the first has finished.
    let half = wait_for("second machine", || (stored(&killed)?.scenarios.len() >= 2).then(half).flatten());
    kill_hard(&mut lab);
    let found = stored(&killed).unwrap();
    assert!(!found.run.complete);
    assert_eq!(found.scenarios.len(), 2);
    assert!(half.exists() && !results.join("latest").exists());
    check(&mut run(&results, &three), 0, &["2 passed", "1 unsupported"]);
    assert!(!half.exists(), "the incomplete directory was not removed");
    assert_eq!(labels(&stored(&killed).unwrap().scenarios), labels(&found.scenarios));
    assert_eq!(stored(&results.join("latest")).unwrap().scenarios.len(), 3);
}

#[test]
fn a_kernel_build_killed_hard_goes_on_the_next_time() {
    let _host = share_host();
    let directory = scratch();
    let tree = SlowTree::new(directory.path());
    let cache = cache(directory.path(), &["builds"], true);
    let mut lab = tree.build(&cache).spawn().unwrap();
    let make = tree.wait_for_make(&mut lab);
    kill_hard(&mut lab);
    wait_for("end of make", || (!Path::new(&format!("/proc/{make}")).exists()).then_some(()));
    tree.finish();
    let output = check(&mut tree.build(&cache), 0, &["6.12.1"]);
    let vmlinux =
        said(&output).lines().find_map(|line| Some(line.strip_prefix("vmlinux")?.trim().to_owned()));
    assert_eq!(fs::read_to_string(vmlinux.unwrap()).unwrap(), "vmlinux\n");
}

#[test]
fn a_full_cache_is_said_and_the_next_run_works() {
    let _host = share_host();
    let directory = scratch();
    let Some(mount) = Mount::tmpfs(&directory.path().join("cache"), "size=512k") else { return };
    let cache = cache(directory.path(), &["workloads", "initramfs"], true);
    let trivial = scenarios(directory.path(), [("a", TRIVIAL)]);
    let lab = || {
        let mut lab = run(&directory.path().join("results"), &trivial);
        lab.env("FTRACE_LAB_CACHE", &cache);
        lab
    };
    check(&mut lab(), 3, &["No space left on device", &*cache.to_string_lossy()]);
    let left = Command::new("find").arg(&cache).args(["-name", ".making-*"]).output().unwrap();
    assert_eq!(said(&left), "");
    mount.change("size=64m");
    check(&mut lab(), 0, &["1 passed"]);
}

#[test]
fn a_results_directory_that_is_read_only_is_said() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let Some(mount) = Mount::tmpfs(&results, "size=64m") else { return };
    mount.change("ro");
    let trivial = scenarios(directory.path(), [("a", TRIVIAL)]);
    check(&mut run(&results, &trivial), 3, &["Read-only file system", &*results.to_string_lossy()]);
    mount.change("rw");
    check(&mut run(&results, &trivial), 0, &["1 passed"]);
}

#[test]
fn a_disk_that_fills_in_the_middle_of_a_run_ends_it_with_what_was_found() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    // Room for the files of two or three scenarios.
    let Some(_mount) = Mount::tmpfs(&results, "size=2800k") else { return };
    let many = scenarios(directory.path(), (0..6).map(|number| (format!("s{number}"), TRIVIAL)));
    check(run(&results, &many).args(["--jobs", "1"]), 3, &["No space left on device", "s0 on 6.12"]);
    let found = stored(&run_directory(&results).unwrap()).unwrap();
    let passed = found.scenarios.iter().filter(|result| result.status == Status::Passed);
    assert!(passed.count() >= 1, "{:?}", labels(&found.scenarios));
    assert!(found.scenarios.iter().all(|result| matches!(result.status, Status::Passed | Status::LabError)));
}

#[test]
fn damaged_cache_entries_are_made_again() {
    let _host = share_host();
    let directory = scratch();
    let cache = cache(directory.path(), &["agent", "workloads", "initramfs", "times.json"], false);
    fs::write(cache.join("times.json"), "{\"6.12\": [").unwrap();
    for kind in ["agent", "workloads", "initramfs"] {
        for entry in fs::read_dir(cache.join(kind)).unwrap().flatten() {
            for file in fs::read_dir(entry.path()).unwrap().flatten() {
                if !file.file_name().to_string_lossy().starts_with('.') {
                    fs::write(file.path(), "damage").unwrap();
                }
            }
        }
    }
    let mut lab = run(&directory.path().join("results"), Path::new("probes/eventfd-write"));
    let output =
        check(lab.env("FTRACE_LAB_CACHE", &cache), 0, &["1 passed", "building the workload eventfd"]);
    assert!(said(&output).contains("building the agent"), "{}", said(&output));
    assert!(fs::read_to_string(cache.join("times.json")).unwrap().contains("probes/eventfd-write"));
}

/// Reads the results of a run continuously while it is running; returns the number of successful reads.
fn poll(lab: &mut Child, results: &Path) -> u32 {
    let (mut reads, mut most) = (0, 0);
    while lab.try_wait().unwrap().is_none() {
        if let Some(found) = run_directory(results).and_then(|run| stored(&run)) {
            assert!(found.scenarios.len() >= most, "results were lost");
            most = found.scenarios.len();
            reads += 1;
        }
    }
    reads
}

#[test]
fn two_hundred_scenarios_with_eight_jobs_end_in_order_and_no_reader_sees_half_a_file() {
    let _host = whole_host();
    let directory = scratch();
    let results = directory.path().join("results");
    // Eight machines at once, however many CPUs there are; the other scenarios take no time.
    let yaml = |number: u32| if number.is_multiple_of(25) { TRIVIAL } else { UNSUPPORTED };
    let many = (0..200).map(|number| (format!("s{number:03}"), yaml(number)));
    let many = scenarios(directory.path(), many);
    let mut lab = run(&results, &many).args(["--jobs", "8"]).spawn().unwrap();
    let reads = poll(&mut lab, &results);
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(reads > 20, "results were read only {reads} times");
    let found = stored(&results.join("latest")).unwrap();
    assert!(found.run.complete);
    assert_eq!((found.count(Status::Passed), found.count(Status::Unsupported)), (8, 192));
    let names: Vec<_> = (0..200).map(|number| format!("s{number:03}")).collect();
    assert_eq!(labels(&found.scenarios), names);
    let told = said(&output);
    let told: Vec<_> =
        told.lines().filter_map(|line| line.split_once(" on 6.12 (")?.0.split(' ').next_back()).collect();
    assert_eq!(told, names);
}

#[test]
fn a_guest_that_floods_its_output_console_or_port_is_capped_and_named() {
    let _host = whole_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let floods = scenarios(
        directory.path(),
        [
            ("console", "summary: x\nsteps: [workload: flood /dev/console 100000]\n"),
            ("endless", "summary: x\ntimeout: 4s\nsteps: [workload: flood - 0]\n"),
            ("port", "summary: x\nsteps: [workload: flood port 0]\n"),
            ("stdout", "summary: x\nsteps: [workload: flood - 4000000]\n"),
        ],
    );
    check(&mut run(&results, &floods), 1, &["2 passed", "1 hang", "1 lost guest", "over the cap"]);
    let of = |scenario: &str| results.join("latest/6.12").join(scenario);
    assert!(fs::metadata(of("console").join("console.txt")).unwrap().len() >= 100_000);
    let stdout = fs::read_to_string(of("stdout").join("steps/1-stdout.txt")).unwrap();
    assert!(stdout.len() < 300_000, "{} bytes were kept", stdout.len());
    assert!(stdout.ends_with("more bytes of output were dropped]\n"));
    for scenario in ["endless", "port"] {
        for file in fs::read_dir(of(scenario)).unwrap().flatten() {
            assert!(file.metadata().unwrap().len() < 10 << 20, "{}", file.path().display());
        }
    }
}

#[test]
fn hostile_scenario_files_are_refused() {
    let directory = scratch();
    let refused = |name: &str, content: &[u8], expect: &[&str]| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        check(&mut run(directory.path(), &path), 2, expect);
        fs::remove_file(&path).unwrap();
    };
    refused("large.yaml", &vec![b'#'; 10 << 20], &["large.yaml", "at most 1 MiB"]);
    let mut bomb = String::from("summary: x\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let one = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", [one.as_str(); 9].join(", "));
    }
    refused("bomb.yaml", bomb.as_bytes(), &["bomb.yaml"]);
    refused("deep.yaml", format!("summary: {}", "[".repeat(100_000)).as_bytes(), &["deep.yaml", "brackets"]);
    refused("nul.yaml", b"summary: \0\n", &["nul.yaml"]);
    refused("latin1.yaml", b"summary: \xe4\n", &["latin1.yaml", "line 1 is not UTF-8"]);
    for name in ["a..b.yaml", "\u{1b}[2J.yaml", "new\nline.yaml", "a b.yaml", "a@3.yaml"] {
        refused(name, TRIVIAL.as_bytes(), &["bad character in the name"]);
    }
}

#[test]
fn a_terminal_is_never_written_control_characters_of_a_file() {
    let directory = scratch();
    let yaml = "summary: x\nsteps:\n  - wr\\e[2Jite: \u{9b}2J\n    \"\\e]0;title\\a\": x\n";
    let path = scenarios(directory.path(), [("a", TRIVIAL)]).join("b.yaml");
    fs::write(&path, yaml).unwrap();
    let output = check(&mut run(directory.path(), &path), 2, &["b.yaml"]);
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!said(&output).contains(control), "{:?}", said(&output));
}

#[test]
fn a_lab_without_privileges_runs_with_a_cache_of_its_own() {
    let _host = share_host();
    // Below /tmp, since other users may not be able to reach this checkout.
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let real = Cache::open(&Progress::silent()).unwrap();
    let mut copy = Command::new("sh");
    copy.args(["-ec", UNPRIVILEGED_COPY, "sh"]).arg(real.root()).arg(place);
    copy.arg(env!("CARGO_BIN_EXE_xtask"));
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    let trivial = scenarios(place, [("a", TRIVIAL)]);
    let output = copy.output().unwrap();
    if !output.status.success() {
        eprintln!("unsupported: only root can change the owner of a cache: {}", said(&output));
        return;
    }
    // The user's own compiler and toolchains: bind mounts instead of copies, to save space.
    let toolchains = ("toolchains", real.root().join("toolchains"));
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let rust = ("rust", PathBuf::from(said(&sysroot).trim()));
    let _bound = [toolchains, rust].map(|(name, from)| {
        let at = if name == "rust" { place.join(name) } else { place.join("own/cache").join(name) };
        from.is_dir().then(|| Mount::bind(&from, &at).unwrap())
    });
    let mut lab = Command::new("setpriv");
    lab.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    lab.arg(place.join("xtask"))
        .args(["lab", "run", "--results"])
        .arg(place.join("own/results"))
        .arg(trivial);
    lab.env("FTRACE_LAB_CACHE", place.join("own/cache")).env("HOME", place.join("own")).stdin(Stdio::null());
    lab.env("RUSTC", place.join("rust/bin/rustc")).env("CARGO", place.join("rust/bin/cargo"));
    check(&mut lab, 0, &["1 passed"]);
    let owned = fs::metadata(place.join("own/results/latest/results.json")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&owned), 65534);
}

/// Copies what a run reads of a cache, owned by user nobody. The kernel is already built, so its source
/// needs only its manifest and its Makefile, which has the version.
const UNPRIVILEGED_COPY: &str = r#"
[ "$(id -u)" = 0 ]
mkdir -p "$2/own/cache/sources" "$2/own/cache/builds"
cp "$3" "$2/xtask"
cd "$1"
cp -a agent initramfs workloads tools "$2/own/cache"
cp -a sources/*.resolved "$2/own/cache/sources"
for source in sources/*/tree; do
    entry=${source%/tree}
    mkdir -p "$2/own/cache/$source"
    cp -a "$entry/.manifest" "$2/own/cache/$entry"
    cp -a "$source/Makefile" "$2/own/cache/$source"
done
for build in builds/6.12-*; do
    mkdir -p "$2/own/cache/$build/output/arch/arm64/boot"
    cp -a "$build/stamp.json" "$2/own/cache/$build"
    (cd "$build/output" && find . -name '*.ko' -o -name .config -o -name System.map -o -name vmlinux \
        -o -name Image -o -name Module.symvers -o -name modules.order) |
        while read -r file; do
            mkdir -p "$2/own/cache/$build/output/$(dirname "$file")"
            cp -a "$build/output/$file" "$2/own/cache/$build/output/$file"
        done
done
chown -R 65534:65534 "$2/own"
"#;
