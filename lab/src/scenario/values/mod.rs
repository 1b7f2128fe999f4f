//! The values that every part of a scenario is written with: names, amounts, durations, errno, instructions, events by
//! name.

pub(super) mod amount;
pub(super) mod command;
pub(super) mod errno;
pub(super) mod event_ref;
pub(super) mod instruction;
pub(super) mod literal;
pub(super) mod names;
pub(super) mod string_check;
pub(super) mod timespan;

pub use amount::Amount;
pub use command::CommandLine;
pub use errno::Errno;
pub use event_ref::{EventRef, StaticName};
pub use instruction::{InstructionPattern, InstructionPatterns};
pub use literal::Literal;
pub use names::{
    ArgName, ConfigRequirement, EventName, FilePath, GroupName, InstanceName, Line, ModuleName, OptionName,
    ProbePoint, ProgramName, RustPoint,
};
pub use string_check::{Pattern, TextCheck};
pub use timespan::Timespan;
