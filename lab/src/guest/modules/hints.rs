//! The next step after a module was not built, by how it was to be built.

use super::Build;
use fs_err as fs;
use std::path::Path;

/// A command as it is written for kbuild's usual Makefile.
const USUAL: &str = "`build: \"make KDIR=${kernel}\"`";

/// Returns the end of a message on a failed build of `copy`, empty or on a line of its own.
pub(super) fn next_step(build: &Build<'_>, copy: &Path) -> String {
    let next = match build.command {
        Some(command) if !names_the_kernel(command) => format!(
            "`{command}` does not use `${{kernel}}`, the directory for `make -C`; expected a command such as {USUAL}"
        ),
        Some(_) => "a build command runs in a copy of its directory; it can write only there and to $TMPDIR, and reaches \
                    no network: use relative paths"
            .to_owned(),
        None if starts_make(&copy.join(build.within)) => format!(
            "its Makefile runs make itself, and kbuild alone reads only its `obj-m`; to build with it, add {USUAL} (`lab \
             module`: `--build`)"
        ),
        None => return String::new(),
    };
    format!("\n{next}")
}

fn names_the_kernel(command: &str) -> bool {
    ["$kernel", "${kernel}"].iter().any(|name| command.contains(name))
}

/// Returns whether the directory has a Makefile that runs make, as one that builds in place does.
fn starts_make(directory: &Path) -> bool {
    let text = fs::read_to_string(directory.join("Makefile")).unwrap_or_default();
    text.lines().any(|line| line.starts_with('\t') && (line.contains("$(MAKE)") || line.contains("make ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_kernel_and_a_makefile_may_run_make() {
        assert!(names_the_kernel("make KDIR=${kernel}") && names_the_kernel("make -C \"$kernel\" M=$PWD"));
        assert!(!names_the_kernel("make"));
        let check = |makefile: &str, expect: bool| {
            let place = tempfile::tempdir().unwrap();
            fs::write(place.path().join("Makefile"), makefile).unwrap();
            assert_eq!(starts_make(place.path()), expect, "{makefile}");
        };
        check("all:\n\t$(MAKE) -C $(KDIR) M=$(PWD) modules\n", true);
        check("all: a.h\n\tmake -C $(KDIR) M=$(PWD)\n", true);
        check("obj-m := make.o\n", false);
    }
}
