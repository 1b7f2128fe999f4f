//! The collections of `tools/testing/selftests` that the lab can run.

/// A collection of selftests.
#[derive(Debug, PartialEq, Eq)]
pub struct SelftestCollection {
    /// The name of its directory.
    pub name: &'static str,
    /// The kind of its tests.
    pub kind: SelftestKind,
    /// The kernel's modules that its tests load with modprobe. If the kernel was built without one, the
    /// test itself reports that.
    pub modules: &'static [&'static str],
    /// Whether its tests need a shell or other programs.
    pub needs_userland: bool,
}

/// The kind of a collection's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelftestKind {
    /// `test.d/**/*.tc`, run by ftracetest.
    Ftrace,
    /// `test*.sh`, and a directory of modules that they load with insmod, if there is one.
    Scripts,
    /// C programs.
    Programs,
}

impl SelftestCollection {
    /// Returns the collection with this name.
    pub fn find(name: &str) -> Option<&'static SelftestCollection> {
        SELFTEST_COLLECTIONS.iter().find(|collection| collection.name == name)
    }
}

/// All collections.
pub const SELFTEST_COLLECTIONS: &[SelftestCollection] = &[
    SelftestCollection {
        name: "breakpoints",
        kind: SelftestKind::Programs,
        modules: &[],
        needs_userland: false,
    },
    SelftestCollection {
        name: "ftrace",
        kind: SelftestKind::Ftrace,
        modules: &[
            "ftrace-direct",
            "ftrace-direct-too",
            "preemptirq_delay_test",
            "trace-events-sample",
            "trace-printk",
        ],
        needs_userland: true,
    },
    SelftestCollection { name: "livepatch", kind: SelftestKind::Scripts, modules: &[], needs_userland: true },
    // Its vmaccess runs `true` and `sleep`.
    SelftestCollection { name: "ptrace", kind: SelftestKind::Programs, modules: &[], needs_userland: true },
    SelftestCollection {
        name: "static_keys",
        kind: SelftestKind::Scripts,
        modules: &["test_static_key_base", "test_static_keys"],
        needs_userland: true,
    },
];
