//! The time and the peak memory of a program.

use anyhow::{Context, Result, bail};
use std::{
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Stdio},
    time::Instant,
};

/// Runs a program with its output discarded, until it exits with one of `codes`. Returns the seconds from start to
/// exit, and its peak memory in bytes.
pub(super) fn measure(command: &mut Command, codes: &[i32]) -> Result<(f64, u64)> {
    let name = command.get_program().to_string_lossy().into_owned();
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot run `{name}`"))?;
    let (status, peak) = wait(child).with_context(|| format!("cannot wait for `{name}`"))?;
    let seconds = started.elapsed().as_secs_f64();
    if !status.code().is_some_and(|code| codes.contains(&code)) {
        bail!("`{name}` failed: {status}");
    }
    Ok((seconds, peak))
}

/// Waits for a child. Returns its status and its peak resident memory in bytes. Linux includes the
/// peak of the parent at the time of the fork, so the figure can be too large, but never too small.
fn wait(child: Child) -> Result<(ExitStatus, u64)> {
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that live through the call.
    if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } != pid {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok((ExitStatus::from_raw(status), u64::try_from(usage.ru_maxrss)? * 1024))
}
