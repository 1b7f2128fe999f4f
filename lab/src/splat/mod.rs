//! Splats: reports of kernel bugs in the kernel log, such as oopses, warnings and KASAN reports.
//!
//! [`find`] reads them from a log or a console, [`decode()`] adds files and lines to their frames. The
//! fingerprint of a splat is a digest of its kind and the names of its top functions, so the same bug
//! has the same fingerprint in each run and, mostly, on each kernel.

mod decode;
mod elf;
mod fingerprint;
mod kinds;
mod parse;

pub(crate) use decode::shortened;
pub use decode::{Binaries, decode};
pub(crate) use parse::STEP_MARK;
pub use parse::{blocked, find, step_mark};

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The severity of a splat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The kernel panicked.
    Panic,
    /// A bad access, an undefined instruction, a `BUG()`.
    Oops,
    /// A warning, a lockdep or sanitizer report.
    Splat,
    /// The stack of a task that was blocked or running when a deadline passed.
    Hang,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Severity::Panic => "panic",
            Severity::Oops => "oops",
            Severity::Splat => "splat",
            Severity::Hang => "hang",
        })
    }
}

/// One splat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Splat {
    /// Its severity.
    #[serde(rename = "status")]
    pub severity: Severity,
    /// Its kind, in a word or two: `oops`, `warning`, `soft lockup`.
    pub kind: String,
    /// Its first line, without the timestamp.
    pub title: String,
    /// The message of a warning, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Twelve hexadecimal digits.
    pub fingerprint: String,
    /// Seconds since boot, if the log has timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// The task it happened in: `init (33) on CPU 1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The step that was running, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The number of times it occurred in this step; the frames are those of the first occurrence.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether the scenario allows it.
    #[serde(default)]
    pub allowed: bool,
    /// pc, lr, sp and the argument registers, as in the log.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub registers: BTreeMap<String, String>,
    /// The call trace, innermost first.
    pub frames: Vec<Frame>,
}

fn once() -> u32 {
    1
}

/// One line of a call trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The symbol that the kernel printed.
    pub symbol: String,
    /// The offset from its start in bytes.
    pub offset: u64,
    /// The symbol's size in bytes.
    pub size: u64,
    /// The module it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The source lines: inlined functions first, that of the symbol itself last. Empty if not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<SourceLine>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// The function, inlined or not.
    pub function: String,
    /// The file, relative to the source tree of the kernel or the module.
    pub file: String,
    /// The line, from 1; 0 if DWARF has none.
    pub line: u32,
}

/// The maximum number of frames shown.
const FRAMES_SHOWN: usize = 12;

impl Splat {
    /// Describes what happened and where, in a sentence.
    pub fn sentence(&self) -> String {
        let mut text = self.title.clone();
        if !self.message.is_empty() {
            text = format!("{text}: {}", self.message);
        }
        if let Some(step) = self.step {
            text = format!("{text}, in step {step}");
        }
        if self.times > 1 {
            text = format!("{text}, {} times", self.times);
        }
        text
    }
}

/// Title, fingerprint and frames, on several lines.
impl fmt::Display for Splat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {}: {}", self.kind, self.fingerprint, self.sentence())?;
        if !self.task.is_empty() {
            writeln!(out, "  in {}", self.task)?;
        }
        let frames = fingerprint::telling(&self.frames);
        for frame in frames.iter().take(FRAMES_SHOWN) {
            write!(out, "{frame}")?;
        }
        if frames.len() > FRAMES_SHOWN {
            writeln!(out, "  … {} more frames", frames.len() - FRAMES_SHOWN)?;
        }
        Ok(())
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "  {}+{:#x}", self.symbol, self.offset)?;
        if let Some(module) = &self.module {
            write!(out, " [{module}]")?;
        }
        let Some((innermost, outer)) = self.places.split_first() else { return writeln!(out) };
        match outer.is_empty() {
            true => writeln!(out, "  {}:{}", innermost.file, innermost.line)?,
            false => writeln!(out, "  {} at {}:{}", innermost.function, innermost.file, innermost.line)?,
        }
        for place in outer {
            writeln!(out, "    inlined into {} at {}:{}", place.function, place.file, place.line)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
