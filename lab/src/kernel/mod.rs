//! `kernels/NAME.yaml` → `Kernel`: its source, its configuration, its build.

mod spec;
mod version;

pub use spec::{KernelSpec, MachineSpec, Memory, SourceSpec, SpecError, list};
pub use version::{KernelVersion, VersionError, VersionReq};
