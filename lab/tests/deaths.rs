//! Machines that die before their work is done, each for real: the lab must say how.

use anyhow::Result;
use lab::{
    cache::Cache,
    guest::{self, Guest, initramfs},
    host::prerequisites::{self, Need},
    kernel::{self, Kernel},
    machine::{BOOT_DEADLINE, Death, Machine, MachineSpec},
    progress::Progress,
    run::machine_spec,
};
use protocol::{Request, WriteMode};
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};
use tempfile::TempDir;

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
    let panic = machine.call(&write("/proc/sysrq-trigger", "c"), BOOT_DEADLINE);
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
    let spawn =
        Request::Spawn { argv: vec!["/no/such/program".into()], env: vec![], stdin: vec![], output_max: 100 };
    let reply = machine.call(&spawn, BOOT_DEADLINE).unwrap();
    assert!(matches!(reply, protocol::Reply::Errno { errno: 2, .. }), "{reply:?}");
    // The guest's answer takes longer than a microsecond.
    check(machine.call(&Request::Hello, Duration::from_micros(1)), "no answer within");
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
