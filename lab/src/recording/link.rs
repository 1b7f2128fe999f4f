//! The link to the agent in the guest: requests, each within a deadline that steps share.

use super::processes::Processes;
use crate::machine::{Death, Machine, time_scale};
use protocol::{Reply, Request};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    mem,
    time::{Duration, Instant},
};

/// The maximum size of the data of one request to the agent or of one reply, in bytes.
pub(super) const CHUNK: usize = 512 << 10;

/// The agent of a running machine.
pub(super) struct Link<'a> {
    pub(super) machine: &'a mut Machine,
    /// The time limit on the reference machine.
    time: Duration,
    /// The end of that time on this host, if it withholds nothing from the guest.
    until: Instant,
    /// The factor by which this guest is slower than the reference machine, at least 1.
    pub(super) scale: f64,
    /// The processes that were started and waited for.
    pub(super) processes: Processes,
    /// See [`Link::send_ahead`].
    ahead: Vec<Request>,
}

impl<'a> Link<'a> {
    /// A link whose requests may take `time` in total, on the reference machine.
    pub(super) fn new(machine: &'a mut Machine, time: Duration) -> Link<'a> {
        let scale = time_scale(machine.hello());
        let (until, processes, ahead) = (Instant::now(), Processes::default(), Vec::new());
        let mut link = Link { machine, time, until, scale, processes, ahead };
        link.limit(time);
        link
    }

    /// Replaces the time limit: from now on, requests may take `time` in total, on the reference machine.
    pub(super) fn limit(&mut self, time: Duration) {
        self.time = time;
        self.until = Instant::now() + time.mul_f64(self.scale);
        self.machine.begin_deadline();
    }

    /// Extends the time limit by a time in which the guest was stopped or waited for the lab.
    pub(super) fn extend(&mut self, by: Duration) {
        self.until += by;
    }

    /// Returns the rest of the time limit, without what the host withheld from the guest.
    fn rest(&mut self) -> Duration {
        let until = self.until + self.machine.granted();
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() { self.machine.grant() } else { rest }
    }

    /// Sends a request and waits for the reply.
    pub(super) fn call(&mut self, request: &Request) -> Result<Reply, Death> {
        let mut replies = self.call_all(std::slice::from_ref(request))?;
        replies.pop().ok_or_else(|| Death::AgentLost("it gave no reply".into()))
    }

    /// Sends several requests in one round trip.
    pub(super) fn call_all(&mut self, requests: &[Request]) -> Result<Vec<Reply>, Death> {
        let ahead = mem::take(&mut self.ahead);
        let all = match ahead.as_slice() {
            [] => Cow::Borrowed(requests),
            ahead => Cow::Owned([ahead, requests].concat()),
        };
        let within = self.rest();
        let replies = self.machine.call_in_deadline(&all, within);
        let mut replies = replies.map_err(|death| self.with_whole_limit(death))?;
        replies.drain(..ahead.len());
        Ok(replies)
    }

    /// Sends a request together with the next one, before it, and drops its reply.
    pub(super) fn send_ahead(&mut self, request: Request) {
        self.ahead.push(request);
    }

    /// Reports the whole time limit, not the rest of it that the last request had.
    fn with_whole_limit(&self, death: Death) -> Death {
        match death {
            Death::Deadline { request, .. } => {
                Death::Deadline { after: self.time, scale: self.scale, request }
            }
            death => death,
        }
    }

    /// Reads several files in one round trip, and leaves out those that cannot be read.
    pub(super) fn files(&mut self, paths: &[String]) -> Result<BTreeMap<String, String>, Death> {
        let requests: Vec<_> = paths.iter().map(|path| read(path)).collect();
        let texts = paths.iter().zip(self.call_all(&requests)?).filter_map(|(path, reply)| match reply {
            Reply::Data(data) => Some((path.clone(), String::from_utf8_lossy(&data).into_owned())),
            _ => None,
        });
        Ok(texts.collect())
    }

    /// Reads a tracefs file that every kernel has.
    pub(super) fn text(&mut self, path: &str) -> Result<String, Death> {
        match self.call(&read(path))? {
            Reply::Data(data) => Ok(String::from_utf8_lossy(&data).into_owned()),
            other => Err(unexpected(path, &other)),
        }
    }

    /// Reads the kernel log.
    pub(super) fn kernel_log(&mut self) -> Result<String, Death> {
        match self.call(&Request::KernelLog { max: CHUNK as u32 })? {
            Reply::Data(data) => Ok(String::from_utf8_lossy(&data).into_owned()),
            other => Err(unexpected("the kernel log", &other)),
        }
    }

    /// Returns the number of CPUs of the guest.
    pub(super) fn cpus(&self) -> u32 {
        self.machine.hello().cpus
    }
}

/// The request to read a file of at most [`CHUNK`] bytes.
pub(super) fn read(path: &str) -> Request {
    Request::ReadFile { path: path.into(), max: CHUNK as u32 }
}

/// The length from which a kernel log may lack its beginning: the kernel returns whole records.
pub(crate) const LOG_LIMIT: usize = CHUNK - 4096;

/// Converts a reply that does not fit its request: the agent is not what it should be.
pub(super) fn unexpected(asked: &str, reply: &Reply) -> Death {
    Death::AgentLost(match reply {
        Reply::Errno { what, errno } => format!("asked for {asked}, it failed: {what}: errno {errno}"),
        other => {
            let mut text = format!("{other:?}");
            text.truncate(text.floor_char_boundary(80));
            format!("asked for {asked}, it answered {text}")
        }
    })
}
