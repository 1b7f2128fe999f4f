//! The tape: raw pages from the guest's ring buffer into `trace.dat`, with all that is needed to
//! read them again.

use super::{CHUNK, Recorder, read, unexpected};
use crate::{machine::Death, trace::dat};
use anyhow::Context;
use protocol::{Reply, Request};
use std::{collections::BTreeMap, path::PathBuf};

/// The top-level instance.
const TOP: &str = "";

/// How often in a row a running trace is drained before the lab looks after the workload again.
const DRAINS: usize = 16;

/// A trace that is being recorded.
pub(super) struct Tape {
    writer: dat::Writer,
    /// `SYSTEM:NAME` to the format of every event that was ever enabled: a dynamic event can be
    /// gone before the trace is read.
    formats: BTreeMap<String, String>,
    /// Where it goes.
    path: PathBuf,
}
