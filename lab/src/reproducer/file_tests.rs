//! Files as the lab writes them, and forged ones.

use super::{super::fingerprint::Broken, *};
use crate::results::Status;

fn reproducer() -> Reproducer {
    let files = [
        ("kernels/6.12.yaml", "summary: s\nsource: { tree: /linux }\nfragments: [base]\n"),
        ("guest/workloads/eventfd.c", "int main(void)\n{\n\treturn 0;\n}\n"),
        ("modules/mine/Kbuild", "  obj-m := mine.o # two blanks in front\n\n\n"),
        ("modules/mine/odd.h", "\ttab\r\ncarriage\u{1b}[31m \u{fffd} ä: - x\n# no newline at the end"),
        ("modules/mine/empty.h", ""),
    ];
    Reproducer {
        schema: SCHEMA,
        lab: "0.1.0".into(),
        name: "probes/x".into(),
        verdict: Failure {
            status: Status::Failed,
            reason: "found: 3\n- not 5".into(),
            broken: Broken::Run,
            finding: "found: 3".into(),
            fingerprint: "failed-0123456789ab".into(),
        },
        kernel: KernelUsed {
            name: "6.12".into(),
            version: "6.12.107".into(),
            source: Origin::Pinned("6.12.107-1".into()),
            config_hash: "ab".repeat(32),
            config: Some("CONFIG_A=y\n# CONFIG_B is not set\n".into()),
        },
        qemu: QemuUsed { version: "7.2".into(), arguments: vec!["-append".into(), "quiet \"x\"".into()] },
        host: Host { architecture: "x86_64".into(), cpus: 2, accelerator: "tcg".into() },
        shuffle: Some(u64::MAX),
        repeat: None,
        scenario: "# why\nsummary: s\nsteps:\n  - module: { source: modules/mine }\n".into(),
        files: files.map(|(path, text)| (path.to_owned(), text.to_owned())).into(),
        left_out: vec![ExternalFile {
            path: "modules/mine/blob.bin".into(),
            bytes: 3,
            sha256: "cd".repeat(32),
            why: "it is not UTF-8".into(),
        }],
    }
}

#[test]
fn what_is_written_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("repro.yaml");
    let mut reproducer = reproducer();
    let item = super::super::Item { number: 2, text: "count: { event: e }".into() };
    for broken in [
        Broken::Run,
        Broken::Step(item.clone()),
        Broken::Expectation(item),
        Broken::Splat { kind: "oops".into(), title: "at 0".into(), frames: vec!["f".into()] },
    ] {
        reproducer.verdict.broken = broken;
        reproducer.write(&path).unwrap();
        assert_eq!(Reproducer::read(&path).unwrap(), reproducer);
    }
    reproducer.kernel.source = Origin::Tree("0123456789ab-dirty".into());
    reproducer.write(&path).unwrap();
    assert_eq!(Reproducer::read(&path).unwrap(), reproducer);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# A failure of ftrace-lab"), "{text}");
    // The scenario in it is readable.
    assert!(text.contains("\n  steps:\n    - module: { source: modules/mine }\n"), "{text}");
}

/// Checks that a file with `change` is refused, and why.
fn refused(change: impl FnOnce(&mut Reproducer), expect: &str) {
    let mut reproducer = reproducer();
    change(&mut reproducer);
    let error = Reproducer::parse(&reproducer.to_yaml().unwrap()).unwrap_err();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn no_path_leads_out() {
    for path in [
        "../x",
        "/etc/passwd",
        "guest/../../x",
        "guest/./x",
        "guest//x",
        "guest/",
        "guest",
        "",
        ".git/hooks/post-checkout",
        "lab/src/lib.rs",
        "guest/\u{1b}[31m",
        "guest/a\nb",
    ] {
        refused(|file| drop(file.files.insert(path.into(), String::new())), "is not permitted");
        refused(|file| path.clone_into(&mut file.left_out[0].path), "is not permitted");
    }
    refused(
        |file| drop(file.files.insert(format!("guest/{}", "x".repeat(PATH_MAX)), String::new())),
        "is not permitted",
    );
    for source in ["../mine", "/etc", "modules/../..", "modules", "guest/modules/deaths"] {
        let scenario = format!("summary: s\nsteps:\n  - module: {{ source: {source} }}\n");
        refused(|file| file.scenario = scenario, "expected a directory below `modules/`");
    }
    for source in ["..", "/etc", "workloads/../..", "workloads", "guest/workloads"] {
        let program = format!("{{ source: {source}, build: make, name: mine }}");
        let scenario = format!("summary: s\nsteps:\n  - workload: {program}\n");
        refused(|file| file.scenario = scenario, "expected sources below `workloads/`");
    }
    for source in ["../mine.c", "/etc/mine.c", "workloads/../mine.c", "mine.c", "guest/workloads/cat.c"] {
        let scenario = format!("summary: s\nsteps:\n  - workload: {{ source: {source} }}\n");
        refused(|file| file.scenario = scenario, "expected sources below `workloads/`");
    }
}

#[test]
fn names_become_parts_of_paths_and_are_checked() {
    for name in ["../x", "/x", "a//b", ".hidden", "a b", "", "a@2", "x\n"] {
        refused(|file| name.clone_into(&mut file.name), "not a scenario name");
    }
    refused(|file| file.kernel.name = "../6.12".into(), "is not a valid name of a kernel");
}

#[test]
fn what_it_says_has_to_make_sense() {
    refused(|file| file.schema = 1, "its schema is 1, expected 2");
    refused(|file| file.verdict.status = Status::Passed, "verdict is `passed`");
    refused(|file| file.scenario = "summary: s\nstepps: []\n".into(), "stepps");
    let matrix = "summary: s\nmatrix: { function: f, orders: pairs, parts: { a: { steps: [read: x] }, \
                  b: { steps: [read: y] } } }\nsteps: [read: z]\n";
    refused(|file| file.scenario = matrix.into(), "a single cell of it");
    let many = || (0..FILES_MAX).map(|number| (format!("guest/{number}"), String::new()));
    refused(|file| file.files.extend(many()), "expected at most 2000");
    let text = reproducer().to_yaml().unwrap();
    let error = Reproducer::parse(&format!("{text}evil: 1\n")).unwrap_err();
    assert!(error.contains("unknown field `evil`"), "{error}");
    let error = Reproducer::parse(&text.replace("  bytes: 3\n", "  bytes: 3\n  run: x\n")).unwrap_err();
    assert!(error.contains("unknown field `run`"), "{error}");
    let error = Reproducer::parse(&text.replace("architecture: x86_64", "arch: x")).unwrap_err();
    assert!(error.contains("arch"), "{error}");
    let bomb = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(1000), "*a,".repeat(1000));
    let error = Reproducer::parse(&bomb).unwrap_err();
    assert!(error.contains("aliases repeat too much"), "{error}");
}

#[test]
fn what_is_no_file_of_this_kind_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, data: &[u8], expect: &str| {
        let path = directory.path().join(name);
        fs::write(&path, data).unwrap();
        let error = Reproducer::read(&path).unwrap_err().to_string();
        assert!(error.contains(expect) && error.contains(name), "{error}");
    };
    check("large", &vec![b'#'; (4 << 20) + 1], "expected at most 4 MiB");
    check("binary", &[0xff, 0xfe], "not UTF-8");
    check("empty", b"", "missing field");
    check("scenario", b"summary: s\nsteps: []\n", "unknown field `summary`");
    let error = Reproducer::read(directory.path()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let error = Reproducer::read(&directory.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("cannot open it"), "{error}");
}
