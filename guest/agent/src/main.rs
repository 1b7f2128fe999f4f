//! PID 1 of the guest. Its contract:
//!
//! 1. It mounts the filesystems that [`mounts`] lists, loads the modules in /boot in the order of
//!    their names, then serves `protocol` over the virtio-serial port [`protocol::PORT_NAME`]: one
//!    request, one reply, in order.
//! 2. No request makes it panic. If the kernel rejects a request, the reply is the errno. A malformed
//!    frame is answered with EBADMSG, and one over the cap with EMSGSIZE, after which the agent drops
//!    everything until the lab closes the port.
//! 3. When the port closes, the agent kills and forgets the children of that connection, drops a
//!    partly received request, and says so on the console; the next connection starts afresh. The
//!    kernel reports a close later than it delivers bytes, so bytes that the next connection sends
//!    before that still count as the previous one's.
//! 4. Every process that loses its parent is reaped.
//! 5. If the port is missing or fails, the agent says so on the console and powers the machine off.
//!
//! Inside a whole userland it can also run as an ordinary program of root. It then exits instead of
//! powering the machine off, and touches nothing before it has found the port.
//!
//! What it does while a scenario runs shows in the scenario's trace. It therefore reads and writes as
//! [`vectored`] does, starts programs as [`exec`] does, and has a `main` of its own: that of the standard
//! library reads /proc/self/maps with read(2), also in the children that load modules.

#![cfg_attr(not(test), no_main)]

mod children;
mod events;
mod exec;
mod files;
mod kcore;
mod kernel_log;
mod modules;
mod mounts;
mod port;
mod refusal;
mod serve;
mod speed;
mod stream;
mod terminal;
mod trace;
mod vectored;

use rustix::{
    process::{Signal, getppid, kill_process},
    system::{RebootCommand, reboot},
};
use std::{
    ffi::{CStr, c_char, c_int},
    fs, io, process,
};

/// The function that the C library calls.
///
/// # Safety
/// `arguments` points to `count` pointers to strings.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    // SAFETY: the children run with the signal's default action, and a write to a closed pipe is EPIPE here.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let arguments = (1..usize::try_from(count).unwrap_or_default()).map(|index| {
        // SAFETY: as the caller guarantees.
        unsafe { CStr::from_ptr(*arguments.add(index)) }.to_string_lossy().into_owned()
    });
    run(&arguments.collect::<Vec<_>>())
}

fn run(arguments: &[String]) -> i32 {
    let init = process::id() == 1;
    // As init, the agent ignores its arguments: they come from the kernel command line.
    if !init && let Some(status) = modules::child(arguments) {
        return status;
    }
    let error = match start(init) {
        Ok(mut server) => server.run(),
        Err(error) => error,
    };
    eprintln!("agent: {error}");
    if init {
        power_off();
    }
    1
}

fn start(init: bool) -> io::Result<serve::Server> {
    std::env::set_current_dir("/")?;
    if init {
        mounts::mount_all();
        modules::load_all();
    }
    let port = port::Port::open()?;
    if !init {
        mounts::mount_in_a_tree();
        stop_guest_agent()?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    serve::Server::new(port)
}

/// Stops QEMU's guest agent, if it started this process: vmtest asks it every few seconds whether this
/// process runs, and its answers would be writes in the scenario's trace.
fn stop_guest_agent() -> io::Result<()> {
    let Some(parent) = getppid() else { return Ok(()) };
    if fs::read_to_string(format!("/proc/{}/comm", parent.as_raw_nonzero()))?.trim_end() == "qemu-ga" {
        kill_process(parent, Signal::STOP)?;
    }
    Ok(())
}

/// Syncs and powers the machine off. Returns only on failure.
fn power_off() {
    rustix::fs::sync();
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        eprintln!("agent: cannot power off: {error}");
    }
}
