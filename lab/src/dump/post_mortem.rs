//! Why a kernel panicked, according to its dump: the message, the task, its backtrace, the modules.

use super::RingBuffer;
use crate::splat::{Frame, shortened};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// A part of a post-mortem. A corrupt dump may lack some parts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section<T> {
    /// The part.
    Found(T),
    /// Why it is missing.
    Missing(String),
}

impl<T> Section<T> {
    /// Returns the part, or why it is missing.
    pub fn found(&self) -> Result<&T, &str> {
        match self {
            Section::Found(found) => Ok(found),
            Section::Missing(reason) => Err(reason),
        }
    }
}

/// The panic of a kernel, as its dump shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostMortem {
    /// The panic message in the kernel log.
    pub message: Section<String>,
    /// The task that panicked, and its backtrace.
    pub death: Section<PanickedTask>,
    /// The loaded modules, the newest first.
    pub modules: Section<Vec<LoadedModule>>,
    /// The contents of the ring buffer, if requested.
    #[serde(default)]
    pub trace: Option<Section<RingBuffer>>,
}

/// The task that panicked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PanickedTask {
    /// Its name.
    pub comm: String,
    /// Its PID.
    pub pid: i32,
    /// The CPU it ran on.
    pub cpu: i32,
    /// Its call trace, innermost first.
    pub frames: Vec<Frame>,
}

/// A module that was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedModule {
    /// The kernel's name for it.
    pub name: String,
    /// Whether its debug information was found.
    pub source: bool,
}

impl PanickedTask {
    /// Returns the names of all functions in the backtrace, innermost first, including inlined ones.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.frames.iter().flat_map(|frame| {
            let places = frame.places.iter().map(|place| place.function.as_str());
            places.chain([frame.symbol.as_str()])
        })
    }
}

impl PostMortem {
    /// Removes the directories `roots` from the names of source files.
    pub(super) fn shorten(&mut self, roots: &[PathBuf]) {
        let Section::Found(death) = &mut self.death else { return };
        for place in death.frames.iter_mut().flat_map(|frame| &mut frame.places) {
            place.file = shortened(&place.file, roots);
        }
    }
}

impl fmt::Display for LoadedModule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        if self.source { Ok(()) } else { out.write_str(" (no debug information)") }
    }
}

/// Message, task, backtrace and modules, on several lines.
impl fmt::Display for PostMortem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.found() {
            Ok(message) => writeln!(out, "{}", message.escape_debug())?,
            Err(reason) => writeln!(out, "no message: {reason}")?,
        }
        match self.death.found() {
            Ok(PanickedTask { comm, pid, cpu, frames }) => {
                writeln!(out, "in {} ({pid}) on CPU {cpu}", comm.escape_debug())?;
                frames.iter().try_for_each(|frame| write!(out, "{frame}"))?;
            }
            Err(reason) => writeln!(out, "no backtrace: {reason}")?,
        }
        match self.modules.found() {
            Ok(modules) if modules.is_empty() => writeln!(out, "modules: none"),
            Ok(modules) => {
                let names: Vec<_> = modules.iter().map(ToString::to_string).collect();
                writeln!(out, "modules: {}", names.join(", "))
            }
            Err(reason) => writeln!(out, "modules unknown: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{
        "message": { "found": "Kernel panic - not syncing: x" },
        "death": { "found": { "comm": "insmod", "pid": 41, "cpu": 1, "frames": [
            { "symbol": "init_module", "offset": 200, "size": 244, "module": "deaths", "places": [
                { "function": "happen", "file": "/k/tree/a.c", "line": 265 },
                { "function": "deaths_init", "file": "/k/tree/b/../a.c", "line": 315 }
            ] },
            { "symbol": "el0_svc", "offset": 36, "size": 40, "module": null, "places": [] }
        ] } },
        "modules": { "found": [ { "name": "deaths", "source": true }, { "name": "o", "source": false } ] }
    }"#;

    #[test]
    fn a_post_mortem_is_read_and_shown() {
        let mut found: PostMortem = serde_json::from_str(ANSWER).unwrap();
        found.shorten(&["/k/tree".into()]);
        assert_eq!(
            found.to_string(),
            "Kernel panic - not syncing: x\nin insmod (41) on CPU 1\n  init_module+0xc8 [deaths]  happen at \
             a.c:265\n    inlined into deaths_init at a.c:315\n  el0_svc+0x24\nmodules: deaths, o (no debug \
             information)\n"
        );
        let Section::Found(death) = &found.death else { panic!() };
        let functions: Vec<_> = death.functions().collect();
        assert_eq!(functions, ["happen", "deaths_init", "init_module", "el0_svc"]);
    }

    #[test]
    fn a_part_that_is_missing_leaves_the_others() {
        let json = r#"{ "message": { "missing": "no log" }, "death": { "missing": "no task" }, "modules": { "found": [] } }"#;
        let found: PostMortem = serde_json::from_str(json).unwrap();
        assert_eq!(found.to_string(), "no message: no log\nno backtrace: no task\nmodules: none\n");
    }
}
