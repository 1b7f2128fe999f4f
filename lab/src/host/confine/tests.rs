//! What confined code tries, on the real host.

use super::*;
use crate::host::process::Tool;
use std::{fs, net::TcpListener, process};

/// A host with sources, a build directory and a secret.
struct Host {
    directory: TempDir,
    listener: TcpListener,
}

impl Host {
    fn new() -> Host {
        let directory = tempfile::tempdir().unwrap();
        for name in ["sources", "build", "other"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("sources/main.c"), "int main;").unwrap();
        fs::write(directory.path().join("other/secret"), "secret").unwrap();
        Host { directory, listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    /// Runs a script confined at `level`, with these variables for its use.
    fn run(&self, level: Level, script: &str) -> Result<String> {
        let at = |name: &str| self.directory.path().join(name);
        let reach = Reach::new(at("build")).reading([at("sources")]);
        Tool::new("bash")
            .args(["-euc", script])
            .env("sources", at("sources"))
            .env("build", at("build"))
            .env("other", at("other"))
            .env("lab", process::id().to_string())
            .env("port", self.listener.local_addr().unwrap().port().to_string())
            .confined(reach)
            .level(level)
            .run()
    }
}

/// Levels of this host, the best one first.
fn levels() -> Vec<Level> {
    let mut levels = Vec::new();
    for (level, works) in [(Level::Bubblewrap, bubblewrap::works()), (Level::Landlock, landlock::works())] {
        if works {
            levels.push(level);
        } else {
            eprintln!("unsupported: {level:?} does not work on this host");
        }
    }
    levels
}

#[test]
fn a_build_has_its_sources_a_compiler_and_a_directory() {
    let host = Host::new();
    for level in levels() {
        let built = host.run(
            level,
            "cd $build; cat $sources/main.c > a.c; gcc -c a.c; ls a.o; rm a.*; \
             mkdir -p d; echo x > d/y; rm -r d; echo t > $TMPDIR/t; ls $TMPDIR",
        );
        assert_eq!(built.unwrap(), "a.o\nt\n", "{level:?}");
        assert_eq!(
            host.run(level, "ls -A $HOME; pwd").unwrap().trim(),
            host.directory.path().join("build").to_str().unwrap()
        );
    }
}

#[test]
fn a_build_reaches_nothing_else() {
    let host = Host::new();
    let both = [
        "cat $other/secret",
        "cat /etc/passwd",
        "cat /etc/shadow",
        "ls /root /home/*",
        "echo x > $sources/main.c",
        "echo x > $other/new",
        "ln $other/secret $build/secret",
        "ln -s $other/secret $build/link; cat $build/link",
        "echo x > /usr/share/x",
        "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness",
        "cat /proc/$lab/environ",
        "ls /proc/$lab/cwd/",
        "kill -0 $lab",
        "exec 3<>/dev/tcp/127.0.0.1/$port",
        "mount -t tmpfs none $build",
        "mount -o remount,rw,bind /usr",
        "dd if=/dev/tty count=0",
    ];
    for level in levels() {
        for script in both {
            // Landlock did not scope signals before Linux 6.12, nor TCP before 6.7.
            let result = host.run(level, script);
            assert!(result.is_err(), "{level:?} allows `{script}`: {result:?}");
        }
    }
    assert_eq!(fs::read_to_string(host.directory.path().join("sources/main.c")).unwrap(), "int main;");
    assert_eq!(fs::read_dir(host.directory.path().join("other")).unwrap().count(), 1);
}

#[test]
fn a_build_has_a_clear_environment() {
    let host = Host::new();
    // cargo sets it for every test.
    assert!(env::var_os("CARGO_MANIFEST_DIR").is_some());
    for level in levels().into_iter().chain([Level::None]) {
        let names = host.run(level, "env | cut -d= -f1 | sort | tr '\\n' ' '").unwrap();
        let all = [
            "HOME", "LC_ALL", "PATH", "PWD", "SHLVL", "TMPDIR", "_", "build", "lab", "other", "port",
            "sources",
        ];
        let mut names: Vec<&str> = names.split_whitespace().filter(|name| *name != "OLDPWD").collect();
        names.sort_unstable();
        assert_eq!(names, all, "{level:?}");
    }
}

#[test]
fn nothing_outlives_a_build() {
    if !bubblewrap::works() {
        eprintln!("unsupported: bubblewrap does not work on this host");
        return;
    }
    let host = Host::new();
    let fifo = host.directory.path().join("build/fifo");
    host.run(Level::Bubblewrap, "mkfifo fifo; (trap '' TERM HUP; exec 3<>fifo; sleep 1000) & sleep 0.2")
        .unwrap();
    // Without a reader, opening it for writing fails.
    let opened = rustix::fs::open(
        &fifo,
        rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    );
    assert_eq!(opened.unwrap_err(), rustix::io::Errno::NXIO);
}

#[test]
fn a_program_of_the_users_is_not_found() {
    for level in levels() {
        let error = Host::new().run(level, "no-such-program").unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program: command not found"), "{error:#}");
    }
}
