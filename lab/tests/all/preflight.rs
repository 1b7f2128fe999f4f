//! Compares the checks of functions before a machine starts with the behaviour of the running kernel.

use crate::built::built;
use lab::{
    fit::{self, Unfit},
    kernel::{Functions, Kernel, Obstacle, Want},
    machine::{Machine, Snapshots, machine_spec},
    scenario::{Scenario, UserPlaces},
};
use protocol::{Reply, Request, WriteMode};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    path::Path,
    time::Duration,
};

/// Longer than any request of these tests takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// The number of randomly chosen functions to probe.
const SAMPLE: usize = 200;

/// The maximum size of a file to read, in bytes; the agent sends at most one frame.
const FILE_MAX: usize = 1 << 20;

fn read(machine: &mut Machine, path: &str) -> String {
    let request = Request::ReadFile { path: path.to_owned(), max: FILE_MAX as u32 };
    match machine.call(&request, DEADLINE).unwrap() {
        Reply::Data(data) => {
            assert!(data.ends_with(b"\n") && data.len() < FILE_MAX, "{path}: {} bytes", data.len());
            String::from_utf8(data).unwrap()
        }
        other => panic!("{path}: {other:?}"),
    }
}

/// Returns whether the kernel accepts a kprobe event on a function.
fn takes(machine: &mut Machine, name: &str) -> bool {
    let write = |text: &str, mode| Request::WriteFile {
        path: "kprobe_events".to_owned(),
        data: text.as_bytes().to_vec(),
        mode,
    };
    let reply =
        machine.call(&write(&format!("p:preflight/x {name}\n"), WriteMode::Append), DEADLINE).unwrap();
    let again = machine.call(&write("\n", WriteMode::Truncate), DEADLINE).unwrap();
    assert_eq!(again, Reply::Done, "{name}");
    match reply {
        Reply::Done => true,
        Reply::Errno { .. } => false,
        other => panic!("{name}: {other:?}"),
    }
}

/// Probes some of the functions without an obstacle, and some of the others.
fn what_is_taken_is_probed(machine: &mut Machine, functions: &Functions, names: &BTreeSet<&str>) {
    // Functions with an obstacle are rare, so they make up half of the sample.
    let seed = RandomState::new().hash_one(0);
    let mut shuffled: Vec<&str> = names.iter().copied().collect();
    let dice =
        |name: &&str| std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::new().hash_one((seed, name));
    shuffled.sort_by_key(dice);
    let refused = shuffled.iter().filter(|name| functions.obstacle(Want::Kprobe, name).is_some());
    let taken = shuffled.iter().filter(|name| functions.obstacle(Want::Kprobe, name).is_none());
    let sample: Vec<&str> = refused.take(SAMPLE / 2).chain(taken.take(SAMPLE / 2)).copied().collect();
    for name in sample {
        let obstacle = functions.obstacle(Want::Kprobe, name);
        // Kernels before 6.1 silently probe the first of several functions with a name; only the lab rejects it.
        if matches!(obstacle, Some(Obstacle::Ambiguous { refused: false, .. })) {
            continue;
        }
        assert_eq!(takes(machine, name), obstacle.is_none(), "seed {seed}: {name}: {obstacle:?}");
    }
}

#[test]
fn the_running_kernel_says_the_same() {
    let kernel: &Kernel = &built().kernel;
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let snapshots = Snapshots::new(&built().lab).unwrap();
    let spec = machine_spec(kernel, &built().guest).unwrap();
    let mut machine = Machine::pristine(&spec, &snapshots, directory.path()).unwrap();
    let functions = kernel.probeable().unwrap();

    let traceable = read(&mut machine, "available_filter_functions");
    let traceable: BTreeSet<&str> = traceable.lines().filter(|line| !line.contains(' ')).collect();
    let names: BTreeSet<&str> = functions.names().collect();
    let differ =
        |name: &&&str| functions.obstacle(Want::Ftrace, name).is_none() != traceable.contains(**name);
    let differing: Vec<_> = names.iter().filter(differ).collect();
    assert!(differing.is_empty(), "{} differ: {:?}", differing.len(), &differing[..differing.len().min(20)]);
    assert!(traceable.len() > 10_000 && names.len() > traceable.len());

    let blacklist = read(&mut machine, "/sys/kernel/debug/kprobes/blacklist");
    let blacklist: BTreeSet<&str> = blacklist.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    let mut addresses: BTreeMap<&str, &str> = BTreeMap::new();
    let mut names_at: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in kernel.functions().unwrap().lines() {
        let [address, _, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        addresses.entry(name).or_insert(address);
        names_at.entry(address).or_default().push(name);
    }
    let mut of_blacklist = 0;
    for name in &names {
        let obstacle = functions.obstacle(Want::Kprobe, name);
        let base = name.split('.').next().unwrap();
        // The list has one name per address, even if the address has several.
        let addresses = [name, base].map(|name| addresses.get(name));
        let mut aliases = addresses.into_iter().flatten().flat_map(|address| &names_at[address]);
        let listed = aliases.any(|alias| blacklist.contains(alias));
        match obstacle {
            Some(Obstacle::Ambiguous { .. } | Obstacle::Freed) => {}
            obstacle => {
                let blacklisted = matches!(obstacle, Some(Obstacle::Blacklisted(_)));
                of_blacklist += usize::from(blacklisted);
                assert_eq!(blacklisted, listed, "{name}: {obstacle:?}");
            }
        }
    }
    assert!(of_blacklist > 100, "{of_blacklist}");

    what_is_taken_is_probed(&mut machine, functions, &names);
    println!("{} functions, {} traceable, {of_blacklist} on the blacklist", names.len(), traceable.len());
}

/// Returns why the default kernel cannot run a scenario with this `trace:`.
fn unfit(trace: &str) -> Option<Unfit> {
    let yaml = format!("summary: x\ntrace: {trace}\nexpect: [ kernel_log: {{ never: [BUG] }} ]");
    let scenario = Scenario::parse(Path::new("x.yaml"), &yaml).unwrap();
    fit::fit(&scenario, &built().kernel).unwrap().err()
}

fn on(function: &str) -> String {
    format!("{{ events: [ {{ kprobe: {function}, name: x }} ] }}")
}

#[test]
fn what_cannot_be_is_told_with_what_can() {
    let unsupported = |trace: &str, expect: &str| match unfit(trace) {
        Some(Unfit::Unsupported(reason)) => assert!(reason.contains(expect), "{trace}: {reason}"),
        other => panic!("{trace}: {other:?}"),
    };
    unsupported(&on("tracing_mark_write"), "cannot probe `tracing_mark_write` (kprobe): notrace");
    unsupported(&on("el1_interrupt"), "on the kprobe blacklist as noinstr");
    unsupported(&on("notify_die"), "on the kprobe blacklist by NOKPROBE_SYMBOL");
    unsupported(&on("start_kernel"), "init text, freed after boot");
    unsupported(
        "{ functions: [tracing_mark_write] }",
        "cannot trace `tracing_mark_write` (filter `functions`)",
    );
    // new_sync_read() of fs/read_write.c is static and has one caller.
    unsupported(&on("new_sync_read"), "inlined into `vfs_read` in this kernel; try `vfs_read`");
    unsupported(
        &on("ip_rcv"),
        "CONFIG_INET is not set in this kernel, and `net/ipv4/ip_input.c`, which defines it, is not built",
    );
    let invalid = |trace: &str, expect: &str| match unfit(trace) {
        Some(Unfit::Invalid(reason)) => assert!(reason.contains(expect), "{trace}: {reason}"),
        other => panic!("{trace}: {other:?}"),
    };
    invalid(&on("vfs_raed"), "this kernel has no such function; try `vfs_read`");
    invalid(&on("vfs_raed+8"), "; try `vfs_read`");
    invalid("{ graph_functions: [ksys_raed] }", "; try `ksys_read`");
    invalid(
        "{ events: [ { function: 'vfs_read(int file)' } ] }",
        "`file` is a `struct file *` of 8 bytes on this kernel, not of 4",
    );
    invalid(
        "{ events: [ { function: 'vfs_read(ptr a, ptr b, u64 c, ptr d, int e)' } ] }",
        "has 4 parameters",
    );
    invalid(
        "{ events: [ { function: 'vfs_fsync(ptr a, string b)' } ] }",
        "`datasync` is a `int` on this kernel",
    );
    let args = |place: &str, fetch: &str| {
        format!("{{ events: [ {{ {place}, name: x, args: {{ a: '{fetch}' }} }} ] }}")
    };
    invalid(&args("kprobe: vfs_read", "file->f_inod"), "`struct file` has no member `f_inod`");
    invalid(&args("kprobe: vfs_read", "$retval->x"), "use a kretprobe");
    invalid(
        &args("kprobe: vfs_read+8", "count"),
        "parameters are in their registers only at the entry of a function",
    );
    invalid(&args("kprobe: ext4:ext4_readdir", "file"), "is not the name of a function of the kernel itself");
}

#[test]
fn what_can_be_is_made_the_kernels_own() {
    let yaml = "summary: x\ntrace: { events: [ { kprobe: vfs_read, name: r, \
        args: { raw: '+0($arg1):x64', count: count, n: '$arg3' } } ] }\n\
        expect: [ kernel_log: { never: [BUG] } ]";
    let scenario = Scenario::parse(Path::new("x.yaml"), yaml).unwrap();
    let fitted = fit::fit(&scenario, &built().kernel).unwrap().unwrap();
    let definition = fitted.trace.events[0].definition(&UserPlaces::new()).unwrap();
    assert_eq!(definition.line, "p:kprobes/r vfs_read raw=+0($arg1):x64 count=$arg3:u64 n=$arg3");
}
