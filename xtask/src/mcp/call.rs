//! Runs a verb for a client: as a child process, with its progress, until it ends or the client cancels it.

use super::{
    answer,
    cap::{ANSWER_MAX, Beginning, JSON_MAX, beginning, line},
    parameters::{Words, Yaml},
    tools::{Printed, Tool},
};
use anyhow::{Context, Result, anyhow};
use fs_err as fs;
use lab::{
    cache::Cache,
    host::{process::die_with_parent, scratch::Scratch},
    progress::Progress,
    words::is_installed,
};
use rmcp::{
    Peer, RoleServer,
    model::{CallToolResult, JsonObject, ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::VecDeque,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, BufReader},
    process::{Child, Command},
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::{sleep, timeout},
};

/// The number of verbs that run at once; further calls wait.
const CALLS_MAX: u32 = 4;

/// The time in which a verb must end after SIGINT before it is killed. It may be stopping several machines.
const GRACE: Duration = Duration::from_secs(15);

/// The time in which a client must take a message of progress. If it does not, it gets no more.
const TAKE: Duration = Duration::from_secs(2);

/// The number of lines of standard error that an error is taken from.
const LAST_MAX: usize = 60;

/// What a verb that ended left.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) printed: Beginning,
    /// The last lines of standard error.
    pub(super) last: Vec<String>,
    pub(super) status: ExitStatus,
}

/// Runs verbs.
#[derive(Clone)]
pub(super) struct Caller {
    program: PathBuf,
    /// Whether the server is ending.
    stopped: watch::Receiver<bool>,
    running: Arc<Semaphore>,
}

impl Caller {
    pub(super) fn new(program: PathBuf, stopped: watch::Receiver<bool>) -> Caller {
        Caller { program, stopped, running: Arc::new(Semaphore::new(CALLS_MAX as usize)) }
    }

    /// Waits until no verb is running.
    pub(super) async fn idle(&self) {
        // It is never closed.
        let _ = self.running.acquire_many(CALLS_MAX).await;
    }

    /// Runs a verb with what a client sent.
    pub(super) async fn call(
        &self,
        tool: &'static Tool,
        arguments: JsonObject,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let words = match (tool.words)(arguments) {
            Ok(words) => words,
            Err(error) => return answer::refused(tool, &error),
        };
        let progress = context.meta.get_progress_token().map(|token| (context.peer.clone(), token));
        let cancelled = async {
            let mut stopped = self.stopped.clone();
            tokio::select! {
                () = context.ct.cancelled() => {}
                // An error is that the server has ended.
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        };
        match self.run(tool, words, progress, cancelled).await {
            Ok(ended) => answer::of(tool, ended),
            Err(error) => answer::refused(tool, &format!("{error:#}")),
        }
    }

    async fn run(
        &self,
        tool: &Tool,
        words: Words,
        progress: Option<(Peer<RoleServer>, ProgressToken)>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Ended> {
        let mut cancelled = std::pin::pin!(cancelled);
        let _one = tokio::select! {
            one = self.running.acquire() => one?,
            () = &mut cancelled => return Err(anyhow!("cancelled")),
        };
        let inline = match &words.yaml {
            Some(yaml) => Some(Inline::write(yaml.text.clone()).await?),
            None => None,
        };
        let mut child = self.command(tool, &words, inline.as_ref()).spawn().context("cannot run the verb")?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)).context("it has no PID")?;
        let mut ended = std::pin::pin!(ended(&mut child, tool.printed, progress));
        tokio::select! {
            ended = &mut ended => return ended,
            () = &mut cancelled => {}
        }
        // It is not reaped before `ended`, so the PID is still its own.
        kill_process(pid, Signal::INT)?;
        tokio::select! {
            ended = &mut ended => return ended,
            () = sleep(GRACE) => {}
        }
        kill_process(pid, Signal::KILL)?;
        ended.await
    }

    fn command(&self, tool: &Tool, words: &Words, inline: Option<&Inline>) -> Command {
        let mut command = Command::new(&self.program);
        command.args((!is_installed()).then_some("lab")).arg(tool.name);
        command.args(match tool.printed {
            Printed::Text => None,
            Printed::Json | Printed::JsonLines => Some("--json"),
        });
        command.args(&words.options);
        let option = words.yaml.as_ref().and_then(|Yaml { option, .. }| *option);
        if let (Some(option), Some(inline)) = (option, inline) {
            command.arg(format!("--{option}={}", inline.path().display()));
        }
        command.arg("--").args(&words.positionals);
        if let (None, Some(inline)) = (option, inline) {
            command.arg(inline.path());
        }
        // Nobody reads this output as the log of a workflow.
        command.env_remove("GITHUB_ACTIONS");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // All of the server runs in one thread.
        die_with_parent(command.as_std_mut(), Signal::INT);
        command
    }
}

/// Waits for the end of a verb and reports its progress.
async fn ended(
    child: &mut Child,
    printed: Printed,
    progress: Option<(Peer<RoleServer>, ProgressToken)>,
) -> Result<Ended> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(anyhow!("it has no standard output"));
    };
    let max = match printed {
        Printed::Text | Printed::JsonLines => ANSWER_MAX,
        Printed::Json => JSON_MAX,
    };
    let (printed, last) = tokio::try_join!(beginning(stdout, max), last_lines(stderr, progress))?;
    Ok(Ended { printed, last, status: child.wait().await? })
}

/// Reports each line as progress, and returns the last ones.
async fn last_lines(
    from: impl AsyncRead + Unpin,
    mut progress: Option<(Peer<RoleServer>, ProgressToken)>,
) -> std::io::Result<Vec<String>> {
    let mut from = BufReader::new(from);
    let mut last = VecDeque::new();
    let mut count = 0.0;
    while let Some(line) = line(&mut from).await? {
        if let Some((peer, token)) = progress.as_ref().filter(|_| !line.trim().is_empty()) {
            count += 1.0;
            let report = ProgressNotificationParam::new(token.clone(), count).with_message(&line);
            // The verb does not wait for a client that is gone or reads nothing.
            if !matches!(timeout(TAKE, peer.notify_progress(report)).await, Ok(Ok(()))) {
                progress = None;
            }
        }
        if last.len() == LAST_MAX {
            last.pop_front();
        }
        last.push_back(line);
    }
    Ok(last.into())
}

/// The file with a scenario that came as text. It exists as long as the call.
struct Inline(Scratch);

impl Inline {
    async fn write(text: String) -> Result<Inline> {
        // Opening the cache waits for a process that prunes it.
        let write = move || -> Result<Inline> {
            let inline = Inline(Scratch::new(&Cache::open(&Progress::new())?)?);
            fs::write(inline.path(), text)?;
            Ok(inline)
        };
        spawn_blocking(write).await?
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("scenario.yaml")
    }
}
