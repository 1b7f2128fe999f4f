//! What bad input and a bad place get: an error that names the object, the cause and the next step, and no file lost or
//! written elsewhere.

use crate::common::{Repository, said};
use checkers::page::Reader;
use std::{collections::BTreeMap, fs, path::Path};

/// The cache of the real lab, for shells.
const CACHE: &str = "cache=${FTRACE_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ftrace-lab}; ";

/// Files outside of `results/` by their path, and their contents.
type Files = BTreeMap<String, Vec<u8>>;

fn collect(directory: &Path, files: &mut Files) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "results" {
            collect(&path, files);
        } else if path.is_file() && entry.file_name() != "ftrace-lab" {
            files.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
}

/// Runs commands that must end with this exit code, print all of this, and change no file in or next to the
/// repository.
fn check(repository: &Repository, commands: &str, code: i32, expect: &[&str]) -> String {
    let state = || {
        let mut files = Files::new();
        collect(repository.path.parent().unwrap(), &mut files);
        files
    };
    let before = state();
    let output = repository.sh(commands);
    let said = said(&output);
    for part in expect {
        assert!(said.contains(part), "`{part}` is not in what `{commands}` said:\n{said}");
    }
    assert_eq!(output.status.code(), Some(code), "{commands}:\n{said}");
    assert!(before == state(), "`{commands}` changed files");
    said
}

/// Writes ftrace-lab.yaml for the kernel debian-13, with these modules.
fn project(repository: &Repository, modules: &str) {
    let text = format!("version: 1\nkernels: [debian-13]\nmodules:\n{modules}");
    repository.write("ftrace-lab.yaml", &text);
}

#[test]
fn a_project_file_of_a_later_version_needs_a_newer_lab() {
    let repository = Repository::of(Some("hook"));
    repository.write("ftrace-lab.yaml", "version: 7\nfuture: { a: 1 }\n");
    let verbs = ["run", "check", "ci", "list", "module .", "new area/more", "explain counts"];
    for verb in verbs {
        let newer =
            "/ftrace-lab.yaml: version: format 7 needs a newer ftrace-lab: this one reads format 1; install";
        check(&repository, &format!("ftrace-lab {verb}"), 2, &[newer]);
    }
    for (text, expect) in [
        ("version: 0\n", "not a format of this file, expected `version: 1`"),
        ("version: one\n", "not a format of this file, expected `version: 1`"),
        ("kernels: [debian-13]\n", "missing field `version`, expected `version: 1`"),
        ("", "missing field `version`, expected `version: 1`"),
        ("- version: 1\n", "expected a map with `version: 1`"),
    ] {
        repository.write("ftrace-lab.yaml", text);
        check(&repository, "ftrace-lab run", 2, &["/ftrace-lab.yaml", expect]);
    }
    repository.write("ftrace-lab.yaml", "version: 1\n");
    check(
        &repository,
        "cd scenarios && ftrace-lab run no/such",
        2,
        &["no/such: no such file or directory, expected a"],
    );
    check(
        &repository,
        "ftrace-lab init",
        2,
        &["`./ftrace-lab.yaml` already exists; change it, or remove it"],
    );
}

#[test]
fn a_kernel_that_nobody_described_is_named_with_those_that_there_are() {
    let repository = Repository::of(Some("hook"));
    repository.write("ftrace-lab.yaml", "version: 1\nkernels: [debian-31]\n");
    for verb in ["run", "check", "ci", "matrix"] {
        let expect = [
            "/ftrace-lab.yaml: kernels: no kernel `debian-31`; the nearest is `debian-13`; there are `5.10`",
            "`ftrace-lab kernels` describes them",
        ];
        check(&repository, &format!("ftrace-lab {verb}"), 2, &expect);
    }
    repository.write("ftrace-lab.yaml", "version: 1\nkernels: [\">=99\"]\n");
    check(&repository, "ftrace-lab run", 2, &["/ftrace-lab.yaml: kernels: no kernel matches `>=99`"]);
    check(&repository, "ftrace-lab run --kernel debian-31", 2, &["error: no kernel `debian-31`"]);
    let scenario = "summary: s\nrequires: { kernel: debian-31 }\nsteps: [ { read: trace } ]\n";
    repository.write("scenarios/counts.yaml", scenario);
    let expect = [
        "counts.yaml:2:21: requires.kernel: `debian-31` is not a kernel requirement",
        "expected one such as",
    ];
    check(&repository, "ftrace-lab run --kernel debian-13", 2, &expect);
}

#[test]
fn two_modules_of_one_name_are_told_apart_or_refused() {
    let repository = Repository::of(Some("hook"));
    for place in ["one", "two"] {
        let at = |name: &str| repository.path.join(name);
        for name in ["watch.c", "Kbuild"] {
            repository.write(&format!("{place}/{name}"), &fs::read_to_string(at(name)).unwrap());
        }
    }
    for name in ["watch.c", "Kbuild", "ftrace-lab.yaml", "scenarios/counts.yaml", "scenarios/refused.yaml"] {
        fs::remove_file(repository.path.join(name)).unwrap();
    }
    let each = ["/one` and `", "/two` each build `watch`; check one of these directories"];
    check(&repository, "ftrace-lab module . --kernel debian-13", 2, &each);
    let begun = said(&repository.sh("ftrace-lab init && cat ftrace-lab.yaml"));
    assert!(begun.contains("  watch: { source: one }\n  watch_2: { source: two, name: watch }\n"), "{begun}");

    let both = "summary: s\nsteps: [ { load: watch }, { load: watch_2 }, { unload: watch } ]\n";
    repository.write("scenarios/first.yaml", both);
    let expect = ["step 2 broken", "insmod watch: EEXIST, as one of this name is loaded; unload that first"];
    check(&repository, "ftrace-lab run", 1, &expect);

    project(&repository, "  watch: { source: one }\n  watch: { source: two }\n");
    check(
        &repository,
        "ftrace-lab run",
        2,
        &["ftrace-lab.yaml:4:3: modules: module `watch` appears twice; remove or"],
    );
    project(&repository, "  my-hook: { source: one }\n  my_hook: { source: two }\n");
    check(
        &repository,
        "ftrace-lab run",
        2,
        &["`my-hook` and `my_hook` have one name in the kernel", "rename one"],
    );

    repository.write("scenarios/first.yaml", "summary: s\nsteps: [ { load: watch } ]\n");
    repository.write("Makefile", "all:\n\ttouch one/watch.ko two/watch.ko\n");
    project(&repository, "  watch: { source: ., build: \"make K=${kernel}\" }\n");
    let expect = ["one/watch.ko, two/watch.ko; only one may have this name", "use a command that makes one"];
    check(&repository, "ftrace-lab run", 3, &expect);
    repository.write("scenarios/first.yaml", "summary: s\nsteps: [ { load: other } ]\n");
    project(&repository, "  other: { source: one }\n");
    check(&repository, "ftrace-lab run", 3, &["did not make `other.ko`; name one that it made: watch"]);
}

#[test]
fn a_build_command_writes_nowhere_else() {
    let repository = Repository::of(Some("kprobe-tree"));
    let place = repository.path.parent().unwrap().display().to_string();
    let outside =
        [format!("{place}/outside"), format!("{}/outside", repository.path.display()), "/usr/outside".into()];
    for path in outside {
        project(
            &repository,
            &format!("  sizes: {{ source: ., build: \"make KDIR=${{kernel}} && echo x > {path}\" }}\n"),
        );
        let next = "a build command runs in a copy of its directory; it can write only there";
        check(&repository, "ftrace-lab run", 3, &["cannot create", &path, next]);
        assert!(!Path::new(&path).exists());
    }
}

/// A Makefile that makes a header first, next to the sources.
const IN_PLACE: &str = "KDIR ?= /lib/modules/$(shell uname -r)/build\n\
                        PWD := $(shell pwd)\n\
                        obj-m := watch.o\n\
                        all: made.h\n\
                        \tmake -C $(KDIR) M=$(PWD) modules\n\
                        made.h:\n\
                        \techo '#define MADE 1' > made.h\n";

#[test]
fn a_makefile_that_builds_in_place_builds_in_a_copy() {
    let repository = Repository::of(Some("hook"));
    // kbuild splits flags at spaces.
    fs::rename(repository.path.join("Kbuild"), repository.path.join("old")).unwrap();
    fs::create_dir(repository.path.join("my watch")).unwrap();
    let source = fs::read_to_string(repository.path.join("watch.c")).unwrap();
    repository.write("my watch/watch.c", &format!("#include \"made.h\"\n{source}"));
    repository.write("my watch/Makefile", IN_PLACE);
    let build = |command: &str| project(&repository, &format!("  watch: {{ source: my watch{command} }}\n"));
    build("");
    let expect =
        ["made.h: No such file", "its Makefile runs make itself", "add `build: \"make KDIR=${kernel}\"`"];
    check(&repository, "ftrace-lab run counts", 3, &expect);
    build(", build: make");
    let expect =
        ["/lib/modules/", "`make` does not use `${kernel}`", "such as `build: \"make KDIR=${kernel}\"`"];
    check(&repository, "ftrace-lab run counts", 3, &expect);
    build(", build: \"make KDIR=${kernel}\"");
    check(&repository, "ftrace-lab run counts", 0, &["1 passed, 0 failed"]);
    // `lab module` builds a project's module in the same way.
    check(
        &repository,
        "ftrace-lab module . --kernel debian-13 --eject results/checks",
        0,
        &[" scenarios to results/checks"],
    );
    let check = fs::read_to_string(repository.path.join("results/checks/loads.yaml")).unwrap();
    assert!(check.contains("/my watch\n") && check.contains("build: make KDIR=${kernel}"), "{check}");
}

#[test]
fn a_module_is_not_unloaded_from_a_kernel_without_module_unload() {
    let repository = Repository::of(Some("hook"));
    check(&repository, "ftrace-lab check --kernel debian-13", 0, &["2 valid"]);
    // The configuration is all that the lab reads of it before a machine starts.
    let without = format!(
        "{CACHE} for config in $cache/builds/debian-13-[0-9]*/config; do \
         mkdir -p results; sed s/^CONFIG_MODULE_UNLOAD=y// $config > results/config; \
         mount --bind results/config $config; done; "
    );
    let expect =
        ["CONFIG_MODULE_UNLOAD is not set in this kernel, and step ", "declare that with `may_leave`"];
    check(&repository, &format!("{without} ftrace-lab check counts --kernel debian-13"), 0, &expect);
    let said = check(&repository, &format!("{without} ftrace-lab run"), 0, &expect);
    assert!(said.contains("unsupported  counts") && said.contains("passed       refused"), "{said}");
}

#[test]
fn without_a_network_an_empty_cache_says_what_it_could_not_fetch() {
    let repository = Repository::of(Some("hook"));
    let empty = "export FTRACE_LAB_CACHE=$PWD/results/cache; unshare --net ";
    for kernel in ["debian-13", "6.12"] {
        let expect =
            [&format!("`{kernel}`"), "cannot read the package lists of", "check the network or the proxy"];
        check(&repository, &format!("{empty} ftrace-lab run --kernel {kernel}"), 3, &expect);
    }
    check(&repository, &format!("{empty} ftrace-lab check"), 0, &["2 valid"]);
    check(&repository, "unshare --net ftrace-lab check --kernel debian-13", 0, &["2 valid"]);
}

#[test]
fn a_cache_that_cannot_be_used_names_the_variable_that_moves_it() {
    let repository = Repository::of(Some("hook"));
    repository.write("results/file", "");
    let at = |path: &str, commands: &str| format!("export FTRACE_LAB_CACHE={path}; {commands}");
    let check = |commands: String, expect: &[&str]| {
        check(&repository, &commands, 3, &[expect, &["FTRACE_LAB_CACHE"]].concat())
    };
    check(
        at("'results/ca che'", "ftrace-lab run"),
        &["/results/ca che`: make cannot build in a directory with ' '"],
    );
    check(at("results/file", "ftrace-lab run"), &["cannot create the cache `results/file`", "File exists"]);
    let read_only = "mkdir -p results/ro; mount -o ro,bind results/ro results/ro; ftrace-lab run";
    check(
        at("results/ro", read_only),
        &["cannot write to the cache `", "make it writable", "Read-only file system"],
    );
    check(
        at("results/ro/new", read_only),
        &["cannot create the cache `results/ro/new`", "Read-only file system"],
    );
}

#[test]
fn a_full_cache_that_is_read_only_and_results_elsewhere_are_enough() {
    let repository = Repository::of(Some("hook"));
    check(&repository, "ftrace-lab run", 0, &["2 passed"]);
    let read_only = format!("{CACHE} mount -o ro,bind $cache $cache; ");
    let boots = "booting machines instead of restoring snapshots";
    let said = check(&repository, &format!("{read_only} ftrace-lab run"), 0, &["2 passed", boots]);
    assert_eq!(said.matches(boots).count(), 1, "{said}");
    // No earlier test has built this one.
    repository.write("Kbuild", &format!("obj-m := watch.o\n# in {}\n", repository.path.display()));
    let expect =
        ["cannot write to the cache `", "make it writable, or set FTRACE_LAB_CACHE", "Read-only file system"];
    check(&repository, &format!("{read_only} ftrace-lab run"), 3, &expect);
    // The sources may be read-only, too; only results are written next to them.
    let sources = "mkdir -p results; mount -o ro,bind . .; cd \"$PWD\"; ";
    let expect = ["warning: no schemas for editors: cannot write to `", "2 valid"];
    check(&repository, &format!("{sources} ftrace-lab check"), 0, &expect);
    let expect = ["cannot write to `", "set FTRACE_LAB_RESULTS to another directory"];
    check(&repository, &format!("{sources} ftrace-lab run"), 3, &expect);
    // Cache, results and temporary files on three filesystems.
    let tmpfs = "mkdir -p results; mount -t tmpfs none results; mkdir results/a results/tmp; \
                 mount -t tmpfs none results/tmp; export TMPDIR=$PWD/results/tmp; ";
    check(&repository, &format!("{tmpfs} ftrace-lab run --jobs 2"), 0, &["2 passed"]);
}

#[test]
fn a_scenario_is_not_created_where_the_next_version_would_lose_it() {
    let repository = Repository::of(None);
    let expect =
        ["cannot create `mine/fix`: no ftrace-lab.yaml in this directory or above", "`version: 1` is enough"];
    check(&repository, "ftrace-lab new mine/fix", 2, &expect);
    repository.write("ftrace-lab.yaml", "version: 1\n");
    let created = said(&repository.sh("ftrace-lab new mine/fix && ls scenarios/mine"));
    assert!(
        created.contains("wrote scenarios/mine/fix.yaml") && created.ends_with("fix.yaml\n"),
        "{created}"
    );
}

#[test]
fn ready_scenarios_are_checked_by_name() {
    let repository = Repository::of(Some("hook"));
    let both =
        ["scenarios/counts.yaml: valid", "/scenarios/probes/eventfd-write.yaml: valid", "2 valid, 0 invalid"];
    check(&repository, "ftrace-lab check counts probes/eventfd-write", 0, &both);
    // The project's own come first, also if they are invalid.
    repository.write("scenarios/probes/eventfd-write.yaml", "summary: mine\n");
    repository.write("scenarios/probes/paths.yaml", "summary: mine\nstep: []\n");
    for verb in ["check", "run", "explain"] {
        let expect =
            ["/watch/scenarios/probes/paths.yaml:2:1: unknown field `step`", "did you mean `steps`?"];
        check(&repository, &format!("ftrace-lab {verb} probes/paths"), 2, &expect);
    }
}
