//! Resolves addresses to symbols, from the text of `/proc/kallsyms` or a `System.map`.

use memchr::{memchr, memchr_iter, memchr2};
use std::{collections::HashMap, fmt};

/// The maximum distance of an address from the symbol that it is resolved to, in bytes. Addresses
/// further away are not covered by any symbol: memory between the modules, user space.
const REACH_MAX: u64 = 16 << 20;

/// A table of symbols, sorted by address.
#[derive(Debug, Default)]
pub struct Symbols {
    text: String,
    /// Address, and location of the name in `text`. If an address has several names, the first one
    /// in the text is kept, as in the kernel.
    entries: Vec<Entry>,
    modules: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    start: u32,
    length: u16,
    /// 0 for the kernel, else the index in `modules` plus one.
    module: u16,
    init: bool,
}

/// The symbol of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The symbol's name.
    pub name: &'a str,
    /// Bytes from the symbol to the address.
    pub offset: u64,
    /// Bytes from the symbol to the next one of the kernel or of the same module, if there is one.
    pub size: Option<u64>,
    /// The module the symbol is in; `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// Whether it is in a module's init, which the kernel forgets after it has run: those of type `i`.
    pub init: bool,
}

impl fmt::Display for Symbol<'_> {
    /// Writes `vfs_write+0x18`, followed by ` [module]` if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.name, self.offset)?;
        self.module.map_or(Ok(()), |module| write!(f, " [{module}]"))
    }
}

impl Symbols {
    /// Parses `ADDRESS TYPE NAME [MODULE]` lines. Ignores other lines, and absolute symbols, whose
    /// values are not addresses. If all addresses are 0 (kptr_restrict), the table is empty.
    pub fn parse(text: String) -> Symbols {
        let mut entries = Vec::with_capacity(text.len() / 48);
        let mut modules: Vec<String> = Vec::new();
        let mut numbers: HashMap<&str, u16> = HashMap::new();
        let mut start = 0;
        for end in memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1).chain([text.len()]) {
            let line = &text[start..end];
            let at = start;
            start = end;
            let Some((address, name, module, init)) = entry(line) else { continue };
            let module = match module {
                None => 0,
                Some(module) => *numbers.entry(module).or_insert_with(|| {
                    if modules.len() < usize::from(u16::MAX) {
                        modules.push(module.to_owned());
                    }
                    modules.len() as u16
                }),
            };
            let name_at = at + (name.as_ptr() as usize - line.as_ptr() as usize);
            if let (Ok(start), Ok(length)) = (u32::try_from(name_at), u16::try_from(name.len())) {
                entries.push(Entry { address, start, length, module, init });
            }
        }
        // The sort is stable, so the first of several names stays first; most of the text is
        // already sorted.
        entries.sort_by_key(|entry| entry.address);
        entries.dedup_by_key(|entry| entry.address);
        entries.shrink_to_fit();
        Symbols { text, entries, modules }
    }

    /// Returns whether there are no symbols.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of addresses that have a name.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the last symbol at or before `address`, at most 16 MiB away.
    pub fn resolve(&self, address: u64) -> Option<Symbol<'_>> {
        let after = self.entries.partition_point(|entry| entry.address <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        let offset = address - entry.address;
        if offset > REACH_MAX {
            return None;
        }
        let module = usize::from(entry.module).checked_sub(1);
        let next =
            self.entries.get(after).filter(|next| next.module == entry.module && next.init == entry.init);
        Some(Symbol {
            name: self.name(entry),
            offset,
            size: next.map(|next| next.address - entry.address),
            module: module.and_then(|at| self.modules.get(at)).map(String::as_str),
            init: entry.init,
        })
    }

    /// Returns the lowest address of the symbol `name`, by a linear search, even if it is not the first
    /// name of its address.
    pub fn address(&self, name: &str) -> Option<u64> {
        let lines = self.text.lines().filter(|line| line.contains(name)).filter_map(entry);
        lines.filter(|&(_, found, ..)| found == name).map(|(address, ..)| address).min()
    }

    fn name(&self, entry: &Entry) -> &str {
        let start = entry.start as usize;
        self.text.get(start..start + usize::from(entry.length)).unwrap_or("?")
    }
}

/// Splits one line into address, name and module, and whether it is in a module's init. A trace has twenty thousand of these lines, so
/// this code is fast even without optimization.
fn entry(line: &str) -> Option<(u64, &str, Option<&str>, bool)> {
    let bytes = line.as_bytes();
    let digits = memchr(b' ', bytes)?;
    let address = u64::from_str_radix(line.get(..digits)?, 16).ok()?;
    let &[_, kind, b' '] = bytes.get(digits..digits + 3)? else { return None };
    let rest = line.get(digits + 3..)?;
    let (name, module) = match memchr2(b'\t', b' ', rest.as_bytes()) {
        Some(end) => (&rest[..end], rest[end + 1..].trim_end().strip_prefix('[')),
        None => (rest.trim_end(), None),
    };
    let module = module.and_then(|module| module.strip_suffix(']'));
    // `$x` and `$d` mark code and data inside an arm64 function; they are not names.
    let names = address != 0 && !matches!(kind, b'a' | b'A') && !matches!(name.as_bytes(), [] | [b'$', ..]);
    names.then_some((address, name, module, kind == b'i'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffff800080000000 T _text
ffff800080000000 T __pi__text
0000000000000000 A fixed_percpu_data
ffff800080010000 T vfs_write
ffff800080010100 t $x
ffff800080010200 T ksys_write
ffff80007a000000 t hook_callback\t[ftracehook]
nonsense
";

    #[test]
    fn resolve() {
        let symbols = Symbols::parse(TEXT.to_owned());
        let check = |address: u64, expect: Option<(&str, u64, Option<&str>)>| {
            let found = symbols.resolve(address).map(|s| (s.name, s.offset, s.module));
            assert_eq!(found, expect, "{address:#x}");
        };
        check(0xffff_8000_8000_0000, Some(("_text", 0, None)));
        check(0xffff_8000_8001_01ff, Some(("vfs_write", 0x1ff, None)));
        check(0xffff_8000_8001_0200, Some(("ksys_write", 0, None)));
        check(0xffff_8000_7a00_0010, Some(("hook_callback", 0x10, Some("ftracehook"))));
        check(0xffff_8000_7900_0000, None);
        check(0xffff_8000_9900_0000, None);
        check(0x1000, None);
        let size = |address| symbols.resolve(address).and_then(|symbol| symbol.size);
        assert_eq!(size(0xffff_8000_8001_0004), Some(0x200));
        assert_eq!(size(0xffff_8000_8001_0200), None);
        assert_eq!(size(0xffff_8000_7a00_0010), None);
        assert_eq!(symbols.address("vfs_write"), Some(0xffff_8000_8001_0000));
        assert_eq!(symbols.address("__pi__text"), Some(0xffff_8000_8000_0000));
        assert_eq!(symbols.address("vfs_read"), None);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let symbols = Symbols::parse("0000000000000000 T _text\n0000000000000000 T vfs_write\n".to_owned());
        assert!(symbols.is_empty());
        assert_eq!(symbols.resolve(0), None);
    }
}
