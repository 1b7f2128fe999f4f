//! A failure, from the run that writes its `repro.yaml` to its reproduction from that file alone.

use crate::stage::{TRIVIAL, UNSUPPORTED, check, labels, run, scenarios, scratch, share_host, stored, xtask};
use lab::reproducer::{Broken, FILE, Reproducer};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Fails its second expectation, and has parts that this failure does not need.
const FAILING: &str = "summary: six values are seen where five are written
trace:
  events:
    - { kprobe: eventfd_write, name: efd_write }
    - { kprobe: vfs_read, name: unneeded }
steps:
  - read: trace_clock
  - workload: eventfd --sleep 0 1 2 4
  - workload: eventfd --sleep 0 7 14
  - read: kprobe_events
expect:
  - count: { event: efd_write, is: 5 }
  - count: { event: efd_write, is: 6 }
";

/// Panics in one of the lab's modules.
const DYING: &str = "summary: a module's death is survived
steps:
  - { load: deaths, parameters: now=panic }
";

/// Loads its own module, whose init fails.
const REFUSING: &str = "summary: a module is loaded
steps:
  - module: { source: ../mine }
";

/// Runs its own workload, which exits with a status from a header beside it.
const EXITING: &str = "summary: a program of its own is run
steps:
  - workload: { source: ../mine.c, arguments: one 'two three' }
    stdout: \"two three, 3 words\"
";

/// Runs `yaml`, which fails, along with scenarios that do not, and returns its reproducer.
fn failed(directory: &Path, yaml: &'static str) -> PathBuf {
    let results = directory.join("results");
    let scenarios = scenarios(directory, [("failing", yaml), ("fine", TRIVIAL), ("later", UNSUPPORTED)]);
    check(&mut run(&results, &scenarios), 1, &["reproduce: cargo xtask lab repro", FILE]);
    let found = stored(&results.join("latest")).unwrap().scenarios;
    assert_eq!(labels(&found), ["failing", "fine", "later"]);
    let [result, others @ ..] = &found[..] else { panic!("{found:?}") };
    assert_eq!(result.reproducer.as_deref(), Some(FILE), "{:?}", result.notes);
    assert!(others.iter().all(|other| other.reproducer.is_none()), "{others:?}");
    assert!(!results.join("latest/6.12/fine").join(FILE).exists());
    // Without the other files of the run, as if it had been sent to someone.
    let file = directory.join("sent.yaml");
    fs::copy(results.join("latest").join(&result.directory).join(FILE), &file).unwrap();
    for gone in [results, scenarios] {
        fs::remove_dir_all(gone).unwrap();
    }
    file
}

/// Returns a command that runs a reproducer, with its own results.
fn repro(file: &Path) -> Command {
    let mut command = xtask();
    let results = file.parent().unwrap().join("other");
    command.args(["lab", "repro"]).arg(file).arg("--results").arg(results);
    command
}

/// Writes a changed copy of a reproducer.
fn changed(file: &Path, change: impl FnOnce(&mut Reproducer)) -> PathBuf {
    let mut reproducer = Reproducer::read(file).unwrap();
    let before = reproducer.clone();
    change(&mut reproducer);
    assert_ne!(reproducer, before, "nothing was changed");
    let path = file.with_file_name("changed.yaml");
    reproducer.write(&path).unwrap();
    path
}

#[test]
fn a_failure_happens_again_from_its_file_alone_and_a_change_is_told() {
    let _host = share_host();
    let directory = scratch();
    let file = failed(directory.path(), FAILING);
    check(repro(&file).args(["--repeat", "2"]), 0, &["reproduced: expectation 2", "reproduced 2 of 2"]);
    let again = stored(&directory.path().join("other/latest")).unwrap();
    assert_eq!(again.scenarios.len(), 2);
    // As if the bug were fixed.
    let fixed = changed(&file, |repro| repro.scenario = repro.scenario.replace("is: 6", "is: 5"));
    check(&mut repro(&fixed), 11, &["passes"]);
    let other = changed(&file, |repro| repro.scenario = repro.scenario.replacen("is: 5", "is: 4", 1));
    check(&mut repro(&other), 10, &["fails differently: was expectation 2", "now expectation 1"]);
    let lacking = "requires: { kernel: '>=99' }\n";
    let lacking = changed(&file, |repro| repro.scenario.push_str(lacking));
    check(&mut repro(&lacking), 12, &["unsupported"]);
    // The workload is that of the file, not that of the checkout.
    let workload = changed(&file, |repro| {
        let source = repro.files.get_mut("guest/workloads/eventfd.c").unwrap();
        *source = source.replace("for (; *numbers; numbers++)", "for (; *numbers && numbers[1]; numbers++)");
    });
    check(&mut repro(&workload), 10, &["fails differently", "found 3, expected exactly 5"]);
}

#[test]
fn what_a_failure_does_not_need_is_dropped_from_its_file() {
    let _host = share_host();
    let directory = scratch();
    let file = failed(directory.path(), FAILING);
    let smaller = directory.path().join("smaller.yaml");
    let minimize = |file: &Path| {
        let mut command = xtask();
        command.args(["lab", "minimize"]).arg(file).arg("--output").arg(&smaller);
        command
    };
    let told = [
        "dropped steps[1]",
        "dropped steps[4]",
        "dropped trace.events[2]",
        "dropped expect[1]",
        "4 dropped in",
    ];
    check(&mut minimize(&file), 0, &told);
    let found = Reproducer::read(&smaller).unwrap();
    let scenario = found.scenario(Path::new("s.yaml")).unwrap();
    // Dropping one of the workloads also breaks the expectation, but with a different count.
    assert_eq!((scenario.steps.len(), scenario.trace.events.len(), scenario.expect.len()), (2, 1, 1));
    assert!(scenario.steps.iter().all(|step| step.verb() == "workload"), "{:?}", scenario.steps);
    assert!(matches!(found.verdict.broken, Broken::Expectation(item) if item.number == 1));
    check(&mut repro(&smaller), 0, &["reproduced: expectation 1"]);
    let fixed = changed(&file, |repro| repro.scenario = repro.scenario.replace("is: 6", "is: 5"));
    fs::remove_file(&smaller).unwrap();
    check(&mut minimize(&fixed), 3, &["did not recur"]);
    assert!(!smaller.exists());
}

#[test]
fn modules_come_with_the_file() {
    let _host = share_host();
    let directory = scratch();
    let file = failed(directory.path(), DYING);
    let found = Reproducer::read(&file).unwrap();
    assert!(found.files.contains_key("guest/modules/deaths/deaths.c"));
    assert!(!found.files.keys().any(|path| path.contains("ftracehook")), "{:?}", found.files.keys());
    check(&mut repro(&file), 0, &["reproduced: ", "panic"]);
    let mine = directory.path().join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("Kbuild"), "obj-m := mine.o\n").unwrap();
    let source = "#include <linux/module.h>\nstatic int __init mine_init(void)\n{\n\treturn -EPERM;\n}\n\
                  module_init(mine_init);\nMODULE_LICENSE(\"GPL\");\nMODULE_DESCRIPTION(\"no\");\n";
    fs::write(mine.join("mine.c"), source).unwrap();
    let file = failed(directory.path(), REFUSING);
    fs::remove_dir_all(&mine).unwrap();
    check(&mut repro(&file), 0, &["reproduced: step 1, `module: { source: modules/mine }`", "EPERM"]);
    let other = changed(&file, |repro| {
        let source = repro.files.get_mut("modules/mine/mine.c").unwrap();
        *source = source.replace("EPERM", "EBUSY");
    });
    check(&mut repro(&other), 10, &["fails differently: the same check fails differently", "EBUSY"]);
}

#[test]
fn workloads_come_with_the_file() {
    let _host = share_host();
    let directory = scratch();
    let at = |name: &str| directory.path().join(name);
    let source = "#include <stdio.h>\n#include \"mine.h\"\nint main(int count, char **words)\n{\n\t\
                  printf(\"%s, %d words\\n\", words[2], count);\n\treturn STATUS;\n}\n";
    fs::write(at("mine.c"), source).unwrap();
    fs::write(at("mine.h"), "#define STATUS 7\n").unwrap();
    let file = failed(directory.path(), EXITING);
    fs::remove_file(at("mine.c")).unwrap();
    fs::remove_file(at("mine.h")).unwrap();
    let says = "reproduced: step 1, `workload: { source: workloads/mine/mine.c, arguments: ";
    check(&mut repro(&file), 0, &[says, "found exit status 7"]);
}

#[test]
fn what_is_no_reproducer_is_usage_and_builds_nothing() {
    let directory = scratch();
    let file = directory.path().join("hostile.yaml");
    for (text, expect) in [
        ("summary: s\nsteps: [read: x]\n", "unknown field `summary`"),
        ("schema: [", "cannot use the reproducer"),
        ("a: &a [x, x]\nb: [*a, *a]\n", "unknown field `a`"),
    ] {
        fs::write(&file, text).unwrap();
        for verb in ["repro", "minimize"] {
            check(xtask().args(["lab", verb]).arg(&file), 2, &[expect]);
        }
    }
    check(xtask().args(["lab", "repro", "none.yaml"]), 2, &["none.yaml"]);
}
