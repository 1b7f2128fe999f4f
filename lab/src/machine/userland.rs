//! Machines with a whole userland, booted by the vmtest crate: a kernel, a Debian tree over 9p, and
//! the lab's agent as the command that it runs there.
//!
//! vmtest waits for its command without a deadline and keeps QEMU to itself. So QEMU connects to the
//! lab as well: agent port and monitor are sockets with an abstract name, which no file stands for,
//! and the process is known by its pidfile. From the agent's first word on, the machine is as any
//! other. vmtest's own sockets have fixed places; the script between it and QEMU removes them,
//! however this process ends, and makes the tree unwritable for the guest.

use super::{Accelerator, Death, LOG, Machine, MachineSpec, process::Process, qemu};
use crate::host::{interrupt, process::write_program};
use anyhow::{Context, Result, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    net::Shutdown,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process,
    sync::mpsc::{Receiver, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use vmtest::{Config, Target, VMConfig, Vmtest, output::Output};

/// How long a userland may take from power-on to the agent's first word. On an idle host it is ten
/// seconds.
const USERLAND_BOOT_DEADLINE: Duration = Duration::from_secs(180);

/// Where the guest finds [`Userland::shared`]: the place is vmtest's.
pub const SHARED: &str = "/mnt/vmtest";

/// The agent among what is shared.
const AGENT: &str = "agent";

/// Kernel parameters behind those of vmtest.
const CMDLINE: &[&str] = &[
    // Without the block layer the kernel takes for its root file system only what is named, here as
    // the script between vmtest and QEMU calls it.
    "root=root",
    // The tree is every guest's.
    "ro",
    // And none changes it: what was read once need not be read again. With vmtest's `cache=mmap` each
    // exec reads its program anew.
    "rootflags=trans=virtio,cache=loose,msize=1048576",
    // An unquiet console costs up to a second of boot under emulation.
    "quiet",
    "log_buf_len=1M",
    // A panic is for pvpanic to tell; vmtest would have the guest reboot.
    "panic=0",
];

/// The script between vmtest and QEMU.
const SCRIPT: &str = include_str!("qemu.sh");

/// What a machine with a userland has beside its kernel.
#[derive(Clone, Debug)]
pub struct Userland {
    /// The tree that is its root.
    pub tree: PathBuf,
    /// The agent's program.
    pub agent: PathBuf,
    /// QEMU's `-m`.
    pub memory: String,
    /// Files that the guest finds in [`SHARED`], by their names there.
    pub shared: Vec<(String, PathBuf)>,
}

impl Machine {
    /// As [`Machine::boot`], with a whole userland. Of the machine's own initramfs and memory it makes
    /// no use.
    pub fn boot_userland(
        spec: &MachineSpec,
        userland: &Userland,
        directory: &Path,
    ) -> Result<Machine, Death> {
        let until = Instant::now() + USERLAND_BOOT_DEADLINE;
        let start = || -> Result<Machine> {
            let (console, console_end) = UnixStream::pair()?;
            let mut boot = Boot::start(spec, userland, directory, console_end)?;
            let (port, monitor) = boot.connected(until, directory)?;
            Machine::assemble(Process::Vmtest(Box::new(boot)), console, port, monitor, directory)
        };
        let mut machine = start().map_err(|error| match interrupt::check() {
            Ok(()) => Death::Lab(error.context("vmtest cannot boot the userland")),
            Err(_) => Death::Interrupted,
        })?;
        machine.greet(until.saturating_duration_since(Instant::now()))?;
        Ok(machine)
    }
}

/// A QEMU that vmtest has started.
pub(super) struct Boot {
    /// vmtest's files; gone with the machine.
    place: TempDir,
    runner: JoinHandle<()>,
    agent: UnixListener,
    monitor: UnixListener,
    /// Known once QEMU has connected.
    qemu: Option<(u32, OwnedFd)>,
    /// What vmtest tells of the guest's console goes in here.
    console: UnixStream,
}

/// How long the last of the console may be on its way through vmtest once QEMU is gone.
const LAST_LINES: Duration = Duration::from_millis(50);

/// Where in its place a machine has what.
const PID: &str = "pid";
const STATUS: &str = "status";
const PROGRAM: &str = "qemu";

impl Boot {
    /// Has vmtest start QEMU. The guest's console goes to `console`.
    fn start(spec: &MachineSpec, userland: &Userland, directory: &Path, console: UnixStream) -> Result<Boot> {
        let place = tempfile::Builder::new()
            .prefix(".userland-")
            .tempdir_in(directory)
            .with_context(|| format!("cannot make a directory in `{}`", directory.display()))?;
        let shared = place.path().join("shared");
        fs::create_dir(&shared)?;
        let agent_program = (AGENT.to_owned(), userland.agent.clone());
        for (name, file) in userland.shared.iter().chain([&agent_program]) {
            share(file, &shared.join(name))?;
        }
        // Where vmtest writes its /init.
        let temporary = env::temp_dir();
        fs::create_dir_all(userland.tree.join(temporary.strip_prefix("/").unwrap_or(&temporary)))?;
        let (agent, agent_name) = listen(place.path(), "agent")?;
        let (monitor, monitor_name) = listen(place.path(), "monitor")?;
        let log = directory.join(LOG);
        write_script(place.path(), &userland.tree, &log)?;
        let target = target(spec, userland, place.path(), &agent_name, &monitor_name)?;
        let vmtest = Vmtest::new(&shared, Config { target: vec![target] })?;
        let (updates, received) = channel();
        let told = console.try_clone()?;
        // QEMU dies with this thread, which ends when QEMU does.
        let runner =
            thread::Builder::new().name("vmtest".into()).spawn(move || vmtest.run_one(0, updates))?;
        thread::Builder::new().name("vmtest-output".into()).spawn(move || follow(&received, told, &log))?;
        Ok(Boot { place, runner, agent, monitor, qemu: None, console })
    }

    /// Waits until QEMU has connected agent port and monitor.
    fn connected(&mut self, until: Instant, directory: &Path) -> Result<(UnixStream, UnixStream)> {
        let wait = |listener: &UnixListener| -> Result<UnixStream> {
            loop {
                match listener.accept() {
                    Ok((socket, _)) => {
                        socket.set_nonblocking(false)?;
                        return Ok(socket);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
                interrupt::check()?;
                if self.runner.is_finished() || Instant::now() > until {
                    let said = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
                    bail!("QEMU did not start\n{}", crate::host::process::tail(&said, 12));
                }
                thread::sleep(Duration::from_millis(5));
            }
        };
        let (agent, monitor) = (wait(&self.agent)?, wait(&self.monitor)?);
        // QEMU writes it before it connects anything.
        let pidfile = self.place.path().join(PID);
        let pid = fs::read_to_string(&pidfile).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let pid = pid.with_context(|| format!("QEMU wrote no `{}`", pidfile.display()))?;
        let raw = Pid::from_raw(pid.cast_signed()).context("QEMU wrote no process id")?;
        self.qemu = Some((pid, pidfd_open(raw, PidfdFlags::empty())?));
        Ok((agent, monitor))
    }

    pub(super) fn qemu_id(&self) -> u32 {
        self.qemu.as_ref().map_or(0, |(pid, _)| *pid)
    }

    pub(super) fn kill(&self) -> io::Result<()> {
        match &self.qemu {
            Some((_, qemu)) => Ok(pidfd_send_signal(qemu, Signal::KILL)?),
            None => Ok(()),
        }
    }

    /// How QEMU ended, if it does so in this time.
    pub(super) fn end(&self, within: Duration) -> Option<String> {
        let (_, qemu) = self.qemu.as_ref()?;
        let until = Instant::now() + within;
        let timeout = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
        // Readable once the process has ended; an interrupted wait is a short one.
        if !poll(&mut [PollFd::new(qemu, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0) {
            return None;
        }
        let status = self.place.path().join(STATUS);
        loop {
            let code = fs::read_to_string(&status).ok().and_then(|text| text.trim().parse::<i32>().ok());
            match code {
                Some(code @ 129..) => return Some(format!("signal: {}", code - 128)),
                Some(code) => return Some(format!("exit status: {code}")),
                // The script has still to see it.
                None if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
                None => return Some("it does not say how".into()),
            }
        }
    }

    /// Waits until QEMU is gone. vmtest itself may need seconds to notice, which nobody waits for.
    pub(super) fn wait(&self) {
        let _ = self.end(Duration::from_secs(5));
        thread::sleep(LAST_LINES);
        // Whoever copies the console has it whole.
        let _ = self.console.shutdown(Shutdown::Both);
    }
}

impl Drop for Boot {
    fn drop(&mut self) {
        // Where it fails, QEMU is gone already.
        let _ = self.kill();
    }
}

/// A file of the host's in a directory that a guest sees.
fn share(file: &Path, at: &Path) -> Result<()> {
    // A link costs nothing. It can only be made on one and the same file system.
    fs::hard_link(file, at)
        .or_else(|_| fs::copy(file, at).map(drop))
        .with_context(|| format!("cannot share `{}` with the guest", file.display()))
}

/// A socket with an abstract name that no other machine has.
fn listen(place: &Path, what: &str) -> Result<(UnixListener, String)> {
    let unique = place.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("ftrace-lab-{}{unique}-{what}", process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)
        .with_context(|| format!("cannot make the socket `{name}`"))?;
    listener.set_nonblocking(true)?;
    Ok((listener, name))
}

/// The script between vmtest and QEMU, for this machine.
fn write_script(place: &Path, tree: &Path, log: &Path) -> Result<()> {
    let quoted = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
    let assignments = format!(
        "program={} parent={} tree={} log={} status={}",
        qemu::PROGRAM,
        process::id(),
        quoted(tree),
        quoted(log),
        quoted(&place.join(STATUS)),
    );
    let line =
        SCRIPT.lines().find(|line| line.starts_with(": ")).context("its script has no place for it")?;
    write_program(&place.join(PROGRAM), &SCRIPT.replace(line, &assignments))
}

fn target(
    spec: &MachineSpec,
    userland: &Userland,
    place: &Path,
    agent: &str,
    monitor: &str,
) -> Result<Target> {
    let cmdline = CMDLINE.iter().copied().chain(spec.cmdline.iter().map(String::as_str));
    let pidfile = place.join(PID).to_string_lossy().into_owned();
    Ok(Target {
        name: "ftrace-lab".to_owned(),
        kernel: Some(spec.image.clone()),
        kernel_args: Some(cmdline.collect::<Vec<_>>().join(" ")),
        rootfs: userland.tree.clone(),
        arch: "aarch64".to_owned(),
        qemu_command: Some(place.join(PROGRAM).to_string_lossy().into_owned()),
        command: format!("exec {SHARED}/{AGENT}"),
        vm: VMConfig {
            num_cpus: u8::try_from(spec.cpus).context("a machine with too many CPUs for vmtest")?,
            memory: userland.memory.clone(),
            extra_args: qemu::beside_vmtest(spec, Accelerator::of_host(), agent, monitor, &pidfile),
            ..VMConfig::default()
        },
        ..Target::default()
    })
}

/// Takes what vmtest has to say until it is over: the console is passed on, an error of its own is
/// QEMU's last word.
fn follow(updates: &Receiver<Output>, mut console: UnixStream, log: &Path) {
    for update in updates {
        let error = match update {
            Output::Boot(line) | Output::Setup(line) | Output::Command(line) => {
                // Where nobody listens any more, the machine is being taken down.
                let _ = writeln!(console, "{line}");
                continue;
            }
            Output::BootEnd(Err(error)) | Output::SetupEnd(Err(error)) | Output::CommandEnd(Err(error)) => {
                format!("{error:#}")
            }
            Output::CommandEnd(Ok(status)) => format!("the agent ended with {status}"),
            _ => continue,
        };
        let file = File::options().append(true).create(true).open(log);
        let _ = file.and_then(|mut file| writeln!(file, "vmtest: {error}"));
    }
}
