//! Scenarios that make the kernel fail, each for real: the status of the verdict, the splat with its
//! files and lines, the step that caused it, and what was left behind.

use crate::{
    built::{built, root},
    outcome::result,
};
use lab::{
    Lab,
    guest::Modules,
    results::{ScenarioResult, Status},
    splat::Frame,
};
use std::fs;

/// Loads `deaths` with a parameter, and checks the status and the reason.
fn death(now: &str, status: Status, reason: &str) -> ScenarioResult {
    let steps = format!(
        "timeout: 3s\nsteps: [ {{ write: /dev/null, text: x }}, {{ load: deaths, parameters: now={now} }} ]"
    );
    let result = result(&steps);
    assert_eq!(result.status, status, "{}", result.reason);
    assert!(result.reason.contains(reason), "`{reason}` is not in `{}`", result.reason);
    result
}

/// Checks that the innermost place of a frame is a line of that function in deaths.c.
fn place(frames: &[Frame], symbol: &str) {
    let frame = frames.iter().find(|frame| frame.symbol == symbol);
    let place =
        frame.and_then(|frame| frame.places.last()).unwrap_or_else(|| panic!("no {symbol} in {frames:?}"));
    assert_eq!(place.file, "guest/modules/deaths/deaths.c");
    let source = fs::read_to_string(root().join(&place.file)).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let head = lines[..place.line as usize]
        .iter()
        .rposition(|line| !line.starts_with(['\t', '{', '}']) && line.contains('('));
    assert!(lines[head.unwrap()].contains(symbol), "line {} is not in {symbol}", place.line);
}

#[test]
fn a_module_that_panics_is_a_panic() {
    let result = death("panic", Status::Panic, "the kernel panicked: a death was asked for, during step 2");
    place(&result.splats[0].frames, "deaths_panic");
    assert_eq!(result.splats[0].step, Some(2));
}

#[test]
fn a_module_that_corrupts_its_stack_is_a_panic() {
    let result = death("stack", Status::Panic, "stack is corrupted in: deaths_stack");
    assert_eq!(result.splats[0].kind, "stack corruption");
}

#[test]
fn a_module_that_oopses_is_an_oops_and_the_guest_lives() {
    for (now, reason) in
        [("null", "NULL pointer dereference"), ("bug", "kernel BUG at guest/modules/deaths/deaths.c:")]
    {
        let result = death(now, Status::Oops, reason);
        let splat = &result.splats[0];
        place(&splat.frames, &format!("deaths_{now}"));
        assert_eq!(splat.step, Some(2));
        assert!(splat.registers["pc"].starts_with(&format!("deaths_{now}+")), "{:?}", splat.registers);
        assert!(result.left_behind.contains(&"module deaths".to_owned()), "{:?}", result.left_behind);
    }
}

#[test]
fn an_oops_of_pid_1_is_an_oops_though_the_kernel_panics() {
    let result = result("steps: [ { load: deaths }, { write: /sys/kernel/debug/deaths/now, text: 'null' } ]");
    assert_eq!(result.status, Status::Oops, "{}", result.reason);
    assert!(result.reason.contains("Attempted to kill init!"), "{}", result.reason);
    place(&result.splats[0].frames, "deaths_null");
}

#[test]
fn a_module_that_warns_is_a_splat() {
    let result = death("warn", Status::Splat, "a warning was asked for, in step 2");
    place(&result.splats[0].frames, "deaths_warn");
    let again = death("warn", Status::Splat, "a warning was asked for");
    assert_eq!(result.splats[0].fingerprint, again.splats[0].fingerprint);
}

#[test]
fn a_module_that_sleeps_in_atomic_context_is_a_splat() {
    death("sleep", Status::Splat, "BUG: scheduling while atomic: insmod");
}

#[test]
fn a_module_that_eats_all_memory_is_told_by_the_oom_killer() {
    death("memory", Status::Splat, "Out of memory: Killed process");
}

#[test]
fn a_deadlock_with_interrupts_off_meets_its_deadline() {
    death("deadlock", Status::Hang, "during step 2");
}

#[test]
fn a_task_that_hangs_shows_where() {
    let result = death("hang", Status::Hang, "waiting for");
    assert_eq!(result.stacks[0].kind, "blocked task");
    place(&result.stacks[0].frames, "deaths_hang");
}

/// It cannot ask for stacks itself.
#[test]
fn an_agent_that_hangs_shows_where() {
    let steps =
        "timeout: 3s\nsteps: [ { load: deaths }, { write: /sys/kernel/debug/deaths/now, text: hang } ]";
    let result = result(steps);
    assert_eq!(result.status, Status::Hang, "{}", result.reason);
    assert_eq!(result.stacks[0].kind, "blocked task");
    place(&result.stacks[0].frames, "deaths_hang");
}

#[test]
fn a_workload_that_does_not_end_shows_what_it_has_said() {
    let step = "workload: cat /proc/version /sys/kernel/tracing/trace_pipe";
    let result = result(&format!("timeout: 2s\nsteps:\n  - read: trace_clock\n  - {step}"));
    assert_eq!(result.status, Status::Hang, "{}", result.reason);
    for part in ["the deadline of 2 s", "waiting for the end of a process, during step 2", step] {
        assert!(result.reason.contains(part), "`{part}` is not in `{}`", result.reason);
    }
    let hung = &result.steps[1];
    assert!(!hung.passed && hung.detail.contains("Linux version"), "{}", hung.detail);
    assert_eq!(hung.output, ["steps/2-stdout.txt", "steps/2-stderr.txt"]);
}

#[test]
fn a_cpu_that_spins_shows_where() {
    let result = death("spin", Status::Hang, "during step 2");
    let running = result.stacks.iter().find(|stack| stack.kind == "running");
    place(&running.unwrap().frames, "deaths_spin");
}

#[test]
fn a_module_that_leaves_a_probe_behind_fails() {
    let steps = "steps: [ { load: deaths, parameters: leave=1 }, { unload: deaths } ]";
    let found = result(steps);
    assert_eq!(found.status, Status::Failed);
    assert!(found.reason.contains("left behind: probe p:kprobes/deaths_left vfs_write"), "{}", found.reason);
    assert_eq!(result(&format!("{steps}\nmay_leave: ['deaths_left vfs_write']")).status, Status::Passed);
    // Also if another module is still loaded.
    let others =
        "steps: [ { load: kprobe_example }, { load: deaths, parameters: leave=1 }, { unload: deaths } ]";
    let found = result(others);
    assert_eq!(found.reason, "left behind: probe p:kprobes/deaths_left vfs_write");
}

/// The kernel log is the last thing that is read: of the function that stops tracing, the module prints each
/// call.
#[test]
fn what_is_printed_after_the_last_step_counts() {
    let steps = "steps: [ { load: kprobe_example, parameters: symbol=ring_buffer_record_off } ]";
    let printed = "<ring_buffer_record_off> p->addr";
    let found = result(&format!("{steps}\nexpect: [ kernel_log: '{printed}' ]"));
    assert_eq!(found.status, Status::Passed, "{}", found.reason);
}

#[test]
fn what_is_declared_must_come() {
    let check = |yaml: &str, reason: &str| {
        let found = result(yaml);
        assert_eq!((found.status, found.reason.as_str()), (Status::Failed, reason));
    };
    check(
        "allow: [never printed]\nsteps: [ { read: trace_clock } ]",
        "no splat matches /never printed/ of `allow`",
    );
    check(
        "may_leave: ['^probe p:kprobes/x']\nsteps: [ { mkdir: instances/left } ]",
        "nothing that was left behind matches /^probe p:kprobes/x/ of `may_leave`",
    );
}

#[test]
fn a_workload_that_kills_pid_1_is_a_panic() {
    let result = result("steps: [ { workload: kill-init } ]");
    assert_eq!(result.status, Status::Panic, "{}", result.reason);
    assert!(result.reason.contains("Attempted to kill init!"), "{}", result.reason);
}

#[test]
fn garbage_on_the_port_is_a_lost_guest() {
    let result = result("steps: [ { workload: port-garbage } ]");
    assert_eq!(result.status, Status::LostGuest, "{}", result.reason);
    assert!(result.reason.contains("frame of 4294967295 bytes"), "{}", result.reason);
}

#[test]
fn a_workload_that_powers_off_is_a_lost_guest() {
    let result = result("steps: [ { workload: poweroff } ]");
    assert_eq!(result.status, Status::LostGuest, "{}", result.reason);
}

#[test]
fn a_step_that_reboots_is_a_lost_guest() {
    let result = result("steps: [ { write: /proc/sysrq-trigger, text: b } ]");
    assert_eq!(result.status, Status::LostGuest, "{}", result.reason);
    assert!(result.reason.contains("the guest rebooted, during step 1"), "{}", result.reason);
}

#[test]
fn a_workload_knows_how_slow_its_guest_is() {
    let result = result("steps: [ { workload: cat /proc/self/environ, stdout: FTRACE_LAB_TIME_SCALE= } ]");
    assert_eq!(result.status, Status::Passed, "{}", result.reason);
}

#[test]
fn a_module_that_does_not_compile_shows_file_and_line() {
    let kernel = &built().kernel;
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sources = root.path().join("guest/modules/bad");
    fs::create_dir_all(&sources).unwrap();
    fs::write(sources.join("Kbuild"), "obj-m := bad.o\n").unwrap();
    fs::write(sources.join("bad.c"), "#include <linux/module.h>\nint missing = nothing;\n").unwrap();
    let lab = Lab::alone(root.path()).unwrap();
    let modules = Modules::new(&lab, root.path().join("guest/modules"));
    let error = format!("{:#}", modules.find(kernel, "bad").unwrap_err());
    let at = format!("{}:2:", sources.join("bad.c").display());
    assert!(error.contains(&at) && error.contains("error: "), "{error}");
    let error = format!("{:#}", modules.find(kernel, "kprobe_exampel").unwrap_err());
    assert!(error.contains("the nearest is `kprobe_example`"), "{error}");
}
