//! The manner in which events are printed: that of `trace-cmd report`, or that of the kernel itself.

use crate::symbols::{Symbol, Symbols};

/// Stands in front of the 16 digits of an address that the kernel prints hashed. The key of the hash is the
/// kernel's secret. No text contains it: it is not a character.
pub(crate) const HASHED: char = '\u{FFFFE}';

/// Stands for the size of a symbol that is not known: the last one of a module.
pub(crate) const SIZE: char = '\u{FFFFF}';

/// The manner in which events are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// That of `trace-cmd report`.
    Report,
    /// That of the kernel's file `trace`.
    Kernel(KernelManner),
}

/// The settings of the kernel that events are printed with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelManner {
    /// Option `hash-ptr`: `%p` is a hash.
    pub(crate) hashed: bool,
    /// Option `sym-offset`.
    pub(crate) offset: bool,
    /// Option `sym-addr`.
    pub(crate) address: bool,
}

impl Manner {
    pub(super) fn is_kernel(self) -> bool {
        matches!(self, Manner::Kernel(_))
    }
}

impl KernelManner {
    /// Formats an address as `%pS` does.
    pub(crate) fn symbol(self, symbols: &Symbols, address: u64) -> String {
        self.pointer(symbols, "S", address)
    }

    /// Formats an address as `%ps` does.
    pub(crate) fn name(self, symbols: &Symbols, address: u64) -> String {
        self.pointer(symbols, "s", address)
    }

    /// Formats `%p` and what may follow it.
    pub(super) fn pointer(self, symbols: &Symbols, letters: &str, address: u64) -> String {
        match letters {
            "S" | "B" => with_offset(symbols, address),
            "s" => match resolve(symbols, address) {
                Some(Symbol { name, module, .. }) => format!("{name}{}", in_module(module)),
                None => format!("{address:#x}"),
            },
            // Null pointers and errnos are not hashed.
            "" | "K" if (self.hashed || letters == "K") && address != 0 && address < -4095_i64 as u64 => {
                format!("{HASHED}{address:016x}")
            }
            _ => format!("{address:016x}"),
        }
    }

    /// Formats an address as the kernel's `seq_print_ip_sym` does.
    pub(crate) fn ip(self, symbols: &Symbols, address: u64) -> String {
        if address == 0 {
            return "0".to_owned();
        }
        let is_trampoline = || {
            ["__kretprobe_trampoline", "kretprobe_trampoline"].iter().any(|name| {
                resolve(symbols, address).is_some_and(|symbol| symbol.name == *name && symbol.offset == 0)
            })
        };
        let name = if is_trampoline() {
            "[unknown/kretprobe'd]".to_owned()
        } else if self.offset {
            with_offset(symbols, address)
        } else {
            // Without the name of its module.
            resolve(symbols, address)
                .map_or_else(|| format!("0x{address:08x}"), |found| found.name.to_owned())
        };
        if self.address { format!("{name} <{address:016x}>") } else { name }
    }
}

/// Returns the symbol that the kernel still knows of an address.
fn resolve(symbols: &Symbols, address: u64) -> Option<Symbol<'_>> {
    // Beyond the last symbol of the kernel, there is other memory.
    let known = |symbol: &Symbol<'_>| !symbol.init && (symbol.module.is_some() || symbol.size.is_some());
    symbols.resolve(address).filter(known)
}

/// Formats an address as the kernel's `%pS` does.
fn with_offset(symbols: &Symbols, address: u64) -> String {
    let Some(Symbol { name, offset, size, module, .. }) = resolve(symbols, address) else {
        return format!("{address:#x}");
    };
    let size = size.map_or_else(|| SIZE.to_string(), |size| format!("{size:#x}"));
    format!("{name}+{offset:#x}/{size}{}", in_module(module))
}

fn in_module(module: Option<&str>) -> String {
    module.map_or_else(String::new, |module| format!(" [{module}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_as_the_kernel_does() {
        let text = "ffff800080010000 T vfs_write\nffff800080010200 T ksys_write\n\
                    ffff80007a000000 t hook_callback\t[hooks]\n";
        let symbols = Symbols::parse(text.to_owned());
        let plain = KernelManner::default();
        let check = |letters, address, expect: &str| {
            assert_eq!(plain.pointer(&symbols, letters, address), expect, "%p{letters} {address:#x}");
        };
        check("S", 0xffff_8000_8001_0004, "vfs_write+0x4/0x200");
        check("s", 0xffff_8000_8001_0004, "vfs_write");
        check("S", 0xffff_8000_8001_0204, "0xffff800080010204");
        check("S", 0xffff_8000_7a00_0004, &format!("hook_callback+0x4/{SIZE} [hooks]"));
        check("s", 0xffff_8000_7a00_0004, "hook_callback [hooks]");
        check("S", 0x10, "0x10");
        check("", 0x10, "0000000000000010");
        check("K", 0x10, &format!("{HASHED}0000000000000010"));
        let hashed = KernelManner { hashed: true, ..plain };
        assert_eq!(hashed.pointer(&symbols, "", 0), "0000000000000000");
        assert_eq!(hashed.pointer(&symbols, "", -22_i64 as u64), "ffffffffffffffea");
        assert_eq!(hashed.pointer(&symbols, "x", 16), "0000000000000010");
        let ip = |manner: KernelManner, address| manner.ip(&symbols, address);
        assert_eq!(ip(plain, 0xffff_8000_7a00_0004), "hook_callback");
        assert_eq!(ip(plain, 0x10), "0x00000010");
        assert_eq!(ip(plain, 0), "0");
        let both = KernelManner { offset: true, address: true, ..plain };
        assert_eq!(ip(both, 0xffff_8000_8001_0004), "vfs_write+0x4/0x200 <ffff800080010004>");
    }
}
