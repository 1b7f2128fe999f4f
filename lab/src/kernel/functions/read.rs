//! A kernel's files → its [`Functions`].

use super::{Functions, Rules};
use crate::kernel::{
    Kernel,
    text::{Binary, CALL_OPS_LITERAL},
};
use anyhow::{Context, Result};
use std::path::Path;

/// Sections in which kprobes.c and arm64's probes/kprobes.c reject probes: start, end and reason. The
/// kernel of the lab runs at EL1, and the code for EL2 does not belong to it there.
const SECTIONS: [(&str, &str, &str); 7] = [
    ("__kprobes_text_start", "__kprobes_text_end", "as __kprobes"),
    ("__noinstr_text_start", "__noinstr_text_end", "as noinstr"),
    ("__entry_text_start", "__entry_text_end", "as entry text"),
    ("__irqentry_text_start", "__irqentry_text_end", "as interrupt entry text"),
    // In 6.1 and before; later it is not in the text.
    ("__idmap_text_start", "__idmap_text_end", "as text of the identity map"),
    ("__hyp_text_start", "__hyp_text_end", "as text of the hypervisor"),
    ("__hyp_idmap_text_start", "__hyp_idmap_text_end", "as text of the hypervisor"),
];

impl Functions {
    /// Reads the functions of a built kernel, or of a distribution kernel whose symbols are known.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub(crate) fn of(kernel: &Kernel) -> Result<Functions> {
        let symbols = kernel.functions()?.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let weak = matches!(words.next()?, "w" | "W");
            Some((address, weak, words.next()?.to_owned()))
        });
        let rules = match kernel.vmlinux() {
            Some(vmlinux) => {
                rules(kernel, &vmlinux).with_context(|| format!("cannot read `{}`", vmlinux.display()))?
            }
            None => Rules::default(),
        };
        let ambiguous_refused = (kernel.version.major, kernel.version.minor) >= (6, 1);
        Ok(Functions::new(symbols, Rules { ambiguous_refused, ..rules }))
    }
}

fn rules(kernel: &Kernel, vmlinux: &Path) -> Result<Rules> {
    let is_set = |symbol| kernel.config().is_set(symbol);
    let binary = Binary::vmlinux(vmlinux)?;
    let literal = if is_set("DYNAMIC_FTRACE_WITH_CALL_OPS") { CALL_OPS_LITERAL } else { 0 };
    let sites = match is_set("DYNAMIC_FTRACE") {
        true => {
            // With CALL_OPS, a record has the address of the literal before the function.
            let mut sites: Vec<u64> = binary.records()?.iter().map(|record| record + literal).collect();
            sites.sort_unstable();
            Some(sites)
        }
        false => None,
    };
    let mut nokprobe = binary.nokprobe()?;
    nokprobe.sort_unstable();
    let section = |&(start, end, why): &(&str, &str, &'static str)| {
        Some((binary.address(start).ok()?..binary.address(end).ok()?, why))
    };
    Ok(Rules {
        text: Some(binary.address("_stext")?..binary.address("_etext")?),
        notrace_refused: sites.is_some() && !is_set("KPROBE_EVENTS_ON_NOTRACE"),
        sites,
        nokprobe,
        sections: SECTIONS.iter().filter_map(section).collect(),
        ambiguous_refused: false,
    })
}
