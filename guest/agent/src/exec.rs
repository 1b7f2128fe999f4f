//! Starts programs as vfork(2) does: the child runs in the agent's memory, and the agent waits, until the
//! exec. Between the two the child makes a few system calls and nothing else; the errno of an exec that
//! failed is left in that memory, so that no pipe has to tell it.

use rustix::{
    fd::{AsRawFd, OwnedFd},
    io::Errno,
    process::{Pid, WaitOptions, waitpid},
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    ffi::{CString, c_char, c_int, c_void},
    io, ptr,
    sync::atomic::{AtomicI32, Ordering},
};

/// The size of the child's stack until the exec, in units of 16 bytes, to which stacks are aligned.
const STACK: usize = 2048;

/// The stdin, stdout and stderr of a child, which are above 2 in the agent.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Whether `stdin` is a terminal, which becomes the controlling one of the child's own session. Without
    /// a terminal, the child only has its own process group.
    pub(crate) terminal: bool,
}

/// Starts the program in the file `argv[0]` with this environment, no signal blocked, and SIGPIPE, which the
/// agent ignores, as a program expects it.
pub(crate) fn start(argv: &[String], env: &BTreeMap<&str, &str>, ends: &Ends) -> Result<Pid, Errno> {
    let argv = argv.iter().map(|word| c_string(word)).collect::<Result<Vec<_>, _>>()?;
    let env = env.iter().map(|(name, value)| c_string(&format!("{name}={value}")));
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let (argv, env) = (pointers(&argv), pointers(&env));
    let child = Child {
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        stdio: [&ends.stdin, &ends.stdout, &ends.stderr].map(AsRawFd::as_raw_fd),
        terminal: ends.terminal,
        errno: AtomicI32::new(0),
    };
    let mut stack = vec![0_u128; STACK];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is the child's alone, and as this thread waits for the exec or the exit of the child,
    // what `child` points to outlives its use. The child runs `run`, which allocates nothing.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK);
        libc::clone(run, top.cast(), flags, (&raw const child).cast_mut().cast())
    };
    let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(last_errno)?;
    match child.errno.load(Ordering::Relaxed) {
        0 => Ok(pid),
        errno => {
            // It has exited.
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(Errno::from_raw_os_error(errno))
        }
    }
}

/// What the child needs, made before it starts.
struct Child {
    argv: *const *const c_char,
    env: *const *const c_char,
    stdio: [c_int; 3],
    terminal: bool,
    /// Of the call that failed, or 0.
    errno: AtomicI32,
}

/// The child's function. It returns, which ends the child, only if a call failed.
extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to a `Child`, which outlives the child's use of it.
    let child = unsafe { &*child.cast::<Child>() };
    let Err(errno) = exec(child);
    child.errno.store(errno.raw_os_error(), Ordering::Relaxed);
    127
}

/// Turns the child into its program.
fn exec(child: &Child) -> Result<Infallible, Errno> {
    // SAFETY: the descriptors are open, the set is on this stack, and the strings and the arrays of pointers
    // to them are terminated. None of the calls allocates, or changes memory of the agent but its errno.
    unsafe {
        for (to, from) in (0..).zip(child.stdio) {
            check(libc::dup2(from, to))?;
        }
        if child.terminal {
            check(libc::setsid())?;
            check(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
        } else {
            check(libc::setpgid(0, 0))?;
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()))?;
        libc::execve(*child.argv, child.argv, child.env);
    }
    Err(last_errno())
}

fn check(result: c_int) -> Result<(), Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

fn c_string(text: &str) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::INVAL)
}

/// Returns the array of pointers that execve(2) takes.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}
