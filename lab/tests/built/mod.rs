//! What tests with real machines have in common: the default kernel and the guest, built once.

use lab::{
    cache::Cache,
    guest::{self, Guest},
    host::prerequisites::{self, Need},
    kernel::{self, Kernel},
    progress::Progress,
};
use std::{env, path::Path, sync::OnceLock};

/// All that a machine is made of.
pub(crate) struct Built {
    pub(crate) kernel: Kernel,
    pub(crate) guest: Guest,
}

/// Builds what is not built yet.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let progress = Progress::new();
        let yes = env::var("CI").is_ok_and(|value| value == "true");
        prerequisites::ensure(Need::Test, yes, &progress).unwrap();
        let cache = Cache::open().unwrap();
        Built {
            kernel: kernel::build(&cache, root, kernel::DEFAULT, None, &progress).unwrap(),
            guest: guest::build(&cache, root, &progress).unwrap(),
        }
    })
}
