//! A simulated user at a terminal: types keys and reads the screen output.

use super::watched::PATIENCE;
use rustix::{
    fd::OwnedFd,
    io::{Errno, read, write},
    process::{ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    stdio,
    termios::{Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

pub(crate) struct Pty {
    master: OwnedFd,
    slave: OwnedFd,
    shown: Receiver<Vec<u8>>,
    /// Output that was shown but not yet matched.
    rest: String,
    lab: Child,
    modes: String,
}

impl Pty {
    /// Starts a lab on its own terminal.
    pub(crate) fn new(mut lab: Command, rows: u16, columns: u16) -> Pty {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        lab.env("TERM", "xterm");
        lab.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap());
        lab.stderr(slave.try_clone().unwrap());
        // SAFETY: between fork and exec the closure only makes two system calls.
        unsafe {
            lab.pre_exec(|| {
                setsid()?;
                Ok(ioctl_tiocsctty(stdio::stdin())?)
            });
        }
        let modes = modes(&slave);
        let (tell, shown) = channel();
        let from = master.try_clone().unwrap();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = read(&from, &mut chunk) {
                if tell.send(chunk[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let spawned = lab.spawn().unwrap();
        // The command holds the slave; the lab must be its last holder.
        drop(lab);
        let mut pty = Pty { master, slave, shown, rest: String::new(), lab: spawned, modes };
        pty.resize(rows, columns);
        pty
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).unwrap();
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        let mut keys = keys.as_bytes();
        while !keys.is_empty() {
            match write(&self.master, keys) {
                Ok(count) => keys = &keys[count..],
                Err(Errno::INTR) => {}
                Err(error) => panic!("cannot type: {error}"),
            }
        }
    }

    /// Waits until `text` is shown; returns the output before it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(at) = self.rest.find(text) {
                let before = self.rest[..at].to_owned();
                self.rest.drain(..at + text.len());
                return before;
            }
            let left = PATIENCE.saturating_sub(start.elapsed());
            match self.shown.recv_timeout(left) {
                Ok(shown) => self.rest += &String::from_utf8_lossy(&shown),
                Err(_) => panic!("`{text}` is not in the output: {:?}", self.rest),
            }
        }
    }

    /// Waits until the lab has ended; returns its exit code and remaining output. It must have restored the
    /// terminal's modes.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.lab.try_wait().unwrap() {
                break status;
            }
            self.rest.extend(self.shown.try_iter().map(|shown| String::from_utf8_lossy(&shown).into_owned()));
            assert!(start.elapsed() < PATIENCE, "the lab does not end: {:?}", self.rest);
            thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(modes(&self.slave), self.modes, "the terminal's modes were not restored");
        drop(self.slave);
        self.rest.extend(self.shown.iter().map(|shown| String::from_utf8_lossy(&shown).into_owned()));
        (status.code(), self.rest)
    }
}

fn modes(terminal: &OwnedFd) -> String {
    let modes = tcgetattr(terminal).unwrap();
    format!("{:?} {:?} {:?}", modes.input_modes, modes.output_modes, modes.local_modes)
}
