//! Runs a program under drgn as a child process: a request in, an answer out, both JSON.
//!
//! Its time and output are limited, and it dies with the lab. Errors contain its stderr.

use super::Reply;
use crate::host::{
    drgn::Drgn,
    interrupt,
    process::{die_with_parent, tail},
};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{self, Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The time limit of a program. Opening a dump with its kernel takes half a second on an idle host.
const DEADLINE: Duration = Duration::from_secs(120);

/// The maximum size of an answer, in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// The maximum number of bytes kept of its stderr, and of lines shown.
const COMPLAINTS_MAX: u64 = 64 << 10;
const COMPLAINTS_SHOWN: usize = 12;

/// The polling interval for its exit.
const TICK: Duration = Duration::from_millis(5);

/// Runs `program` with `request` and reads its answer.
pub(super) fn ask<A: DeserializeOwned>(drgn: &Drgn, program: &str, request: &impl Serialize) -> Result<A> {
    let (python, arguments) = drgn.command(program);
    let mut command = Command::new(python);
    command.args(arguments).env_remove("DEBUGINFOD_URLS");
    let said = talk(&mut command, &serde_json::to_vec(request)?, DEADLINE)?;
    if !said.status.success() {
        let complaints = String::from_utf8_lossy(&said.complaints);
        bail!("drgn failed: {}\n{}", said.status, tail(&complaints, COMPLAINTS_SHOWN));
    }
    match serde_json::from_slice(&said.answer).context("cannot parse drgn's answer")? {
        Reply::Answer(answer) => Ok(answer),
        Reply::Refused(reason) => bail!(reason),
    }
}

/// The output and exit status of a child.
struct Said {
    answer: Vec<u8>,
    complaints: Vec<u8>,
    status: ExitStatus,
}

fn talk(command: &mut Command, request: &[u8], within: Duration) -> Result<Said> {
    die_with_parent(command, Signal::KILL);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_owned();
    let mut child = command.spawn().with_context(|| format!("cannot run `{}`", program.display()))?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        bail!("`{}` has no pipes", program.display());
    };
    thread::scope(|scope| {
        // A child that exits before it has read everything reports why.
        scope.spawn(move || stdin.write_all(request).ok());
        let answer = scope.spawn(|| capped(stdout, ANSWER_MAX + 1));
        let complaints = scope.spawn(|| capped(stderr, COMPLAINTS_MAX));
        let status = wait(&mut child, Instant::now() + within);
        if status.is_err() {
            // Killing it closes its pipes, and the threads end.
            let _ = child.kill();
            let _ = child.wait();
        }
        let answer = answer.join().map_err(|_| anyhow::anyhow!("its reader panicked"))?;
        let complaints = complaints.join().map_err(|_| anyhow::anyhow!("its reader panicked"))?;
        let (status, answer) = (status?, answer.context("cannot read drgn's answer")?);
        if answer.len() as u64 > ANSWER_MAX {
            bail!("drgn's answer is larger than {} MiB", ANSWER_MAX >> 20);
        }
        Ok(Said { answer, complaints: complaints.unwrap_or_default(), status })
    })
}

/// Reads at most `most` bytes, then closes the pipe.
fn capped(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn wait(child: &mut Child, until: Instant) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        interrupt::check()?;
        if Instant::now() > until {
            bail!("drgn did not finish within {} s", DEADLINE.as_secs());
        }
        thread::sleep(TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, within: Duration) -> Result<Said> {
        talk(Command::new("sh").args(["-c", script]), b"asked", within)
    }

    #[test]
    fn a_child_is_given_a_request_and_heard() {
        let said = sh("cat; echo oh >&2; exit 3", DEADLINE).unwrap();
        assert_eq!((said.answer.as_slice(), said.complaints.as_slice()), (&b"asked"[..], &b"oh\n"[..]));
        assert_eq!(said.status.code(), Some(3));
    }

    #[test]
    fn a_child_without_end_is_ended() {
        let error = sh("exec sleep 1000", Duration::from_millis(50)).err().unwrap();
        assert!(error.to_string().contains("did not finish within"), "{error:#}");
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        let error = sh("exec cat /dev/zero", DEADLINE).err().unwrap();
        assert!(error.to_string().contains("larger than 64 MiB"), "{error:#}");
    }
}
