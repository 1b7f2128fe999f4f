//! A running guest, from boot to power-off; dropping it kills QEMU.
//!
//! QEMU inherits three connected sockets: console, agent port, monitor. There is no path in the
//! filesystem to clean up, and QEMU dies with the thread that started it, however that ends. Every
//! wait has a deadline and also watches the monitor, so that a death is noticed at once.

mod boot;
mod console;
mod death;
mod dump;
mod executed;
mod gdbstub;
mod monitor;
mod plugin;
mod port;
mod process;
pub mod qemu;
mod snapshot;
mod speed;
mod standby;
mod version;
mod vmtest;
mod withheld;

pub use boot::Subject;
pub use boot::machine_spec;
pub(crate) use boot::{boot_userland, machine_with, restored_spec, restores_hooks};
pub use console::{CONSOLE_MAX, panic_line};
pub use death::Death;
pub use dump::VMCORE;
#[doc(hidden)]
pub use dump::mark_notes_complete;
pub(crate) use executed::{Executed, executed};
pub(crate) use plugin::measured;
pub use qemu::{Accelerator, MachineSpec};
pub use snapshot::Snapshots;
pub use speed::{REFERENCE_MICROS, TIME_SCALE, time_scale};
pub use standby::StandbyMachine;
pub(crate) use version::{misses_patches, version_text};
pub(crate) use vmtest::{ENVIRONMENT, VMLINUX};
pub use vmtest::{SHARED, Userland, boot_if_child};

use crate::{cache::Lease, host::process::die_with_parent};
use anyhow::{Context, Result};
use console::Console;
use fs_err as fs;
use monitor::{Ending, Monitor};
use port::{Port, PortState};
use process::Process;
use protocol::{FrameError, Hello, Reply, Request};
use qapi::qmp;
use qemu::Memory;
use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::Signal,
};
use std::{
    io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use withheld::Withheld;

/// The time limit from power-on to the agent's greeting.
pub const BOOT_DEADLINE: Duration = Duration::from_secs(60);

/// The guest's console output.
const CONSOLE: &str = "console.txt";

/// QEMU's stderr.
const LOG: &str = "qemu.log";

/// The description of a request that waits for a child, as in [`Death::Deadline`].
pub(crate) const END_OF_A_PROCESS: &str = "the end of a process";

/// The time after a panic in which its message may still arrive on the console.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A running guest with an agent that answers.
pub struct Machine {
    qemu: Process,
    monitor: Monitor,
    port: UnixStream,
    port_state: PortState,
    console: Console,
    directory: PathBuf,
    hello: Hello,
    /// The snapshot it was restored from, which stays in the cache while this is held.
    snapshot: Option<Lease>,
}

impl Machine {
    /// Starts QEMU and waits for the agent. `directory` gets `console.txt`, `qemu.log`, and
    /// [`VMCORE`] if the guest panics.
    pub fn boot(spec: &MachineSpec, directory: &Path, deadline: Duration) -> Result<Machine, Death> {
        let mut machine = Machine::start(spec, Memory::Anonymous, directory).map_err(Death::Lab)?;
        machine.greet(deadline)?;
        Ok(machine)
    }

    /// Waits for the agent's greeting.
    fn greet(&mut self, deadline: Duration) -> Result<(), Death> {
        match self.call(&Request::Hello, deadline) {
            Ok(Reply::Hello(hello)) if hello.version == protocol::VERSION => {
                self.hello = hello;
                Ok(())
            }
            Ok(other) => Err(Death::AgentLost(format!("its greeting was {other:?}"))),
            Err(Death::Deadline { after, .. }) => Err(Death::NoBoot { after, console: self.console() }),
            Err(death) => Err(death),
        }
    }

    fn start(spec: &MachineSpec, memory: Memory<'_>, directory: &Path) -> Result<Machine> {
        let log = directory.join(LOG);
        let (console, console_end) = UnixStream::pair()?;
        let (port, port_end) = UnixStream::pair()?;
        let (monitor, monitor_end) = UnixStream::pair()?;
        let sockets = qemu::Sockets {
            console: console_end.as_raw_fd(),
            agent: port_end.as_raw_fd(),
            monitor: monitor_end.as_raw_fd(),
        };
        let mut arguments = qemu::arguments(spec, Accelerator::of_host(), memory, sockets);
        arguments.extend(executed::arguments(spec, directory)?);
        let ends = Arc::new([console_end, port_end, monitor_end]);
        let expression = {
            let ends = Arc::clone(&ends);
            duct::cmd(qemu::PROGRAM, arguments)
                .stdin_null()
                .stdout_null()
                .stderr_path(&log)
                .unchecked()
                .before_spawn(move |command| {
                    die_with_parent(command, Signal::KILL);
                    inherit(command, &ends);
                    Ok(())
                })
        };
        let qemu = expression.start().with_context(|| format!("cannot run `{}`", qemu::PROGRAM))?;
        // Only QEMU may hold its ends, otherwise its death would not close them.
        drop((expression, ends));
        Machine::assemble(Process::Own(Box::new(qemu)), console, port, monitor, directory)
    }

    /// Creates the machine of a QEMU that has just started.
    fn assemble(
        qemu: Process,
        console: UnixStream,
        port: UnixStream,
        monitor: UnixStream,
        directory: &Path,
    ) -> Result<Machine> {
        let console = Console::copy(console, &directory.join(CONSOLE))?;
        port.set_nonblocking(true)?;
        let monitor = match Monitor::connect(monitor) {
            Ok(monitor) => monitor,
            Err(error) => {
                let status = qemu.end(Duration::from_secs(2));
                let status = status.unwrap_or_else(|| "it still runs, but its monitor is silent".into());
                qemu.kill()?;
                let said = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
                return Err(anyhow::Error::from(error).context(format!(
                    "QEMU did not start ({status})\n{}",
                    crate::host::process::tail(&said, 12)
                )));
            }
        };
        let port_state = PortState::new(qemu.id(), Arc::clone(&console.panicked));
        let hello = Hello::default();
        let directory = directory.to_owned();
        Ok(Machine { qemu, monitor, port, port_state, console, directory, hello, snapshot: None })
    }

    /// Sets a deadline for what follows: the host has withheld nothing yet.
    pub(crate) fn begin_deadline(&mut self) {
        self.port_state.withheld = Withheld::new(self.qemu.id());
    }

    /// Returns the time by which the deadline was extended, since the host withheld it from the guest.
    pub(crate) fn granted(&self) -> Duration {
        self.port_state.withheld.granted
    }

    /// Extends a deadline that has passed by what was withheld since the last extension; returns that.
    pub(crate) fn grant(&mut self) -> Duration {
        self.port_state.withheld.grant()
    }

    /// Returns the agent's greeting.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns QEMU's output on stderr.
    fn last_words(&self) -> String {
        fs::read_to_string(self.directory.join(LOG)).unwrap_or_default()
    }

    /// Returns the number of blocks of code that it has noted so far, see [`executed`]; 0 if it makes no notes.
    pub(crate) fn noted(&self) -> u64 {
        executed::noted(&self.directory)
    }

    /// Returns the blocks of code that it has noted so far.
    ///
    /// # Errors
    /// It makes no notes.
    pub(crate) fn executed_so_far(&self) -> Result<Executed> {
        executed::so_far(&self.directory)
    }

    /// Returns QEMU's PID.
    pub fn pid(&self) -> u32 {
        self.qemu.id()
    }

    /// Returns the guest's console output so far.
    pub fn console(&self) -> String {
        self.console.text()
    }

    /// Presses sysrq keys on the console, which needs no task of the guest. Returns the console with what each
    /// key printed.
    pub(crate) fn press_sysrq(&mut self, keys: &[u8]) -> io::Result<String> {
        for key in keys {
            self.monitor.execute(&qmp::chardev_send_break { id: qemu::CONSOLE.to_owned() })?;
            self.console.press(*key)?;
            self.console.settle();
        }
        Ok(self.console())
    }

    /// Appends a line of the lab to the console's file, after the guest's output so far.
    pub fn mark_console(&mut self, line: &str) {
        self.console.mark(line);
    }

    /// Sends a request and waits for the reply.
    pub fn call(&mut self, request: &Request, within: Duration) -> Result<Reply, Death> {
        let mut replies = self.call_all(std::slice::from_ref(request), within)?;
        replies.pop().ok_or_else(|| Death::AgentLost("it gave no reply".into()))
    }

    /// Sends several requests in one round trip; the agent executes them in order.
    pub fn call_all(&mut self, requests: &[Request], within: Duration) -> Result<Vec<Reply>, Death> {
        self.begin_deadline();
        self.call_in_deadline(requests, within)
    }

    /// Like [`Machine::call_all`], within the rest of the deadline that [`Machine::begin_deadline`] set.
    pub(crate) fn call_in_deadline(
        &mut self,
        requests: &[Request],
        within: Duration,
    ) -> Result<Vec<Reply>, Death> {
        let until = Instant::now() + within;
        let mut replies = Vec::with_capacity(requests.len());
        let mut port = Port::new(&self.port, &mut self.monitor, &mut self.port_state, until);
        let Err(error) = port.converse(requests, &mut replies) else { return Ok(replies) };
        let ending = port.ending();
        let request = requests.get(replies.len()).map(described).unwrap_or_default();
        Err(self.death(error, ending, request, within))
    }

    /// Like [`Machine::call`], but returns `None` once one of `others` is readable; the reply is
    /// then dropped.
    pub fn call_unless(
        &mut self,
        request: &Request,
        within: Duration,
        others: &[BorrowedFd<'_>],
    ) -> Result<Option<Reply>, Death> {
        self.begin_deadline();
        let until = Instant::now() + within;
        let mut port = Port::new(&self.port, &mut self.monitor, &mut self.port_state, until);
        match port.converse_unless(request, others) {
            Ok(reply) => Ok(reply),
            Err(error) => {
                let ending = port.ending();
                Err(self.death(error, ending, described(request), within))
            }
        }
    }

    /// Determines the kind of death from a failed conversation.
    fn death(
        &mut self,
        error: FrameError,
        ending: Option<Ending>,
        request: String,
        within: Duration,
    ) -> Death {
        match ending {
            Some(Ending::Panicked) => {
                std::thread::sleep(LAST_WORDS);
                return self.panic();
            }
            Some(Ending::PoweredOff) => return Death::PoweredOff { console: self.console() },
            Some(Ending::Rebooted) => return Death::Rebooted,
            None => {}
        }
        if crate::host::interrupt::check().is_err() {
            return Death::Interrupted;
        }
        match error {
            // Not every kernel has a driver for pvpanic.
            FrameError::Io(error)
                if error.kind() == io::ErrorKind::TimedOut && self.console.shows_panic() =>
            {
                self.panic()
            }
            FrameError::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
                Death::Deadline { after: within, scale: 1.0, request }
            }
            FrameError::Io(_) | FrameError::Closed => match self.qemu.end(Duration::from_secs(1)) {
                Some(status) => Death::QemuEnded { status, last_words: self.last_words() },
                None => Death::AgentLost(error.to_string()),
            },
            FrameError::TooLong(_) | FrameError::Malformed(_) => Death::AgentLost(error.to_string()),
        }
    }

    fn panic(&mut self) -> Death {
        let message = panic_line(&self.console());
        let directory = self.directory.clone();
        Death::Panic { message, dumped: self.dump(&directory) }
    }

    /// Asks the guest to power off and waits until QEMU exits.
    pub fn power_off(mut self, within: Duration) -> Result<(), Death> {
        match self.call(&Request::PowerOff, within) {
            Err(Death::PoweredOff { .. } | Death::QemuEnded { .. }) => Ok(()),
            Err(death) => Err(death),
            Ok(reply) => Err(Death::AgentLost(format!("it answered a power-off with {reply:?}"))),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Nothing is left to do if this fails: the process has already exited.
        let _ = self.qemu.kill();
        self.qemu.wait();
        self.console.finish();
    }
}

/// Lets the child, and no other process, inherit these sockets.
fn inherit(command: &mut std::process::Command, ends: &Arc<[UnixStream; 3]>) {
    let fds: Vec<i32> = ends.iter().map(AsRawFd::as_raw_fd).collect();
    // SAFETY: between fork and exec the closure only makes fcntl calls on descriptors that the
    // parent keeps open until the child has been spawned.
    unsafe {
        command.pre_exec(move || {
            for &fd in &fds {
                fcntl_setfd(BorrowedFd::borrow_raw(fd), FdFlags::empty())?;
            }
            Ok(())
        });
    }
}

/// Describes a request in a deadline's message: its kind and its object, without its data.
fn described(request: &Request) -> String {
    match request {
        Request::WriteFile { path, .. } => format!("a write to `{path}`"),
        Request::ReadFile { path, .. } => format!("a read of `{path}`"),
        Request::Push { path, .. } => format!("pushing `{path}`"),
        Request::LoadModule { path, .. } => format!("loading `{path}`"),
        Request::Spawn { argv, .. } => format!("starting `{}`", argv.join(" ")),
        Request::Wait { .. } => END_OF_A_PROCESS.into(),
        Request::Output { .. } | Request::Take { .. } | Request::Listen { .. } => {
            "the output of a process".into()
        }
        Request::Feed { .. } => "a process to take its input".into(),
        other => {
            let name = format!("{other:?}");
            format!("`{}`", name.split([' ', '{', '(']).next().unwrap_or_default())
        }
    }
}
