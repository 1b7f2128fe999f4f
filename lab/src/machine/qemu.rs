//! The QEMU command line, built by small functions that each return an argument list, without I/O.

use std::path::{Path, PathBuf};

/// The program, as found on `PATH`.
pub const PROGRAM: &str = "qemu-system-aarch64";

/// The parts of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// The kernel's `Image`.
    pub image: PathBuf,
    /// A newc archive with the agent as `/init`.
    pub initramfs: PathBuf,
    /// QEMU's `-machine`.
    pub machine: String,
    /// QEMU's `-cpu` under emulation.
    pub cpu: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Under emulation, the shift of QEMU's `-icount`: time is counted in instructions of 2^N ns.
    pub icount: Option<u8>,
    /// Under emulation, whether the CPUs take turns on one host thread.
    pub in_turn: bool,
    /// Memory size in QEMU's notation: `512M`.
    pub memory: String,
    /// Kernel parameters appended to the lab's own.
    pub cmdline: Vec<String>,
    /// The plugin that notes which code runs, if that is measured. It does not affect the guest.
    pub plugin: Option<PathBuf>,
}

/// The character device of the console.
pub(super) const CONSOLE: &str = "console";

/// Kernel parameters of every guest.
const CMDLINE: &[&str] = &[
    // The PL011 is the console, including early messages.
    "console=ttyAMA0",
    // Without `quiet`, the console costs up to a second of boot under emulation.
    "quiet",
    // Keep the whole kernel log readable until the end of a run.
    "log_buf_len=1M",
    // The console shows the stacks of blocked tasks, which Debian's kernels do not allow by default.
    "sysrq_always_enabled",
    // pvpanic reports a panic; the guest itself waits to be dumped.
    "panic=0",
];

/// One host thread per CPU, so that races between CPUs are real.
const TCG: &str = "tcg,thread=multi";

/// All CPUs on one host thread, in turn. Counting instructions needs it.
const TCG_SINGLE: &str = "tcg,thread=single";

/// The bus of the agent's port. By default, QEMU's main loop polls an eventfd for each of 64 queues, and takes over what
/// the guest sends: a round trip then takes half as much CPU time again.
const SERIAL: &str = "virtio-serial-pci,max_ports=2,ioeventfd=off";

/// The ends of socket pairs that QEMU inherits, by file descriptor number.
#[derive(Clone, Copy, Debug)]
pub struct Sockets {
    /// The console, in both directions.
    pub console: i32,
    /// The agent's port.
    pub agent: i32,
    /// The QMP monitor.
    pub monitor: i32,
}

/// The location of the guest's memory.
#[derive(Clone, Copy, Debug)]
pub enum Memory<'a> {
    /// In QEMU, and discarded with it.
    Anonymous,
    /// In a file that the guest writes to: half of a snapshot, once the machine is stopped.
    Kept(&'a Path),
    /// A private copy of such a file, with pages copied on write. QEMU waits for the command that
    /// tells it where the rest of the machine's state is.
    Copied(&'a Path),
}

/// The way in which the guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// Emulation, available on any host.
    Tcg,
    /// On an arm64 host with /dev/kvm.
    Kvm,
}

impl Accelerator {
    /// Returns QEMU's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Tcg => "tcg",
            Accelerator::Kvm => "kvm",
        }
    }

    /// Returns KVM on an arm64 host whose /dev/kvm this user may open, otherwise emulation.
    pub fn of_host() -> Accelerator {
        let usable = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        if cfg!(target_arch = "aarch64") && usable() { Accelerator::Kvm } else { Accelerator::Tcg }
    }
}

/// Returns all arguments of `qemu-system-aarch64`.
pub fn arguments(
    spec: &MachineSpec,
    accelerator: Accelerator,
    memory: Memory<'_>,
    sockets: Sockets,
) -> Vec<String> {
    [
        base(),
        cpu(spec, accelerator, memory),
        backing(spec, memory),
        kernel(spec, memory),
        console(sockets.console),
        agent_port(sockets.agent),
        monitor(sockets.monitor),
        death(),
    ]
    .concat()
}

/// Returns the arguments with which QEMU notes the code that runs in the file `notes`.
pub fn plugin(plugin: &Path, notes: &Path) -> Vec<String> {
    words(["-plugin", &format!("{},out={}", option_value(plugin), option_value(notes))])
}

/// Returns the arguments that follow vmtest's own; QEMU uses the last of each kind. QEMU connects
/// to sockets at these paths.
pub fn beside_vmtest(
    spec: &MachineSpec,
    accelerator: Accelerator,
    agent: &Path,
    monitor: &Path,
    pidfile: &Path,
) -> Vec<String> {
    // With KVM, vmtest itself selects the host's CPU.
    let cpu = match accelerator {
        Accelerator::Tcg => words(["-accel", TCG, "-cpu", &spec.cpu]),
        Accelerator::Kvm => Vec::new(),
    };
    let connecting = |id: &str, path: &Path| format!("socket,id={id},path={}", text(path));
    let port = format!("virtserialport,chardev=agent,name={}", protocol::PORT_NAME);
    [
        cpu,
        words(["-no-user-config", "-pidfile", &text(pidfile)]),
        words(["-chardev", &connecting("agent", agent), "-device", &port]),
        words(["-chardev", &connecting("monitor", monitor), "-mon", "chardev=monitor,mode=control"]),
        death(),
    ]
    .concat()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn base() -> Vec<String> {
    // No user configuration, no default devices, no window: only what is listed here.
    words(["-no-user-config", "-nodefaults", "-display", "none"])
}

fn cpu(spec: &MachineSpec, accelerator: Accelerator, memory: Memory<'_>) -> Vec<String> {
    let (accel, cpu) = match (spec.icount, accelerator) {
        (Some(_), _) => (TCG_SINGLE, spec.cpu.as_str()),
        (None, Accelerator::Tcg) => (if spec.in_turn { TCG_SINGLE } else { TCG }, spec.cpu.as_str()),
        (None, Accelerator::Kvm) => ("kvm", "host"),
    };
    let backend = if matches!(memory, Memory::Anonymous) { "" } else { ",memory-backend=ram" };
    let machine = format!("{}{backend}", spec.machine);
    let cpus = spec.cpus.to_string();
    let cpu = words(["-machine", &machine, "-accel", accel, "-cpu", cpu, "-smp", &cpus, "-m", &spec.memory]);
    // When no CPU has anything to do, time passes at once: how long that would have taken on the host is chance.
    let icount = spec.icount.map(|shift| words(["-icount", &format!("shift={shift},sleep=off")]));
    [cpu, icount.unwrap_or_default()].concat()
}

fn backing(spec: &MachineSpec, memory: Memory<'_>) -> Vec<String> {
    let (path, share) = match memory {
        Memory::Anonymous => return Vec::new(),
        Memory::Kept(path) => (path, "on"),
        Memory::Copied(path) => (path, "off"),
    };
    let path = option_value(path);
    let ram = format!("memory-backend-file,id=ram,size={},mem-path={path},share={share}", spec.memory);
    let mut arguments = words(["-object", &ram]);
    if matches!(memory, Memory::Copied(_)) {
        arguments.extend(words(["-incoming", "defer"]));
    }
    arguments
}

fn kernel(spec: &MachineSpec, memory: Memory<'_>) -> Vec<String> {
    if matches!(memory, Memory::Copied(_)) {
        // The copied memory contains the kernel. Loading it again would cost 40 ms and 18 MB.
        return Vec::new();
    }
    let cmdline = CMDLINE.iter().copied().chain(spec.cmdline.iter().map(String::as_str));
    let cmdline = cmdline.collect::<Vec<_>>().join(" ");
    words(["-kernel", &text(&spec.image), "-initrd", &text(&spec.initramfs), "-append", &cmdline])
}

fn console(socket: i32) -> Vec<String> {
    words(["-chardev", &inherited(CONSOLE, socket), "-serial", &format!("chardev:{CONSOLE}")])
}

fn agent_port(socket: i32) -> Vec<String> {
    let port = format!("virtserialport,chardev=agent,name={}", protocol::PORT_NAME);
    words(["-device", SERIAL, "-chardev", &inherited("agent", socket), "-device", &port])
}

fn monitor(socket: i32) -> Vec<String> {
    words(["-chardev", &inherited("monitor", socket), "-mon", "chardev=monitor,mode=control"])
}

fn death() -> Vec<String> {
    words([
        // The guest reports a panic, and QEMU keeps its state.
        "-device",
        "pvpanic-pci",
        "-action",
        "panic=pause",
        // The information that crash and drgn need in a dump.
        "-device",
        "vmcoreinfo",
        // A reboot ends the machine instead of booting again.
        "-no-reboot",
    ])
}

/// Returns a chardev for a connected socket: no path, no listener, nothing to clean up.
fn inherited(id: &str, socket: i32) -> String {
    format!("socket,id={id},fd={socket}")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns a path in a list of options, where a literal comma is doubled.
fn option_value(path: &Path) -> String {
    text(path).replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> MachineSpec {
        MachineSpec {
            image: "/k/Image".into(),
            initramfs: "/g/initramfs".into(),
            machine: "virt,gic-version=3".into(),
            cpu: "max,pauth-impdef=on".into(),
            cpus: 2,
            icount: None,
            in_turn: false,
            memory: "512M".into(),
            cmdline: vec!["ftrace=function".into()],
            plugin: None,
        }
    }

    fn check(accelerator: Accelerator, memory: Memory<'_>, expect: &[&str]) {
        let sockets = Sockets { console: 7, agent: 8, monitor: 9 };
        let line = arguments(&spec(), accelerator, memory, sockets).join(" ");
        for part in expect {
            assert!(line.contains(part), "`{part}` is not in `{line}`");
        }
    }

    #[test]
    fn an_emulated_machine() {
        check(
            Accelerator::Tcg,
            Memory::Anonymous,
            &[
                "-machine virt,gic-version=3 -accel tcg,thread=multi -cpu max,pauth-impdef=on -smp 2 -m 512M",
                "-kernel /k/Image -initrd /g/initramfs -append console=ttyAMA0 quiet",
                "ftrace=function",
                "-chardev socket,id=agent,fd=8 -device virtserialport,chardev=agent,name=org.ftrace-lab.agent",
            ],
        );
    }

    #[test]
    fn a_machine_that_counts_instructions_is_emulated_by_one_thread() {
        let spec = MachineSpec { icount: Some(5), cpus: 1, ..spec() };
        let sockets = Sockets { console: 7, agent: 8, monitor: 9 };
        let line = arguments(&spec, Accelerator::Kvm, Memory::Anonymous, sockets).join(" ");
        let expect =
            "-accel tcg,thread=single -cpu max,pauth-impdef=on -smp 1 -m 512M -icount shift=5,sleep=off";
        assert!(line.contains(expect), "{line}");
    }

    #[test]
    fn cpus_that_take_turns_are_emulated_by_one_thread() {
        let spec = MachineSpec { in_turn: true, ..spec() };
        let line = |accelerator| {
            let sockets = Sockets { console: 7, agent: 8, monitor: 9 };
            arguments(&spec, accelerator, Memory::Anonymous, sockets).join(" ")
        };
        assert!(line(Accelerator::Tcg).contains("-accel tcg,thread=single -cpu max,pauth-impdef=on -smp 2"));
        assert!(line(Accelerator::Kvm).contains("-accel kvm -cpu host -smp 2"));
    }

    #[test]
    fn a_plugin_has_the_file_for_its_notes() {
        let line = plugin(Path::new("/c/a,b/libplugin.so"), Path::new("/r/c,d/executed")).join(" ");
        assert_eq!(line, "-plugin /c/a,,b/libplugin.so,out=/r/c,,d/executed");
    }

    #[test]
    fn a_virtualised_machine_has_the_hosts_cpu() {
        check(Accelerator::Kvm, Memory::Anonymous, &["-accel kvm -cpu host"]);
    }

    #[test]
    fn memory_in_a_file_is_written_by_one_machine_and_copied_by_others() {
        let path = Path::new("/c/a,b/ram");
        check(
            Accelerator::Tcg,
            Memory::Kept(path),
            &[
                "-machine virt,gic-version=3,memory-backend=ram -accel",
                "-object memory-backend-file,id=ram,size=512M,mem-path=/c/a,,b/ram,share=on -kernel",
            ],
        );
        check(Accelerator::Tcg, Memory::Copied(path), &["/ram,share=off -incoming defer -chardev"]);
    }
}
