//! Modules other than the lab's, built against a real kernel: the results, the error messages, and that
//! source directories are not written to.

use crate::built::built;
use lab::{guest::Module, scenario::Scenario};
use std::{collections::BTreeSet, fs, path::Path};

const GOOD: &str = "#include <linux/module.h>\nMODULE_DESCRIPTION(\"x\");\nMODULE_LICENSE(\"GPL\");\n";

/// A directory with a scenario and, below `sources/`, the sources of its modules.
struct Bench {
    root: tempfile::TempDir,
}

fn bench(files: &[(&str, &str)]) -> Bench {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (path, text) in files {
        let path = root.path().join("sources").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Bench { root }
}

impl Bench {
    /// Builds the module of a scenario with one step.
    fn build(&self, module: &str) -> Result<Module, String> {
        let yaml = format!("summary: x\nsteps: [ {{ module: {module} }} ]");
        let scenario = Scenario::parse(&self.root.path().join("x.yaml"), &yaml).unwrap();
        let lab = built();
        let modules = lab.guest.modules.of(&scenario, &lab.kernel).map_err(|error| format!("{error:#}"))?;
        Ok(modules.into_values().next().unwrap())
    }
}

fn files(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_directory_is_built_once_and_not_written_to() {
    let bench = bench(&[("m/Kbuild", "obj-m := my-driver.o\n"), ("m/my-driver.c", GOOD)]);
    let module = bench.build("{ source: sources/m }").unwrap();
    assert_eq!(module.name, "my_driver");
    assert!(module.file.ends_with("my-driver.ko") && module.file.is_file(), "{module:?}");
    assert!(module.debug.is_file(), "{module:?}");
    let source = bench.root.path().join("sources/m");
    assert_eq!(files(&source), ["Kbuild", "my-driver.c"].map(String::from).into());
    assert_eq!(bench.build("{ source: sources/m }").unwrap(), module);
    fs::write(source.join("my-driver.c"), GOOD.replace("\"x\"", "\"y\"")).unwrap();
    assert_ne!(bench.build("{ source: sources/m }").unwrap(), module);
}

#[test]
fn what_does_not_build_is_told_with_file_and_line() {
    let check = |files: &[(&str, &str)], module: &str, expect: &[&str]| {
        let bench = bench(files);
        let error = bench.build(module).unwrap_err();
        expect.iter().for_each(|expect| assert!(error.contains(expect), "no `{expect}` in {error}"));
    };
    let kbuild = ("m/Kbuild", "obj-m := m.o\n");
    check(
        &[kbuild, ("m/m.c", "#include <linux/module.h>\nint missing = nothing;\n")],
        "{ source: sources/m }",
        &["cannot build the module", "sources/m/m.c:2:", "error: ", "nothing"],
    );
    check(&[("m/m.c", GOOD)], "{ source: sources/m }", &["neither `Kbuild` nor `Makefile`"]);
    check(&[], "{ source: nowhere }", &["nowhere` has neither `Kbuild` nor `Makefile`"]);
    check(&[("m/Kbuild", "\n")], "{ source: sources/m }", &["made no module"]);
    let two = [("m/Kbuild", "obj-m := first.o second.o\n"), ("m/first.c", GOOD), ("m/second.c", GOOD)];
    check(&two, "{ source: sources/m }", &["made first, second; select one with `name:`"]);
    check(
        &two,
        "{ source: sources/m, name: secnod }",
        &["did not make `secnod.ko`; the nearest is `second`"],
    );
    assert_eq!(bench(&two).build("{ source: sources/m, name: second }").unwrap().name, "second");
    check(
        &[],
        "{ sample: kprobes/kprobe_exampel }",
        &["without a sample `kprobes/kprobe_exampel`; the nearest is `kprobes/kprobe_example`"],
    );
}
