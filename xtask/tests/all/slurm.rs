//! A fleet of Slurm's: a real cluster on this host runs all parts of two kernels, one of which is killed.

use crate::{
    cluster::Cluster,
    patience::wait_for,
    stage::{cache, check, run_directory, said, scratch, stored, whole_host, xtask},
};
use std::{collections::BTreeSet, fs, thread, time::Duration};

/// What runs on two kernels, the second of which is not built: it is Debian's.
const PLAN: [&str; 8] =
    ["--kernel", "6.12", "--kernel", "debian-13", "--shards", "2", "--filter", "^probes/(e|r)"];

#[test]
fn a_job_array_with_a_killed_task_ends_in_a_complete_report() {
    let _host = whole_host();
    let place = scratch();
    let at = |name: &str| place.path().join(name);
    let short = tempfile::tempdir().unwrap();
    let output = check(xtask().args(["lab", "matrix", "--engine", "slurm"]).args(PLAN), 0, &["#SBATCH"]);
    let script = String::from_utf8(output.stdout).unwrap();
    assert!(script.contains("#SBATCH --array=0-3\n"), "{script}");
    let own = script.replace("cargo xtask", env!("CARGO_BIN_EXE_xtask"));
    assert_ne!(own, script);
    fs::write(at("fleet.sh"), own).unwrap();
    let cache = cache(place.path(), &["times.json"], true);

    let cluster = Cluster::start(short.path());
    let submit = |arguments: &[&str]| {
        let mut submit = cluster.command("sbatch", &["--parsable"]);
        submit.args(arguments).arg("fleet.sh").current_dir(place.path()).env("FTRACE_LAB_CACHE", &cache);
        let output = check(&mut submit, 0, &[]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let job = submit(&[]);
    let task = format!("{job}_1");
    let killed = at("parts/6.12-2-of-2");
    wait_for("first result of part 2/2", || stored(&run_directory(&killed)?));
    cluster.said("scancel", &[&task]);
    wait_for("end of the killed task", || (cluster.of_task(&task, "JobState") == "CANCELLED").then_some(()));
    let interrupted = stored(&run_directory(&killed).unwrap()).unwrap();
    assert!(!interrupted.run.complete, "it ended before it was killed");
    cluster.said("scontrol", &["requeue", &task]);
    // Slurm would leave the machine two minutes to recover.
    cluster.said("scontrol", &["update", &format!("JobId={task}"), "StartTime=now"]);
    let finish = || {
        while !cluster.said("squeue", &["--noheader"]).is_empty() {
            thread::sleep(Duration::from_millis(200));
        }
    };
    finish();
    assert_eq!(cluster.of_task(&task, "Restarts"), "1");
    for task in (0..4).map(|number| format!("{job}_{number}")) {
        let log = fs::read_to_string(at(&format!("slurm-{task}.out"))).unwrap();
        assert_eq!(cluster.of_task(&task, "JobState"), "COMPLETED", "{task}: {log}");
    }

    // The command is in the script.
    let line = script.lines().find(|line| line.contains(" merge parts ")).unwrap();
    let arguments = line.split_once("cargo xtask ").unwrap().1;
    let merge = |into: &str, code: i32, expect: &[&str]| {
        let mut merge = xtask();
        merge.args(arguments.split(' ')).args(["--into", into]);
        said(&check(merge.current_dir(place.path()), code, expect))
    };
    merge("report", 0, &["was interrupted after ", " counts instead\n", " 0 failed"]);
    let report = stored(&at("report")).unwrap();
    assert!(report.run.complete);
    let names = |kernel: &str| -> BTreeSet<_> {
        let results = report.scenarios.iter().filter(|result| result.kernel == kernel);
        results.map(|result| result.name.clone()).collect()
    };
    assert!(names("6.12").len() > 5 && names("6.12") == names("debian-13"), "{report:?}");
    assert_eq!(report.scenarios.len(), 2 * names("6.12").len());

    // A lost machine leaves a part that is missing, and one command runs it.
    fs::rename(at("parts/debian-13-1-of-2"), at("lost")).unwrap();
    let said = merge("incomplete", 3, &["incomplete: part 1/2 of ", ", of debian-13, is missing\n"]);
    let again = said.lines().find_map(|line| line.strip_prefix("  run it: cargo ")).unwrap();
    let again = format!("\"$XTASK\" {}", again.strip_prefix("xtask ").unwrap());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &again]).env("XTASK", env!("CARGO_BIN_EXE_xtask")).env("FTRACE_LAB_CACHE", &cache);
    check(shell.current_dir(place.path()), 0, &[" 0 failed"]);
    merge("complete", 0, &[" 0 failed"]);
    // So does its number in the array.
    fs::remove_dir_all(at("parts/6.12-1-of-2")).unwrap();
    submit(&["--array=0"]);
    finish();
    merge("complete-again", 0, &[" 0 failed"]);
    assert_eq!(stored(&at("complete-again")).unwrap().scenarios.len(), report.scenarios.len());
}
