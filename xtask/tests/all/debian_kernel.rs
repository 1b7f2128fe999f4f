//! A Debian kernel, from its packages to verdicts: it is not built, modules are built against its
//! headers, and features that it lacks are reported.

use crate::stage::{
    TRIVIAL, UNSUPPORTED, check, labels, run, said, scenarios, scratch, share_host, stored, xtask,
};
use lab::results::{ScenarioResult, Status};
use std::path::Path;

const PROBES: &str = "
summary: a kprobe on a distribution kernel, with symbols read from a guest
trace:
  events: [ { kprobe: eventfd_write, name: efd, args: { value: '+u0($arg2):u64' } } ]
  tracer: function
  functions: [eventfd_write]
steps:
  - workload: eventfd --sleep 0 1 2 4
expect:
  - values: { event: efd, field: value, equal: [1, 2, 4] }
  - count: { event: function, where: sym(ip) == \"eventfd_write\", is: 3 }
";

/// `deaths` is built by this host's compiler; `dummy` is from the package, with Debian's signature, and does
/// not taint the kernel.
const MODULES: &str = "
summary: modules of the lab and of the package can be loaded
steps:
  - load: dummy
  - read: /proc/sys/kernel/tainted
    text: { equal: \"0\" }
  - load: deaths
  - read: /sys/kernel/debug/kprobes/list
  - unload: deaths
  - unload: dummy
may_leave: [taint]
expect: [ kernel_log: { never: [BUG] } ]
";

const PANICS: &str = "
summary: a panic is recognized although no driver reports it to QEMU
timeout: 3s
steps: [ workload: kill-init ]
";

const READS_TEXT: &str = "
summary: text steps read vmlinux
steps: [ { text: { at: vfs_write }, is: unchanged } ]
";

const SELFTESTS: &str = "
summary: selftests are part of the source
userland: debian
steps: [ kselftest: ftrace/test.d/00basic/basic1.tc ]
";

fn result<'a>(results: &'a [ScenarioResult], name: &str) -> &'a ScenarioResult {
    results.iter().find(|result| result.name == name).unwrap()
}

#[test]
fn a_shipped_kernel_passes_what_it_can_and_says_what_it_has_not() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let all = [
        ("probes", PROBES),
        ("modules", MODULES),
        ("panics", PANICS),
        ("text", READS_TEXT),
        ("selftests", SELFTESTS),
        ("tomorrow", UNSUPPORTED),
        ("trivial", TRIVIAL),
    ];
    let all = scenarios(directory.path(), all);
    let said = [
        "passed       probes on debian-13",
        "passed       modules on debian-13",
        "this distribution kernel has no debug information",
        "this distribution kernel has no source, and therefore no selftests",
    ];
    check(run(&results, &all).args(["--kernel", "debian-13"]), 1, &said);
    let found = stored(&results.join("latest")).unwrap();
    assert_eq!(
        labels(&found.scenarios),
        ["modules", "panics", "probes", "selftests", "text", "tomorrow", "trivial"]
    );
    let panic = result(&found.scenarios, "panics");
    assert_eq!(panic.status, Status::Panic, "{}", panic.reason);
    assert!(panic.reason.contains("Attempted to kill init!"), "{}", panic.reason);
    for name in ["text", "selftests", "tomorrow"] {
        assert_eq!(result(&found.scenarios, name).status, Status::Unsupported);
    }
    let [kernel] = &found.kernels[..] else { panic!("{:?}", found.kernels) };
    assert!(kernel.source_version.starts_with("6.12."), "{kernel:?}");
}

/// On this kernel, the drivers of the agent's port are modules.
const BOOTS_WITH_MODULES: &str = "
summary: a machine boots with the modules of its initramfs
steps: [ { read: /proc/modules, text: { contains: [virtio_pci, virtio_console, qemu_fw_cfg] } } ]
";

#[test]
fn a_kernel_whose_devices_are_modules_boots() {
    let _host = share_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let one = scenarios(directory.path(), [("modules", BOOTS_WITH_MODULES)]);
    check(run(&results, &one).args(["--kernel", "debian-12"]), 0, &["passed       modules on debian-12"]);
}

#[test]
fn a_shipped_kernel_is_listed_found_and_not_built_from_a_tree() {
    let list = |arguments: &[&str], code, expect: &[&str]| {
        let mut command = xtask();
        check(command.arg("lab").args(arguments), code, expect)
    };
    list(&["kernels"], 0, &["debian-12 ", "debian-13 ", "the distribution kernel of Debian 13"]);
    let output = list(&["build", "debian-13"], 0, &["has no debug information"]);
    let said = said(&output);
    let path = |what: &str| said.lines().find_map(|line| line.strip_prefix(what)).unwrap().trim().to_owned();
    for what in ["image", "initramfs"] {
        assert!(Path::new(&path(what)).is_file(), "{said}");
    }
    let tree = ["build", "debian-13", "--kernel-tree", "/no/such/tree"];
    list(&tree, 3, &["is a distribution kernel and has no fragments to build a tree with"]);
}
