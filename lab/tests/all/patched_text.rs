//! Text steps on a real kernel: the messages for wrong expectations, and the reading of vmlinux.

use crate::{built::built, outcome::result_in};
use lab::{kernel::text::Binary, results::Status};
use std::fs;

/// A module that changes an instruction near the beginning of eventfd_write() behind ftrace's back.
const SPOIL: &str = r#"
#include <linux/kprobes.h>
#include <linux/module.h>

static int offset;
module_param(offset, int, 0);
static uint word;
module_param(word, uint, 0);

static int __init spoil_init(void)
{
	struct kprobe lookup = { .symbol_name = "kallsyms_lookup_name" };
	unsigned long (*find)(const char *name);
	int (*patch)(void *address, u32 instruction);
	int error = register_kprobe(&lookup);

	if (error)
		return error;
	find = (void *)lookup.addr;
	unregister_kprobe(&lookup);
	patch = (void *)find("aarch64_insn_patch_text_nosync");
	return patch((void *)find("eventfd_write") + offset, word);
}

static void __exit spoil_exit(void)
{
}

module_init(spoil_init);
module_exit(spoil_exit);
MODULE_LICENSE("GPL");
"#;

/// Runs a scenario with these steps; returns its status, and whether each step passed, with its detail.
/// It may load the module `{ source: spoil }`.
fn judge(steps: &str) -> (Status, Vec<(bool, String)>) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let module = directory.path().join("spoil");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("Kbuild"), "obj-m := spoil.o\n").unwrap();
    fs::write(module.join("spoil.c"), SPOIL).unwrap();
    let result = result_in(&directory, &built().guest, &format!("steps:\n{steps}"));
    let steps = result.steps.into_iter().map(|step| (step.passed, step.detail));
    (result.status, steps.collect())
}

/// Checks that a message has these parts, in this order.
fn check(detail: &str, expect: &[&str]) {
    let mut rest = detail;
    for part in expect {
        let Some((_, behind)) = rest.split_once(part) else { panic!("no `{part}` in `{rest}` of {detail}") };
        rest = behind;
    }
}

#[test]
fn a_wrong_expectation_is_told_by_a_small_disassembly() {
    let (status, steps) = judge(
        "  - write: events/sched/sched_switch/enable
    text: '1'
  - text: { key: __tracepoint_sched_switch, in: __schedule }
    is: nop
  - text: { ftrace_site: vfs_write }
    is: [brk 0x4, bl ftrace_caller]
  - text: { at: vfs_writ }
    is: nop
  - text: { call_ops: vfs_write }
    ops: ftrace_list_ops
",
    );
    assert_eq!(status, Status::Failed, "{steps:#?}");
    let [(true, _), (false, key), (false, site), (false, misspelled), (false, ops)] = steps.as_slice() else {
        panic!("{steps:#?}")
    };
    check(
        key,
        &[
            "unexpected instruction at __schedule+0x",
            "\n  before    d503201f  nop\n  expected  d503201f  nop\n  found     14",
            "  b __schedule+0x",
        ],
    );
    check(
        site,
        &[
            "unexpected instruction at vfs_write+0x0",
            "before    aa1e03e9  mov x9, x30\n  expected  d4200080  brk 0x4\n  found     aa1e03e9  mov x9, x30",
            "unexpected instruction at vfs_write+0x4",
            "  expected  9",
            "bl ftrace_caller+0x0\n  found     d503201f  nop",
        ],
    );
    check(misspelled, &["`vfs_writ` is not a symbol of this kernel; the nearest is `vfs_write`"]);
    check(ops, &["expected ops `ftrace_list_ops`, found `ftrace_nop_ops+0x0`"]);
}

#[test]
fn a_record_that_is_spoilt_is_found_among_all() {
    // `bl` to itself in place of the NOP, a lost `mov x9, x30`, and half of a pointer.
    for (offset, word, expect) in [
        (4, 0x9400_0000_u32, ["instruction at eventfd_write+0x4", "expected  d503201f  nop"]),
        (0, 0xd503_201f, ["instruction at eventfd_write+0x0", "expected  aa1e03e9  mov x9, x30"]),
        (-8, 0x1234, ["the call_ops literal for `eventfd_write+0x4` points to", "expected `ftrace_nop_ops`"]),
    ] {
        let (status, steps) = judge(&format!(
            "  - text: {{ ftrace_site: '*' }}
    sites: {{ at_least: 10000 }}
  - module: {{ source: spoil }}
    parameters: offset={offset} word={word}
  - text: {{ ftrace_site: '*' }}
  - text: {{ ftrace_site: '*' }}
    is: enabled
"
        ));
        let [(true, _), (true, _), (false, found), (false, disabled)] = steps.as_slice() else {
            panic!("{status:?} {steps:#?}")
        };
        check(found, &expect);
        assert!(!found.contains("more"), "{found}");
        check(disabled, &["the record of `", "is not enabled", "and 1"]);
    }
}

#[test]
fn every_jump_entry_of_vmlinux_is_an_instruction_as_its_key_has_it() {
    let binary = Binary::vmlinux(&built().kernel.vmlinux().unwrap()).unwrap();
    let address = |name| binary.address(name).unwrap();
    let entries = binary.jump_entries().unwrap();
    let bytes = address("__stop___jump_table") - address("__start___jump_table");
    assert_eq!(entries.len() as u64, bytes / 16);
    assert!(entries.len() > 1000, "{}", entries.len());
    for entry in entries {
        let word = binary.instruction(entry.code).unwrap();
        // The key's initial value determines which of the two it is.
        assert!(
            [entry.instruction(true), entry.instruction(false)].contains(&word),
            "{entry:x?}: {word:08x}"
        );
    }
    assert!(Binary::vmlinux(&built().kernel.image()).is_err());
}

#[test]
fn functions_have_their_ftrace_sites_and_notrace_ones_have_none() {
    let binary = Binary::vmlinux(&built().kernel.vmlinux().unwrap()).unwrap();
    let site = |name| binary.ftrace_site(binary.named(name).unwrap()[0]).unwrap();
    let function = binary.address("vfs_write").unwrap();
    let found = site("vfs_write").unwrap();
    assert_eq!((found.address, found.ops), (function, Some(function - 8)));
    assert_eq!(site("__schedule"), None);
}
