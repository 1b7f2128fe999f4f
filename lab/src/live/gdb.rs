//! Runs gdb on a guest's kernel, with the symbols of the kernel and of loaded modules.

use super::{LiveGuest, terminal};
use crate::{
    host::{interrupt, process::die_with_parent},
    kernel::{GDB, indexed_vmlinux},
    recording::Loaded,
    scenario::CommandLine,
};
use anyhow::{Context, Result, anyhow, bail};
use protocol::{Request, Stdin};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use std::{
    fmt::Write as _,
    io::IsTerminal,
    path::Path,
    process::{Child, Command},
    thread,
    time::Duration,
};

/// The arguments of gdb, and the workload that runs in the guest.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The workload, which starts when gdb resumes the guest.
    pub workload: Option<CommandLine>,
    /// The user's arguments for gdb, after the lab's.
    pub arguments: Vec<String>,
}

/// The interval at which the lab checks whether gdb has exited.
const LOOK: Duration = Duration::from_millis(20);

/// Runs gdb until it exits. Returns its exit status, if it has one.
pub fn debug(live: &mut LiveGuest, session: &Session) -> Result<Option<i32>> {
    let vmlinux = indexed_vmlinux(&live.lab.cache, &live.kernel)?;
    let workload = session.workload.as_ref().map(|line| spawn(live, line)).transpose()?;
    let stub = live.machine.gdbstub()?;
    if let Some(request) = &workload {
        live.machine.ask(request)?;
    }
    let interactive = std::io::stdin().is_terminal();
    if interactive {
        eprint!("{}", banner(live, session));
    }
    let mut command = Command::new(GDB);
    command.arg("-q").arg(&vmlinux);
    for words in commands(&stub, &live.lab.root, &live.loaded) {
        command.args(["-ex", &words]);
    }
    command.args(&session.arguments);
    run(command, interactive)
}

/// Returns the request that starts a workload.
fn spawn(live: &LiveGuest, line: &CommandLine) -> Result<Request> {
    let program = line.program();
    if !live.workloads.iter().any(|name| name == program) {
        bail!("no workload is called `{program}`; there are {}", live.workloads.join(", "));
    }
    let argv = std::iter::once(format!("/workloads/{program}")).chain(line.arguments().iter().cloned());
    let stdin = Stdin::Bytes(Vec::new());
    Ok(Request::Spawn { argv: argv.collect(), env: Vec::new(), stdin, output_max: 0 })
}

fn banner(live: &LiveGuest, session: &Session) -> String {
    let mut text = format!("gdb on Linux {}, which is stopped; `continue` resumes it", live.kernel.release);
    // Writing to a string does not fail.
    let _ = match &session.workload {
        Some(line) => writeln!(text, " and starts `{line}`."),
        None => writeln!(text, "."),
    };
    text + "`quit` ends gdb and discards the guest.\n"
}

/// Returns gdb's commands before the user's.
fn commands(stub: &Path, root: &Path, loaded: &[Loaded]) -> Vec<String> {
    let mut commands = vec![
        // Losing the guest does no harm.
        "set confirm off".to_owned(),
        // The stub checks only once a second for a connection.
        "set remotetimeout 20".to_owned(),
        // The source paths of the lab's modules are relative to this directory.
        format!("directory {}", root.display()),
        format!("target remote {}", stub.display()),
    ];
    commands.extend(loaded.iter().map(add_symbols));
    commands
}

fn add_symbols(loaded: &Loaded) -> String {
    let Loaded { module, bases } = loaded;
    // Init sections are freed after the module's initialization.
    let bases = bases.iter().filter(|(name, _)| !name.starts_with(".init"));
    bases.fold(format!("add-symbol-file {}", quoted(&module.debug)), |mut line, (name, base)| {
        // Writing to a string does not fail.
        let _ = write!(line, " -s {name} {base:#x}");
        line
    })
}

/// Quotes a path for a gdb command.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}

/// Runs a program on the lab's terminal, as its foreground process group.
fn run(mut command: Command, interactive: bool) -> Result<Option<i32>> {
    let _modes = interactive.then(terminal::Modes::keep).transpose()?;
    die_with_parent(&mut command, Signal::KILL);
    let foreground = interactive.then(|| terminal::Foreground::give(&mut command));
    let mut child = command.spawn().with_context(|| format!("cannot run `{GDB}`"))?;
    let ended = wait(&child);
    if ended.is_err() {
        // If this fails, it has already exited.
        let _ = child.kill();
        let _ = child.wait();
    }
    drop(foreground);
    ended
}

/// Waits for a child to exit. A child that stops itself, as on Ctrl-Z, is resumed, because the lab
/// has no shell to return to.
fn wait(child: &Child) -> Result<Option<i32>> {
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or_else(|| anyhow!("gdb has an invalid PID"))?;
    loop {
        match waitpid(Some(pid), WaitOptions::NOHANG | WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => kill_process_group(pid, Signal::CONT)?,
            Some((_, status)) => return Ok(status.exit_status()),
            None => {
                interrupt::check()?;
                thread::sleep(LOOK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::Module;

    #[test]
    fn a_module_is_where_its_sections_are() {
        let module = Module {
            name: "a".into(),
            file: "/m/a.ko".into(),
            debug: "/m m/a\".ko.debug".into(),
            sources: None,
        };
        let bases = [(".bss", 0x20), (".init.text", 0x40), (".text", 0xffff_8000_7a00_0000)];
        let bases = bases.map(|(name, base)| (name.to_owned(), base)).into();
        assert_eq!(
            add_symbols(&Loaded { module, bases }),
            r#"add-symbol-file "/m m/a\".ko.debug" -s .bss 0x20 -s .text 0xffff80007a000000"#
        );
    }
}
