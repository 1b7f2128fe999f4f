//! Reads dumps of a guest's memory.
//!
//! | module | what it does |
//! |---|---|
//! | `crash` | the same by the crash utility in a guest, where there is no drgn |
//! | `session` | that crash, asked command by command |
//! | `ask` | runs drgn as a child with a request, a deadline and a bound on its answer |
//! | `questions` | values, where pointers point, how many tasks: `inspect:` asks while a guest waits |
//! | `post_mortem` | what a kernel died of: message, backtrace, modules |
//! | `ring_buffer` | the trace that was still in the kernel's ring buffer, as a `trace.dat` |
//! | `found_dump` | the dump of a result, with the build of the kernel it is of |
//!
//! The programs for drgn are next to them in `.py` files: each is `open.py` followed by others, and
//! communicates in JSON. A dump comes from a guest, so its contents are not trusted.

mod ask;
mod crash;
mod found_dump;
mod post_mortem;
mod questions;
mod ring_buffer;
mod session;

pub use crash::{CrashReport, by_crash};
#[doc(hidden)]
pub use found_dump::dumped_build_id;
pub use found_dump::{FoundDump, find};
pub use post_mortem::{LoadedModule, PanickedTask, PostMortem, Section};
pub use questions::{Answer, Question, Value};
pub use ring_buffer::RingBuffer;

use crate::host::drgn::{Drgn, DrgnUnavailable};
use anyhow::Result;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

/// A dump, and the files that describe its kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// The ELF file that QEMU wrote.
    pub vmcore: PathBuf,
    /// The kernel, with symbols and DWARF.
    pub vmlinux: PathBuf,
    /// Modules with DWARF by the kernel's names. Of several builds of one, the one with the build ID in the
    /// dump is used.
    pub modules: BTreeMap<String, Vec<PathBuf>>,
}

/// The program that reads dumps.
#[derive(Debug)]
pub enum Reader {
    /// drgn, on the host.
    Drgn(Drgn),
    /// The crash utility, in a guest with a userland, and why drgn is not available.
    Crash(DrgnUnavailable),
}

impl Reader {
    /// Returns drgn if it is available, else crash.
    pub fn of(drgn: Result<Drgn, DrgnUnavailable>) -> Reader {
        drgn.map_or_else(Reader::Crash, Reader::Drgn)
    }
}

/// A request to a program that follows `open.py`: the dump, and the program's own input.
#[derive(Serialize)]
struct Request<'a, R> {
    #[serde(flatten)]
    dump: &'a Dump,
    #[serde(flatten)]
    what: &'a R,
}

impl Dump {
    fn ask<A: DeserializeOwned>(&self, drgn: &Drgn, programs: &[&str], what: &impl Serialize) -> Result<A> {
        let program = [&[include_str!("open.py")], programs].concat().join("\n");
        ask::ask(drgn, &program, &Request { dump: self, what })
    }

    /// Answers each question, in their order.
    pub fn answers(&self, drgn: &Drgn, questions: &[Question]) -> Result<Vec<Answer>> {
        #[derive(Serialize)]
        struct Asked<'a> {
            questions: &'a [Question],
        }
        let answers: Vec<Answer> = self.ask(drgn, &[include_str!("questions.py")], &Asked { questions })?;
        match answers.len() == questions.len() {
            true => Ok(answers),
            false => anyhow::bail!("drgn gave {} answers to {} questions", answers.len(), questions.len()),
        }
    }

    /// Returns why the kernel panicked and, if requested, the contents of its ring buffer. Removes `roots`
    /// from the names of source files.
    pub fn post_mortem(&self, drgn: &Drgn, trace: bool, roots: &[PathBuf]) -> Result<PostMortem> {
        #[derive(Serialize)]
        struct Asked {
            trace: bool,
        }
        let programs = [include_str!("ring_buffer.py"), include_str!("post_mortem.py")];
        let mut found: PostMortem = self.ask(drgn, &programs, &Asked { trace })?;
        found.shorten(roots);
        Ok(found)
    }

    /// Runs drgn's prompt in the terminal. Its history is kept in the directory `history`.
    pub fn explore(&self, drgn: &Drgn, history: &Path) -> Result<ExitStatus> {
        let (python, arguments) = drgn.command(include_str!("explore.py"));
        let mut command = Command::new(python);
        command.args(arguments).arg(&self.vmcore).arg(&self.vmlinux);
        command.args(self.modules.values().flatten()).env("XDG_STATE_HOME", history);
        command.env_remove("DEBUGINFOD_URLS");
        Ok(command.status()?)
    }
}

/// The reply of a program under drgn.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply<A> {
    Answer(A),
    Refused(String),
}
