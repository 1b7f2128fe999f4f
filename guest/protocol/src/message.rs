//! The requests of the lab and the replies of the agent.

use serde::{Deserialize, Serialize};

/// A request to the agent. A path that does not start with `/` is relative to tracefs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Identifies the agent and its kernel: [`Reply::Hello`]. Always the first request.
    Hello,
    /// Writes `data` like a shell's `echo`, with one `writev(2)`, since tracefs parses each write
    /// separately. Only the rest after a short write, which the filter files return after each word,
    /// takes another. Answered by [`Reply::Done`] or the errno of open, write or close.
    WriteFile {
        /// The file.
        path: String,
        /// The bytes to write.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
        /// The mode in which to open the file.
        mode: WriteMode,
    },
    /// Reads at most `max` bytes from the start of a file: [`Reply::Data`]. Never waits: reads of
    /// trace_pipe or /dev/kmsg return what is available.
    ReadFile {
        /// The file.
        path: String,
        /// The maximum number of bytes; the agent caps it so that the reply fits a frame.
        max: u32,
    },
    /// Lists the names in a directory, sorted, directories with a trailing `/`: [`Reply::Names`].
    ListDirectory {
        /// The directory.
        path: String,
    },
    /// Creates a directory and its parents.
    MakeDirectory {
        /// The directory.
        path: String,
    },
    /// Removes a file or an empty directory (a tracefs instance is one).
    Remove {
        /// The file or directory.
        path: String,
    },
    /// Appends a chunk of a file; the first chunk has `offset` 0 and creates or truncates it.
    Push {
        /// The file; its directory is also created.
        path: String,
        /// Permission bits.
        mode: u32,
        /// The position of the chunk: the current length of the file.
        offset: u64,
        /// The chunk.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// Starts a child process of the agent that loads a module pushed to `path`, with
    /// `finit_module(2)`: [`Reply::Started`]. The module's init affects that process instead of the
    /// agent. The process exits with 0, or with 1 and the positive errno on its stdout.
    LoadModule {
        /// A pushed `.ko`.
        path: String,
        /// Parameters as for insmod: `name=value name=value`.
        parameters: String,
    },
    /// Starts a process that unloads a module by name, like `LoadModule`.
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
        /// The stdin of the program.
        stdin: Stdin,
        /// The maximum number of bytes to keep of stdout, and of stderr. The rest is read and dropped,
        /// except from an interactive child ([`Stdin::Open`] or [`Stdin::Terminal`]): that one blocks
        /// until its output was taken.
        output_max: u32,
    },
    /// Waits until a child has ended and closed its output, or the time is over: [`Reply::Child`].
    /// Waits at most 200 ms for output that a descendant holds open. Reports the exit once; a second
    /// `Wait` returns ECHILD.
    Wait {
        /// From [`Reply::Started`].
        child: u32,
        /// The time limit, in milliseconds of the guest's clock; 0 does not wait.
        milliseconds: u32,
    },
    /// Returns the output of a child so far, without removing it: [`Reply::Said`], or ECHILD after its
    /// exit was reported. `Wait` still returns it.
    Output {
        /// From [`Reply::Started`].
        child: u32,
    },
    /// Writes to a child whose stdin is [`Stdin::Open`] or [`Stdin::Terminal`], at most [`FEED_MAX`]
    /// bytes, all of them or none: EAGAIN while earlier input fills the stdin, EPIPE if the child no
    /// longer reads. An empty write closes an open stdin.
    Feed {
        /// From [`Reply::Started`].
        child: u32,
        /// The input.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// Like `Output`, but removes the output that it returns, which no longer counts towards
    /// `output_max`.
    Take {
        /// From [`Reply::Started`].
        child: u32,
    },
    /// Waits until a child has output to take, or its exit can be reported, or the time is over, or
    /// the next request arrives: [`Reply::Done`], or ECHILD after its exit was reported.
    Listen {
        /// From [`Reply::Started`].
        child: u32,
        /// The time limit, in milliseconds of the guest's clock.
        milliseconds: u32,
    },
    /// Sets the size of a child's [`Stdin::Terminal`]; ENOTTY if it has none.
    Resize {
        /// From [`Reply::Started`].
        child: u32,
        /// Lines.
        rows: u16,
        /// Characters per line.
        columns: u16,
    },
    /// Sends a signal to a child's process group.
    Kill {
        /// From [`Reply::Started`].
        child: u32,
        /// The signal number.
        signal: i32,
    },
    /// Reads kernel memory through /proc/kcore: [`Reply::Data`], or EFAULT at an address that it does
    /// not cover. A hole in the vmalloc area reads as zeros.
    ReadMemory {
        /// A kernel virtual address.
        address: u64,
        /// The number of bytes, at most 512 KiB.
        length: u32,
    },
    /// Reads the instruction at an address, and others behind it, like `ReadMemory`: [`Reply::Data`] with four bytes of
    /// each.
    ReadInstructions {
        /// The address of the first.
        address: u64,
        /// How many instructions are between each and the next. [`SKIP`] is so many, and more follow before the next
        /// one that is read. To the last one it is at most 512 KiB.
        #[serde(with = "serde_bytes")]
        gaps: Vec<u8>,
    },
    /// Reads the newest `max` bytes of the kernel log with `syslog(2)`: [`Reply::Data`].
    KernelLog {
        /// The maximum number of bytes; the agent caps it so that the reply fits a frame.
        max: u32,
    },
    /// Sets `tracing_on` of an instance.
    StartTrace {
        /// The instance's directory relative to tracefs, `""` for the top-level one.
        instance: String,
    },
    /// Takes the contents of the ring buffer, up to about `max` bytes: [`Reply::Pages`]. Leaves no
    /// file open, so the tracer can be changed and the instance removed at any time.
    DrainTrace {
        /// As in `StartTrace`.
        instance: String,
        /// The maximum number of bytes; the agent caps it so that the reply fits a frame.
        max: u32,
    },
    /// Clears `tracing_on`; the buffer can still be drained.
    StopTrace {
        /// As in `StartTrace`.
        instance: String,
    },
    /// Syncs and powers the machine off. There is no reply.
    PowerOff,
}

/// See [`Request::ReadInstructions`].
pub const SKIP: u8 = u8::MAX;

/// The maximum number of bytes of one [`Request::Feed`]: PIPE_BUF, which a pipe takes atomically.
pub const FEED_MAX: usize = 4096;

/// The stdin of a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// These bytes, then end of file.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The data of each [`Request::Feed`].
    Open,
    /// The same through a terminal, which is also the child's stdout and stderr, and the controlling
    /// terminal of its own session. All output to it is reported as stdout.
    Terminal {
        /// Lines.
        rows: u16,
        /// Characters per line.
        columns: u16,
    },
}

/// The mode in which [`Request::WriteFile`] opens its file.
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
    /// The request succeeded; there is no result.
    Done,
    /// Bytes of a file or of memory.
    Data(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The names in a directory.
    Names(Vec<String>),
    /// A process was started; the number identifies it in later requests.
    Started(u32),
    /// To `Wait`.
    Child(ChildState),
    /// To `Output` and `Take`.
    Said(Output),
    /// To `DrainTrace`.
    Pages {
        /// The data of each CPU; a CPU with none is left out.
        cpus: Vec<CpuPages>,
        /// Whether `max` was reached before every buffer was found empty.
        more: bool,
    },
    /// The request failed: the operation, and the positive errno.
    Errno {
        /// The system call and its object, as in "write kprobe_events".
        what: String,
        /// The errno.
        errno: i32,
    },
}

/// Information on the agent and its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::VERSION`] of the agent.
    pub version: u32,
    /// `uname -r`.
    pub release: String,
    /// The number of online CPUs.
    pub cpus: u32,
    /// The kernel's page size in bytes.
    pub page_size: u32,
    /// CLOCK_BOOTTIME when the agent was ready, in microseconds.
    pub ready_micros: u64,
    /// The duration of a fixed loop that the agent runs for this reply, in microseconds: the current
    /// speed of this guest on this host. A value measured before a snapshot would depend on the load of
    /// the host at that time.
    pub loop_micros: u32,
}

/// The state of a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildState {
    /// Still running when the time was over.
    Running,
    /// It exited with this status.
    Exited(i32, Output),
    /// It was killed by this signal.
    Signaled(i32, Output),
}

/// The output of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The child's PID in the guest.
    pub pid: i32,
    /// The first bytes of stdout.
    #[serde(with = "serde_bytes")]
    pub stdout: Vec<u8>,
    /// The first bytes of stderr.
    #[serde(with = "serde_bytes")]
    pub stderr: Vec<u8>,
    /// The number of bytes of both that exceeded the limit and were dropped.
    pub dropped: u64,
}

/// Raw sub-buffers of one CPU, in order, each of the kernel's sub-buffer size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPages {
    /// The CPU's number.
    pub cpu: u32,
    /// Whole sub-buffers, concatenated.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}
