//! The virtio-serial port to the lab: finds it, receives frames and sends bytes.

use crate::vectored;
use protocol::{FrameError, MAX_FRAME, PORT_NAME, Request};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{Mode, OFlags, open},
    io::Errno,
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink, recv, socket_with},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The time limit for the kernel to announce the port. QEMU's answer to the driver arrives after the
/// agent has started, on a loaded machine tens of milliseconds after.
const FIND_LIMIT: Duration = Duration::from_secs(10);

/// The size of a read, in bytes: a virtio-serial buffer.
const CHUNK: usize = 4096;

/// The open port, and the bytes received of the next frame.
#[derive(Debug)]
pub(crate) struct Port {
    file: OwnedFd,
    inbox: Inbox,
}

/// The result of reading the port.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Bytes were received.
    Some,
    /// There is nothing to read now.
    Nothing,
    /// The other end is not connected.
    Closed,
}

impl Port {
    /// Waits for the port and opens it.
    pub(crate) fn open() -> io::Result<Port> {
        let path = find(Path::new("/sys/class/virtio-ports"))?;
        let file = open(&path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| io::Error::other(format!("cannot open `{}`: {errno}", path.display())))?;
        Ok(Port { file, inbox: Inbox::default() })
    }

    /// Receives what the lab has sent, without waiting.
    pub(crate) fn fill(&mut self) -> io::Result<ReadOutcome> {
        if self.inbox.is_full() {
            return Ok(ReadOutcome::Nothing);
        }
        let mut chunk = [0; CHUNK];
        match vectored::read(&self.file, &mut chunk) {
            Ok(0) => Ok(ReadOutcome::Closed),
            Ok(n) => {
                self.inbox.bytes.extend_from_slice(&chunk[..n]);
                Ok(ReadOutcome::Some)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(ReadOutcome::Nothing),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes the next frame, if it is complete, and returns its request or the decoding error.
    pub(crate) fn take(&mut self) -> Option<Result<Request, FrameError>> {
        self.inbox.take()
    }

    /// Returns whether no byte of a next request was received.
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox.bytes.is_empty()
    }

    /// Drops the received bytes, and returns whether there were any.
    pub(crate) fn clear(&mut self) -> bool {
        let some = !self.inbox.bytes.is_empty();
        self.inbox.bytes = Vec::new();
        some
    }

    /// Sends as much as there is room for, and returns the number of bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match vectored::write(&self.file, bytes) {
            Ok(n) => Ok(n),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Bytes that were received and not decoded yet; never more than one frame and a chunk.
#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    fn is_full(&self) -> bool {
        self.bytes.len() >= 4 + MAX_FRAME
    }

    fn take(&mut self) -> Option<Result<Request, FrameError>> {
        let prefix: [u8; 4] = self.bytes.get(..4)?.try_into().ok()?;
        let length = u32::from_le_bytes(prefix) as usize;
        if length > MAX_FRAME {
            return Some(Err(FrameError::TooLong(length)));
        }
        let mut frame = self.bytes.get(..4 + length)?;
        let request = protocol::read_frame(&mut frame);
        self.bytes.drain(..4 + length);
        if self.bytes.is_empty() {
            // Do not keep the memory of a large frame.
            self.bytes = Vec::new();
        }
        Some(request)
    }
}

/// Returns the device node of the port named [`PORT_NAME`]. QEMU announces ports and their names to the
/// driver asynchronously, so this checks again at each uevent.
fn find(class: &Path) -> io::Result<PathBuf> {
    let uevents = uevents()?;
    let deadline = Instant::now() + FIND_LIMIT;
    loop {
        if let Some(node) = named(class, PORT_NAME) {
            return Ok(node);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let message = format!("no virtio-serial port is named `{PORT_NAME}`");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut events = [PollFd::new(&uevents, PollFlags::IN)];
        match poll(&mut events, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // The contents do not matter, and an overflow (ENOBUFS) also counts as a uevent.
        while recv(&uevents, &mut [0; 1024], RecvFlags::DONTWAIT).is_ok() {}
    }
}

/// Returns a socket that receives the kernel's uevents.
fn uevents() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::KOBJECT_UEVENT))?;
    bind(&socket, &netlink::SocketAddrNetlink::new(0, 1))?;
    Ok(socket)
}

/// Returns the device node of the port with this name below the sysfs class directory.
fn named(class: &Path, name: &str) -> Option<PathBuf> {
    fs::read_dir(class).ok()?.flatten().find_map(|port| {
        let found = fs::read_to_string(port.path().join("name")).ok()?;
        (found.trim_end() == name).then(|| Path::new("/dev").join(port.file_name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&[u8]], expect: &[&str]) {
        let mut inbox = Inbox::default();
        let mut found = Vec::new();
        for chunk in chunks {
            inbox.bytes.extend_from_slice(chunk);
            while let Some(request) = inbox.take() {
                match request {
                    Ok(request) => found.push(format!("{request:?}")),
                    Err(error) => {
                        found.push(error.to_string());
                        inbox.bytes.clear();
                    }
                }
            }
        }
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for (found, expect) in found.iter().zip(expect) {
            assert!(found.contains(expect), "found `{found}`, expected `{expect}`");
        }
    }

    #[test]
    fn requests_are_put_together_from_whatever_arrives() {
        let hello = protocol::encode(&Request::Hello).unwrap();
        let name = Request::UnloadModule { name: "one".into() };
        let unload = protocol::encode(&name).unwrap();
        check(&[&hello], &["Hello"]);
        check(&[&[hello.clone(), unload.clone(), hello.clone()].concat()], &["Hello", "one", "Hello"]);
        let bytes: Vec<&[u8]> = unload.chunks(1).collect();
        check(&bytes, &["one"]);
        check(&[&unload[..7]], &[]);
    }

    #[test]
    fn what_is_no_request_is_told_apart() {
        check(&[b"\xff\xff\xff\xff"], &["over the cap"]);
        let hello = protocol::encode(&Request::Hello).unwrap();
        // The frame after a malformed one is decoded.
        let mut inbox = Inbox { bytes: [b"\x01\0\0\0\xee", &hello[..]].concat() };
        assert!(matches!(inbox.take(), Some(Err(FrameError::Malformed(_)))));
        assert_eq!(inbox.take().unwrap().unwrap(), Request::Hello);
    }

    #[test]
    fn the_port_is_found_by_its_name() {
        let class = tempfile::tempdir().unwrap();
        for (port, name) in [("vport0p0", "other\n"), ("vport1p3", "mine\n")] {
            fs::create_dir(class.path().join(port)).unwrap();
            fs::write(class.path().join(port).join("name"), name).unwrap();
        }
        fs::create_dir(class.path().join("vport1p4")).unwrap();
        assert_eq!(named(class.path(), "mine"), Some("/dev/vport1p3".into()));
        assert_eq!(named(class.path(), "min"), None);
    }
}
