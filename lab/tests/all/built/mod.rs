//! Shared by tests with real machines: the lab, the default kernel and the guest, built once.

use lab::{
    Lab,
    guest::{self, Guest},
    host::prerequisites::{self, Need},
    kernel::{self, Kernel},
};
use std::{env, path::Path, sync::OnceLock};

/// The parts of a machine.
pub(crate) struct Built {
    pub(crate) lab: Lab,
    pub(crate) kernel: Kernel,
    pub(crate) guest: Guest,
}

/// Returns the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Builds missing parts.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let lab = Lab::open(root()).unwrap();
        let yes = env::var("CI").is_ok_and(|value| value == "true");
        prerequisites::ensure(Need::Test, yes, &lab.progress).unwrap();
        Built {
            kernel: kernel::build(&lab, kernel::DEFAULT, None).unwrap(),
            guest: guest::build(&lab).unwrap(),
            lab,
        }
    })
}
