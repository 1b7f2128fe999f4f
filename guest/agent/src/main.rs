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

mod children;
mod events;
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

use rustix::system::{RebootCommand, reboot};
use std::{io, process};

fn main() {
    let init = process::id() == 1;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // As init, the agent ignores its arguments: they come from the kernel command line.
    if !init && let Some(status) = modules::child(&arguments) {
        process::exit(status);
    }
    let error = match start(init) {
        Ok(mut server) => server.run(),
        Err(error) => error,
    };
    eprintln!("agent: {error}");
    if init {
        power_off();
    }
    process::exit(1);
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
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    serve::Server::new(port)
}

/// Syncs and powers the machine off. Returns only on failure.
fn power_off() {
    rustix::fs::sync();
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        eprintln!("agent: cannot power off: {error}");
    }
}
