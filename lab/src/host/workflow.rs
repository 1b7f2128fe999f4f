//! Keeps a GitHub runner from obeying what a guest prints.
//!
//! A runner reads commands, such as `::add-path::`, from the output of a step, even from indented lines.

use crate::words::hex;
use std::{
    env,
    fs::File,
    io::{self, Read, Write, stderr, stdout},
    sync::{Mutex, PoisonError},
};

/// Commands for the runner, once it obeys again.
static COMMANDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Gives the runner a command when the others are no longer stopped, if this process runs in a step of a workflow.
pub fn command(text: String) {
    if env::var_os("GITHUB_ACTIONS").is_some() {
        COMMANDS.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// Stops the runner's commands until it is dropped.
#[derive(Debug)]
pub struct StoppedCommands {
    token: String,
}

impl StoppedCommands {
    /// Stops the commands if this process runs in a step of a workflow. What is written to stderr then
    /// goes to stdout: a runner reads them as two streams, and the end of one is not that of the other.
    pub fn begin() -> io::Result<Option<StoppedCommands>> {
        if env::var_os("GITHUB_ACTIONS").is_none() {
            return Ok(None);
        }
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        stderr().flush()?;
        rustix::stdio::dup2_stderr(stdout())?;
        let token = hex(&random);
        writeln!(stdout(), "::stop-commands::{token}")?;
        stdout().flush()?;
        Ok(Some(StoppedCommands { token }))
    }
}

impl Drop for StoppedCommands {
    fn drop(&mut self) {
        // The last line may not have ended, and the runner may have closed the pipe.
        let _ = write!(stdout(), "\n::{}::\n", self.token);
        for command in COMMANDS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = writeln!(stdout(), "{command}");
        }
        let _ = stdout().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Returns the output of [`prints`] in a child process.
    fn printed(set: bool) -> [String; 2] {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "host::workflow::tests::prints", "--ignored", "--nocapture"]);
        let child =
            if set { child.env("GITHUB_ACTIONS", "true") } else { child.env_remove("GITHUB_ACTIONS") };
        let output = child.output().unwrap();
        [output.stdout, output.stderr].map(|stream| String::from_utf8(stream).unwrap())
    }

    #[test]
    fn everything_printed_is_enclosed_by_a_random_token() {
        let tokens = [(); 2].map(|()| {
            let [out, err] = printed(true);
            assert_eq!(err, "");
            let (_, rest) = out.split_once("::stop-commands::").unwrap();
            let (token, rest) = rest.split_once('\n').unwrap();
            let (inside, _) = rest.split_once(&format!("\n::{token}::\n")).unwrap();
            assert_eq!((inside, token.len()), ("::error::out\n::error::err\n::error::end", 32));
            token.to_owned()
        });
        assert_ne!(tokens[0], tokens[1]);
        let [out, err] = printed(false);
        assert!(!out.contains("stop-commands") && err.contains("::error::err"), "{out}{err}");
    }

    #[test]
    #[ignore = "run in a child process by the test above"]
    fn prints() {
        let _stopped = StoppedCommands::begin().unwrap();
        writeln!(stdout(), "::error::out").unwrap();
        writeln!(stderr(), "::error::err").unwrap();
        write!(stdout(), "::error::end").unwrap();
    }
}
