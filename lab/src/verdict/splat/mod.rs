//! Splats: what a kernel writes to its log when it caught itself doing wrong.
//!
//! [`find`] reads them from a log or a console, [`decode`] gives their frames files and lines. A
//! splat's fingerprint is a digest of its kind and the names of its top functions, so the same bug
//! has the same one on each run and, mostly, on each kernel.

mod decode;
mod elf;
mod fingerprint;
mod kinds;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use decode::shortened;
pub use decode::{Binaries, decode};
pub(crate) use parse::STEP_MARK;
pub use parse::{blocked, find, step_mark};

use super::Status;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// One splat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Splat {
    /// [`Status::Panic`], [`Status::Oops`] or [`Status::Splat`].
    pub status: Status,
    /// What kind it is, in a word or two: `oops`, `warning`, `soft lockup`.
    pub kind: String,
    /// Its first line, without the time stamp.
    pub title: String,
    /// What the code that warned had to say, if anything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Twelve hexadecimal digits.
    pub fingerprint: String,
    /// Seconds since boot, where the log has times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// Who it happened to: `init (33) on CPU 1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The step that was running, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// How often it was there in this step; the frames are those of the first time.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether the scenario allows it.
    #[serde(default)]
    pub allowed: bool,
    /// pc, lr, sp and the registers of arguments, as the log has them.
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
    /// The symbol the kernel gave.
    pub symbol: String,
    /// Bytes from its start.
    pub offset: u64,
    /// The symbol's size in bytes.
    pub size: u64,
    /// The module it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Where that is in the source: inlined functions first, the symbol's own last. Empty where it
    /// is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The function, inlined or not.
    pub function: String,
    /// The file, relative to the kernel's source, or as the module's sources are called.
    pub file: String,
    /// The line, from 1; 0 where the compiler names none.
    pub line: u32,
}

/// The most frames that are shown to a person.
const FRAMES_SHOWN: usize = 12;

impl Splat {
    /// What happened and where, in a sentence.
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
