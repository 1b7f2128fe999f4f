//! A private cluster of Slurm: a controller and two machines that are this host, with ports, keys and state of their
//! own. Nothing of it outlives it.

use crate::{patience::wait_for, stage::signal};
use rustix::process::Signal;
use std::{
    fs,
    io::Read,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

pub(crate) struct Cluster {
    directory: PathBuf,
    /// In the order of their starts.
    services: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The controller takes the machines and their jobs along.
        let _ = self.command("scancel", &["--full", "--user", &user()]).status();
        for service in self.services.iter_mut().rev() {
            signal(service, Signal::TERM);
            let _ = service.wait();
        }
        if thread::panicking() {
            for log in ["slurmctld", "node1", "node2", "munged"] {
                let text = fs::read_to_string(self.directory.join(log).with_extension("log"));
                let text = text.unwrap_or_default();
                eprintln!("{log}:\n{text}");
            }
        }
    }
}

impl Cluster {
    /// Starts a cluster with its files in `directory`, whose path must be short: it has a socket.
    pub(crate) fn start(directory: &Path) -> Cluster {
        let mut cluster = Cluster { directory: directory.to_owned(), services: Vec::new() };
        let at = |name: &str| directory.join(name);
        fs::create_dir(at("state")).unwrap();
        fs::write(at("slurm.conf"), config(directory)).unwrap();
        // Who reaches the ports without this key cannot run anything.
        let mut key = [0; 1024];
        fs::File::open("/dev/urandom").unwrap().read_exact(&mut key).unwrap();
        fs::write(at("munge.key-file"), key).unwrap();
        fs::set_permissions(at("munge.key-file"), fs::Permissions::from_mode(0o400)).unwrap();
        let files = ["socket", "key-file", "pid-file", "log-file", "seed-file"];
        let files = files.map(|file| format!("--{file}={}", at(&format!("munge.{file}")).display()));
        cluster.spawn("munged", "munged", &["--foreground", "--force"], &files);
        wait_for("socket of munged", || at("munge.socket").exists().then_some(()));
        cluster.spawn("slurmctld", "slurmctld", &["-D"], &[]);
        for node in ["node1", "node2"] {
            cluster.spawn(node, "slurmd", &["-D", "-N", node], &[]);
        }
        let idle = || {
            let nodes = cluster.said("sinfo", &["--noheader", "--Node", "--format=%t"]);
            (nodes.lines().filter(|state| *state == "idle").count() == 2).then_some(())
        };
        wait_for("two idle machines", idle);
        cluster
    }

    fn spawn(&mut self, log: &str, program: &str, flags: &[&str], files: &[String]) {
        let log = fs::File::create(self.directory.join(log).with_extension("log")).unwrap();
        let mut service = Command::new(Path::new("/usr/sbin").join(program));
        service.args(flags).args(files).env("SLURM_CONF", self.directory.join("slurm.conf"));
        service.current_dir(&self.directory);
        service.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.services.push(service.spawn().unwrap());
    }

    /// Returns a command of the cluster's user.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.directory.join("slurm.conf")).stdin(Stdio::null());
        command
    }

    /// Runs a command, and returns what it prints; empty if it fails.
    pub(crate) fn said(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program, arguments).output().unwrap();
        if !output.status.success() {
            eprintln!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns what Slurm knows of a task by a name such as `JobState`.
    pub(crate) fn of_task(&self, task: &str, name: &str) -> String {
        let said = self.said("scontrol", &["show", "job", task]);
        let value = |word: &str| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        said.split_whitespace().find_map(value).unwrap_or_default()
    }
}

fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns the configuration: processes are followed by their parents and jobs are not confined, since containers
/// have no control groups to give away.
fn config(directory: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (host, user, at) = (host.trim().split('.').next().unwrap_or_default(), user(), directory.display());
    // Held together, so that they differ.
    let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [controller, one, two] = sockets.map(|socket| socket.local_addr().unwrap().port());
    let cpus = thread::available_parallelism().unwrap();
    format!(
        "ClusterName=lab\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmUser={user}\n\
         SlurmdUser={user}\nCommunicationParameters=NoInAddrAny\nAuthType=auth/munge\nCredType=cred/munge\n\
         AuthInfo=socket={at}/munge.socket\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/%n\n\
         SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/%n.pid\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\nSelectType=select/linear\nSwitchType=switch/none\nMpiDefault=none\n\
         JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         JobCompType=jobcomp/none\nMailProg=/bin/true\nReturnToService=2\n\
         NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={one} CPUs={cpus}\n\
         NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={two} CPUs={cpus}\n\
         PartitionName=lab Nodes=ALL Default=YES State=UP\n"
    )
}
