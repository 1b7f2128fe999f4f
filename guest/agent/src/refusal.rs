//! Failed requests: the errno, and the system call that returned it.

use protocol::Reply;
use rustix::io::Errno;
use std::io;

/// The failure of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    what: String,
    errno: i32,
}

impl Refusal {
    /// `what` names the system call and its object, as in "write kprobe_events".
    pub(crate) fn new(what: impl Into<String>, errno: Errno) -> Refusal {
        Refusal { what: what.into(), errno: errno.raw_os_error() }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Reply {
        Reply::Errno { what: refusal.what, errno: refusal.errno }
    }
}

/// Names the call that failed.
pub(crate) trait Refused<T> {
    /// Converts an error into a refusal of `verb object`.
    fn refused(self, verb: &str, object: &str) -> Result<T, Refusal>;
}

impl<T> Refused<T> for io::Result<T> {
    fn refused(self, verb: &str, object: &str) -> Result<T, Refusal> {
        // An error without an errno is std rejecting a malformed argument, such as one with a NUL.
        self.map_err(|error| {
            Refusal::new(format!("{verb} {object}"), Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
        })
    }
}

impl<T> Refused<T> for rustix::io::Result<T> {
    fn refused(self, verb: &str, object: &str) -> Result<T, Refusal> {
        self.map_err(|errno| Refusal::new(format!("{verb} {object}"), errno))
    }
}
