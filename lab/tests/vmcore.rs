//! A guest that panics leaves a vmcore, which these tests read like crash and drgn, with the kernel's
//! symbols.

#[path = "all/built/mod.rs"]
mod built;

use built::{Built, built};
use lab::{
    dump::{self, Dump, RingBuffer},
    host::drgn::Drgn,
    kernel::Kernel,
    machine::{BOOT_DEADLINE, Death, Machine, Snapshots, VMCORE, boot_if_child, machine_spec},
    results::{Results, ScenarioResult, Status},
    run::Attempt,
    scenario::{Scenario, ScenarioFile},
};
use libtest_mimic::{Arguments, Trial};
use object::{
    LittleEndian as LE, Object, ObjectSection, ObjectSymbol,
    elf::{self, FileHeader64, ProgramHeader64},
    read::elf::{FileHeader, ProgramHeader},
};
use protocol::{Request, WriteMode};
use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
};
use tempfile::TempDir;
use trace::{Item, Trace};

/// Names each test.
macro_rules! trials {
    ($($test:ident),*) => { vec![$(Trial::test(stringify!($test), || { $test(); Ok(()) })),*] };
}

/// Has a main function of its own because a test boots a userland.
fn main() -> ExitCode {
    boot_if_child();
    let trials = trials![
        a_module_that_panics_leaves_the_memory_of_its_kernel,
        an_oops_that_the_guest_survives_leaves_none,
        a_panic_is_told_where_its_dump_has_no_place,
        the_memory_of_a_kernel_that_panicked_tells_why_and_what_was_traced_last,
        a_guest_that_is_dumped_goes_on,
        crash_in_a_guest_tells_of_a_dump_what_drgn_tells,
        the_dump_of_another_kernel_is_not_read
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The memory in a dump, read without drgn.
struct Elf {
    data: Vec<u8>,
    /// The entries of VMCOREINFO, by name.
    info: Vec<(String, String)>,
}

impl Elf {
    fn open(path: &Path) -> Elf {
        let data = fs::read(path).unwrap();
        let mut dump = Elf { data, info: Vec::new() };
        for segment in dump.segments() {
            let Some(mut notes) = segment.notes(LE, &dump.data[..]).unwrap() else { continue };
            while let Some(note) = notes.next().unwrap() {
                if note.name() == b"VMCOREINFO" {
                    let text = String::from_utf8_lossy(note.desc());
                    let pairs = text.lines().filter_map(|line| line.split_once('='));
                    dump.info = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                }
            }
        }
        dump
    }

    fn segments(&self) -> Vec<ProgramHeader64<LE>> {
        let header = FileHeader64::<LE>::parse(&self.data[..]).unwrap();
        assert_eq!(header.e_type(LE), elf::ET_CORE);
        assert_eq!(header.e_machine(LE), elf::EM_AARCH64);
        header.program_headers(LE, &self.data[..]).unwrap().to_vec()
    }

    fn info(&self, name: &str) -> &str {
        let found = self.info.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:?}", self.info)).1
    }

    /// Returns whether the memory contains `text`. Skips pages of zeroes, which are most.
    fn contains(&self, text: &str) -> bool {
        const PAGE: usize = 4096;
        let pages = (0..self.data.len()).step_by(PAGE);
        let mut whole = pages.map(|at| &self.data[at..self.data.len().min(at + PAGE + text.len())]);
        whole.any(|page| {
            page[..page.len().min(PAGE)] != [0; PAGE][..page.len().min(PAGE)]
                && page.windows(text.len()).any(|bytes| bytes == text.as_bytes())
        })
    }

    /// Returns the bytes at an address of the kernel's image.
    fn read(&self, address: u64, length: usize) -> &[u8] {
        let offset = self.info("NUMBER(kimage_voffset)").trim_start_matches("0x");
        let physical = address.wrapping_sub(u64::from_str_radix(offset, 16).unwrap());
        let segments = self.segments();
        let holds = |segment: &&ProgramHeader64<LE>| {
            segment.p_type(LE) == elf::PT_LOAD
                && (segment.p_paddr(LE)..segment.p_paddr(LE) + segment.p_filesz(LE)).contains(&physical)
        };
        let segment = segments.iter().find(holds).unwrap_or_else(|| panic!("{physical:#x} is not dumped"));
        let at = (physical - segment.p_paddr(LE) + segment.p_offset(LE)) as usize;
        &self.data[at..at + length]
    }
}

/// Returns the address of a symbol of vmlinux, and its bytes there.
fn symbol(kernel: &Kernel, name: &str) -> (u64, Vec<u8>) {
    let data = fs::read(kernel.vmlinux().unwrap()).unwrap();
    let file = object::File::parse(&data[..]).unwrap();
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
    let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
    let bytes = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
    (symbol.address(), bytes.to_vec())
}

/// Runs a scenario with these steps; returns its result and the directory of its files.
fn result(directory: &TempDir, steps: &str) -> (ScenarioResult, PathBuf) {
    let Built { lab, kernel, guest } = built();
    let snapshots = Snapshots::new(lab).unwrap();
    let path = directory.path().join("x.yaml");
    fs::write(&path, format!("summary: x\n{steps}\n")).unwrap();
    let scenario = Scenario::load(&path).unwrap();
    let found = ScenarioFile { name: "x".into(), path };
    let results = directory.path().join("results");
    let result = Attempt { kernel, guest, found: &found, scenario: &scenario, repeat: None, run: &results }
        .execute(&snapshots)
        .unwrap();
    let files = results.join(&result.directory);
    (result, files)
}

fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn a_module_that_panics_leaves_the_memory_of_its_kernel() {
    let directory = directory();
    let (result, files) = result(&directory, "steps: [ { load: deaths, parameters: now=panic } ]");
    assert_eq!(result.status, Status::Panic, "{}", result.reason);
    assert_eq!((result.vmcore.as_deref(), &result.notes[..]), (Some(VMCORE), &[][..]));

    let kernel = &built().kernel;
    let path = files.join(VMCORE);
    let dump = Elf::open(&path);
    let release = fs::read_to_string(kernel.directory.join("include/config/kernel.release")).unwrap();
    assert_eq!(dump.info("OSRELEASE"), release.trim());
    let (address, banner) = symbol(kernel, "linux_banner");
    assert!(banner.starts_with(format!("Linux version {}", release.trim()).as_bytes()));
    assert!(dump.read(address, banner.len()) == banner, "the banner differs from vmlinux");
    // It has the panic message and the function that panicked.
    for text in ["Kernel panic - not syncing: a death was asked for", "deaths_panic"] {
        assert!(dump.contains(text), "`{text}` is not in the memory");
    }

    let metadata = path.metadata().unwrap();
    let (size, on_disk) = (metadata.len(), metadata.blocks() * 512);
    eprintln!("{size} bytes, {on_disk} of them on disk");
    assert!(on_disk < size / 2, "{on_disk} of {size} bytes on disk: no holes");
    assert_eq!(metadata.mode() & 0o777, 0o644);
}

fn an_oops_that_the_guest_survives_leaves_none() {
    let directory = directory();
    let (result, files) = result(&directory, "steps: [ { load: deaths, parameters: now=null } ]");
    assert_eq!((result.status, result.vmcore), (Status::Oops, None));
    assert!(!files.join(VMCORE).exists());
}

fn a_panic_is_told_where_its_dump_has_no_place() {
    let Built { kernel, guest, .. } = built();
    let directory = directory();
    let mut machine =
        Machine::boot(&machine_spec(kernel, guest).unwrap(), directory.path(), BOOT_DEADLINE).unwrap();
    let crash = Request::WriteFile {
        path: "/proc/sysrq-trigger".into(),
        data: b"c".into(),
        mode: WriteMode::Truncate,
    };
    fs::rename(directory.path(), directory.path().with_extension("elsewhere")).unwrap();
    let death = machine.call(&crash, BOOT_DEADLINE).unwrap_err();
    fs::rename(directory.path().with_extension("elsewhere"), directory.path()).unwrap();
    assert!(matches!(death, Death::Panic { .. }), "{death}");
    let note = death.note().unwrap();
    assert!(note.starts_with("the guest's memory was not dumped: cannot create a file in"), "{note}");
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "console.txt" || name == "qemu.log"), "{left:?}");
}

fn drgn() -> Drgn {
    Drgn::obtain(&built().lab.cache, &built().lab.progress).unwrap()
}

/// Returns a dump of the default kernel, with this module of the lab.
fn dump(vmcore: PathBuf, module: &str) -> Dump {
    let Built { kernel, guest, .. } = built();
    let module = guest.modules.find(kernel, module).unwrap();
    let modules = BTreeMap::from([(module.name, vec![module.debug])]);
    Dump { vmcore, vmlinux: kernel.vmlinux().unwrap(), modules }
}

fn the_memory_of_a_kernel_that_panicked_tells_why_and_what_was_traced_last() {
    let directory = directory();
    // At the time of this call the other CPUs are stopped, so nothing drains this event.
    let (result, files) = result(
        &directory,
        "trace: { events: [ { kprobe: pvpanic_panic_notify, name: the_end } ] }\n\
         steps: [ { load: deaths, parameters: now=panic } ]",
    );
    assert_eq!(result.status, Status::Panic, "{}", result.reason);
    let kernel = &built().kernel;
    let roots = [kernel.directory.clone(), kernel.source.clone()];
    let found = dump(files.join(VMCORE), "deaths").post_mortem(&drgn(), true, &roots).unwrap();
    assert_eq!(found.message.found().unwrap(), "Kernel panic - not syncing: a death was asked for");
    let death = found.death.found().unwrap();
    assert_eq!(death.comm, "insmod");
    let place = |function: &str| {
        let mut places = death.frames.iter().flat_map(|frame| &frame.places);
        places.find(|place| place.function == function).map(|place| (place.file.as_str(), place.line > 0))
    };
    assert_eq!(place("panic"), Some(("kernel/panic.c", true)), "{found}");
    assert_eq!(place("deaths_panic"), Some(("guest/modules/deaths/deaths.c", true)), "{found}");
    // Inlined into the module's init.
    assert_eq!(place("happen"), Some(("guest/modules/deaths/deaths.c", true)), "{found}");
    let modules = found.modules.found().unwrap();
    assert!(modules.iter().any(|module| module.name == "deaths" && module.source), "{found}");

    let path = directory.path().join("last.dat");
    let ring_buffer = found.trace.unwrap();
    ring_buffer.found().unwrap().write(&path, kernel.functions().unwrap()).unwrap();
    let trace = Trace::open(&path).unwrap();
    let mut last = String::new();
    trace
        .for_each(|item| {
            if let Item::Event(event) = item {
                last = format!("{}:{} {}", event.group(), event.name(), event.comm());
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(last, "kprobes:the_end insmod");
}

fn a_guest_that_is_dumped_goes_on() {
    let directory = directory();
    let (result, files) = result(&directory, "steps: [ { load: deaths } ]\ndump: true");
    assert_eq!(
        (result.status, result.vmcore.as_deref()),
        (Status::Passed, Some(VMCORE)),
        "{}",
        result.reason
    );
    let found = dump(files.join(VMCORE), "deaths").post_mortem(&drgn(), false, &[]).unwrap();
    assert!(found.death.found().is_err_and(|reason| reason.contains("no task panicked")), "{found}");
    let modules = found.modules.found().unwrap();
    assert!(modules.iter().any(|module| module.name == "deaths"), "{found}");
}

/// Makes `run` the directory of a run of this one scenario on a kernel with this configuration.
fn store(run: &Path, config_hash: &str, result: &ScenarioResult) {
    let results = format!(
        r#"{{ "schema": 1, "run": {{ "started": "", "seconds": 0, "first_machine_micros": 0, "complete": true }},
            "host": {{ "architecture": "", "cpus": 1, "accelerator": "" }}, "qemu": {{ "version": "" }},
            "kernels": [ {{ "name": "{}", "source_version": "1", "config_hash": "{config_hash}" }} ],
            "scenarios": [ {} ] }}"#,
        result.kernel,
        serde_json::to_string(result).unwrap()
    );
    serde_json::from_str::<Results>(&results).unwrap();
    fs::write(run.join("results.json"), results).unwrap();
}

/// Returns the events of a ring buffer: time and name.
fn events(ring_buffer: &RingBuffer, directory: &TempDir) -> Vec<(u64, String)> {
    let path = directory.path().join("events.dat");
    ring_buffer.write(&path, built().kernel.functions().unwrap()).unwrap();
    let mut events = Vec::new();
    Trace::open(&path)
        .unwrap()
        .for_each(|item| {
            if let Item::Event(event) = item {
                events.push((event.time, event.name().to_owned()));
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    events
}

/// The panic is on the second CPU; the registers of the first, which is stopped, precede its own in the dump.
fn crash_in_a_guest_tells_of_a_dump_what_drgn_tells() {
    let directory = directory();
    let (result, files) = result(
        &directory,
        "trace: { events: [ { event: 'raw_syscalls:sys_enter' } ] }\n\
         steps: [ { load: deaths, parameters: now=panic cpu=1 } ]",
    );
    assert_eq!(result.status, Status::Panic, "{}", result.reason);
    let kernel = &built().kernel;
    let run = files.ancestors().nth(result.directory.split('/').count()).unwrap();
    store(run, &kernel.config_hash, &result);
    let lab = &built().lab;
    let found = dump::find(&lab.cache, &files).unwrap();
    let by_crash = dump::by_crash(lab, &found).unwrap();
    for text in
        ["Kernel panic - not syncing: a death was asked for", "deaths_panic at", "deaths.c: ", "insmod"]
    {
        assert!(by_crash.answers.contains(text), "`{text}` is not in {}", by_crash.answers);
    }
    let by_drgn = found.dump.post_mortem(&drgn(), true, &[]).unwrap().trace.unwrap();
    let (crash, drgn) = (by_crash.trace.found().unwrap(), by_drgn.found().unwrap());
    let (crash, drgn) = (events(crash, &directory), events(drgn, &directory));
    // crash reads only the newest events.
    assert!(!crash.is_empty() && drgn.ends_with(&crash), "{crash:?} {drgn:?}");
}

fn the_dump_of_another_kernel_is_not_read() {
    let directory = directory();
    let (result, files) = result(&directory, "steps: [ { load: deaths } ]\ndump: true");
    let cache = &built().lab.cache;
    let run = files.ancestors().nth(result.directory.split('/').count()).unwrap();
    let kernel = &built().kernel;
    let check = |config_hash: &str, expect: Result<(), &str>| {
        store(run, config_hash, &result);
        match (dump::find(cache, &files), expect) {
            (Ok(found), Ok(())) => assert_eq!(Some(found.dump.vmlinux), kernel.vmlinux()),
            (Err(error), Err(expect)) => assert!(format!("{error:#}").contains(expect), "{error:#}"),
            (found, expect) => panic!("{config_hash}: {found:?}, expected {expect:?}"),
        }
    };
    check(&kernel.config_hash, Ok(()));
    check("0123456789abcdef", Err("is not in the cache; `cargo xtask lab build"));
    // A dump of a different build of the same configuration, such as that of a modified tree.
    let vmcore = files.join(VMCORE);
    let mut data = fs::read(&vmcore).unwrap();
    let id = data.windows(9).position(|bytes| bytes == b"BUILD-ID=").unwrap() + 9;
    data[id] ^= 1;
    fs::write(&vmcore, data).unwrap();
    check(&kernel.config_hash, Err("in the cache matches the dump"));
}
