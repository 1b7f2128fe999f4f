//! The QMP monitor: commands to QEMU and events of its guest.

use qapi::{Execute, ExecuteError, Qmp, Stream, qmp};
use rustix::{
    io::retry_on_intr,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

/// The time limit for an answer of QEMU's monitor, which QEMU serves from its main loop.
pub(super) const MONITOR_DEADLINE: Duration = Duration::from_secs(10);

/// A connected monitor.
pub(super) struct Monitor {
    qmp: Qmp<Stream<BufReader<UnixStream>, UnixStream>>,
}

/// The end of a guest, as reported by the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// pvpanic reported a panic.
    Panicked,
    /// The guest powered itself off.
    PoweredOff,
    /// The guest rebooted.
    Rebooted,
}

impl Monitor {
    /// Performs the handshake with a QEMU that has just started.
    pub(super) fn connect(socket: UnixStream) -> io::Result<Monitor> {
        socket.set_read_timeout(Some(MONITOR_DEADLINE))?;
        socket.set_write_timeout(Some(MONITOR_DEADLINE))?;
        let mut qmp = Qmp::new(Stream::new(BufReader::new(socket.try_clone()?), socket));
        // The crate assumes a greeting, but a QEMU that rejected its arguments sends none. The exit
        // of another machine may interrupt the read: a read with a timeout is not restarted.
        let nothing = loop {
            match qmp.inner_mut().fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?.is_empty(),
            }
        };
        if nothing {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        qmp.handshake()?;
        Ok(Monitor { qmp })
    }

    /// Sets the time limit for QEMU's answers from now on.
    pub(super) fn wait_at_most(&mut self, patience: Duration) -> io::Result<()> {
        self.qmp.inner().get_ref_write().set_read_timeout(Some(patience))
    }

    /// Executes a QMP command.
    pub(super) fn execute<C: qmp::QmpCommand>(&mut self, command: &C) -> io::Result<C::Ok> {
        self.qmp.execute(command).map_err(into_io)
    }

    /// Passes a file to QEMU, which commands can then refer to as `fd:NAME`.
    pub(super) fn hand_over(&mut self, name: &str, file: &File) -> io::Result<()> {
        let command = qmp::getfd { fdname: name.to_owned() };
        let mut line = serde_json::to_vec(&Execute::<&qmp::getfd>::from(&command))?;
        line.push(b'\n');
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let line = [IoSlice::new(&line)];
        let sent = retry_on_intr(|| sendmsg(self.fd(), &line, &mut ancillary, SendFlags::NOSIGNAL))?;
        if sent < line[0].len() {
            return Err(io::Error::other("the monitor accepts no more commands"));
        }
        self.qmp.read_response::<qmp::getfd>().map(drop).map_err(into_io)
    }

    /// Returns a descriptor that is readable if there is an event or QEMU has exited.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.qmp.inner().get_ref_write().as_fd()
    }

    /// Returns the end of the guest, if QEMU reports one. An error means that QEMU exited without
    /// reporting one.
    pub(super) fn ending(&mut self) -> io::Result<Option<Ending>> {
        // Any command works: QEMU sends pending events before its reply. A QEMU that has exited may
        // have left events, so they are read even if the command could not be written.
        let asked = self.qmp.write_command(&qmp::query_version {});
        let answered = self.qmp.read_response::<qmp::query_version>();
        match self.qmp.events().find_map(|event| ending_of(&event)) {
            Some(ending) => Ok(Some(ending)),
            None => asked.and(answered.map(drop).map_err(io::Error::from)).map(|()| None),
        }
    }
}

/// Returns QEMU's own error text if it rejected a command.
fn into_io(error: ExecuteError) -> io::Error {
    match error {
        ExecuteError::Io(error) => error,
        ExecuteError::Qapi(error) => io::Error::other(error.desc),
    }
}

fn ending_of(event: &qmp::Event) -> Option<Ending> {
    match event {
        qmp::Event::GUEST_PANICKED { .. } => Some(Ending::Panicked),
        qmp::Event::SHUTDOWN { data, .. } if data.reason == qmp::ShutdownCause::guest_reset => {
            Some(Ending::Rebooted)
        }
        qmp::Event::SHUTDOWN { data, .. } if data.reason == qmp::ShutdownCause::guest_shutdown => {
            Some(Ending::PoweredOff)
        }
        // Any other end of QEMU is not caused by its guest: a signal, or an error of the host.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, thread};

    #[test]
    fn the_end_of_another_machine_does_not_disturb_a_handshake() {
        let (socket, mut qemu) = UnixStream::pair().unwrap();
        // Its exit interrupts the thread that started it, which is this one.
        let other = duct::cmd!("sleep", "1000").unchecked().start().unwrap();
        assert!(other.wait_timeout(Duration::from_millis(1)).unwrap().is_none());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                other.kill().unwrap();
                thread::sleep(Duration::from_millis(200));
                let greeting = r#"{"QMP":{"version":{"qemu":{"micro":0,"minor":2,"major":7},"package":""},"capabilities":[]}}"#;
                writeln!(qemu, "{greeting}\n{{\"return\":{{}}}}").unwrap();
                // Open until the handshake is over.
                qemu.shutdown(std::net::Shutdown::Write).unwrap();
            });
            Monitor::connect(socket).map(drop).unwrap();
        });
    }
}
