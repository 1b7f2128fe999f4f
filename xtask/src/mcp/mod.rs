//! `cargo xtask lab mcp`: serves verbs of the lab to a program, over the Model Context Protocol.
//!
//! Each call runs the same verb as a child process: nothing that a verb prints can come between the messages of
//! the protocol, and a call that is cancelled, or whose client is gone, ends as by Ctrl-C.

mod answer;
mod call;
mod cap;
mod parameters;
mod resources;
mod tools;

use crate::exit;
use anyhow::{Context, Result};
use call::Caller;
use clap::Args;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
        ServerConfig,
    },
    service::{RequestContext, ServerInitializeError},
    transport::stdio,
};
use std::{
    env,
    io::{IsTerminal, stdin},
    time::Duration,
};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::timeout,
};

/// Serve verbs to a program over the Model Context Protocol, on standard input and output
#[derive(Args)]
#[command(after_help = "Example, the configuration of a client:\n  \
    { \"mcpServers\": { \"ftrace-lab\": { \"command\": \"ftrace-lab\", \"args\": [\"mcp\"] } } }\n\n\
    The tools are list, kernels, explain, check, run, trace, judge, resolve and coverage, with the parameters of \
    the commands; `check`, `run` and `judge` also take the text of a scenario. The commands run in the directory \
    that the client starts this one in. An answer has at most 64 KiB, and says what it leaves out. A call that is \
    cancelled ends as by Ctrl-C, and so does every call when the client closes standard input.\n\n\
    The resources are docs/scenarios.md and the JSON Schemas of scenario files and of ftrace-lab.yaml.\n\n\
    docs/programs.md describes this and `--json`.")]
pub(crate) struct Mcp {}

/// What the server says of itself to a client.
const INSTRUCTIONS: &str = "ftrace-lab tests the tracing of arm64 Linux kernels: it boots a kernel under QEMU, runs a \
    YAML scenario in it and checks the trace that the kernel recorded. `list` shows the scenarios, whose files are \
    examples. To write one, read the resource ftrace-lab://scenarios.md, then `check` its text, `resolve` the paths \
    through structs that it probes, `explain` it and `run` it. `trace` selects events of the trace of a result, and \
    `judge` checks other expectations against it without running anything.";

/// The time in which verbs that were interrupted must have ended before the server does.
const END: Duration = Duration::from_secs(20);

impl Mcp {
    pub(crate) fn run(self) -> Result<u8> {
        if stdin().is_terminal() {
            eprintln!("waiting for an MCP client on standard input; --help shows how to configure one");
        }
        let program = env::current_exe().context("cannot find the program itself")?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let served = runtime.block_on(serve(Caller::new(program, stopped), stop));
        // A read of standard input cannot be cancelled.
        runtime.shutdown_background();
        served
    }
}

/// Serves until standard input ends or a signal arrives, then interrupts the verbs that are running.
async fn serve(caller: Caller, stop: watch::Sender<bool>) -> Result<u8> {
    let server = Server { caller: caller.clone() };
    let session = async {
        match server.serve(stdio()).await {
            Ok(service) => service.waiting().await.map(drop).map_err(Into::into),
            // The client went away without a word.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    };
    let ended = tokio::select! {
        ended = session => ended,
        ended = asked_to_stop() => ended,
    };
    stop.send_replace(true);
    // If they have not ended by then, they get SIGINT once more when this process ends.
    let _ = timeout(END, caller.idle()).await;
    ended.map(|()| exit::SUCCESS)
}

async fn asked_to_stop() -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

struct Server {
    caller: Caller,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("ftrace-lab", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::described()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::named(&request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        Ok(self.caller.call(tool, request.arguments.unwrap_or_default(), context).await.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::described()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let missing =
            || ErrorData::resource_not_found(format!("there is no resource `{}`", request.uri), None);
        Ok(resources::read(&request.uri).ok_or_else(missing)?.into())
    }
}
