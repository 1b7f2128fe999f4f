//! Tools as owned child processes: output captured, nothing left behind.
//!
//! A tool dies with the lab, however the lab dies, and is stopped as soon as the lab is
//! interrupted. What it printed goes to a log file or is captured; an error shows its tail.

use super::interrupt;
use anyhow::{Context, Result, bail};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs,
    io::{Seek, Write as _},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How many lines of a failed tool's output an error shows.
const TAIL_LINES: usize = 15;

/// A command to run.
#[derive(Clone, Debug)]
pub struct Tool {
    program: OsString,
    args: Vec<OsString>,
    directory: Option<PathBuf>,
    env: Vec<(OsString, Option<OsString>)>,
    log: Option<PathBuf>,
    stdin: Option<Arc<OwnedFd>>,
}

impl Tool {
    /// A command without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Tool {
        Tool {
            program: program.as_ref().into(),
            args: Vec::new(),
            directory: None,
            env: Vec::new(),
            log: None,
            stdin: None,
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Tool {
        self.args.push(arg.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Tool {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// Runs it in `directory`.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Tool {
        self.directory = Some(directory.into());
        self
    }

    /// Sets an environment variable for it.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Tool {
        self.env.push((name.as_ref().into(), Some(value.as_ref().into())));
        self
    }

    /// Takes an environment variable from it.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Tool {
        self.env.push((name.as_ref().into(), None));
        self
    }

    /// Writes stdout and stderr to this file instead of capturing them.
    pub fn log(mut self, path: impl Into<PathBuf>) -> Tool {
        self.log = Some(path.into());
        self
    }

    /// Gives it this as stdin, instead of nothing.
    pub fn stdin(mut self, file: impl Into<OwnedFd>) -> Tool {
        self.stdin = Some(Arc::new(file.into()));
        self
    }

    /// Runs it to its end; a status other than 0 is an error with the tail of its output.
    /// Gives back what it wrote to stdout, or nothing if that went to a log.
    pub fn run(&self) -> Result<String> {
        self.run_watched(|| {})
    }

    /// As [`Tool::run`], calling `watch` a few times a second while it runs.
    pub fn run_watched(&self, mut watch: impl FnMut()) -> Result<String> {
        let mut expression = duct::cmd(&self.program, &self.args).unchecked();
        expression = match &self.stdin {
            Some(file) => expression.stdin_file(file.try_clone()?),
            None => expression.stdin_null(),
        };
        if let Some(directory) = &self.directory {
            expression = expression.dir(directory);
        }
        for (name, value) in &self.env {
            expression = match value {
                Some(value) => expression.env(name, value),
                None => expression.env_remove(name),
            };
        }
        expression = match &self.log {
            Some(log) => expression.stderr_to_stdout().stdout_path(log),
            None => expression.stdout_capture().stderr_capture(),
        };
        let handle = expression
            .before_spawn(|command| {
                die_with_parent(command, Signal::TERM);
                Ok(())
            })
            .start()
            .with_context(|| format!("cannot run `{}`", self.program.display()))?;
        let output = loop {
            if let Some(output) = handle.wait_timeout(Duration::from_millis(200))? {
                break output;
            }
            watch();
            if let Err(interrupted) = interrupt::check() {
                // TERM, not KILL: make passes it on to its children and removes half-made targets.
                for pid in handle.pids() {
                    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                        let _ = rustix::process::kill_process(pid, Signal::TERM);
                    }
                }
                let _ = handle.wait_timeout(Duration::from_secs(5));
                let _ = handle.kill();
                return Err(interrupted);
            }
        };
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(stdout);
        }
        interrupt::check()?;
        let said = match &self.log {
            Some(log) => String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned(),
            None => stdout + &String::from_utf8_lossy(&output.stderr),
        };
        let mut message = format!("`{}` failed: {}", self.line(), output.status);
        if let Some(log) = &self.log {
            write!(message, "; its output is in `{}`", log.display())?;
        }
        bail!("{message}\n{}", tail(&said, TAIL_LINES));
    }

    /// The command as a person would type it, cut where it gets long.
    fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        if line.chars().count() > 200 { line.chars().take(200).chain(['…']).collect() } else { line }
    }
}

/// Has the kernel send `signal` to the command when the thread that spawned it is gone.
pub fn die_with_parent(command: &mut std::process::Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: between fork and exec the closure makes two system calls and touches no memory that
    // another thread could hold.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(signal))?;
            // A parent that was gone before it was asked for sends no signal.
            if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        });
    }
}

/// Writes a program, for this process to run.
///
/// It is written by a child: while a file is open for writing it cannot be run, and what this process has
/// open, a fork of another thread has open, too, until its exec.
pub fn write_program(path: &Path, text: &str) -> Result<()> {
    let written = || -> Result<String> {
        let mut file = tempfile::tempfile()?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Tool::new("install").args(["-m", "755", "--", "/dev/stdin"]).arg(path).stdin(file).run()
    };
    written().map(drop).with_context(|| format!("cannot write `{}`", path.display()))
}

/// The last `lines` lines of a text, each indented, so that they stand apart in an error.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// The full path of a program on `PATH`, if it is there.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    #[test]
    fn a_failure_shows_the_command_and_what_it_said() {
        let error =
            Tool::new("sh").args(["-c", "echo first; echo no such thing >&2; exit 3"]).run().unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("exit status: 3") && text.contains("no such thing"), "{text}");
    }

    #[test]
    fn a_written_program_runs_whatever_other_threads_start() {
        let directory = tempfile::tempdir().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        Tool::new("true").run().unwrap();
                    }
                });
            }
            let failed = (0..150).find_map(|round| {
                let program = directory.path().join(round.to_string());
                write_program(&program, "#!/bin/sh\nexit 0\n").unwrap();
                Tool::new(&program).run().err()
            });
            done.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Tool::new("no-such-program").run().unwrap_err();
        assert!(format!("{error:#}").contains("cannot run `no-such-program`"), "{error:#}");
    }
}
