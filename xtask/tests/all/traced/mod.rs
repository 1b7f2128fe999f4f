//! A lab that is killed at one of its system calls, which strace counts.

use crate::watched::Mark;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

/// System calls that change files. Those with `?` do not exist on every architecture.
const CHANGES: &str = "openat,write,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,?unlink,\
                       unlinkat,?mkdir,mkdirat,?rmdir,ftruncate,fchmod,sendfile,copy_file_range";

/// A system call of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    name: String,
    /// The number of calls of this name that the thread has made, including this one.
    number: u32,
}

/// Returns the command with strace around it. Other programs that it starts are not traced.
fn strace(lab: &Command, options: &[&str], log: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-y", "--signal=none", "--detach-on=execve"]);
    strace.args(options).arg("-o").arg(log).arg(lab.get_program()).args(lab.get_args());
    strace.envs(lab.get_envs().filter_map(|(name, value)| Some((name, value?))));
    strace.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    strace
}

/// Runs `lab` to its end and returns its calls that change files below `place`.
pub(crate) fn changes(lab: &Command, place: &Path) -> Vec<Call> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let output = strace(lab, &["-e", &format!("trace={CHANGES}")], log.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (log, place) = (fs::read_to_string(log.path()).unwrap(), place.to_str().unwrap());
    let mut numbers = BTreeMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, call)) = line.trim_start().split_once(' ') else { continue };
        let Some((name, arguments)) = call.trim_start().split_once('(') else { continue };
        // A call that was interrupted by another thread's has a second line: `<... write resumed>`.
        if name.contains(' ') {
            continue;
        }
        let number = numbers.entry((thread, name)).or_insert(0);
        *number += 1;
        // One that fails changes nothing.
        let changes = !call.contains(" = -1 E") && (name != "openat" || arguments.contains("O_CREAT"));
        if changes && arguments.contains(place) {
            calls.push(Call { name: name.to_owned(), number: *number });
        }
    }
    assert!(!calls.is_empty(), "no file was changed:\n{log}");
    calls
}

/// Returns `count` calls, from the first to the last.
pub(crate) fn spread(calls: &[Call], count: usize) -> Vec<Call> {
    let count = count.min(calls.len());
    (0..count).map(|index| calls[index * (calls.len() - 1) / (count - 1).max(1)].clone()).collect()
}

/// Runs `lab` and kills it in place of this call. Returns false if no thread of it made so many calls.
pub(crate) fn kill_at(lab: &Command, call: &Call) -> bool {
    let Call { name, number } = call;
    let inject = format!("{name}:signal=KILL:when={number}");
    let options = ["-e", &format!("trace={name}"), "-e", &format!("inject={inject}")];
    let mut strace = strace(lab, &options, Path::new("/dev/null"));
    let mark = Mark::on(&mut strace);
    let output = strace.output().unwrap();
    mark.is_over();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.code() == Some(0), "{call:?}: {output:?}");
    killed
}
