//! Reproducers from someone who attacks the host that builds them.

use crate::{
    patience::wait_for,
    stage::{cache, check, run, said, scenarios, scratch, share_host, stored, xtask},
};
use lab::{
    host::git::git,
    reproducer::{Origin, Reproducer},
};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// Fails, so that it leaves a reproducer, and loads a module of its own.
const FAILING: &str = "summary: a module is loaded
steps:
  - module: { source: ../mine }
  - workload: eventfd 1
expect:
  - kernel_log: never printed
";

const SECRET: &str = "0xdeadbeefcafe";

/// A user's directory with a secret, and a reproducer that someone sent.
struct Host {
    directory: TempDir,
    sent: PathBuf,
}

impl Host {
    fn new() -> Host {
        let directory = scratch();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("mine")).unwrap();
        fs::write(at("mine/Kbuild"), "obj-m := mine.o\n").unwrap();
        let source = "#include <linux/module.h>\nMODULE_LICENSE(\"GPL\");\nMODULE_DESCRIPTION(\"no\");\n";
        fs::write(at("mine/mine.c"), source).unwrap();
        let results = at("results");
        let scenarios = scenarios(directory.path(), [("failing", FAILING)]);
        check(&mut run(&results, &scenarios), 1, &["never printed"]);
        let found = stored(&results.join("latest")).unwrap().scenarios;
        let sent = at("sent.yaml");
        fs::copy(results.join("latest").join(&found[0].directory).join("repro.yaml"), &sent).unwrap();
        fs::write(at("secret"), format!("int secret = {SECRET};\n")).unwrap();
        Host { directory, sent }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns a command that reproduces a changed copy of the file.
    fn repro(&self, change: impl FnOnce(&mut Reproducer)) -> Command {
        let mut reproducer = Reproducer::read(&self.sent).unwrap();
        change(&mut reproducer);
        let path = self.at("hostile.yaml");
        reproducer.write(&path).unwrap();
        let mut command = xtask();
        command.args(["lab", "repro"]).arg(path).arg("--results").arg(self.at("other"));
        command
    }

    /// Checks that it fails with `expect`, and that the payload reached nothing.
    fn refuses(&self, command: &mut Command, code: i32, expect: &str) {
        let output = check(command, code, &[expect]);
        assert!(!said(&output).contains(SECRET), "{}", said(&output));
        assert!(!self.at("mark").exists(), "the payload wrote a file of the user");
    }
}

fn append(reproducer: &mut Reproducer, path: &str, text: &str) {
    reproducer.files.get_mut(path).unwrap().push_str(text);
}

/// Copies the secret, writes a mark, and needs the copy.
fn thief(host: &Host) -> impl Fn(&mut Reproducer) {
    let (secret, mark) = (host.at("secret"), host.at("mark"));
    let kbuild = format!(
        "$(shell cp {} $(src)/secret.h; touch {}; env > $(src)/env)\n",
        secret.display(),
        mark.display()
    );
    move |reproducer| {
        append(reproducer, "modules/mine/Kbuild", &kbuild);
        append(reproducer, "modules/mine/mine.c", "#include \"secret.h\"\n");
    }
}

#[test]
fn code_in_a_reproducer_reaches_nothing_of_the_host() {
    let _host = share_host();
    let host = Host::new();
    let quoted = |path: &Path| format!("\\\"{}\\\"", path.display());
    for level in ["bubblewrap", "landlock"] {
        let confined = |mut command: Command| {
            command.env("FTRACE_LAB_CONFINEMENT", level).arg("--trust");
            command
        };
        host.refuses(&mut confined(host.repro(thief(&host))), 3, "secret.h");
        let incbin = format!("asm(\".incbin {}\");\n", quoted(&host.at("secret")));
        let workload = |reproducer: &mut Reproducer| append(reproducer, "guest/workloads/eventfd.c", &incbin);
        host.refuses(&mut confined(host.repro(workload)), 3, "secret");
        let include = format!("#include \"{}\"\n", host.at("secret").display());
        let module = |reproducer: &mut Reproducer| append(reproducer, "modules/mine/mine.c", &include);
        host.refuses(&mut confined(host.repro(module)), 3, "secret");
    }
}

#[test]
fn what_a_build_leaves_is_not_followed() {
    let _host = share_host();
    let host = Host::new();
    let link = format!(
        "$(shell ln -sf {} $(src)/other.ko; echo other.ko > $(src)/modules.order)\n\
         modules.order: ;\n",
        host.at("secret").display()
    );
    let links = |reproducer: &mut Reproducer| {
        let makefile = format!("{link}obj-m :=\nmodules:\n\ttrue\n");
        reproducer.files.insert("modules/mine/Makefile".into(), makefile.clone());
        reproducer.files.insert("modules/mine/Kbuild".into(), makefile);
    };
    host.refuses(&mut host.repro(links), 3, "modules/mine");
}

#[test]
fn a_configuration_value_is_no_code() {
    let _host = share_host();
    let host = Host::new();
    let shell = format!("CONFIG_INITRAMFS_SOURCE=\"$(shell touch {})\"\n", host.at("mark").display());
    let configured = |reproducer: &mut Reproducer| append(reproducer, "kernels/base.config", &shell);
    host.refuses(&mut host.repro(configured), 3, "CONFIG_INITRAMFS_SOURCE");
}

#[test]
fn a_patched_kernel_is_built_confined() {
    let _host = share_host();
    let host = Host::new();
    let payload = format!("$(shell touch {})\n+$(error patched)", host.at("mark").display());
    let patched = |reproducer: &mut Reproducer| {
        let patch = format!(
            "--- a/Makefile\n+++ b/Makefile\n@@ -1 +1,3 @@\n # SPDX-License-Identifier: GPL-2.0\n+{payload}\n"
        );
        reproducer.files.insert("kernels/patches/evil.patch".into(), patch);
        append(reproducer, "kernels/6.12.yaml", "patches: [evil]\n");
    };
    host.refuses(&mut host.repro(patched), 3, "patched");
}

/// Serves the repositories below a directory until it is dropped.
struct Daemon {
    server: Child,
    url: String,
}

impl Daemon {
    fn serve(base: &Path) -> Daemon {
        // The port is free for as long as it takes to start.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Not through git, which would leave it behind when it is killed.
        let programs = git(base).arg("--exec-path").run().unwrap();
        let mut server = Command::new(Path::new(programs.trim()).join("git-daemon"));
        server.args(["--export-all", "--listen=127.0.0.1", &format!("--port={port}")]);
        server.arg(format!("--base-path={}", base.display()));
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("git daemon", || TcpStream::connect(("127.0.0.1", port)).ok());
        Daemon { server, url: format!("git://127.0.0.1:{port}/linux") }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A daemon that has ended needs no end.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_kernel_from_git_is_built_confined() {
    let _host = share_host();
    let host = Host::new();
    let tree = host.at("served/linux");
    fs::create_dir_all(&tree).unwrap();
    let makefile = format!(
        "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n$(shell touch {})\n\
         allnoconfig:\n\tcat {}\n",
        host.at("mark").display(),
        host.at("secret").display()
    );
    fs::write(tree.join("Makefile"), makefile).unwrap();
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=A", "-c", "user.email=a@b.test"];
        git(&tree).args(identity).args(arguments).run().unwrap()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "a kernel"]);
    let commit = git(&["rev-parse", "HEAD"]).trim().to_owned();
    let daemon = Daemon::serve(&host.at("served"));
    let kernel =
        format!("summary: s\nfragments: [base]\nsource: {{ git: {{ url: '{}', ref: main }} }}\n", daemon.url);
    let from_git = |reproducer: &mut Reproducer| {
        reproducer.files.insert("kernels/6.12.yaml".into(), kernel);
        reproducer.kernel.source = Origin::Pinned(commit);
    };
    let cache = cache(&host.at("served"), &["sources", "builds"], true);
    host.refuses(host.repro(from_git).env("FTRACE_LAB_CACHE", cache), 3, "cannot configure the kernel");
}

#[test]
fn without_confinement_code_runs_only_if_it_is_trusted() {
    let _host = share_host();
    let host = Host::new();
    let unconfined = |trust: &[&str]| {
        let mut command = host.repro(thief(&host));
        command.env("FTRACE_LAB_CONFINEMENT", "none").args(trust);
        command
    };
    let expect = "`--trust`";
    host.refuses(&mut unconfined(&[]), 2, expect);
    let mut minimize = xtask();
    minimize.args(["lab", "minimize"]).arg(host.at("hostile.yaml")).env("FTRACE_LAB_CONFINEMENT", "none");
    host.refuses(&mut minimize, 2, expect);
    // It is the same payload, so this shows that the other tests can fail.
    check(&mut unconfined(&["--trust"]), 0, &["builds are not confined", "reproduced"]);
    assert!(host.at("mark").exists());
    let mut unknown = unconfined(&[]);
    check(unknown.env("FTRACE_LAB_CONFINEMENT", "docker"), 3, &["`docker`, expected `bubblewrap`"]);
}

#[test]
fn a_reproducer_is_shown_without_doing_anything() {
    let host = Host::new();
    let mut show = host.repro(thief(&host));
    let shown = ["the source package linux-source-6.12", "modules/mine/Kbuild, 2 lines", "mine.c", "loads"];
    host.refuses(show.arg("--show").env("FTRACE_LAB_CACHE", host.at("none")), 0, "builds on this host");
    check(&mut show, 0, &shown);
    assert!(!host.at("none").exists());
}
