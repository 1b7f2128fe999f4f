//! Processes in the guest: started, waited for while the trace is drained, and their output.

use super::{
    files::Files,
    link::{Link, unexpected},
    notes::StepNotes,
    tape::{Drain, Traced},
};
use crate::{
    machine::{Death, END_OF_A_PROCESS, TIME_SCALE},
    scenario::Errno,
};
use protocol::{ChildState, Output, Reply, Request, Stdin};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// The maximum size of a process's stdout and of its stderr that is kept, in bytes.
pub(super) const OUTPUT_MAX: u32 = 256 << 10;

/// The length of one wait for a process, in milliseconds. The trace is drained between waits.
pub(super) const WAIT_MILLIS: u32 = 20;

/// Ends a process at once.
pub(super) const SIGKILL: i32 = 9;

/// The maximum length of a task's name.
const COMM_MAX: usize = 15;

/// The names of processes. The kernel records the name of a task when it is switched to and a lock is free: rarely,
/// a short process never gets its name into `saved_cmdlines`.
#[derive(Default)]
pub(super) struct Processes {
    /// The program of each child.
    programs: BTreeMap<u32, String>,
    /// The programs of those that have ended, by PID.
    names: BTreeMap<i32, String>,
}

impl Processes {
    /// Returns the content of `saved_cmdlines` with the names that the kernel missed. Each PID has one name: readers
    /// disagree about which of several counts.
    pub(super) fn with_names_of(&self, saved_cmdlines: &str) -> String {
        let pid = |line: &str| line.split(' ').next()?.parse::<i32>().ok();
        let known: BTreeSet<i32> = saved_cmdlines.lines().filter_map(pid).collect();
        let mut text = saved_cmdlines.to_owned();
        for (pid, name) in self.names.iter().filter(|(pid, _)| !known.contains(pid)) {
            _ = writeln!(text, "{pid} {name}");
        }
        text
    }

    /// Forgets all names: `saved_cmdlines` stays as the kernel has it.
    pub(super) fn forget_names(&mut self) {
        self.names.clear();
    }

    fn started(&mut self, child: u32, path: &str) {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.programs.insert(child, name[..name.floor_char_boundary(COMM_MAX)].to_owned());
    }

    fn ended(&mut self, child: u32, pid: i32) {
        if let Some(name) = self.programs.remove(&child) {
            self.names.insert(pid, name);
        }
    }
}

/// A workload to start.
pub(super) struct Launch<'a> {
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) env: Vec<String>,
    pub(super) stdin: &'a [u8],
}

/// Copies a workload into the guest and starts it, or says why it cannot be started.
pub(super) fn start(
    link: &mut Link<'_>,
    files: &mut Files<'_>,
    launch: Launch<'_>,
) -> Result<Result<u32, String>, Death> {
    let path = match files.push_workload(link, launch.program)? {
        Ok(path) => path,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut env = launch.env;
    env.push(format!("{TIME_SCALE}={:.2}", link.scale));
    let argv = std::iter::once(path).chain(launch.arguments.iter().cloned()).collect();
    spawn(link, argv, env, Stdin::Bytes(launch.stdin.to_vec()))
}

/// Starts a program of the guest, or says why it cannot be started.
pub(super) fn spawn(
    link: &mut Link<'_>,
    argv: Vec<String>,
    env: Vec<String>,
    stdin: Stdin,
) -> Result<Result<u32, String>, Death> {
    let path = argv.first().cloned().unwrap_or_default();
    match link.call(&Request::Spawn { argv, env, stdin, output_max: OUTPUT_MAX })? {
        Reply::Started(child) => {
            link.processes.started(child, &path);
            Ok(Ok(child))
        }
        Reply::Errno { errno, what } => Ok(Err(format!("{what}: {}", Errno::from_number(errno)))),
        other => Err(unexpected("a new process", &other)),
    }
}

/// Waits for the end of a child, and drains the trace at the same time.
pub(super) fn wait(traced: &mut Traced<'_>, child: u32) -> Result<(String, Output), Death> {
    loop {
        match traced.link.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
            // If time runs out in a drain, it is still the child that the lab waited for.
            Reply::Child(ChildState::Running) => traced.drain(Drain::Some).map_err(|death| match death {
                Death::Deadline { after, scale, .. } => {
                    Death::Deadline { after, scale, request: END_OF_A_PROCESS.into() }
                }
                death => death,
            })?,
            Reply::Child(ChildState::Exited(status, output)) => {
                traced.link.processes.ended(child, output.pid);
                return Ok((format!("exit status {status}"), output));
            }
            Reply::Child(ChildState::Signaled(signal, output)) => {
                traced.link.processes.ended(child, output.pid);
                return Ok((format!("signal {signal}"), output));
            }
            other => return Err(unexpected("a child's state", &other)),
        }
    }
}

/// Reads the output of a running child so far. Returns `None` if it has just exited.
pub(super) fn output_so_far(link: &mut Link<'_>, child: u32) -> Result<Option<Output>, Death> {
    match link.call(&Request::Output { child })? {
        Reply::Said(output) => Ok(Some(output)),
        Reply::Errno { .. } => Ok(None),
        other => Err(unexpected("the output of a process", &other)),
    }
}

/// Stores the stdout and the stderr of a process.
pub(super) fn keep_output(notes: &mut StepNotes<'_>, output: &Output) -> Result<(), Death> {
    notes.keep("stdout", &marked(&output.stdout, output.dropped))?;
    notes.keep("stderr", &marked(&output.stderr, output.dropped))
}

/// Returns an output as it is stored: a note at the end says that it was truncated.
fn marked(output: &[u8], dropped: u64) -> Cow<'_, [u8]> {
    if dropped == 0 || output.len() < OUTPUT_MAX as usize {
        return Cow::Borrowed(output);
    }
    let note = format!("\n{NOTE} {dropped} {NOTE_END}");
    Cow::Owned([output, note.as_bytes()].concat())
}

/// The note around the number of bytes that were dropped.
const NOTE: &str = "[ftrace-lab:";
const NOTE_END: &str = "more bytes of output were dropped]\n";

/// Returns whether a stored output is complete.
pub(super) fn is_whole(output: &str) -> bool {
    let noted = output.lines().next_back().is_some_and(|line| line.starts_with(NOTE));
    !(noted && output.ends_with(NOTE_END))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_the_name_of_its_program_if_the_kernel_has_none() {
        let mut processes = Processes::default();
        processes.started(0, "/workloads/a-name-of-twenty-letters");
        processes.started(1, "sh");
        processes.started(2, "never-waited-for");
        processes.ended(1, 41);
        processes.ended(0, 40);
        processes.ended(0, 39);
        assert_eq!(processes.with_names_of("41 renamed\n"), "41 renamed\n40 a-name-of-twent\n");
    }
}
