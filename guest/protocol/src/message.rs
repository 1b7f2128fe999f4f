//! What the lab can ask of the agent, and what comes back.

use serde::{Deserialize, Serialize};

/// One thing for the agent to do. A path that does not start with `/` is below tracefs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Who are you? Answered by [`Reply::Hello`]; always the first request.
    Hello,
    /// Writes `data` as a shell's `echo` does, with one `write(2)`, since tracefs parses each write
    /// on its own; only what a short write left over, as its filter files do behind each word, goes
    /// with another. Answered by [`Reply::Done`] or the errno of open, write or close.
    WriteFile {
        /// The file.
        path: String,
        /// What to write.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
        /// How to open it.
        mode: WriteMode,
    },
    /// Reads at most `max` bytes from the start of a file: [`Reply::Data`]. It never waits: of
    /// trace_pipe or /dev/kmsg it reads what is there.
    ReadFile {
        /// The file.
        path: String,
        /// The most bytes wanted; the agent caps it so that the reply fits a frame.
        max: u32,
    },
    /// The names in a directory, sorted, directories with a `/` behind: [`Reply::Names`].
    ListDirectory {
        /// The directory.
        path: String,
    },
    /// Makes a directory, parents included.
    MakeDirectory {
        /// The directory.
        path: String,
    },
    /// Removes a file or an empty directory (a tracefs instance is one).
    Remove {
        /// What to remove.
        path: String,
    },
    /// Appends a chunk of a file; the first chunk has `offset` 0 and creates or truncates it.
    Push {
        /// The file, its directory included, is created.
        path: String,
        /// Permission bits.
        mode: u32,
        /// Where the chunk goes: the file's length so far.
        offset: u64,
        /// The chunk.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// Starts a process of the agent's own that loads a module pushed to `path`, with
    /// `finit_module(2)`: [`Reply::Started`]. What the module does in its init, it does to that
    /// process and not to the agent. It exits with 0, or with 1 and the errno on its stdout, as a
    /// positive number.
    LoadModule {
        /// A pushed `.ko`.
        path: String,
        /// Parameters as insmod takes them: `name=value name=value`.
        parameters: String,
    },
    /// Starts a process that unloads a module by name; as with `LoadModule`.
    UnloadModule {
        /// The module's name.
        name: String,
    },
    /// Starts a program: [`Reply::Started`], or the errno of the exec.
    Spawn {
        /// Path and arguments; the path is absolute.
        argv: Vec<String>,
        /// The whole environment, `NAME=value`.
        env: Vec<String>,
        /// What it reads.
        stdin: Stdin,
        /// The most bytes of stdout, and of stderr, that are kept. The rest is read and dropped, except
        /// from a child that is talked to, by [`Stdin::Open`] or [`Stdin::Terminal`]: it waits until
        /// what it wrote was taken.
        output_max: u32,
    },
    /// Waits until a child has ended and closed its output, or the time is over: [`Reply::Child`].
    /// Output that a descendant holds open is waited for a fifth of a second only. The end is told
    /// once; asking again is ECHILD.
    Wait {
        /// From [`Reply::Started`].
        child: u32,
        /// How long, in milliseconds of the guest's clock; 0 only asks.
        milliseconds: u32,
    },
    /// What a child has written so far, which stays for `Wait` to tell: [`Reply::Said`], or ECHILD
    /// once its end was told.
    Output {
        /// From [`Reply::Started`].
        child: u32,
    },
    /// Writes to a child whose stdin is [`Stdin::Open`] or [`Stdin::Terminal`], at most [`FEED_MAX`]
    /// bytes, all of them or none: EAGAIN, as long as it has not read what it has, and EPIPE once it
    /// reads no more. No bytes at all are the end of an open stdin.
    Feed {
        /// From [`Reply::Started`].
        child: u32,
        /// What it is to read.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// As `Output`, what was written since it was last taken; it is not told again. What is kept of it
    /// counts anew.
    Take {
        /// From [`Reply::Started`].
        child: u32,
    },
    /// Waits until a child has written something that was not taken, or its end can be told, or the
    /// time is over, or the next request is here: [`Reply::Done`], or ECHILD once its end was told.
    Listen {
        /// From [`Reply::Started`].
        child: u32,
        /// How long, in milliseconds of the guest's clock.
        milliseconds: u32,
    },
    /// Tells a child's [`Stdin::Terminal`] its size; ENOTTY if it has none.
    Resize {
        /// From [`Reply::Started`].
        child: u32,
        /// Lines.
        rows: u16,
        /// Characters a line.
        columns: u16,
    },
    /// Sends a signal to a child's process group.
    Kill {
        /// From [`Reply::Started`].
        child: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Reads kernel memory through /proc/kcore: [`Reply::Data`], or EFAULT at an address it does not
    /// show. A hole in the vmalloc area reads as zeros.
    ReadMemory {
        /// A kernel virtual address.
        address: u64,
        /// Bytes, at most 64 KiB.
        length: u32,
    },
    /// The whole kernel log as `syslog(2)` gives it, its newest `max` bytes: [`Reply::Data`].
    KernelLog {
        /// The most bytes wanted; the agent caps it so that the reply fits a frame.
        max: u32,
    },
    /// Sets `tracing_on` of an instance.
    StartTrace {
        /// The instance's directory below tracefs, `""` for the top-level one.
        instance: String,
    },
    /// Takes what the ring buffer holds, up to about `max` bytes: [`Reply::Pages`]. Nothing stays
    /// open behind it, so the tracer can be changed and the instance removed at any time.
    DrainTrace {
        /// As in `StartTrace`.
        instance: String,
        /// The most bytes wanted; the agent caps it so that the reply fits a frame.
        max: u32,
    },
    /// Clears `tracing_on`; what is in the buffer can still be drained.
    StopTrace {
        /// As in `StartTrace`.
        instance: String,
    },
    /// Syncs and powers the machine off. There is no reply.
    PowerOff,
}

/// The most bytes of one [`Request::Feed`]: what a pipe takes as a whole, PIPE_BUF.
pub const FEED_MAX: usize = 4096;

/// What a child reads from stdin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// These bytes, then end of file.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// What [`Request::Feed`] brings.
    Open,
    /// The same through a terminal, which is the child's stdout and stderr, too, and the controlling
    /// terminal of a session of its own. All that is written to it comes as stdout.
    Terminal {
        /// Lines.
        rows: u16,
        /// Characters a line.
        columns: u16,
    },
}

/// How [`Request::WriteFile`] opens its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// `O_WRONLY|O_TRUNC`, a shell's `>`: clears kprobe_events and the filters.
    Truncate,
    /// `O_WRONLY|O_APPEND`, a shell's `>>`.
    Append,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Hello`.
    Hello(Hello),
    /// It was done and there is nothing to tell.
    Done,
    /// Bytes of a file or of memory.
    Data(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The names in a directory.
    Names(Vec<String>),
    /// A program runs; the number names it in `Wait` and `Kill`.
    Started(u32),
    /// To `Wait`.
    Child(ChildState),
    /// To `Output`.
    Said(Output),
    /// To `DrainTrace`.
    Pages {
        /// What each CPU had; a CPU with nothing is left out.
        cpus: Vec<CpuPages>,
        /// Whether `max` was reached before every buffer was found empty.
        more: bool,
    },
    /// The kernel refused: what was tried, and the positive errno.
    Errno {
        /// The system call and its object, as in "write kprobe_events".
        what: String,
        /// The errno.
        errno: i32,
    },
}

/// What the agent says of itself and its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::VERSION`] of the agent.
    pub version: u32,
    /// `uname -r`.
    pub release: String,
    /// CPUs that are online.
    pub cpus: u32,
    /// The kernel's page size in bytes.
    pub page_size: u32,
    /// CLOCK_BOOTTIME when the agent was ready, in microseconds.
    pub ready_micros: u64,
    /// How long a fixed loop took that the agent ran to answer, in microseconds: how fast this guest
    /// is, now and on this host. One that was measured before a snapshot would say how busy the host
    /// was then.
    pub loop_micros: u32,
}

/// Where a child stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildState {
    /// Still running when the time was over.
    Running,
    /// It exited with this status.
    Exited(i32, Output),
    /// This signal ended it.
    Signaled(i32, Output),
}

/// What a child wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The process id it had in the guest.
    pub pid: i32,
    /// The first bytes of stdout.
    #[serde(with = "serde_bytes")]
    pub stdout: Vec<u8>,
    /// The first bytes of stderr.
    #[serde(with = "serde_bytes")]
    pub stderr: Vec<u8>,
    /// Bytes of both that were over the limit and dropped.
    pub dropped: u64,
}

/// Raw sub-buffers of one CPU, in order, each of the kernel's sub-buffer size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPages {
    /// The CPU's number.
    pub cpu: u32,
    /// Whole pages, one behind the other.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}
