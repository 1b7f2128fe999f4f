//! Paths through the structs of the default kernel, compared with the output of pahole.

use crate::built::built;
use duct::cmd;
use lab::{
    fit::{ProbeLocation, Resolver},
    kernel::Types,
};
use regex::Regex;
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
};

/// The number of paths to compare.
const PATHS: usize = 50;

/// The maximum number of arrows in a path.
const ARROWS_MAX: usize = 4;

/// A member of a struct as pahole prints it; members of anonymous structs count as the outer struct's.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    offset: u64,
    size: u64,
    /// First bit and width.
    bits: Option<(u64, u64)>,
    /// The struct that it points to.
    points_to: Option<String>,
}

/// Returns every struct by name, except for names that several structs of the kernel share.
fn structs(printed: &str) -> BTreeMap<String, Vec<Member>> {
    let begins = Regex::new(r"^struct (\w+) \{").unwrap();
    let plain = Regex::new(
        r"^\s+(?:const |volatile )*(?:struct (\w+) \*|[\w ]+?[ *])\s*(\w+)(?::(\d+))?;\s+/\*\s*(\d+)(?::\s*(\d+))?\s+(\d+)\s+\*/",
    )
    .unwrap();
    let nests = Regex::new(r"^\s+(?:const )?(?:struct|union|enum)( \w+)? \{").unwrap();
    let ends = Regex::new(r"^\s+\}\s*([^;]*);").unwrap();
    let attribute = Regex::new(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)").unwrap();
    let mut found = BTreeMap::new();
    let mut several = Vec::new();
    let mut name = None;
    let mut members: Vec<Member> = Vec::new();
    // The index of the first member of each nested struct.
    let mut within = Vec::new();
    for line in printed.lines() {
        if let Some(of) = begins.captures(line) {
            (name, members, within) = (Some(of[1].to_owned()), Vec::new(), Vec::new());
        } else if line.starts_with('}') {
            if let Some(name) = name.take()
                && found.insert(String::clone(&name), std::mem::take(&mut members)).is_some()
            {
                several.push(name);
            }
        } else if nests.is_match(line) {
            within.push(members.len());
        } else if let Some(of) = ends.captures(line) {
            let start = within.pop().unwrap();
            // If the nested struct has a name, its members are not the outer struct's.
            if !attribute.replace_all(&of[1], "").trim().is_empty() {
                members.truncate(start);
            }
        } else if let Some(of) = plain.captures(line) {
            let number = |index| of.get(index).map(|found| found.as_str().parse::<u64>().unwrap());
            let points_to = of.get(1).map(|to| to.as_str().to_owned());
            let bits = number(3).map(|width| (number(5).unwrap_or_default(), width));
            let (offset, size) = (number(4).unwrap(), number(6).unwrap());
            members.push(Member { name: of[2].to_owned(), offset, size, bits, points_to });
        }
    }
    found.retain(|name, _| !several.contains(name));
    found
}

/// A pseudo-random number generator, repeatable by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }
}

/// Returns the offsets in a fetch argument, from the inside out, and the first bit and width of its value.
fn taken(fetch_arg: &str) -> (Vec<u64>, u64, u64) {
    let offset = Regex::new(r"\+u?(\d+)\(").unwrap();
    let mut offsets: Vec<u64> = offset.captures_iter(fetch_arg).map(|of| of[1].parse().unwrap()).collect();
    offsets.reverse();
    let format = fetch_arg.rsplit(':').next().unwrap();
    let bits = Regex::new(r"^b(\d+)@(\d+)/\d+$").unwrap();
    let number = Regex::new(r"^[sux](\d+)$").unwrap();
    if let Some(of) = bits.captures(format) {
        return (offsets, of[2].parse().unwrap(), of[1].parse().unwrap());
    }
    let width = number.captures(format).map_or(0, |of| of[1].parse().unwrap());
    (offsets, 0, width)
}

#[test]
fn fifty_paths_that_nobody_chose_are_where_pahole_says() {
    let vmlinux = built().kernel.vmlinux().unwrap();
    let printed = cmd!("pahole", "-F", "btf", &vmlinux).read().unwrap();
    let structs = structs(&printed);
    assert!(structs.len() > 1000, "{} structs", structs.len());
    let types = Types::of_vmlinux(&vmlinux).unwrap();
    let resolver = Resolver::new(&types, "vfs_read", ProbeLocation::Entry).unwrap();
    let seed = RandomState::new().hash_one(0);
    let mut dice = Dice(seed);
    let names: Vec<&String> = structs.keys().collect();
    let (mut compared, mut arrows, mut bitfields) = (0, 0, 0);
    while compared < PATHS {
        let mut of = names[dice.below(names.len())].as_str();
        let mut path = format!("((struct {of} *)$arg1)");
        let mut expect = Vec::new();
        let last = loop {
            let leads_on = |member: &&Member| {
                member.points_to.as_ref().is_some_and(|to| structs.contains_key(to)) && member.bits.is_none()
            };
            let all: Vec<&Member> = structs[of].iter().collect();
            let pointers: Vec<&Member> = all.iter().copied().filter(leads_on).collect();
            // Most members lead nowhere, so every other time one that leads on is preferred.
            let members = if pointers.is_empty() || dice.below(2) == 0 { all } else { pointers };
            if members.is_empty() {
                break None;
            }
            let member = members[dice.below(members.len())];
            path += &format!("->{}", member.name);
            expect.push(member.offset);
            match member.points_to.as_deref().filter(|to| structs.contains_key(*to)) {
                Some(to) if expect.len() < ARROWS_MAX => of = to,
                _ => break Some(member),
            }
        };
        // Only numbers and pointers have a format.
        let Some(last) = last.filter(|last| matches!(last.size, 1 | 2 | 4 | 8)) else { continue };
        let resolved = match resolver.resolve(&path) {
            Ok(resolved) => resolved,
            Err(error) if error.message.contains("or write a format") => {
                continue;
            }
            Err(error) => panic!("seed {seed}: {path}: {}", error.message),
        };
        let (mut offsets, first, width) = taken(&resolved.fetch_arg);
        if resolved.fetch_arg.ends_with("string") && last.points_to.is_none() && offsets.len() > expect.len()
        {
            // The string that a pointer points to.
            assert_eq!(offsets.pop(), Some(0), "seed {seed}: {path}: {resolved}");
        }
        if let Some((bit, bits)) = last.bits {
            let end = offsets.pop().unwrap() * 8 + first;
            assert_eq!(
                (end, width),
                (expect.pop().unwrap() * 8 + bit, bits),
                "seed {seed}: {path}: {resolved}"
            );
            bitfields += 1;
        } else if width > 0 && !resolved.fetch_arg.contains('[') {
            assert_eq!(width, last.size * 8, "seed {seed}: {path}: {resolved}");
        }
        assert_eq!(offsets, expect, "seed {seed}: {path}: {resolved}");
        arrows += expect.len();
        compared += 1;
    }
    println!("{compared} paths, {arrows} arrows, {bitfields} bitfields, seed {seed}");
    assert!(arrows > PATHS, "seed {seed}: {arrows} arrows");
}

#[test]
fn what_the_talks_showed_is_written_as_c_writes_it() {
    let types = Types::of_vmlinux(&built().kernel.vmlinux().unwrap()).unwrap();
    let check = |function: &str, place: ProbeLocation, path: &str, expect: &str| {
        let resolver = Resolver::new(&types, function, place).unwrap();
        let resolved = resolver.resolve(path).unwrap_or_else(|error| panic!("{}", error.shown(path)));
        let offset = Regex::new(r"\+(\d+)\(").unwrap();
        // Offsets depend on the kernel; the test above compares them with pahole.
        let shape = offset.replace_all(&resolved.fetch_arg, |of: &regex::Captures| match &of[1] {
            "0" => "+0(".to_owned(),
            _ => "+N(".to_owned(),
        });
        assert_eq!(shape, expect, "{function}: {path}: {resolved}");
    };
    check(
        "vfs_read",
        ProbeLocation::Entry,
        "file->f_inode->i_sb->s_type->name:string",
        "+0(+0(+N(+N(+N($arg1))))):string",
    );
    check(
        "vfs_read",
        ProbeLocation::Entry,
        "file->f_inode->i_sb->s_type->name",
        "+0(+0(+N(+N(+N($arg1))))):string",
    );
    check("eventfd_write", ProbeLocation::Entry, "*(u64 *)buf", "+0($arg2):u64");
    check("eventfd_write", ProbeLocation::Entry, "*(u64 __user *)buf", "+u0($arg2):u64");
    check("eventfd_write", ProbeLocation::Entry, "count", "$arg3:u64");
    check("eventfd_write", ProbeLocation::Return { parameters: true }, "$retval", "$retval:s64");
    check("do_sys_openat2", ProbeLocation::Entry, "filename", "+0($arg2):string");
    check("do_sys_openat2", ProbeLocation::Entry, "filename:ustring", "+u0($arg2):ustring");
    check("do_sys_openat2", ProbeLocation::Entry, "dfd", "$arg1:s32");
    check("do_sys_openat2", ProbeLocation::Entry, "how->flags:x64", "+0($arg3):x64");
    check(
        "dev_get_by_name",
        ProbeLocation::Return { parameters: true },
        "$retval->name",
        "+N($retval):string",
    );
    check("__netif_receive_skb", ProbeLocation::Entry, "skb->dev->perm_addr:x8[6]", "+N(+N($arg1)):x8[6]");
    check("wake_up_process", ProbeLocation::Entry, "p->comm", "+N($arg1):string");
    check("wake_up_process", ProbeLocation::Entry, "$arg1->pid", "+N($arg1):s32");
    check("wake_up_process", ProbeLocation::Entry, "p->se.load.weight", "+N($arg1):u64");
    check("wake_up_process", ProbeLocation::Entry, "p->pending.signal.sig[0]:x64", "+N($arg1):x64");
}

#[test]
fn parameters_of_a_tracepoint_are_those_of_its_stub_without_the_first() {
    let types = Types::of_vmlinux(&built().kernel.vmlinux().unwrap()).unwrap();
    let resolver = Resolver::of_tracepoint(&types, "sched_process_fork").unwrap();
    let expect = "void sched_process_fork(struct task_struct *parent, struct task_struct *child)";
    assert_eq!(resolver.prototype(), expect);
    let found = resolver.resolve("child->pid").unwrap().fetch_arg;
    assert!(found.starts_with('+') && found.ends_with("($arg2):s32"), "{found}");
    assert!(Resolver::of_tracepoint(&types, "sched_process_frok").is_err());
}

#[test]
fn what_is_not_there_is_named_with_the_nearest() {
    let types = Types::of_vmlinux(&built().kernel.vmlinux().unwrap()).unwrap();
    let resolver = Resolver::new(&types, "vfs_read", ProbeLocation::Entry).unwrap();
    let check = |path: &str, expect: &str| {
        let message = resolver.resolve(path).expect_err(path).message;
        assert!(message.contains(expect), "{path}: {message}");
    };
    check("fle->f_inode", "`vfs_read` has no parameter `fle`; the nearest is `file`");
    check("file->f_inod", "`struct file` has no member `f_inod`; the nearest is `f_inode`");
    check("file.f_inode", "`struct file *` is a pointer: use `->f_inode`");
    check("file->f_path->dentry", "`struct path` is not a pointer: use `.dentry`");
    check("count->x", "a `size_t` is not a pointer");
    check("*file->private_data", "`void *` points to no known type");
    check("file->f_path", "`struct path` is not a value");
    check("$retval", "use a kretprobe");
    check("$arg7", "`vfs_read` has 4 parameters, so there is no `$arg7`");
    check("(struct nowhere *)file", "this kernel has no type `struct nowhere`");
    // The core of perf events and its support for AUX areas each have one.
    check("((struct perf_aux_event *)file)->x", "several different types `struct perf_aux_event`");
    let error = Resolver::new(&types, "vfs_raed", ProbeLocation::Entry).err().unwrap().to_string();
    assert!(error.contains("BTF has no prototype of `vfs_raed`"), "{error}");
}
