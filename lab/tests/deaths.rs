//! Machines that die before their work is done, each for real: the lab must say how.

use anyhow::Result;
use lab::{
    cache::Cache,
    guest::{self, Guest, initramfs},
    host::prerequisites::{self, Need},
    kernel::{self, Kernel},
    machine::{BOOT_DEADLINE, Death, Machine, MachineSpec},
    progress::Progress,
    report::ScenarioResult,
    run::{self, machine_spec},
    scenario::{Found, Scenario},
    verdict::{Frame, Status},
};
use protocol::{Request, WriteMode};
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A death has its name no later than this.
const NAMED_WITHIN: Duration = Duration::from_secs(2);

/// Enough for a guest that boots; short enough to wait for one that never will.
const SHORT: Duration = Duration::from_secs(6);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn built() -> &'static (Kernel, Guest) {
    static BUILT: OnceLock<(Kernel, Guest)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let progress = Progress::new();
        prerequisites::ensure(Need::Run, env::var("CI").is_ok_and(|value| value == "true"), &progress)
            .unwrap();
        let cache = Cache::open().unwrap();
        let kernel = kernel::build(&cache, root(), kernel::DEFAULT, None, &progress).unwrap();
        (kernel, guest::build(&cache, root(), &progress).unwrap())
    })
}

/// A machine's files, and what it is made of.
struct Setting {
    directory: TempDir,
    spec: MachineSpec,
}

fn setting() -> Setting {
    let (kernel, guest) = built();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    Setting { directory, spec: machine_spec(kernel, guest) }
}

impl Setting {
    fn boot(&self, deadline: Duration) -> Result<Machine, Death> {
        Machine::boot(&self.spec, self.directory.path(), deadline)
    }

    fn file(&self, name: &str, data: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, data).unwrap();
        path
    }

    /// Has a workload for its /init.
    fn init(mut self, workload: &str) -> Setting {
        let program = fs::read(&built().1.workloads[workload]).unwrap();
        self.spec.initramfs = self.file("initramfs", &initramfs::write(&initramfs::entries(program)));
        self
    }
}

fn check(outcome: Result<impl Sized, Death>, expect: &str) {
    let death = outcome.err().map_or("it lives".to_owned(), |death| death.to_string());
    assert!(death.contains(expect), "expected `{expect}`, found `{death}`");
}

fn write(path: &str, text: &str) -> Request {
    Request::WriteFile { path: path.into(), data: text.into(), mode: WriteMode::Truncate }
}

#[test]
fn an_image_that_is_no_kernel_never_boots() {
    let mut setting = setting();
    setting.spec.image = setting.file("Image", &[0; 4096]);
    check(setting.boot(SHORT), "the agent did not answer within 6 s of boot");
}

#[test]
fn a_missing_image_is_qemus_own_error() {
    let mut setting = setting();
    setting.spec.image = "no/such/Image".into();
    check(setting.boot(SHORT), "could not load kernel 'no/such/Image'");
}

#[test]
fn an_init_that_ends_is_a_panic_with_the_kernels_reason() {
    check(setting().init("cat").boot(BOOT_DEADLINE), "the kernel panicked: Attempted to kill init!");
}

#[test]
fn an_init_that_powers_off_is_said() {
    check(setting().init("poweroff").boot(BOOT_DEADLINE), "the guest powered itself off");
}

#[test]
fn a_kernel_without_its_virtio_driver_has_no_agent_port() {
    let mut setting = setting();
    setting.spec.cmdline.push("initcall_blacklist=virtio_pci_driver_init".into());
    check(setting.boot(BOOT_DEADLINE), "org.ftrace-lab.agent");
}

#[test]
fn a_panic_in_the_middle_is_noticed_at_once() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let started = Instant::now();
    let panic = machine.call(&write("/proc/sysrq-trigger", "c"), BOOT_DEADLINE);
    check(panic, "the kernel panicked: sysrq triggered crash");
    assert!(started.elapsed() < NAMED_WITHIN, "it took {:?}", started.elapsed());
}

#[test]
fn a_guest_that_reboots_is_said() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    check(machine.call(&write("/proc/sysrq-trigger", "b"), BOOT_DEADLINE), "the guest rebooted");
}

#[test]
fn a_request_that_takes_too_long_meets_its_deadline() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let spawn =
        Request::Spawn { argv: vec!["/no/such/program".into()], env: vec![], stdin: vec![], output_max: 100 };
    let reply = machine.call(&spawn, BOOT_DEADLINE).unwrap();
    assert!(matches!(reply, protocol::Reply::Errno { errno: 2, .. }), "{reply:?}");
    // The guest's answer takes longer than a microsecond.
    check(
        machine.call(&Request::Hello, Duration::from_micros(1)),
        "the deadline of 0.0 s passed, waiting for `Hello`",
    );
}

#[test]
fn no_qemu_is_left_behind() {
    let setting = setting();
    let machine = setting.boot(BOOT_DEADLINE).unwrap();
    let pid = machine.pid();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    drop(machine);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "QEMU {pid} still runs");
}

#[test]
fn a_qemu_that_is_killed_is_said() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let pid = rustix::process::Pid::from_raw(machine.pid().try_into().unwrap()).unwrap();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        Instant::now()
    });
    let outcome = loop {
        if let Err(death) = machine.call(&Request::Hello, BOOT_DEADLINE) {
            break Err::<(), _>(death);
        }
    };
    let (named, killed) = (Instant::now(), killer.join().unwrap());
    check(outcome, "QEMU ended: signal: 9");
    assert!(named.duration_since(killed) < NAMED_WITHIN, "it took {:?}", named.duration_since(killed));
}

#[test]
fn a_late_reply_is_not_taken_for_another() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    for _ in 0..3 {
        let read = Request::ReadFile { path: "/proc/kallsyms".into(), max: 500_000 };
        check(machine.call(&read, Duration::from_millis(1)), "waiting for a read of `/proc/kallsyms`");
        let reply = machine.call(&Request::Hello, BOOT_DEADLINE).unwrap();
        assert!(matches!(reply, protocol::Reply::Hello(_)), "{:?}", reply);
    }
}

/// The result of a scenario of these steps.
fn result(steps: &str) -> ScenarioResult {
    let (kernel, guest) = built();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("x.yaml");
    fs::write(&path, format!("summary: x\n{steps}\n")).unwrap();
    let scenario = Scenario::load(&path).unwrap();
    let found = Found { name: "x".into(), path };
    run::one(kernel, guest, &found, &scenario, &directory.path().join("results")).unwrap()
}

/// What became of loading `deaths` with a parameter.
fn death(now: &str, status: Status, reason: &str) -> ScenarioResult {
    let steps = format!(
        "timeout: 3s\nsteps: [ {{ write: /dev/null, text: x }}, {{ load: deaths, parameters: now={now} }} ]"
    );
    let result = result(&steps);
    assert_eq!(result.status, status, "{}", result.reason);
    assert!(result.reason.contains(reason), "`{reason}` is not in `{}`", result.reason);
    result
}

/// A frame's innermost place: `deaths_null deaths.c`, and whether it has a line.
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
    let started = Instant::now();
    let result = death("deadlock", Status::Hang, "during step 2");
    assert!(started.elapsed() < Duration::from_secs(60), "{result:?}");
}

#[test]
fn a_task_that_hangs_shows_where() {
    let result = death("hang", Status::Hang, "waiting for");
    assert_eq!(result.stacks[0].kind, "blocked task");
    place(&result.stacks[0].frames, "deaths_hang");
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
    assert_eq!(result(&format!("{steps}\nleaves: ['deaths_left vfs_write']")).status, Status::Passed);
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
fn a_module_that_does_not_compile_shows_file_and_line() {
    let (kernel, _) = built();
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sources = root.path().join("guest/modules/bad");
    fs::create_dir_all(&sources).unwrap();
    fs::write(sources.join("Kbuild"), "obj-m := bad.o\n").unwrap();
    fs::write(sources.join("bad.c"), "#include <linux/module.h>\nint missing = nothing;\n").unwrap();
    let cache = Cache::at(root.path().join("cache")).unwrap();
    let modules = guest::Modules::new(&cache, root.path().join("guest/modules"), &Progress::silent());
    let error = format!("{:#}", modules.find(kernel, "bad").unwrap_err());
    let at = format!("{}:2:", sources.join("bad.c").display());
    assert!(error.contains(&at) && error.contains("error: "), "{error}");
    let error = format!("{:#}", modules.find(kernel, "kprobe_exampel").unwrap_err());
    assert!(error.contains("the nearest is `kprobe_example`"), "{error}");
}

#[test]
fn a_guest_says_how_fast_it_is() {
    let setting = setting();
    let machine = setting.boot(BOOT_DEADLINE).unwrap();
    let micros = machine.hello().loop_micros;
    eprintln!("the agent's loop took {micros} µs");
    assert!((1..1_000_000).contains(&micros), "{micros}");
}
