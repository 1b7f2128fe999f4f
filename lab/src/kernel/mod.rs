//! `kernels/NAME.yaml` → `Kernel`: its source, its configuration, its build.

mod version;

pub use version::{KernelVersion, VersionError, VersionReq};
