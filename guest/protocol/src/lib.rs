//! The messages between the lab and the agent, and their framing.
//!
//! The lab sends requests and the agent answers: one [`Reply`] per [`Request`], in order. A frame is
//! a little-endian `u32` length, then that many bytes of postcard. No frame is longer than
//! [`MAX_FRAME`]; a reader rejects a greater length before it allocates anything. The lab treats
//! every byte from the guest as hostile, so a reader here never panics and never trusts a length.

mod cpus;
mod frame;
mod message;

pub use cpus::count_of_cpus;
pub use frame::{FrameError, MAX_FRAME, encode, read_frame, write_frame};
pub use message::{ChildState, CpuPages, FEED_MAX, Hello, Output, Reply, Request, SKIP, Stdin, WriteMode};

/// The name of the virtio-serial port, as in `/sys/class/virtio-ports/*/name`.
pub const PORT_NAME: &str = "org.ftrace-lab.agent";

/// Incremented whenever a message changes; lab and agent refuse to work with another version.
pub const VERSION: u32 = 7;
