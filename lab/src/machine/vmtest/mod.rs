//! Machines with a whole userland, booted by the vmtest crate: a kernel, a Debian tree over 9p, and
//! the lab's agent as the command that vmtest runs there.
//!
//! vmtest waits for its command without a deadline and does not expose QEMU. QEMU therefore also
//! connects to the lab: agent port and monitor are sockets in a directory of this user, which accept only
//! the process in QEMU's pidfile. After the agent's greeting, the machine is like any other.
//!
//! vmtest runs in a child process, whose environment has no variable of the host. The script between
//! vmtest and QEMU moves vmtest's own sockets, which have fixed paths, to the same directory. It removes
//! all of them, however this process ends, and makes the tree read-only for the guest.

mod child;

pub use child::boot_if_child;

use super::{Accelerator, Death, LOG, Machine, MachineSpec, executed, process::Process, qemu};
use crate::host::{interrupt, process::write_program};
use anyhow::{Context, Result, bail};
use child::Order;
use duct::Handle;
use fs_err as fs;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    env,
    fs::Permissions,
    io,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The time limit from power-on to the agent's greeting. An idle host needs ten seconds.
const USERLAND_BOOT_DEADLINE: Duration = Duration::from_secs(180);

/// The guest's path of [`Userland::shared`], which vmtest defines.
pub const SHARED: &str = "/mnt/vmtest";

/// The name of vmlinux among the shared files.
pub(crate) const VMLINUX: &str = "vmlinux";

/// The environment of programs that run in a userland, and of vmtest, which passes its own to the guest.
pub(crate) const ENVIRONMENT: [&str; 5] =
    ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "TERM=dumb", "LC_ALL=C"];

/// The name of the agent among the shared files.
const AGENT: &str = "agent";

/// Kernel parameters that follow vmtest's.
const CMDLINE: &[&str] = &[
    // Without the block layer, the kernel only accepts a root filesystem of this name, which the
    // script between vmtest and QEMU uses.
    "root=root",
    // All guests share the tree.
    "ro",
    // No guest changes the tree, so data that was read once need not be read again. With vmtest's
    // `cache=mmap`, each exec reads its program again.
    "rootflags=trans=virtio,cache=loose,msize=1048576",
    // Without `quiet`, the console costs up to a second of boot under emulation.
    "quiet",
    "log_buf_len=1M",
    // pvpanic reports a panic; vmtest's default is to reboot the guest.
    "panic=0",
];

/// The script between vmtest and QEMU.
const SCRIPT: &str = include_str!("qemu.sh");

/// The parts of a machine with a userland, in addition to its kernel.
#[derive(Clone, Debug)]
pub struct Userland {
    /// The tree that is its root filesystem.
    pub tree: PathBuf,
    /// The agent's program.
    pub agent: PathBuf,
    /// QEMU's `-m`.
    pub memory: String,
    /// The initramfs that mounts the tree, for a kernel that cannot.
    pub initramfs: Option<PathBuf>,
    /// Files in the guest's directory [`SHARED`], by their names there.
    pub shared: Vec<(String, PathBuf)>,
}

impl Machine {
    /// Like [`Machine::boot`], but with a whole userland. Ignores `initramfs` and `memory` of
    /// `spec`.
    pub fn boot_userland(
        spec: &MachineSpec,
        userland: &Userland,
        directory: &Path,
    ) -> Result<Machine, Death> {
        let until = Instant::now() + USERLAND_BOOT_DEADLINE;
        let start = || -> Result<Machine> {
            let (console, console_end) = UnixStream::pair()?;
            let (mut boot, listeners) = Boot::start(spec, userland, directory, console_end)?;
            let [port, monitor] = boot.connected(listeners, until, directory)?;
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

/// A QEMU started by vmtest.
pub(super) struct Boot {
    /// The lab's files, removed with the machine.
    place: TempDir,
    /// The directory of all sockets, which only this user can reach.
    sockets: TempDir,
    /// The process that runs vmtest.
    child: Handle,
    /// Known once QEMU has connected.
    qemu: Option<(u32, OwnedFd)>,
}

/// The time that the end of the console may need to pass through vmtest after QEMU has exited.
const LAST_LINES: Duration = Duration::from_millis(50);

/// Names of files in `place`.
const PID: &str = "pid";
const STATUS: &str = "status";
const PROGRAM: &str = "qemu";

/// The directory of [`Boot::sockets`]: the path of a socket has at most 107 bytes, and vmtest's own are
/// there.
const SOCKETS: &str = "/tmp";

/// The sockets that QEMU connects to: those of agent port and monitor.
type Listeners = [UnixListener; 2];

impl Boot {
    /// Starts QEMU through vmtest. The guest's console goes to `console`.
    fn start(
        spec: &MachineSpec,
        userland: &Userland,
        directory: &Path,
        console: UnixStream,
    ) -> Result<(Boot, Listeners)> {
        let private = |prefix: &str, parent: &Path| {
            let mut builder = tempfile::Builder::new();
            let made = builder.prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(parent);
            made.with_context(|| format!("cannot create a directory in `{}`", parent.display()))
        };
        let (place, sockets) =
            (private(".userland-", directory)?, private("ftrace-lab-", Path::new(SOCKETS))?);
        let shared = place.path().join("shared");
        fs::create_dir(&shared)?;
        let agent_program = (AGENT.to_owned(), userland.agent.clone());
        for (name, file) in userland.shared.iter().chain([&agent_program]) {
            share(file, &shared.join(name))?;
        }
        // vmtest writes its /init there: the directory in its TMPDIR, in the tree.
        fs::create_dir_all(userland.tree.join("tmp"))?;
        let paths = ["agent", "monitor"].map(|name| sockets.path().join(name));
        let listeners = [listen(&paths[0])?, listen(&paths[1])?];
        let mut order = order(spec, userland, place.path(), shared, &paths)?;
        order.arguments.extend(executed::arguments(spec, directory)?);
        let (child, pipe) = child::start(console, directory)?;
        let boot = Boot { place, sockets, child, qemu: None };
        boot.write_script(&userland.tree, &directory.join(LOG))?;
        serde_json::to_writer(pipe, &order).context("cannot give vmtest its order")?;
        Ok((boot, listeners))
    }

    /// Writes the script between vmtest and QEMU for this machine.
    fn write_script(&self, tree: &Path, log: &Path) -> Result<()> {
        let quoted = |text: &Path| format!("'{}'", text.to_string_lossy().replace('\'', r"'\''"));
        let assignments = format!(
            "PATH={} program={} parent={} tree={} sockets={} log={} status={}",
            // The child's is that of the guest.
            quoted(Path::new(&env::var_os("PATH").unwrap_or_default())),
            qemu::PROGRAM,
            self.child.pids().first().context("vmtest's process has no PID")?,
            quoted(tree),
            quoted(self.sockets.path()),
            quoted(log),
            quoted(&self.place.path().join(STATUS)),
        );
        let line = SCRIPT
            .lines()
            .find(|line| line.starts_with(": "))
            .context("the script lacks the line for its variables")?;
        write_program(&self.place.path().join(PROGRAM), &SCRIPT.replace(line, &assignments))
    }

    /// Waits until QEMU has connected to agent port and monitor.
    fn connected(
        &mut self,
        listeners: Listeners,
        until: Instant,
        directory: &Path,
    ) -> Result<[UnixStream; 2]> {
        let pidfile = self.place.path().join(PID);
        let wait = |listener: &UnixListener| -> Result<(UnixStream, Pid)> {
            loop {
                if let Some(accepted) = accept(listener, &pidfile)? {
                    return Ok(accepted);
                }
                interrupt::check()?;
                if self.child.try_wait()?.is_some() || Instant::now() > until {
                    let said = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
                    bail!("QEMU did not start\n{}", crate::host::process::tail(&said, 12));
                }
                thread::sleep(Duration::from_millis(5));
            }
        };
        let ((agent, qemu), (monitor, _)) = (wait(&listeners[0])?, wait(&listeners[1])?);
        self.qemu = Some((qemu.as_raw_pid().cast_unsigned(), pidfd_open(qemu, PidfdFlags::empty())?));
        Ok([agent, monitor])
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

    /// Returns QEMU's exit status, if it exits within this time.
    pub(super) fn end(&self, within: Duration) -> Option<String> {
        let (_, qemu) = self.qemu.as_ref()?;
        let until = Instant::now() + within;
        let timeout = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
        // Readable once the process has exited; an interrupted wait counts as a short one.
        if !poll(&mut [PollFd::new(qemu, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0) {
            return None;
        }
        let status = self.place.path().join(STATUS);
        loop {
            let code = fs::read_to_string(&status).ok().and_then(|text| text.trim().parse::<i32>().ok());
            match code {
                Some(code @ 129..) => return Some(format!("signal: {}", code - 128)),
                Some(code) => return Some(format!("exit status: {code}")),
                // The script has not noticed the exit yet.
                None if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
                None => return Some("it does not say how".into()),
            }
        }
    }

    /// Ends vmtest's process, and QEMU through it.
    fn end_child(&self) {
        // If this fails, it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until QEMU has exited. vmtest itself may need seconds to notice, which is not waited
    /// for.
    pub(super) fn wait(&self) {
        let _ = self.end(Duration::from_secs(5));
        thread::sleep(LAST_LINES);
        // The copier of the console then sees its end.
        self.end_child();
    }
}

impl Drop for Boot {
    fn drop(&mut self) {
        // If this fails, QEMU has already exited.
        let _ = self.kill();
        self.end_child();
    }
}

/// Makes a host file available in a directory that the guest sees.
fn share(file: &Path, at: &Path) -> Result<()> {
    // A hard link costs nothing but requires the same filesystem.
    fs::hard_link(file, at)
        .or_else(|_| fs::copy(file, at).map(drop))
        .context("cannot share a file with the guest")
}

/// Creates a listening socket.
fn listen(path: &Path) -> Result<UnixListener> {
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot create the socket `{}`", path.display()))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts QEMU's connection, if there is one, and closes that of any other process.
fn accept(listener: &UnixListener, pidfile: &Path) -> Result<Option<(UnixStream, Pid)>> {
    let socket = match listener.accept() {
        Ok((socket, _)) => socket,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // QEMU writes the pidfile before it connects.
    let pid = fs::read_to_string(pidfile).ok().and_then(|text| text.trim().parse().ok());
    let peer = socket_peercred(&socket)?.pid;
    if pid != Some(peer.as_raw_pid()) {
        return Ok(None);
    }
    socket.set_nonblocking(false)?;
    Ok(Some((socket, peer)))
}

/// Returns the machine that vmtest boots, with sockets at these paths.
fn order(
    spec: &MachineSpec,
    userland: &Userland,
    place: &Path,
    shared: PathBuf,
    [agent, monitor]: &[PathBuf; 2],
) -> Result<Order> {
    let cmdline = CMDLINE.iter().copied().chain(spec.cmdline.iter().map(String::as_str));
    let mut arguments = qemu::beside_vmtest(spec, Accelerator::of_host(), agent, monitor, &place.join(PID));
    if let Some(initramfs) = &userland.initramfs {
        arguments.extend(["-initrd".to_owned(), initramfs.to_string_lossy().into_owned()]);
    }
    Ok(Order {
        image: spec.image.clone(),
        cmdline: cmdline.collect::<Vec<_>>().join(" "),
        tree: userland.tree.clone(),
        shared,
        program: place.join(PROGRAM),
        cpus: u8::try_from(spec.cpus).context("the machine has too many CPUs for vmtest")?,
        memory: userland.memory.clone(),
        arguments,
    })
}
