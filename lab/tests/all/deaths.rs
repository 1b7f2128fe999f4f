//! Machines that die before their work is done, each for real: the lab must report how.

use crate::built::{Built, built};
use anyhow::Result;
use lab::{
    guest::initramfs,
    machine::{BOOT_DEADLINE, Death, Machine, MachineSpec, machine_spec},
};
use protocol::{Reply, Request, Stdin, WriteMode};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Long enough for a guest to boot, and short enough to wait for one that never will.
const SHORT: Duration = Duration::from_secs(6);

/// A machine's files and its specification.
struct Setting {
    directory: TempDir,
    spec: MachineSpec,
}

fn setting() -> Setting {
    let Built { kernel, guest, .. } = built();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    Setting { directory, spec: machine_spec(kernel, guest).unwrap() }
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

    /// Uses a workload as /init.
    fn init(mut self, workload: &str) -> Setting {
        let program = fs::read(&built().guest.workloads[workload]).unwrap();
        self.spec.initramfs = self.file("initramfs", &initramfs::write(&initramfs::entries(program)));
        self
    }
}

fn check(outcome: Result<impl Sized, Death>, expect: &str) {
    let death = outcome.err().map_or("no death".to_owned(), |death| death.to_string());
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
fn a_panic_in_the_middle_is_noticed() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let panic = machine.call(&write("/proc/sysrq-trigger", "c"), BOOT_DEADLINE);
    check(panic, "the kernel panicked: sysrq triggered crash");
}

#[test]
fn a_panic_that_no_driver_reports_is_noticed_before_the_deadline() {
    let mut setting = setting();
    setting.spec.cmdline.push("initcall_blacklist=pvpanic_pci_driver_init".into());
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let begun = Instant::now();
    let panic = machine.call(&write("/proc/sysrq-trigger", "c"), BOOT_DEADLINE);
    assert!(begun.elapsed() < BOOT_DEADLINE, "the panic was noticed after the deadline");
    check(panic, "the kernel panicked: sysrq triggered crash");
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
    let spawn = Request::Spawn {
        argv: vec!["/no/such/program".into()],
        env: vec![],
        stdin: Stdin::Open,
        output_max: 100,
    };
    let reply = machine.call(&spawn, BOOT_DEADLINE).unwrap();
    assert!(matches!(reply, protocol::Reply::Errno { errno: 2, .. }), "{reply:?}");
    // The guest's answer takes longer than a microsecond.
    check(
        machine.call(&Request::Hello, Duration::from_micros(1)),
        "the deadline of 1µs passed, waiting for `Hello`",
    );
}

#[test]
fn no_qemu_is_left_behind() {
    let setting = setting();
    let machine = setting.boot(BOOT_DEADLINE).unwrap();
    let pid = machine.pid();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    drop(machine);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "QEMU {pid} is still running");
}

#[test]
fn a_qemu_that_is_killed_is_said() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let pid = rustix::process::Pid::from_raw(machine.pid().try_into().unwrap()).unwrap();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
    let outcome = loop {
        if let Err(death) = machine.call(&Request::Hello, BOOT_DEADLINE) {
            break Err::<(), _>(death);
        }
    };
    killer.join().unwrap();
    check(outcome, "QEMU ended: signal: 9");
}

#[test]
fn a_qemu_that_is_told_to_end_says_by_whom() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let pid = rustix::process::Pid::from_raw(machine.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let outcome = machine.call(&Request::Wait { child: 0, milliseconds: 60_000 }, BOOT_DEADLINE);
    let outcome = outcome.and_then(|_| machine.call(&Request::Hello, BOOT_DEADLINE));
    check(outcome, "terminating on signal 15");
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

#[test]
fn a_guest_says_how_fast_it_is() {
    let setting = setting();
    let mut machine = setting.boot(BOOT_DEADLINE).unwrap();
    let mut all = vec![machine.hello().loop_micros];
    for _ in 0..4 {
        match machine.call(&Request::Hello, BOOT_DEADLINE).unwrap() {
            Reply::Hello(hello) => all.push(hello.loop_micros),
            other => panic!("{other:?}"),
        }
    }
    eprintln!("the agent's loop took, in µs: {all:?}");
    assert!(all.iter().all(|micros| (1..10_000_000).contains(micros)), "{all:?}");
    // It is measured each time: a restored machine may be slower or faster than the one that was saved.
    assert!(all.iter().any(|micros| *micros != all[0]), "{all:?}");
}
