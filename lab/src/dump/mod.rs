//! The memory of a guest, as a dump has it → what is in it.
//!
//! | module | what it does |
//! |---|---|
//! | `crash` | the same by the crash utility in a guest, where there is no drgn |
//! | `session` | that crash, asked command by command |
//! | `ask` | runs drgn as a child with a request, a deadline and a bound on its answer |
//! | `questions` | values, where pointers point, how many tasks: `inspect:` asks while a guest waits |
//! | `post_mortem` | what a kernel died of: message, backtrace, modules |
//! | `ring_buffer` | the trace that was still in the kernel's ring buffer, as a `trace.dat` |
//! | `found` | the dump of a result, with the build of the kernel it is of |
//!
//! What runs under drgn stands beside them in `.py` files: each program is `open.py` with others behind
//! it, and talks JSON. A dump is a guest's word, so nothing in it is taken for more than data.

mod ask;
mod crash;
mod found;
mod post_mortem;
mod questions;
mod ring_buffer;
mod session;

pub use crash::{FoundByCrash, by_crash};
pub use found::{FoundDump, find};
pub use post_mortem::{DeathScene, LoadedModule, Part, PostMortem};
pub use questions::{Answer, Question, Value};
pub use ring_buffer::RingBuffer;

use crate::host::drgn::{Drgn, NoDrgn};
use anyhow::Result;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

/// A dump, and where its kernel is described.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// The ELF file that QEMU wrote.
    pub vmcore: PathBuf,
    /// The kernel, with symbols and DWARF.
    pub vmlinux: PathBuf,
    /// Modules with DWARF by the name the kernel has for them. Of several builds of one, that with the
    /// build id in the dump is taken.
    pub modules: BTreeMap<String, Vec<PathBuf>>,
}

/// Who reads dumps.
#[derive(Debug)]
pub enum Reader {
    /// drgn, on the host.
    Drgn(Drgn),
    /// The crash utility, in a guest with a userland, since there is no drgn.
    Crash(NoDrgn),
}

impl Reader {
    /// drgn where it can be had.
    pub fn of(drgn: Result<Drgn, NoDrgn>) -> Reader {
        drgn.map_or_else(Reader::Crash, Reader::Drgn)
    }
}

/// A request of a program behind `open.py`: the dump, and what else the program takes.
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

    /// What each question comes to, in their order.
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

    /// What the kernel died of, and, if asked for, the trace it took with it. Source files are named
    /// without `roots`.
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

    /// Leaves the terminal to drgn's own prompt. Its history is kept in `history`, a directory.
    pub fn explore(&self, drgn: &Drgn, history: &Path) -> Result<ExitStatus> {
        let (python, arguments) = drgn.command(include_str!("explore.py"));
        let mut command = Command::new(python);
        command.args(arguments).arg(&self.vmcore).arg(&self.vmlinux);
        command.args(self.modules.values().flatten()).env("XDG_STATE_HOME", history);
        command.env_remove("DEBUGINFOD_URLS");
        Ok(command.status()?)
    }
}

/// What a program of drgn's replies.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply<A> {
    Answer(A),
    Refused(String),
}
