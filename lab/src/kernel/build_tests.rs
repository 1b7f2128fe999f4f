//! Builds of a miniature kernel: a tree whose Makefile produces kbuild's files in a moment, and records
//! each run.

use super::*;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    thread::sleep,
    time::{Duration, SystemTime},
};

const MAKEFILE: &str = r#"VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 1
EXTRAVERSION =

ORDER := samples/hello.o

allnoconfig:
	@echo configure >> $(O)/runs
	@grep -v CONFIG_UNMET $(KCONFIG_ALLCONFIG) > $(O)/.config

Image modules: everything
everything:
	@echo build >> $(O)/runs
	@if [ -e broken ]; then echo "kernel/fork.c:3:1: error: expected ';'"; exit 1; fi
	@echo "  CC      kernel/fork.o"
	@echo "  CC [M]  samples/hello.o"
	@mkdir -p $(O)/arch/arm64/boot $(O)/arch/arm64/include/generated $(O)/samples $(O)/scripts
	@mkdir -p $(O)/include/config $(O)/include/generated
	@touch -d @1 $(O)/include/config/auto.conf $(O)/scripts/module.lds
	@cd $(O) && for file in arch/arm64/boot/Image vmlinux System.map Module.symvers samples/hello.ko; do \
		[ -e $$file ] || echo $$file > $$file; done
	@[ ! -e exports.c ] || cp exports.c $(O)/Module.symvers
	@echo samples/hello.o > $(O)/modules.order
	@echo 6.12.1 > $(O)/include/config/kernel.release
"#;

const KCONFIG: &str =
    "config FTRACE\n\tbool \"trace\"\n\nconfig UNMET\n\tbool \"unmet\"\n\tdepends on FTRACE && NOTHING\n";

struct Checkout {
    directory: tempfile::TempDir,
    lab: Lab,
}

impl Checkout {
    fn new() -> Checkout {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::alone(directory.path()).unwrap();
        let checkout = Checkout { directory, lab };
        for name in ["kernels", "linux"] {
            fs::create_dir(checkout.path(name)).unwrap();
        }
        checkout.write("kernels/mini.yaml", "summary: s\nsource: { tree: linux }\nfragments: [base]\n");
        checkout.write("kernels/base.config", "CONFIG_FTRACE=y\n");
        checkout.write("linux/Makefile", MAKEFILE);
        checkout.write("linux/Kconfig", KCONFIG);
        checkout
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Packs the tree into a tarball, which never changes, and uses that as the source.
    fn pack(&self) {
        let pack = "tar -cf linux.tar linux && sha256sum linux.tar | cut -c -64";
        let sha256 = crate::host::process::Tool::new("sh").args(["-ec", pack]).directory(self.path("."));
        let sha256 = sha256.run().unwrap();
        let url = self.path("linux.tar");
        let source = format!("{{ tarball: {{ url: 'file://{}', sha256: {sha256} }} }}", url.display());
        let yaml = format!("summary: s\nsource: {}\nfragments: [base]\n", source.replace('\n', ""));
        self.write("kernels/mini.yaml", &yaml);
    }

    fn build(&self) -> Result<Kernel> {
        build(&self.lab, "mini", None)
    }

    fn error(&self) -> String {
        format!("{:#}", self.build().unwrap_err())
    }
}

/// Returns what make did for a kernel, in order.
fn runs(kernel: &Kernel) -> String {
    let runs = fs::read_to_string(kernel.directory.join("runs")).unwrap_or_default();
    runs.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_second_build_runs_no_make() {
    let checkout = Checkout::new();
    checkout.pack();
    let kernel = checkout.build().unwrap();
    assert_eq!(kernel.version.to_string(), "6.12.1");
    assert_eq!((kernel.release.as_str(), kernel.source_version.as_str()), ("6.12.1", "6.12.1"));
    assert!(
        kernel.config().is_set("FTRACE") && kernel.image().is_file() && kernel.vmlinux().unwrap().is_file()
    );
    assert!(kernel.find_module("hello").unwrap().unwrap().is_file());
    assert_eq!(kernel.find_module("other").unwrap(), None);
    let again = checkout.build().unwrap();
    assert_eq!(
        (runs(&again).as_str(), &again.key, &again.config_hash),
        ("configure build", &kernel.key, &kernel.config_hash)
    );
    let expected = fs::read_to_string(checkout.path("cache/builds/mini.objects")).unwrap();
    assert_eq!(expected, "2\n");
}

#[test]
fn the_kernel_in_use_stays_in_a_cache_that_is_too_small_and_an_evicted_one_is_built_again() {
    let mut checkout = Checkout::new();
    checkout.lab.cache = checkout.lab.cache.with_limit(Some(1));
    checkout.pack();
    let kernel = checkout.build().unwrap();
    let there = |kernel: &Kernel| [kernel.image().is_file(), kernel.source.join("Makefile").is_file()];
    // Neither the new build nor the source, which was made first, was evicted.
    assert_eq!(there(&kernel), [true, true]);
    checkout.write("kernels/base.config", "CONFIG_FTRACE=y\nCONFIG_KPROBES=y\n");
    let other = checkout.build().unwrap();
    assert_eq!((there(&kernel), there(&other)), ([true, true], [true, true]));
    let clone = kernel.clone();
    drop(kernel);
    checkout.write("kernels/base.config", "CONFIG_FTRACE=y\nCONFIG_UPROBES=y\n");
    checkout.build().unwrap();
    assert_eq!(there(&clone), [true, true]);
    let of_clone = clone.image();
    drop(clone);
    checkout.write("kernels/base.config", "CONFIG_FTRACE=y\nCONFIG_BPF=y\n");
    drop(checkout.build().unwrap());
    assert!(!of_clone.exists() && there(&other) == [true, true]);
    checkout.write("kernels/base.config", "CONFIG_FTRACE=y\n");
    let again = checkout.build().unwrap();
    assert!(again.image() == of_clone && of_clone.is_file());
    assert_eq!(runs(&again), "configure build");
    let make_room = || checkout.lab.cache.make_room(&checkout.lab.progress);
    make_room();
    assert_eq!(there(&again), [true, true]);
    let source = again.source.clone();
    drop([again, other]);
    make_room();
    assert!(!of_clone.exists() && !source.exists());
}

#[test]
fn damaged_output_is_made_again() {
    let checkout = Checkout::new();
    checkout.pack();
    let kernel = checkout.build().unwrap();
    fs::write(kernel.image(), "").unwrap();
    fs::remove_file(kernel.vmlinux().unwrap()).unwrap();
    let again = checkout.build().unwrap();
    assert_eq!(fs::read_to_string(again.image()).unwrap(), "arch/arm64/boot/Image\n");
    assert!(again.vmlinux().unwrap().is_file());
    assert_eq!(runs(&again), "configure build build");
    fs::write(again.directory.join(".config"), "").unwrap();
    let again = checkout.build().unwrap();
    assert_eq!(runs(&again), "configure build build configure build");
    fs::write(again.directory.join("../stamp.json"), "{\"key\": ").unwrap();
    assert_eq!(runs(&checkout.build().unwrap()), "configure build build configure build configure build");
}

#[test]
fn the_files_that_a_killed_build_wrote_last_are_made_again() {
    let checkout = Checkout::new();
    checkout.pack();
    let kernel = checkout.build().unwrap();
    fs::rename(kernel.directory.join("../stamp.json"), kernel.directory.join("../running")).unwrap();
    let age = |name: &str, seconds: u64| {
        let file = fs::File::options().write(true).open(kernel.directory.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    fs::write(kernel.directory.join("vmlinux"), "vml").unwrap();
    fs::write(kernel.directory.join("System.map"), "a whole map").unwrap();
    age("System.map", 60);
    let again = checkout.build().unwrap();
    assert_eq!(fs::read_to_string(again.directory.join("vmlinux")).unwrap(), "vmlinux\n");
    assert_eq!(fs::read_to_string(again.directory.join("System.map")).unwrap(), "a whole map");
}

#[test]
fn another_fragment_makes_another_build() {
    let checkout = Checkout::new();
    checkout.pack();
    let kernel = checkout.build().unwrap();
    checkout.write("kernels/base.config", "CONFIG_FTRACE=y\nCONFIG_KPROBES=y\n");
    let other = checkout.build().unwrap();
    assert!(other.key != kernel.key && other.directory != kernel.directory);
    assert_ne!(other.config_hash, kernel.config_hash);
    // A comment, or a line for other versions, does not cause a build.
    checkout.write("kernels/base.config", "# why\nCONFIG_FTRACE=y\nCONFIG_NEW=y # when >=7.2\n");
    assert_eq!(checkout.build().unwrap().key, kernel.key);
}

#[test]
fn a_working_tree_is_built_again_in_the_same_place_when_it_changes() {
    let checkout = Checkout::new();
    let kernel = checkout.build().unwrap();
    assert_eq!(runs(&checkout.build().unwrap()), "configure build");
    sleep(Duration::from_millis(10));
    checkout.write("linux/fork.c", "");
    let changed = checkout.build().unwrap();
    // A file that is only compiled: neither is the kernel configured again, nor a module built again.
    assert_eq!((runs(&changed).as_str(), &changed.directory), ("configure build build", &kernel.directory));
    assert_ne!(changed.key, kernel.key);
    assert_eq!(changed.modules_key, kernel.modules_key);
    checkout.write("linux/fork.h", "");
    let changed = checkout.build().unwrap();
    assert_eq!(runs(&changed), "configure build build configure build");
    assert_ne!(changed.modules_key, kernel.modules_key);
    // What a module reads of the build.
    fs::write(kernel.directory.join("include/generated/bounds.h"), "another").unwrap();
    let other_bounds = checkout.build().unwrap();
    assert_ne!(other_bounds.modules_key, changed.modules_key);
    checkout.write("linux/exports.c", "another\n");
    let other_exports = checkout.build().unwrap();
    assert_eq!(runs(&other_exports), "configure build build configure build build");
    assert_ne!(other_exports.modules_key, other_bounds.modules_key);
    // The tree of the command line replaces the one in the file.
    fs::create_dir(checkout.path("other")).unwrap();
    checkout.write("other/Makefile", MAKEFILE);
    let other = build(&checkout.lab, "mini", Some(&checkout.path("other")));
    assert_ne!(other.unwrap().directory, kernel.directory);
}

#[test]
fn a_compilers_error_is_shown_and_the_next_build_goes_on() {
    let checkout = Checkout::new();
    checkout.write("linux/broken", "");
    let error = checkout.error();
    for expect in
        ["cannot build the kernel `mini`", "kernel/fork.c:3:1: error: expected ';'", "make.log", "Error 1"]
    {
        assert!(error.contains(expect), "{expect}: {error}");
    }
    fs::remove_file(checkout.path("linux/broken")).unwrap();
    assert_eq!(runs(&checkout.build().unwrap()), "configure build configure build");
}

#[test]
fn a_symbol_that_does_not_come_out_is_explained_and_nothing_stays() {
    let checkout = Checkout::new();
    checkout.pack();
    checkout.write("kernels/base.config", "CONFIG_FTRACE=y\nCONFIG_UNMET=y\nCONFIG_UNMET_TOO=y\n");
    let error = checkout.error();
    for expect in [
        "cannot configure the kernel `mini` (6.12.1): 2 of 3 requested symbols",
        "kernels/base.config:2: CONFIG_UNMET=y: unmet: CONFIG_NOTHING is not set",
        "kernels/base.config:3: CONFIG_UNMET_TOO=y: this kernel has no such symbol; the nearest is CONFIG_UNMET",
    ] {
        assert!(error.contains(expect), "{expect}: {error}");
    }
    assert_eq!(fs::read_dir(checkout.path("cache/builds")).unwrap().count(), 0);
}

#[test]
fn make_that_leaves_something_out_is_no_success() {
    let checkout = Checkout::new();
    checkout.write("linux/Makefile", &MAKEFILE.replace("System.map Module.symvers", "Module.symvers"));
    let error = checkout.error();
    assert!(error.contains("make left no") && error.contains("System.map"), "{error}");
    assert!(checkout.error().contains("make left no"));
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    if rustix::process::geteuid().is_root() {
        // Nothing is read-only to root, so put a file in place of the directory.
        let checkout = Checkout::new();
        checkout.write("cache/builds", "");
        assert!(checkout.error().contains("cache/builds"), "{}", checkout.error());
        return;
    }
    let checkout = Checkout::new();
    fs::set_permissions(checkout.path("cache"), fs::Permissions::from_mode(0o555)).unwrap();
    let error = checkout.error();
    fs::set_permissions(checkout.path("cache"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(error.contains("cannot make"), "{error}");
}
