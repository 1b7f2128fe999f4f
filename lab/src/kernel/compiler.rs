//! The compiler of a kernel, which its modules must be built with, too.

use super::config::Config;
use crate::host::prerequisites::Need;
use serde::Deserialize;

/// The prefix of the tools' names. Debian uses it on arm64 hosts, too.
const PREFIX: &str = "aarch64-linux-gnu-";

/// A compiler with its linker and other tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compiler {
    /// gcc, with GNU's binutils.
    #[default]
    Gcc,
    /// clang, with lld and LLVM's tools.
    Clang,
}

impl Compiler {
    /// Returns the compiler that a kernel with this configuration was built with.
    pub(super) fn of(config: &Config) -> Compiler {
        if config.is_set("CC_IS_CLANG") { Compiler::Clang } else { Compiler::Gcc }
    }

    /// Returns the arguments of make that select it.
    pub(super) fn arguments(self) -> Vec<String> {
        let own = match self {
            // Headers of a distribution name a version of it, which the host may not have.
            Compiler::Gcc => format!("CC={PREFIX}gcc"),
            Compiler::Clang => "LLVM=-19".to_owned(),
        };
        // Kconfig would record the version of any rustc; a kernel with Rust gets Debian's.
        vec![format!("CROSS_COMPILE={PREFIX}"), own, "RUSTC=no-rustc".to_owned()]
    }

    /// The programs whose versions enter the key of what it compiles.
    pub(super) fn programs(self) -> &'static [&'static str] {
        match self {
            Compiler::Gcc => &["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld"],
            Compiler::Clang => &["clang-19", "ld.lld-19", "llvm-nm-19"],
        }
    }

    /// What must be installed to use it.
    pub(super) fn need(self) -> Need {
        match self {
            Compiler::Gcc => Need::Run,
            Compiler::Clang => Need::Clang,
        }
    }
}
