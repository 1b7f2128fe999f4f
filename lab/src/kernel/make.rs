//! kbuild's make: how it is called, how far it is, and what went wrong in it.

use super::toolchain::{PREFIX, compiler};
use crate::{host::process::Tool, progress::Task};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Variables that would change what make builds, or whose jobs it counts, behind the lab's back.
const FOREIGN: [&str; 15] = [
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "LLVM",
    "LLVM_IAS",
    "KBUILD_OUTPUT",
    "KBUILD_EXTMOD",
    "KCONFIG_CONFIG",
    "KCFLAGS",
    "KCPPFLAGS",
    "KAFLAGS",
    "KRUSTFLAGS",
    "LOCALVERSION",
    "C_INCLUDE_PATH",
    "CPATH",
];

/// make in `directory`, a source tree or a build directory, for arm64 and with identical output
/// for identical input.
pub(super) fn make(cache: &Path, directory: &Path) -> Tool {
    let mut tool = Tool::new("make").arg("-C").arg(directory).arg("ARCH=arm64");
    tool = tool.arg(format!("CROSS_COMPILE={PREFIX}")).arg(format!("CC={}", compiler())).args([
        "KBUILD_BUILD_TIMESTAMP=1970-01-01 00:00:00 UTC",
        "KBUILD_BUILD_USER=ftrace-lab",
        "KBUILD_BUILD_HOST=ftrace-lab",
        "KBUILD_BUILD_VERSION=1",
        // Without it a git tree's version gets a `+`.
        "LOCALVERSION=",
        // No kernel here has Rust in it, but kconfig notes the version of a rustc it finds.
        "RUSTC=no-rustc",
    ]);
    for name in FOREIGN {
        tool = tool.env_remove(name);
    }
    // Objects of one build directory serve another one.
    tool.env("LC_ALL", "C").env("CCACHE_BASEDIR", cache).env("CCACHE_NOHASHDIR", "1")
}

/// Follows make's log while it is written.
pub(super) struct Follower {
    log: PathBuf,
    offset: u64,
    /// The beginning of a line whose end is not there yet.
    rest: String,
    /// How many objects were compiled so far.
    pub(super) objects: u64,
}

impl Follower {
    pub(super) fn new(log: &Path) -> Follower {
        Follower { log: log.to_owned(), offset: 0, rest: String::new(), objects: 0 }
    }

    /// Reads what is new, and shows it, `before` objects being there from earlier.
    pub(super) fn show(&mut self, task: &Task, before: u64, expected: u64) {
        let Some(text) = self.read() else { return };
        let mut last = None;
        self.rest += &text;
        let end = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let whole: String = self.rest.drain(..end).collect();
        for line in whole.lines() {
            if is_object(line) {
                self.objects += 1;
            }
            last = Some(line.trim().to_owned());
        }
        task.set((before + self.objects).min(expected));
        if let Some(line) = last {
            task.note(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }

    fn read(&mut self) -> Option<String> {
        let mut file = File::open(&self.log).ok()?;
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut bytes = Vec::new();
        file.take(1 << 20).read_to_end(&mut bytes).ok()?;
        self.offset += bytes.len() as u64;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Whether a line of the log announces an object of the kernel or a module.
fn is_object(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    line.starts_with("  ") && matches!(words.next(), Some("CC" | "AS"))
}

/// How many error lines are worth showing.
const ERROR_LINES: usize = 10;

/// What the compiler, the linker or a script complained about in a log, first things first.
pub(crate) fn complaints(log: &str) -> String {
    const MARKERS: [&str; 9] = [
        " error: ",
        " fatal error: ",
        "undefined reference to",
        "ERROR: ",
        "FAILED: ",
        "No space left on device",
        "No such file or directory",
        ": not found",
        "Killed",
    ];
    let wanted = |line: &&str| MARKERS.iter().any(|marker| line.contains(marker));
    let lines: Vec<&str> = log.lines().filter(wanted).take(ERROR_LINES).collect();
    if lines.is_empty() {
        // make's own complaint, such as a missing program or rule.
        return log
            .lines()
            .filter(|line| line.contains("***"))
            .take(ERROR_LINES)
            .collect::<Vec<_>>()
            .join("\n");
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;
    use std::{fs::OpenOptions, io::Write};

    #[test]
    fn objects_are_counted_as_the_log_grows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("make.log");
        let task = Progress::silent().task("x", Some(9));
        let mut follower = Follower::new(&path);
        let mut write = |text: &str| {
            let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            follower.show(&task, 0, 9);
            follower.objects
        };
        assert_eq!(write("make[1]: Entering directory '/x'\n  HOSTCC  scripts/sorttable\n  CC"), 0);
        assert_eq!(write("      init/main.o\n  AS      arch/arm64/kernel/head.o\n  LDS     x.lds\n"), 2);
        assert_eq!(write("  CC [M]  samples/a.o\n  AR      built-in.a\n"), 3);
    }

    #[test]
    fn an_error_is_found_in_a_long_log() {
        let check = |log: &str, expect: &str| assert_eq!(complaints(log), expect);
        check(
            "  CC      a.o\nkernel/fork.c:12:3: error: 'x' undeclared\n   12 | x\nmake[3]: *** [a.o] Error 1\n",
            "kernel/fork.c:12:3: error: 'x' undeclared",
        );
        check(
            "make: bison: No such file\nmake[2]: *** [parser] Error 127\n",
            "make[2]: *** [parser] Error 127",
        );
        check(
            "/usr/bin/env: 'python3': No such file or directory\nmake[5]: *** [x.h] Error 127\n",
            "/usr/bin/env: 'python3': No such file or directory",
        );
        check("ld: a.o: undefined reference to `y'\n", "ld: a.o: undefined reference to `y'");
        check(&"x.c:1:1: error: e\n".repeat(50), &["x.c:1:1: error: e"; 10].join("\n"));
    }
}
