//! gdb on a guest's kernel, with the symbols of the kernel and of the modules that are loaded.

use super::{Live, terminal};
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

/// What gdb is told, and what happens meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// A workload that begins when gdb lets the guest go on.
    pub workload: Option<CommandLine>,
    /// gdb's own arguments, behind the lab's.
    pub arguments: Vec<String>,
}

/// How often it is looked whether gdb has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs gdb until it is left; its exit status, if it has one.
pub fn debug(live: &mut Live, session: &Session) -> Result<Option<i32>> {
    let vmlinux = indexed_vmlinux(&live.cache, &live.kernel)?;
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
    for words in commands(&stub, &live.root, &live.loaded) {
        command.args(["-ex", &words]);
    }
    command.args(&session.arguments);
    run(command, interactive)
}

/// The request that starts a workload.
fn spawn(live: &Live, line: &CommandLine) -> Result<Request> {
    let program = line.program();
    if !live.workloads.iter().any(|name| name == program) {
        bail!("no workload is called `{program}`; there are {}", live.workloads.join(", "));
    }
    let argv = std::iter::once(format!("/workloads/{program}")).chain(line.arguments().iter().cloned());
    let stdin = Stdin::Bytes(Vec::new());
    Ok(Request::Spawn { argv: argv.collect(), env: Vec::new(), stdin, output_max: 0 })
}

fn banner(live: &Live, session: &Session) -> String {
    let mut text =
        format!("gdb on Linux {}, which is stopped; `continue` lets it go on", live.kernel.release);
    // Writing to a string does not fail.
    let _ = match &session.workload {
        Some(line) => writeln!(text, ", and `{line}` begins."),
        None => writeln!(text, "."),
    };
    text + "`quit` leaves, and nothing runs on.\n"
}

/// What gdb does before the user's own commands.
fn commands(stub: &Path, root: &Path, loaded: &[Loaded]) -> Vec<String> {
    let mut commands = vec![
        // The guest is nobody's loss.
        "set confirm off".to_owned(),
        // The stub looks once a second whether somebody is there.
        "set remotetimeout 20".to_owned(),
        // The sources of the lab's modules are named from here.
        format!("directory {}", root.display()),
        format!("target remote {}", stub.display()),
    ];
    commands.extend(loaded.iter().map(add_symbols));
    commands
}

fn add_symbols(loaded: &Loaded) -> String {
    let Loaded { module, bases } = loaded;
    // What a module needs only to begin is given back once it has begun.
    let bases = bases.iter().filter(|(name, _)| !name.starts_with(".init"));
    bases.fold(format!("add-symbol-file {}", quoted(&module.debug)), |mut line, (name, base)| {
        // Writing to a string does not fail.
        let _ = write!(line, " -s {name} {base:#x}");
        line
    })
}

/// A path as a word of gdb's.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}

/// Runs a program on the lab's own terminal, whose keys are then for it alone.
fn run(mut command: Command, interactive: bool) -> Result<Option<i32>> {
    let _modes = interactive.then(terminal::Modes::keep).transpose()?;
    die_with_parent(&mut command, Signal::KILL);
    let foreground = interactive.then(|| terminal::Foreground::give(&mut command));
    let mut child = command.spawn().with_context(|| format!("cannot run `{GDB}`"))?;
    let ended = wait(&child);
    if ended.is_err() {
        // Where it fails, it is gone already.
        let _ = child.kill();
        let _ = child.wait();
    }
    drop(foreground);
    ended
}

/// Waits for the end of a child. One that stops itself, as Ctrl-Z has it, goes on: there is no shell of
/// the lab's to come back to.
fn wait(child: &Child) -> Result<Option<i32>> {
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or_else(|| anyhow!("gdb has no process id"))?;
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
        let module = Module { name: "a".into(), file: "/m/a.ko".into(), debug: "/m m/a\".ko.debug".into() };
        let bases = [(".bss", 0x20), (".init.text", 0x40), (".text", 0xffff_8000_7a00_0000)];
        let bases = bases.map(|(name, base)| (name.to_owned(), base)).into();
        assert_eq!(
            add_symbols(&Loaded { module, bases }),
            r#"add-symbol-file "/m m/a\".ko.debug" -s .bss 0x20 -s .text 0xffff80007a000000"#
        );
    }
}
