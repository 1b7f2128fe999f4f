//! The collections of `tools/testing/selftests` that the lab knows how to run.

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Collection {
    /// Its directory.
    pub name: &'static str,
    /// What its tests are.
    pub kind: Kind,
    /// Modules of the kernel's that its tests load with modprobe. A test whose module this kernel was
    /// built without says so itself.
    pub modules: &'static [&'static str],
    /// Whether its tests need a shell or other programs.
    pub needs_userland: bool,
}

/// What the tests of a collection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `test.d/**/*.tc`, run by ftracetest.
    Ftrace,
    /// `test*.sh`, and with them a directory of modules that they load with insmod, if there is one.
    Scripts,
    /// C programs.
    Programs,
}

impl Collection {
    /// The one of this name.
    pub fn find(name: &str) -> Option<&'static Collection> {
        COLLECTIONS.iter().find(|collection| collection.name == name)
    }
}

/// All there are.
pub const COLLECTIONS: &[Collection] = &[
    Collection { name: "breakpoints", kind: Kind::Programs, modules: &[], needs_userland: false },
    Collection {
        name: "ftrace",
        kind: Kind::Ftrace,
        modules: &[
            "ftrace-direct",
            "ftrace-direct-too",
            "preemptirq_delay_test",
            "trace-events-sample",
            "trace-printk",
        ],
        needs_userland: true,
    },
    Collection { name: "livepatch", kind: Kind::Scripts, modules: &[], needs_userland: true },
    // Its vmaccess runs `true` and `sleep`.
    Collection { name: "ptrace", kind: Kind::Programs, modules: &[], needs_userland: true },
    Collection {
        name: "static_keys",
        kind: Kind::Scripts,
        modules: &["test_static_key_base", "test_static_keys"],
        needs_userland: true,
    },
];
