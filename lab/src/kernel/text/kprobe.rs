//! The offsets that lead to a kprobe's slot, where the kernel keeps a copy of the probed instruction, and
//! the functions that the kernel does not allow to be probed.

use super::{Binary, layout::Structure};
use anyhow::{Context, Result};
use std::path::Path;

impl Binary {
    /// Returns an address in each function of vmlinux that NOKPROBE_SYMBOL names.
    ///
    /// # Errors
    /// The table cannot be read.
    pub(crate) fn nokprobe(&self) -> Result<Vec<u64>> {
        self.addresses("__start_kprobe_blacklist", "__stop_kprobe_blacklist")
    }
}

/// Offsets in `struct kprobe`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KprobeLayout {
    /// The probed address.
    pub(crate) address: u64,
    /// The pointer to the slot, null if the instruction is simulated.
    pub(crate) slot: u64,
}

impl KprobeLayout {
    /// Reads the layout of the kernel in `vmlinux` from BTF, with pahole.
    ///
    /// # Errors
    /// pahole fails, or `struct kprobe` differs from those of 5.10 to 7.3.
    pub(crate) fn of(vmlinux: &Path) -> Result<KprobeLayout> {
        let structure = |name: &str| Structure::of(vmlinux, name);
        KprobeLayout::in_structures(&structure("kprobe")?, &structure("arch_specific_insn")?)
            .with_context(|| format!("`{}` has an unknown `struct kprobe`", vmlinux.display()))
    }

    fn in_structures(kprobe: &Structure, instruction: &Structure) -> Option<KprobeLayout> {
        // 7.2 moved it out of `api`, of which it was the first member.
        let slot = instruction.offset("xol_insn").or_else(|| instruction.offset("api"))?;
        let address = kprobe.offset("addr")?;
        Some(KprobeLayout { address, slot: kprobe.offset("ainsn")?.checked_add(slot)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KPROBE: &str = "struct kprobe {\n\
        \tstruct hlist_node          hlist;                /*     0    16 */\n\
        \tkprobe_opcode_t *          addr;                 /*    40     8 */\n\
        \t/* --- cacheline 1 boundary (64 bytes) --- */\n\
        \tstruct arch_specific_insn  ainsn;                /*    88    32 */\n};\n";

    #[test]
    fn the_slot_is_found_in_both_forms() {
        let check = |instruction: &str, slot: Option<u64>| {
            let layout = KprobeLayout::in_structures(&KPROBE.into(), &instruction.into());
            assert_eq!(layout, slot.map(|slot| KprobeLayout { address: 40, slot }));
        };
        check("\tstruct arch_probe_insn     api;                  /*     0    32 */\n", Some(88));
        let newer = "\tstruct arch_probe_insn     api;                  /*     0     8 */\n\
             \tkprobe_opcode_t *          xol_insn;             /*     8     8 */\n";
        check(newer, Some(96));
        check("", None);
    }
}
