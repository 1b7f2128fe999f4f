//! PID 1 of the guest. Its contract:
//!
//! 1. It mounts what [`mounts`] lists, loads the modules in /boot by their order, then serves `protocol` over the virtio-serial port
//!    [`protocol::PORT_NAME`]: one request, one reply, in order.
//! 2. No request makes it panic. What the kernel refuses is answered with its errno, a frame that
//!    makes no sense with EBADMSG, and one over the cap with EMSGSIZE, after which everything is
//!    dropped until the lab closes the port.
//! 3. When the port closes, the children of that connection are killed and forgotten, whatever was
//!    half received is dropped, the console is told, and the next connection starts afresh. The
//!    kernel tells of a close later than it hands out bytes: what a next connection sends in that
//!    moment still counts as the former's.
//! 4. Every process that loses its parent is reaped.
//! 5. When there is no port, or it cannot be used any more, the console is told and the machine is
//!    powered off.
//!
//! Inside a whole userland it can also run as an ordinary program of root. It then ends instead of
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
    // What the kernel passes to init is none of this program's business.
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

/// Syncs and powers the machine off. Returns only if the kernel would not.
fn power_off() {
    rustix::fs::sync();
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        eprintln!("agent: cannot power off: {error}");
    }
}
