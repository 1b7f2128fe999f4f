//! The messages of a Perfetto trace that the lab writes, with the field numbers of Perfetto's
//! schema (`protos/perfetto/trace/`). Everything else in that schema is optional.

use prost::{Message, Oneof};

/// `Trace`: a file. Concatenated files are one trace.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(oneof = "Data", tags = "1, 2, 45")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "1")]
    FtraceEvents(FtraceEventBundle),
    #[prost(message, tag = "2")]
    ProcessTree(ProcessTree),
    #[prost(message, tag = "45")]
    SystemInfo(SystemInfo),
}

/// `FtraceEventBundle`: events of one CPU in time order.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
    /// Whether events were lost before the first.
    #[prost(bool, optional, tag = "3")]
    pub(super) lost_events: Option<bool>,
}

/// `FtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(oneof = "Kind", tags = "3, 4, 17, 20, 114, 327")]
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Kind {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    SchedSwitch(SchedSwitch),
    #[prost(message, tag = "17")]
    SchedWakeup(Wakeup),
    #[prost(message, tag = "20")]
    SchedWaking(Wakeup),
    #[prost(message, tag = "114")]
    SchedWakeupNew(Wakeup),
    #[prost(message, tag = "327")]
    Generic(Generic),
}

/// `PrintFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Print {
    #[prost(uint64, optional, tag = "1")]
    pub(super) ip: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) buf: Option<String>,
}

/// `SchedSwitchFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    pub(super) prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) next_prio: Option<i32>,
}

/// `SchedWakeupFtraceEvent`, `SchedWakingFtraceEvent` and `SchedWakeupNewFtraceEvent`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Wakeup {
    #[prost(string, optional, tag = "1")]
    pub(super) comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prio: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) target_cpu: Option<i32>,
}

/// `GenericFtraceEvent`: any other event, field by field.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Generic {
    #[prost(string, optional, tag = "1")]
    pub(super) event_name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) field: Vec<Field>,
}

/// `GenericFtraceEvent.Field`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Field {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(oneof = "FieldValue", tags = "3, 4, 5")]
    pub(super) value: Option<FieldValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum FieldValue {
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(int64, tag = "4")]
    Signed(i64),
    #[prost(uint64, tag = "5")]
    Unsigned(u64),
}

/// `ProcessTree`: the names of tasks.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessTree {
    #[prost(message, repeated, tag = "2")]
    pub(super) threads: Vec<Thread>,
}

/// `ProcessTree.Thread`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, optional, tag = "1")]
    pub(super) tid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(super) tgid: Option<i32>,
}

/// `SystemInfo`: Perfetto decodes task states according to the kernel's release.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) utsname: Option<Utsname>,
}

/// `Utsname`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Utsname {
    #[prost(string, optional, tag = "1")]
    pub(super) sysname: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) release: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) machine: Option<String>,
}
