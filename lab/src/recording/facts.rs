//! The facts about a run: what the steps did, what the kernel said, how the machine ended.
//!
//! Nothing here judges them; `verdict` does.

use super::Leftover;
use crate::{
    coverage::Load,
    dump::{PanickedTask, Section},
    machine::Death,
    results::StepResult,
    splat::Splat,
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The facts about a run of a scenario on a machine.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recording {
    /// The results of the steps, up to the last one that began.
    pub steps: Vec<StepResult>,
    /// The kernel's reason for refusing to arm the trace.
    pub unarmed: Option<String>,
    /// Whether `trace.dat` exists and is complete.
    pub trace: bool,
    /// The kernel log at the end, or the console if the guest died. It has its own file.
    #[serde(skip)]
    pub kernel_log: String,
    /// tracefs files that expectations need, as they were after the last step. They have their own file.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
    /// The modules that the scenario loaded, for coverage, which has its own file.
    #[serde(skip)]
    pub(crate) loads: Vec<Load>,
    /// How the machine ended before its work was done.
    pub end: Option<End>,
    /// The backtrace of a panic, if the scenario has one to compare.
    pub backtrace: Option<Backtrace>,
    /// The stacks of tasks when a deadline passed, as far as the guest still reported them.
    pub stacks: Vec<Splat>,
    /// The leftovers of the steps.
    pub leftovers: Vec<Leftover>,
    /// The modules that were loaded after the last step.
    pub modules: BTreeSet<String>,
    /// The reasons why the lab could not find something out.
    pub notes: Vec<String>,
}

/// The end of a machine before its work was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The way in which it ended.
    pub kind: EndKind,
    /// The same as text, with details.
    pub text: String,
    /// The stage of the run.
    pub during: String,
}

/// The ways in which a machine ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The kernel panicked, with this message.
    Panic(String),
    /// The guest powered itself off.
    PoweredOff,
    /// The guest rebooted itself.
    Rebooted,
    /// QEMU exited by itself.
    QemuEnded,
    /// The agent closed its port or sent an invalid reply.
    AgentLost,
    /// The agent did not greet in time.
    NoBoot,
    /// A deadline passed.
    Deadline,
    /// The lab was asked to stop.
    Interrupted,
    /// The lab itself failed.
    Lab,
}

/// The backtrace of a panic, read from the guest's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backtrace {
    /// The task that panicked, with its call trace.
    Found(PanickedTask),
    /// The memory has no backtrace, for this reason.
    Missing(String),
    /// The lab could not read the memory, for this reason.
    Unread(String),
}

impl Recording {
    /// The recording of a machine that died during `stage`, before there was anything to record.
    pub fn of_death(death: Death, stage: &str) -> Recording {
        let mut recording = Recording::default();
        recording.die(&death, stage);
        recording
    }

    /// Notes down how the machine ended.
    pub(super) fn die(&mut self, death: &Death, stage: &str) {
        self.notes.extend(death.note());
        self.end = Some(End { kind: death.into(), text: death.to_string(), during: stage.to_owned() });
    }
}

impl From<&Death> for EndKind {
    fn from(death: &Death) -> EndKind {
        match death {
            Death::Panic { message, .. } => EndKind::Panic(message.clone()),
            Death::PoweredOff { .. } => EndKind::PoweredOff,
            Death::Rebooted => EndKind::Rebooted,
            Death::QemuEnded { .. } => EndKind::QemuEnded,
            Death::AgentLost(_) => EndKind::AgentLost,
            Death::NoBoot { .. } => EndKind::NoBoot,
            Death::Deadline { .. } => EndKind::Deadline,
            Death::Interrupted => EndKind::Interrupted,
            Death::Lab(_) => EndKind::Lab,
        }
    }
}

impl From<Result<Section<PanickedTask>>> for Backtrace {
    fn from(read: Result<Section<PanickedTask>>) -> Backtrace {
        match read {
            Ok(Section::Found(scene)) => Backtrace::Found(scene),
            Ok(Section::Missing(reason)) => Backtrace::Missing(reason),
            Err(error) => Backtrace::Unread(format!("{error:#}")),
        }
    }
}
