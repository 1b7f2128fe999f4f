//! A kernel tree whose build lasts as long as a test wants.

use crate::{patience::wait_for, stage::xtask};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
};

/// Mimics kbuild but finishes at once, unless the file `slow` exists.
const MAKEFILE: &str = r#"VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 1
EXTRAVERSION =

allnoconfig:
	@cp $(KCONFIG_ALLCONFIG) $(O)/.config

Image modules: everything
everything:
	@mkdir -p $(O)/arch/arm64/boot $(O)/include/config
	@echo half > $(O)/vmlinux
	@while [ -e slow ]; do sleep 0.05; done
	@cd $(O) && for file in arch/arm64/boot/Image vmlinux System.map Module.symvers; do \
		echo $$file > $$file; done
	@: > $(O)/modules.order
	@echo 6.12.1 > $(O)/include/config/kernel.release
"#;

/// A tree, slow at first.
pub(crate) struct SlowTree(PathBuf);

impl SlowTree {
    pub(crate) fn new(directory: &Path) -> SlowTree {
        let tree = directory.join("linux");
        fs::create_dir(&tree).unwrap();
        for (name, text) in [("Makefile", MAKEFILE), ("Kconfig", "config FTRACE\n\tbool\n"), ("slow", "")] {
            fs::write(tree.join(name), text).unwrap();
        }
        SlowTree(tree)
    }

    /// Returns a command that builds it in `cache`.
    pub(crate) fn build(&self, cache: &Path) -> Command {
        let mut build = xtask();
        build.args(["lab", "build", "6.12", "--kernel-tree"]).arg(&self.0).env("FTRACE_LAB_CACHE", cache);
        build
    }

    /// Waits until `lab` runs make, and returns its PID.
    pub(crate) fn wait_for_make(&self, lab: &mut Child) -> u32 {
        wait_for("make", || {
            if let Some(status) = lab.try_wait().unwrap() {
                panic!("the build ended: {status}");
            }
            self.make()
        })
    }

    /// Returns the PID of the make that builds it.
    fn make(&self) -> Option<u32> {
        let tree = self.0.to_string_lossy();
        let mut processes = fs::read_dir("/proc").unwrap().flatten();
        processes.find_map(|process| {
            let command = fs::read(process.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).into_owned();
            let builds =
                command.starts_with("make\0") && command.contains(&*tree) && command.contains("modules");
            process.file_name().to_str()?.parse().ok().filter(|_| builds)
        })
    }

    /// Lets builds finish.
    pub(crate) fn finish(&self) {
        fs::remove_file(self.0.join("slow")).unwrap();
    }
}
