//! kbuild's make: its arguments, its progress, and its errors.

use super::compiler::Compiler;
use crate::{
    host::{confine::Reach, outage::DISK_FULL, process::Tool},
    progress::Task,
};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Returns make for arm64 in `directory`, a source tree or a build directory, confined to `reach`, with
/// identical output for identical input.
pub(super) fn make(compiler: Compiler, directory: &Path, reach: Reach) -> Tool {
    let make = Tool::new("make").confined(reach).arg("-C").arg(directory).arg("ARCH=arm64");
    make.args(compiler.arguments()).args([
        "KBUILD_BUILD_TIMESTAMP=1970-01-01 00:00:00 UTC",
        "KBUILD_BUILD_USER=ftrace-lab",
        "KBUILD_BUILD_HOST=ftrace-lab",
        "KBUILD_BUILD_VERSION=1",
        // Set, even to nothing, it keeps kbuild from appending `+` to the version of a git tree.
        "LOCALVERSION=",
    ])
}

/// Reads make's log while it is written.
pub(super) struct Follower {
    log: PathBuf,
    offset: u64,
    /// The beginning of an incomplete line.
    rest: String,
    /// The number of objects compiled so far.
    pub(super) objects: u64,
}

impl Follower {
    pub(super) fn new(log: &Path) -> Follower {
        Follower { log: log.to_owned(), offset: 0, rest: String::new(), objects: 0 }
    }

    /// Reads new lines and shows the progress; `before` objects exist from an earlier build.
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

/// Returns whether a line of the log announces an object of the kernel or of a module.
fn is_object(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    line.starts_with("  ") && matches!(words.next(), Some("CC" | "AS"))
}

/// The maximum number of error lines to show.
const ERROR_LINES: usize = 10;

/// Returns the first errors of compiler, linker or a script in a log.
pub(crate) fn complaints(log: &str) -> String {
    const MARKERS: [&str; 9] = [
        " error: ",
        " fatal error: ",
        "undefined reference to",
        "ERROR: ",
        "FAILED: ",
        DISK_FULL,
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
