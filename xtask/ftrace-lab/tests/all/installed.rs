//! `ftrace-lab` where there is no checkout of it: follows docs/your-module.md and the examples like a user, on the real
//! kernel of Debian 13, and checks modules with defects.

use crate::common::{ROOT, Repository, said};
use checkers::page::{Reader, follow};
use serde_yaml::Value;
use std::{fs, path::Path};

#[test]
fn a_module_is_tested_as_the_page_says() {
    let (ran, compared) = follow(&Path::new(ROOT).join("docs/your-module.md"), &Repository::of(None));
    assert!(ran >= 5 && compared >= 5, "{ran} commands ran, {compared} outputs were compared");
}

#[test]
fn the_page_shows_the_example() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/your-module.md")).unwrap();
    for name in ["watch.c", "Kbuild"] {
        let file = fs::read_to_string(Path::new(ROOT).join("examples/hook").join(name)).unwrap();
        assert!(page.contains(&file), "{name}");
    }
}

#[test]
fn each_example_does_what_its_readme_says() {
    for name in ["hook", "kprobe-tree", "tracer"] {
        let repository = Repository::of(Some(name));
        let page = Path::new(ROOT).join("examples").join(name).join("README.md");
        assert_eq!(follow(&page, &repository), (1, 1), "{name}");
        let begun = repository.sh("ftrace-lab new area/more && grep schema= scenarios/area/more.yaml");
        assert!(said(&begun).contains("$schema=../../results/schema/scenario.json"), "{}", said(&begun));
        let checked = repository.sh("ftrace-lab check && cat results/.gitignore");
        assert!(checked.status.success() && said(&checked).ends_with("*\n"), "{name}: {}", said(&checked));
    }
}

/// What it breaks, the check that finds it and a kernel on which it does, an edit of examples/hook/watch.c, and
/// what is said.
const DEFECTS: [[&str; 5]; 12] = [
    [
        "an object is leaked",
        "hundred on debian-13",
        "int err = ",
        "int err = kmalloc(64, GFP_KERNEL) ? 0 : -ENOMEM;\n\n\terr = ",
        "objects of kmalloc are left",
    ],
    [
        "a reference is kept",
        "loads on debian-13",
        "\treturn err;\n}\n\nstatic void __exit",
        "\t__module_get(THIS_MODULE);\n\treturn err;\n}\n\nstatic void __exit",
        "EAGAIN",
    ],
    [
        "a symbol is not exported",
        "builds on debian-13",
        "int err = ",
        "int err = kallsyms_lookup_name(function) ? 0 : -ENOENT;\n\n\terr = ",
        "kallsyms_lookup_name",
    ],
    [
        "memory is written to after it was freed",
        "used on debian-13",
        "\tatomic_long_inc(&calls);",
        "\tstatic long *last;\n\n\tif (!last)\n\t\tkfree(last = kmalloc(64, GFP_NOWAIT));\n\t*last = ip;",
        "Poison overwritten",
    ],
    [
        "its hook is not unregistered",
        "loads on debian-13",
        "{\n\tunregister_ftrace_function(&ops);\n\tftrace_free_filter(&ops);\n}",
        "{\n}",
        "Unable to handle kernel paging request",
    ],
    [
        // Debian's kernel does not count where it must not sleep.
        "its callback sleeps",
        "used on 6.12",
        "\tatomic_long_inc(&calls);",
        "\tpreempt_disable_notrace();\n\tmsleep(1);\n\tpreempt_enable_notrace();",
        "scheduling while atomic",
    ],
    [
        "a file is left",
        "loads on debian-13",
        "int err = ",
        "int err = debugfs_create_dir(\"watch\", NULL) ? 0 : -ENOMEM;\n\n\terr = ",
        "left behind: /sys/kernel/debug/watch",
    ],
    [
        "it taints the kernel",
        "loads on debian-13",
        "int err = ",
        "int err = (add_taint(TAINT_WARN, LOCKDEP_STILL_OK), 0);\n\n\terr = ",
        "the kernel is tainted: 512",
    ],
    [
        "it conflicts with a livepatch",
        "livepatch on debian-13",
        ".func = on_call",
        ".func = on_call, .flags = FTRACE_OPS_FL_IPMODIFY",
        "EBUSY",
    ],
    [
        "what it hooks is not called",
        "used on debian-13",
        "= \"eventfd_write\"",
        "= \"eventfd_poll\"",
        "not called on CPU 0: eventfd_poll",
    ],
    [
        "its function is inlined",
        "loads on debian-13",
        "= \"eventfd_write\"",
        "= \"eventfd_ctx_do_write\"",
        "EINVAL",
    ],
    [
        "its callback has the wrong type",
        "builds on debian-13",
        "struct ftrace_ops *ops,\n\t\t\t    struct ftrace_regs *fregs)",
        "struct ftrace_ops *ops)",
        "incompatible",
    ],
];

#[test]
fn defects_of_a_module_in_use_are_found() {
    defects_are_found(|check| check == "used");
}

#[test]
fn defects_of_a_module_that_is_not_used_are_found() {
    defects_are_found(|check| check != "used");
}

fn defects_are_found(by: impl Fn(&str) -> bool) {
    let repository = Repository::of(Some("hook"));
    let file = repository.path.join("watch.c");
    let headers = "#include <linux/debugfs.h>\n#include <linux/delay.h>\n#include <linux/kallsyms.h>\n#include <linux/module.h>\n#include <linux/slab.h>";
    let whole = fs::read_to_string(&file).unwrap().replace("#include <linux/module.h>", headers);
    for [what, finds, from, to, expect] in DEFECTS {
        let (check, kernel) = finds.split_once(" on ").unwrap();
        if !by(check) {
            continue;
        }
        assert!(whole.contains(from), "{what}");
        fs::write(&file, whole.replacen(from, to, 1)).unwrap();
        let others =
            ["loads", "twice", "used", "hundred", "livepatch"].iter().filter(|other| **other != check);
        let without: String = others.map(|other| format!(" --without {other}")).collect();
        // What does not build fails before any check.
        let without = if check == "builds" { "" } else { &without };
        let output = repository.sh(&format!("ftrace-lab module . --kernel {kernel}{without}"));
        let said = said(&output);
        assert!(output.status.code() == Some(1) && said.contains(expect), "{what}: {said}");
        let reproduce = format!("\n{finds}: ftrace-lab repro ");
        let reproducer = said.split_once(&reproduce).and_then(|(_, rest)| rest.lines().next());
        let is_there = reproducer.is_some_and(|path| Path::new(path).is_file());
        assert!(is_there || check == "builds" && said.contains(&format!("{finds}\n")), "{what}: {said}");
    }
}

/// Programs of a user's, and the files that they consist of.
const PROGRAMS: [(&str, &[(&str, &str)]); 2] = [
    (
        "cargo build --release",
        &[
            ("Cargo.toml", "[package]\nname = \"events\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"),
            (
                "src/main.rs",
                "fn main() {\n    let events = std::fs::read_to_string(\"/sys/kernel/tracing/set_event\").unwrap();\n    \
                 println!(\"{} are enabled\", events.lines().count());\n}\n",
            ),
        ],
    ),
    (
        "make LDFLAGS=-static",
        &[
            ("Makefile", "CC = gcc\n\nevents: events.o util.o\n"),
            ("events.c", "int enabled(void);\n\nint main(void)\n{\n\treturn enabled();\n}\n"),
            ("util.c", "int enabled(void)\n{\n\treturn 0;\n}\n"),
        ],
    ),
];

#[test]
fn programs_are_built_by_their_own_commands() {
    for (command, files) in PROGRAMS {
        let repository = Repository::of(None);
        files.iter().for_each(|(path, text)| repository.write(path, text));
        let output = repository.sh("ftrace-lab init && ftrace-lab run && cat ftrace-lab.yaml");
        let said = said(&output);
        let written = format!("events: {{ source: ., build: {command} }}");
        assert!(output.status.success() && said.contains("1 passed") && said.contains(&written), "{said}");
    }
}

#[test]
fn a_program_that_cannot_run_in_a_guest_is_refused() {
    let repository = Repository::of(None);
    let (_, files) = PROGRAMS[1];
    files.iter().for_each(|(path, text)| repository.write(path, text));
    let check = |build: &str, expect: &str| {
        let project = format!(
            "version: 1\nkernels: [debian-13]\nworkloads:\n  events: {{ source: ., build: '{build}' }}\n"
        );
        repository.write("ftrace-lab.yaml", &project);
        repository.write("scenarios/first.yaml", "summary: it runs\nsteps: [workload: events]\n");
        let output = repository.sh("ftrace-lab run");
        let said = said(&output);
        assert!(output.status.code() == Some(3) && said.contains(expect), "{said}");
    };
    check("make", "`events`, which needs a dynamic linker; link it with `-static`");
    check("gcc -static -o events events.c util.c", "`events`, which is not for arm64");
    check("make events.o", "made no program `events`");
    check("make nothing", "No rule to make target 'nothing'");
}

/// The steps of action.yml that run commands, in order: each with its environment and command.
fn steps_of_the_action(directory: &str, released: &Path) -> Vec<(Vec<(String, String)>, String)> {
    let text = fs::read_to_string(Path::new(ROOT).join("action.yml")).unwrap();
    let action: Value = serde_yaml::from_str(&text).unwrap();
    let inputs = |text: &Value| {
        let text = text.as_str().unwrap();
        let text =
            text.replace("${{ inputs.kernels }}", "debian-13").replace("${{ inputs.directory }}", directory);
        if text.contains("/releases/download/") { format!("file://{}", released.display()) } else { text }
    };
    let steps =
        action["runs"]["steps"].as_sequence().unwrap().iter().filter(|step| step.get("run").is_some());
    let step = |step: &Value| {
        let names = step.get("env").and_then(Value::as_mapping).cloned().unwrap_or_default();
        let names = names.iter().map(|(name, value)| (name.as_str().unwrap().to_owned(), inputs(value)));
        let run = step["run"].as_str().unwrap();
        // An expression would become part of the script.
        assert!(!run.contains("${{") && !run.contains("secrets"), "{run}");
        let place = step.get("working-directory").map_or(".".to_owned(), inputs);
        (names.collect(), format!("cd '{place}' && {run}"))
    };
    steps.map(step).collect()
}

#[test]
fn the_action_tests_a_repository_of_others() {
    let repository = Repository::of(Some("hook"));
    let scenario = repository.path.join("scenarios/counts.yaml");
    let place = repository.path.parent().unwrap().to_owned();
    let [summary, outputs] = ["summary", "outputs"].map(|name| place.join(name));
    // The first step fetches it.
    let released = place.join("released");
    fs::rename(place.join("bin/ftrace-lab"), &released).unwrap();
    let run = |expect: i32| {
        fs::write(&summary, "").unwrap();
        let mut last = None;
        for (names, command) in steps_of_the_action(&repository.path.to_string_lossy(), &released).into_iter()
        {
            let set = |(name, value): &(String, String)| format!("export {name}='{value}'; ");
            let set: String = names.iter().map(set).collect();
            let workflow = format!(
                "export GITHUB_ACTIONS=true CARGO_HOME='{}' GITHUB_STEP_SUMMARY='{}' GITHUB_OUTPUT='{}' \
                 GITHUB_WORKSPACE='{}'; ",
                place.display(),
                summary.display(),
                outputs.display(),
                repository.path.display()
            );
            let output = repository.sh(&(set + &workflow + &command));
            let code = output.status.code();
            assert!(code == Some(0) || code == Some(expect), "{}", said(&output));
            last = Some(output);
        }
        let output = last.unwrap();
        assert_eq!(output.status.code(), Some(expect), "{}", said(&output));
        (said(&output), fs::read_to_string(&summary).unwrap())
    };
    let (_, page) = run(0);
    assert!(page.contains("2 passed, 0 failed"), "{page}");
    let planned = fs::read_to_string(&outputs).unwrap();
    assert!(planned.contains("key=ftrace-lab-") && planned.contains("paths<<END\n/"), "{planned}");
    let text = fs::read_to_string(&scenario).unwrap();
    fs::write(&scenario, text.replace("equal: \"3\"", "equal: \"4\"")).unwrap();
    let (said, page) = run(1);
    assert!(page.contains("counts") && page.to_lowercase().contains("new"), "{page}");
    let note = "\n::error file=scenarios/counts.yaml,line=8,title=counts on debian-13%3A failed::";
    assert!(said.contains(note), "{said}");
}

#[test]
fn help_is_about_the_installed_command() {
    let repository = Repository::of(None);
    let all = said(&repository.sh("ftrace-lab --help"));
    let verbs =
        all.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = verbs.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<_> = names.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(names.contains(&"module") && names.len() > 20, "{all}");
    for name in names {
        let help = said(&repository.sh(&format!("ftrace-lab help {name}")));
        assert!(help.contains("Usage: ftrace-lab") && !help.contains("cargo xtask"), "{help}");
    }
    assert!(all.starts_with("Start here:"), "{all}");
    let likely = |repository: &Repository| said(&repository.sh("ftrace-lab --help"));
    assert!(likely(&Repository::of(Some("hook"))).starts_with("This is a project:"));
    repository.write("Makefile", "obj-m := mine.o\n");
    assert!(likely(&repository).starts_with("There is a module here:"));
}
