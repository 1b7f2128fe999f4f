//! The module `ftracehook`: machines of scenarios with hooks have it from the start, and its errors are
//! still reported.

use crate::{
    built::built,
    outcome::{result, result_with},
};
use lab::{
    guest::Modules,
    results::{ScenarioResult, Status},
};
use std::fs;

const HOOKS: &str = "steps: [ { hook: +w symbol=vfs_write }, { hits: w, count: { at_least: 0 } } ]";

/// Returns the result of a scenario with hooks, with the lab's module replaced by one with this init.
fn with_init(body: &str) -> ScenarioResult {
    let sources = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let module = sources.path().join("ftracehook");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("Kbuild"), "obj-m := ftracehook.o\n").unwrap();
    let source = format!(
        "#include <linux/module.h>\n\
         static int __init hooks_init(void)\n{{\n\t{body}\n}}\n\
         module_init(hooks_init);\nMODULE_DESCRIPTION(\"x\");\nMODULE_LICENSE(\"GPL\");\n"
    );
    fs::write(module.join("ftracehook.c"), source).unwrap();
    let mut guest = built().guest.clone();
    guest.modules = Modules::new(&built().lab, sources.path().to_owned());
    result_with(&guest, HOOKS)
}

#[test]
fn it_is_in_before_anything_is_brought_into_the_guest() {
    let steps = "{ read: /boot/00-ftracehook.ko }, { read: /modules/ftracehook.ko, errno: ENOENT }";
    let passed = result(&HOOKS.replace(" } ]", &format!(" }}, {steps} ]")));
    assert_eq!(passed.status, Status::Passed, "{passed:?}");
}

#[test]
fn one_that_the_kernel_refuses_is_told_with_the_errno() {
    let refused = with_init("return -EDOM;");
    assert_eq!(refused.status, Status::Failed, "{refused:?}");
    assert!(
        refused.reason.contains("cannot load `ftracehook`") && refused.reason.contains("EDOM"),
        "{refused:?}"
    );
}

#[test]
fn one_whose_init_oopses_leaves_an_oops_and_the_agent_alive() {
    let oopsed = with_init("return *(volatile int *)8;");
    assert_eq!(oopsed.status, Status::Oops, "{oopsed:?}");
    let titles: Vec<&str> = oopsed.splats.iter().map(|splat| splat.title.as_str()).collect();
    assert!(titles.iter().any(|title| title.contains("NULL pointer dereference")), "{titles:?}");
}
