//! Fields that concern the scenario as a whole: its machine, its userland, the splats and the end it expects.

pub(super) mod allowed;
pub(super) mod expect_panic;
pub(super) mod start;
pub(super) mod userland_spec;

pub use allowed::Allowed;
pub use expect_panic::ExpectPanic;
pub use start::{Boot, Bootconfig, Cmdline, KernelParameter};
pub use userland_spec::{PackageName, UserlandName, UserlandSpec};
