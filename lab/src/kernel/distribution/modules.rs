//! The modules of a distribution kernel: all of them, and those that the lab's machine needs to boot, in
//! the order of their dependencies.

use super::compressed;
use crate::kernel::{
    config::Config,
    lists::{module_name, modules_in},
};
use anyhow::{Context, Result, anyhow, ensure};
use fs_err as fs;
use object::{Object, ObjectSection};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The suffixes of a module's file after `.ko`.
const SUFFIXES: [&str; 4] = ["", ".xz", ".zst", ".gz"];

/// The drivers for the devices of the lab's machine. Those that are modules are loaded before the agent
/// opens its port.
const DEVICES: [(&str, &str); 4] = [
    ("VIRTIO_PCI", "virtio_pci"),
    ("VIRTIO_CONSOLE", "virtio_console"),
    // For panics: the first reports one to QEMU, the second passes vmcoreinfo to the dump.
    ("PVPANIC_PCI", "pvpanic_pci"),
    ("FW_CFG_SYSFS", "qemu_fw_cfg"),
];

/// The drivers with which a userland is mounted, in addition.
const ROOT: [(&str, &str); 2] = [("NET_9P_VIRTIO", "9pnet_virtio"), ("9P_FS", "9p")];

/// Returns the files of all modules below `directory`, in the order of its `modules.order`.
pub(super) fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let path = directory.join("modules.order");
    let order = fs::read_to_string(&path)?;
    let file = |module: String| {
        let distribution = SUFFIXES.iter().map(|suffix| directory.join(format!("{module}{suffix}")));
        distribution.into_iter().find(|path| path.is_file())
    };
    // Skip modules that another package contains.
    Ok(modules_in(&order).filter_map(file).collect())
}

/// Writes the module in `file`, decompressed if necessary, to `to`.
pub(crate) fn unpack(file: &Path, to: &Path) -> Result<()> {
    compressed::module(file, to)
}

/// Writes the modules below `directory` that the machine needs into the new directory `boot`, with names
/// that sort in load order.
pub(super) fn for_boot(config: &Config, directory: &Path, boot: &Path) -> Result<()> {
    fs::create_dir(boot)?;
    in_load_order(config, directory, boot, &DEVICES)
}

/// Like [`for_boot`], but for a machine with a userland, and `boot` exists.
pub(super) fn for_userland(config: &Config, directory: &Path, boot: &Path) -> Result<()> {
    in_load_order(config, directory, boot, &[DEVICES.as_slice(), &ROOT].concat())
}

fn in_load_order(config: &Config, directory: &Path, boot: &Path, drivers: &[(&str, &str)]) -> Result<()> {
    let modules: BTreeMap<String, PathBuf> =
        list(directory)?.into_iter().map(|path| (module_name(&path), path)).collect();
    let wanted = drivers.iter().filter(|(symbol, _)| config.get(symbol) == Some("m"));
    let wanted = wanted.map(|(_, module)| *module);
    let unpacked = tempfile::tempdir_in(boot)?;
    let at = |name: &str| unpacked.path().join(format!("{name}.ko"));
    let order = in_order(wanted, |name| {
        let file = modules.get(name).with_context(|| format!("there is no module `{name}`"))?;
        unpack(file, &at(name))?;
        needs(&fs::read(at(name))?).with_context(|| format!("cannot read the module `{}`", file.display()))
    })?;
    for (place, name) in order.iter().enumerate() {
        fs::rename(at(name), boot.join(format!("{place:02}-{name}.ko")))?;
    }
    Ok(())
}

/// Returns `wanted` and all dependencies, each after its own dependencies.
fn in_order<'a>(
    wanted: impl IntoIterator<Item = &'a str>,
    mut needs: impl FnMut(&str) -> Result<Vec<String>>,
) -> Result<Vec<String>> {
    fn add(
        name: &str,
        needs: &mut impl FnMut(&str) -> Result<Vec<String>>,
        open: &mut BTreeSet<String>,
        order: &mut Vec<String>,
    ) -> Result<()> {
        if order.iter().any(|earlier| earlier == name) {
            return Ok(());
        }
        ensure!(open.insert(name.to_owned()), "the module `{name}` depends on itself");
        for needed in needs(name)? {
            add(&needed, needs, open, order)
                .with_context(|| format!("a dependency of the module `{name}`"))?;
        }
        order.push(name.to_owned());
        Ok(())
    }
    let (mut open, mut order) = (BTreeSet::new(), Vec::new());
    for name in wanted {
        add(name, &mut needs, &mut open, &mut order)?;
    }
    Ok(order)
}

/// Returns the modules that a module depends on, from the line that modpost writes: `depends=a,b`.
fn needs(module: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let section = file.section_by_name(".modinfo").ok_or_else(|| anyhow!("it has no .modinfo"))?;
    Ok(depends(section.data()?))
}

fn depends(modinfo: &[u8]) -> Vec<String> {
    let line = modinfo.split(|&byte| byte == 0).find_map(|line| line.strip_prefix(b"depends="));
    let names = String::from_utf8_lossy(line.unwrap_or_default()).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(wanted: &[&str], graph: &[(&str, &[&str])]) -> Result<Vec<String>> {
        in_order(wanted.iter().copied(), |name| {
            let found = graph.iter().find(|(module, _)| *module == name);
            let (_, needed) = found.with_context(|| format!("there is no module `{name}`"))?;
            Ok(needed.iter().map(|&name| name.to_owned()).collect())
        })
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let graph: &[(&str, &[&str])] = &[
            ("virtio_pci", &["virtio_pci_modern", "virtio_ring"]),
            ("virtio_pci_modern", &["virtio"]),
            ("virtio_ring", &["virtio"]),
            ("virtio", &[]),
            ("virtio_console", &["virtio", "virtio_ring"]),
            ("a", &["b"]),
            ("b", &["a"]),
            ("c", &["none"]),
        ];
        assert_eq!(
            order(&["virtio_pci", "virtio_console"], graph).unwrap(),
            ["virtio", "virtio_pci_modern", "virtio_ring", "virtio_pci", "virtio_console"]
        );
        assert_eq!(order(&[], graph).unwrap(), [""; 0]);
        let check = |wanted: &str, expect: &str| {
            let error = format!("{:#}", order(&[wanted], graph).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("a", "the module `a` depends on itself");
        check("c", "a dependency of the module `c`: there is no module `none`");
    }

    #[test]
    fn dependencies_are_read_from_modinfo() {
        let check = |modinfo: &[u8], expect: &[&str]| assert_eq!(depends(modinfo), expect);
        check(b"license=GPL\0depends=virtio,virtio-ring\0name=virtio_pci\0", &["virtio", "virtio_ring"]);
        check(b"depends=\0", &[]);
        check(b"", &[]);
        assert!(needs(b"no ELF").is_err());
    }

    #[test]
    fn modules_are_listed_as_they_are_shipped() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("modules.order"), "kernel/a.ko\nkernel/b.o\nkernel/gone.ko\n")
            .unwrap();
        fs::create_dir(directory.path().join("kernel")).unwrap();
        for name in ["kernel/a.ko.xz", "kernel/b.ko"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let found = list(directory.path()).unwrap();
        assert_eq!(found, ["kernel/a.ko.xz", "kernel/b.ko"].map(|name| directory.path().join(name)));
        assert_eq!(found.iter().map(|path| module_name(path)).collect::<Vec<_>>(), ["a", "b"]);
    }
}
