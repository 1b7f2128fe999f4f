//! The lists that kbuild writes: the functions in System.map, the modules in modules.order.

use anyhow::Result;
use fs_err as fs;
use std::path::{Path, PathBuf};

/// Reads the functions in the System.map at `path`.
pub(super) fn functions_in_file(path: &Path) -> Result<String> {
    let map = fs::read_to_string(path)?;
    Ok(functions_in(&map))
}

/// The modules of the kernel that was built in `directory`.
pub(super) fn modules_of(directory: &Path) -> Result<Vec<PathBuf>> {
    let path = directory.join("modules.order");
    let order = fs::read_to_string(&path)?;
    Ok(modules_in(&order).map(|module| directory.join(module)).collect())
}

/// Returns the lines of a System.map, or of /proc/kallsyms, that are functions.
pub(super) fn functions_in(map: &str) -> String {
    let is_text = |line: &&str| matches!(line.split(' ').nth(1), Some("t" | "T" | "w" | "W"));
    map.lines().filter(is_text).flat_map(|line| [line, "\n"]).collect()
}

/// The `.ko` files listed in a `modules.order`, which names the objects instead since 6.2.
pub(crate) fn modules_in(order: &str) -> impl Iterator<Item = String> + '_ {
    let stem = |line: &str| line.trim().trim_end_matches(".ko").trim_end_matches(".o").to_owned();
    order.lines().filter(|line| !line.trim().is_empty()).map(move |line| stem(line) + ".ko")
}

/// Returns the name that the kernel has for the module in the file `path`.
pub(crate) fn module_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_what_is_text() {
        let map = "ffff800080000000 T _text\nffff800080900000 D data\nffff800080010000 t f\n";
        assert_eq!(functions_in(map), "ffff800080000000 T _text\nffff800080010000 t f\n");
    }

    #[test]
    fn modules_are_listed_as_files_of_both_formats() {
        let listed: Vec<String> = modules_in("samples/kprobes/kprobe_example.o\nkernel/a-b.ko\n\n").collect();
        assert_eq!(listed, ["samples/kprobes/kprobe_example.ko", "kernel/a-b.ko"]);
        assert_eq!(module_name(Path::new("/x/a-b.ko")), "a_b");
        assert_eq!(module_name(Path::new("/x.ko/a-b.ko.xz")), "a_b");
    }
}
