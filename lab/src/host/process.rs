//! Runs tools as child processes: captures their output and leaves nothing behind.
//!
//! A tool dies with the lab, however the lab dies, and is stopped as soon as the lab is
//! interrupted. Its output goes to a log file or is captured; an error shows the end of it.

use super::{
    confine::{self, Level, Reach},
    interrupt,
    outage::{DISK_FULL, Outage},
};
use anyhow::{Context, Result, anyhow};
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

/// The number of lines of a failed tool's output that an error shows.
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
    confined: Option<Reach>,
    level: Option<Level>,
}

impl Tool {
    /// Creates a command without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Tool {
        Tool {
            program: program.as_ref().into(),
            args: Vec::new(),
            directory: None,
            env: Vec::new(),
            log: None,
            stdin: None,
            confined: None,
            level: None,
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

    /// Removes an environment variable for it.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Tool {
        self.env.push((name.as_ref().into(), None));
        self
    }

    /// Writes stdout and stderr to this file instead of capturing them.
    pub fn log(mut self, path: impl Into<PathBuf>) -> Tool {
        self.log = Some(path.into());
        self
    }

    /// Uses `file` as stdin instead of /dev/null.
    pub fn stdin(mut self, file: impl Into<OwnedFd>) -> Tool {
        self.stdin = Some(Arc::new(file.into()));
        self
    }

    /// Confines it to `reach`, as well as this host can. It is started in the directory that it can write
    /// to, without the variables of this process.
    pub fn confined(self, reach: Reach) -> Tool {
        Tool { confined: Some(reach), ..self }
    }

    /// Confines it at a certain level instead of the host's, if it is confined.
    pub fn level(self, level: Level) -> Tool {
        Tool { level: Some(level), ..self }
    }

    /// Runs it to completion and returns its stdout, which is empty if it went to a log. A status
    /// other than 0 is an error with the end of its output.
    pub fn run(&self) -> Result<String> {
        self.run_watched(|| {})
    }

    /// Like [`Tool::run`], but calls `watch` a few times a second while it runs.
    pub fn run_watched(&self, mut watch: impl FnMut()) -> Result<String> {
        let confined = self.confined_command()?;
        let mut expression = match &confined {
            Some(command) => command.expression()?,
            None => self.expression(),
        };
        expression = match &self.stdin {
            Some(file) => expression.stdin_file(file.try_clone()?),
            None => expression.stdin_null(),
        };
        expression = match &self.log {
            Some(log) => expression.stderr_to_stdout().stdout_path(log),
            None => expression.stdout_capture().stderr_capture(),
        };
        let handle = expression
            .unchecked()
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
                // TERM, not KILL: make forwards it to its children and removes incomplete targets.
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
        let message = format!("{message}\n{}", tail(&said, TAIL_LINES));
        Err(if said.contains(DISK_FULL) { Outage(message).into() } else { anyhow!(message) })
    }

    fn confined_command(&self) -> Result<Option<confine::Command>> {
        let Some(reach) = &self.confined else { return Ok(None) };
        let level = self.level.map_or_else(confine::level, Ok)?;
        confine::confine(reach, level, &self.program, &self.args, &self.env).map(Some)
    }

    fn expression(&self) -> duct::Expression {
        let mut expression = duct::cmd(&self.program, &self.args);
        if let Some(directory) = &self.directory {
            expression = expression.dir(directory);
        }
        for (name, value) in &self.env {
            expression = match value {
                Some(value) => expression.env(name, value),
                None => expression.env_remove(name),
            };
        }
        expression
    }

    /// Returns the command as typed in a shell, truncated to 200 characters.
    fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        if line.chars().count() > 200 { line.chars().take(200).chain(['…']).collect() } else { line }
    }
}

/// Makes the kernel send `signal` to the command when the thread that spawned it exits.
pub fn die_with_parent(command: &mut std::process::Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: between fork and exec the closure makes two system calls and touches no memory that
    // another thread could hold.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(signal))?;
            // A parent that exited before this request sends no signal.
            if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        });
    }
}

/// Writes an executable for this process to run.
///
/// A child writes it: a file that is open for writing cannot be executed, and a child that another
/// thread forks inherits all open files of this process until its exec.
pub fn write_program(path: &Path, text: &str) -> Result<()> {
    let written = || -> Result<String> {
        let mut file = tempfile::tempfile()?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Tool::new("install").args(["-m", "755", "--", "/dev/stdin"]).arg(path).stdin(file).run()
    };
    written().map(drop).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Returns the last `lines` lines of a text, indented to set them off in an error.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Returns the full path of a program on `PATH`.
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
