//! Boots with the vmtest crate out of the box: the same kernel, with a Debian userland over 9p,
//! until a command has ended.

use crate::{
    host::{
        interrupt,
        process::{Tool, write_program},
    },
    kernel::Kernel,
    machine::qemu,
};
use anyhow::{Context, Result, anyhow, bail};
use fs_err as fs;
use std::{
    collections::VecDeque,
    env,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};
use vmtest::{Config, Target, VMConfig, Vmtest, output::Output};

/// The time limit of one run. An idle host needs ten seconds.
const DEADLINE: Duration = Duration::from_secs(120);

/// The number of lines of console shown after a failure.
const LINES: usize = 12;

/// Kernel parameters in addition to vmtest's own.
const CMDLINE: &str = concat!(
    // Without the block layer, the kernel only accepts a root filesystem of this name.
    "root=/dev/root",
    // The tree is shared with the cache.
    " ro",
);

/// The duration of one run, in seconds.
pub(super) struct Times {
    /// Until the command ended.
    pub(super) command: f64,
    /// Until QEMU exited.
    pub(super) whole: f64,
}

/// Boots `kernel` through vmtest with the userland `tree` and runs `true`. `directory` is for its
/// files.
pub(super) fn boot(kernel: &Kernel, tree: &Path, directory: &Path) -> Result<Times> {
    let place = tempfile::tempdir_in(directory)?;
    let root = place.path().join("root");
    // vmtest writes its /init to the tree, so this one is a copy of the cache's.
    Tool::new("cp").arg("--archive").arg("--link").arg(tree).arg(&root).run()?;
    let temporary = env::temp_dir();
    fs::create_dir_all(root.join(temporary.strip_prefix("/").unwrap_or(&temporary)))?;
    let shared = place.path().join("shared");
    fs::create_dir(&shared)?;
    let target = target(kernel, &root, place.path())?;
    let vmtest = Vmtest::new(&shared, Config { target: vec![target] })?;

    let started = Instant::now();
    let (updates, received) = channel();
    thread::scope(|scope| {
        let run = scope.spawn(|| vmtest.run_one(0, updates));
        let command = follow(&received, started);
        if command.is_err() {
            stop(&place.path().join(PID));
        }
        // After QEMU has exited, vmtest ends and removes its sockets.
        if run.join().is_err() {
            bail!("vmtest panicked");
        }
        Ok(Times { command: command?, whole: started.elapsed().as_secs_f64() })
    })
    .context("the stock boot by vmtest failed")
}

/// The name of QEMU's pidfile.
const PID: &str = "pid";

fn target(kernel: &Kernel, root: &Path, directory: &Path) -> Result<Target> {
    // vmtest lets QEMU outlive it, so a script kills QEMU with its parent.
    let program = directory.join("qemu");
    let script = format!("#!/bin/sh\nexec setpriv --pdeathsig KILL {} \"$@\"\n", qemu::PROGRAM);
    write_program(&program, &script)?;
    let machine = &kernel.spec.machine;
    Ok(Target {
        name: kernel.name.clone(),
        kernel: Some(kernel.image()),
        kernel_args: Some(CMDLINE.to_owned()),
        rootfs: root.to_owned(),
        arch: "aarch64".to_owned(),
        qemu_command: Some(program.to_string_lossy().into_owned()),
        command: "true".to_owned(),
        vm: VMConfig {
            num_cpus: u8::try_from(machine.smp).context("the machine has too many CPUs for vmtest")?,
            memory: machine.memory.to_string(),
            extra_args: vec!["-pidfile".to_owned(), directory.join(PID).to_string_lossy().into_owned()],
            ..VMConfig::default()
        },
        ..Target::default()
    })
}

/// Waits until the command has ended. Returns the seconds since `started`.
fn follow(updates: &Receiver<Output>, started: Instant) -> Result<f64> {
    let mut console = VecDeque::new();
    loop {
        interrupt::check()?;
        if started.elapsed() > DEADLINE {
            bail!("the deadline of {} s passed\n{}", DEADLINE.as_secs(), tail(&console));
        }
        let error = match updates.recv_timeout(Duration::from_millis(100)) {
            Ok(Output::Boot(line) | Output::Setup(line) | Output::Command(line)) => {
                console.push_back(line.chars().take(200).collect::<String>());
                if console.len() > LINES {
                    console.pop_front();
                }
                continue;
            }
            Ok(Output::CommandEnd(Ok(0))) => return Ok(started.elapsed().as_secs_f64()),
            Ok(Output::CommandEnd(Ok(status))) => anyhow!("`true` ended with {status}"),
            Ok(
                Output::BootEnd(Err(error)) | Output::SetupEnd(Err(error)) | Output::CommandEnd(Err(error)),
            ) => error,
            Err(RecvTimeoutError::Disconnected) => anyhow!("vmtest ended without an error message"),
            Ok(_) | Err(RecvTimeoutError::Timeout) => continue,
        };
        bail!("{error:#}\n{}", tail(&console));
    }
}

fn tail(console: &VecDeque<String>) -> String {
    console.iter().map(|line| format!("    {}\n", line.trim_end())).collect()
}

/// Kills the QEMU that wrote this pidfile. If there is none yet, vmtest notices QEMU's failure
/// itself.
fn stop(pidfile: &Path) {
    let pid = fs::read_to_string(pidfile).ok().and_then(|text| text.trim().parse().ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        // If this fails, it has already exited.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
