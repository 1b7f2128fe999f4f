//! The functions of a kernel without debug information, by its symbols.

use super::{Function, Source};
use anyhow::{Context, Result};

/// What is shown instead of the name of a file.
const NO_FILE: &str = "(files unknown)";

/// Where the code begins, and where the code begins that is freed after boot. Its end, `_etext`, is not a symbol of
/// code and therefore not among them.
const TEXT: [&str; 2] = ["_stext", "_sinittext"];

/// The bounds of the code of a hypervisor, which has other addresses when it runs.
const HYPERVISOR: [&str; 2] = ["__hyp_text_start", "__hyp_text_end"];

impl Source {
    /// Returns the functions of a kernel without lines, given its symbols in the format of /proc/kallsyms. A
    /// function ends where the next one begins.
    ///
    /// # Errors
    /// The symbols do not include the bounds of the code.
    pub fn of_symbols(kallsyms: &str) -> Result<Source> {
        let symbol = |line: &str| {
            let mut words = line.split(' ');
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.nth(1)?.to_owned()))
        };
        let mut symbols: Vec<(u64, String)> = kallsyms.lines().filter_map(symbol).collect();
        // Of several names of one function, one without an underscore remains.
        symbols.sort_by(|(one, a), (other, b)| {
            (one, is_bound(a), a.starts_with('_'), a).cmp(&(other, is_bound(b), b.starts_with('_'), b))
        });
        let of = |name: &str| symbols.iter().find(|(_, other)| other == name).map(|(address, _)| *address);
        let between = |[start, end]: [&str; 2]| Some(of(start)?..of(end)?);
        let text = between(TEXT)
            .with_context(|| format!("its symbols do not include `{}` and `{}`", TEXT[0], TEXT[1]))?;
        let hypervisor = between(HYPERVISOR).unwrap_or_default();
        symbols.dedup_by_key(|(address, _)| *address);
        let functions = symbols.windows(2).filter_map(|pair| {
            let [(address, name), (next, _)] = pair else { return None };
            let is_own = text.contains(address) && !hypervisor.contains(address) && !is_bound(name);
            is_own.then(|| Function { name: name.clone(), code: *address..*next, file: 0 })
        });
        Ok(Source { functions: functions.collect(), files: vec![NO_FILE.to_owned()], ..Source::default() })
    }
}

/// Returns whether a symbol marks the bound of a section, not a function.
fn is_bound(name: &str) -> bool {
    let name = name.trim_start_matches("__pi_");
    name.ends_with("_text_start") || name.ends_with("_text_end") || name == "_text" || TEXT.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_end_where_the_next_one_begins() {
        let kallsyms = "\
            0000000000000100 T _text\n0000000000000110 T _stext\n0000000000000110 T __irqentry_text_start\n\
            0000000000000110 T __a\n0000000000000110 t a\n0000000000000120 t b\n\
            0000000000000140 T __irqentry_text_end\n0000000000000150 T c\n0000000000000160 T __hyp_text_start\n\
            0000000000000164 t __kvm_nvhe_c\n0000000000000170 T __hyp_text_end\n\
            0000000000000200 T _sinittext\n0000000000000204 t boots\n0000000000000300 T _einittext\n";
        let source = Source::of_symbols(kallsyms).unwrap();
        let found: Vec<_> =
            source.functions.iter().map(|function| (function.name.as_str(), function.code.clone())).collect();
        assert_eq!(found, [("a", 0x110..0x120), ("b", 0x120..0x140), ("c", 0x150..0x160)]);
        let error = Source::of_symbols("0000000000000100 T f\nx\n").unwrap_err().to_string();
        assert!(error.contains("`_stext`"), "{error}");
    }
}
