//! The sites of text steps: symbols and roles as addresses, from vmlinux and the loaded modules.

use crate::{
    kernel::text::{Binary, FtraceSite, INSTRUCTION, JumpEntry, Symbol},
    scenario::{FtraceSiteOf, KeySites, PatchedText, TextPlace, TracedFunction},
    words::nearest_is,
};
use anyhow::Result;
use std::{cell::OnceCell, ops::Range};

/// The address of instructions that a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// The address of the first.
    pub(super) address: u64,
    /// The jump entry, if a static key patches the site.
    pub(super) jump: Option<JumpEntry>,
}

impl Site {
    /// A site that no static key patches.
    pub(super) fn at(address: u64) -> Site {
        Site { address, jump: None }
    }

    /// Returns the addresses of the instructions that a step reads here.
    pub(super) fn addresses(&self, step: &PatchedText) -> impl Iterator<Item = u64> + use<> {
        let first = self.address;
        (0..step.length() as u64).map(move |index| first + index * INSTRUCTION)
    }
}

/// A loaded module.
pub(super) struct Loaded {
    pub(super) name: String,
    pub(super) binary: Binary,
    pub(super) jumps: Vec<JumpEntry>,
}

/// The code of the kernel and of loaded modules.
pub(super) struct KernelText {
    kernel: Binary,
    jumps: Vec<JumpEntry>,
    /// The addresses that the boot patches, sorted.
    boot: Vec<Range<u64>>,
    /// See [`KernelText::kernel_calls`]: whether there are literals is the same for all.
    calls: OnceCell<Vec<u64>>,
    modules: Vec<Loaded>,
}

type Lookup<T> = Result<T, Missing>;

/// The reason why a site does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    reason: String,
    /// A name that no symbol has, and that may be misspelled.
    unknown: Option<String>,
}

impl From<String> for Missing {
    fn from(reason: String) -> Missing {
        Missing { reason, unknown: None }
    }
}

impl KernelText {
    pub(super) fn new(kernel: Binary) -> Result<KernelText> {
        let (jumps, boot) = (kernel.jump_entries()?, kernel.alternatives()?);
        Ok(KernelText { kernel, jumps, boot, calls: OnceCell::new(), modules: Vec::new() })
    }

    /// Adds a loaded module and replaces an earlier one of its name.
    pub(super) fn add(&mut self, module: Loaded) {
        self.modules.retain(|other| other.name != module.name);
        self.modules.push(module);
    }

    /// Removes a module, if it is loaded.
    pub(super) fn remove(&mut self, module: &str) {
        self.modules.retain(|other| other.name != module);
    }

    pub(super) fn kernel_jumps(&self) -> &[JumpEntry] {
        &self.jumps
    }

    /// Returns the addresses of the calls at the ftrace sites of vmlinux that remain after boot.
    pub(super) fn kernel_calls(&self, call_ops: bool) -> Result<&[u64]> {
        if self.calls.get().is_none() {
            let sites = self.kernel.ftrace_sites(call_ops)?;
            let calls = sites.into_iter().map(|site| site.address + INSTRUCTION).collect();
            return Ok(self.calls.get_or_init(|| calls));
        }
        Ok(self.calls.get().map_or(&[], |calls| calls))
    }

    /// Returns the addresses of the jump entries in the running kernel.
    pub(super) fn jump_table(&self) -> Option<Range<u64>> {
        Some(
            self.kernel.address("__start___jump_table").ok()?
                ..self.kernel.address("__stop___jump_table").ok()?,
        )
    }

    /// Returns all binaries, or that of a module.
    fn binaries(&self, module: Option<&str>) -> Lookup<Vec<&Binary>> {
        let Some(name) = module else {
            return Ok(std::iter::once(&self.kernel)
                .chain(self.modules.iter().map(|module| &module.binary))
                .collect());
        };
        let found = self.modules.iter().find(|module| module.name == name.replace('-', "_"));
        match found {
            Some(module) => Ok(vec![&module.binary]),
            None => Err(format!("no module `{name}` is loaded").into()),
        }
    }

    /// Returns the symbol `NAME` or `MODULE:NAME`, and its binary.
    fn symbol(&self, name: &str) -> Lookup<(&Binary, &Symbol)> {
        let (module, bare) = match name.split_once(':') {
            Some((module, name)) => (Some(module), name),
            None => (None, name),
        };
        for binary in self.binaries(module)? {
            let unread = |error| format!("cannot read the symbols: {error:#}");
            let mut named = binary.named(bare).map_err(unread)?;
            named.dedup_by_key(|symbol| symbol.address);
            match named.as_slice() {
                [] => {}
                [one] => return Ok((binary, one)),
                many => {
                    return Err(
                        format!("{} symbols are named `{name}`, expected an address", many.len()).into()
                    );
                }
            }
        }
        let reason = format!("`{name}` is not a symbol of this kernel");
        Err(Missing { reason, unknown: Some(bare.to_owned()) })
    }

    /// Says why a site does not exist, with the nearest name. This compares all names.
    pub(super) fn explain(&self, missing: Missing) -> String {
        let Some(name) = missing.unknown else { return missing.reason };
        let binaries = self.binaries(None).unwrap_or_default();
        let names = binaries
            .into_iter()
            .flat_map(|binary| binary.symbols().unwrap_or_default().iter().map(|symbol| binary.name(symbol)));
        missing.reason + &nearest_is(&name, names)
    }

    /// Returns the address of `SYMBOL`, `SYMBOL+OFFSET` or a number.
    pub(super) fn address(&self, place: &str) -> Lookup<u64> {
        if place.starts_with(|c: char| c.is_ascii_digit()) {
            return number(place);
        }
        let (symbol, offset) = place.split_once('+').unwrap_or((place, "0"));
        Ok(self.symbol(symbol)?.1.address.wrapping_add(number(offset)?))
    }

    /// Returns the symbol that contains an address, with the offset in it.
    pub(super) fn name(&self, address: u64) -> String {
        let binaries = std::iter::once(&self.kernel).chain(self.modules.iter().map(|module| &module.binary));
        for binary in binaries {
            let symbols = binary.symbols().unwrap_or_default();
            if let Some(symbol) = symbols.iter().find(|symbol| symbol.range().contains(&address)) {
                return format!("`{}+{:#x}`", binary.name(symbol), address - symbol.address);
            }
        }
        format!("{address:#x}, which is in no symbol")
    }

    /// Returns all sites of a step.
    pub(super) fn sites(&self, step: &PatchedText) -> Lookup<Vec<Site>> {
        let one = |address: u64| Ok(vec![Site::at(address)]);
        match &step.text {
            TextPlace::Instructions(place) => one(self.whole(&place.at)?),
            TextPlace::KprobeAt(place) => one(self.whole(&place.kprobe)?),
            // It is found in the memory of the running kernel.
            TextPlace::KprobeSlot(place) => Err(format!("the slot of `{}` is not known", place.slot).into()),
            TextPlace::KeySites(sites) => self.key_sites(sites),
            TextPlace::FtraceSiteOf(FtraceSiteOf { ftrace_site: TracedFunction::One(function) }) => {
                one(self.ftrace_site(function)?.address)
            }
            // They are found in the memory of the running kernel.
            TextPlace::FtraceSiteOf(_) => Err("the records of ftrace are not known".to_owned().into()),
            TextPlace::CallOps(literal) => match self.ftrace_site(&literal.call_ops)?.ops {
                Some(address) => one(address),
                None => Err(format!(
                    "no call_ops literal before `{}`: this kernel has no DYNAMIC_FTRACE_WITH_CALL_OPS",
                    literal.call_ops
                )
                .into()),
            },
        }
    }

    /// Returns the address of a whole instruction.
    pub(super) fn whole(&self, place: &str) -> Lookup<u64> {
        let address = self.address(place)?;
        if !address.is_multiple_of(INSTRUCTION) {
            return Err(format!(
                "`{place}` is inside an instruction, expected a multiple of {INSTRUCTION} bytes"
            )
            .into());
        }
        Ok(address)
    }

    fn ftrace_site(&self, function: &str) -> Lookup<FtraceSite> {
        let (binary, extent) = self.symbol(function)?;
        let site =
            binary.ftrace_site(extent).map_err(|error| format!("no site of `{function}`: {error:#}"))?;
        site.ok_or_else(|| {
            format!("cannot trace `{function}`: expected a function that is not notrace").into()
        })
    }

    fn key_sites(&self, sites: &KeySites) -> Lookup<Vec<Site>> {
        let keys = match sites.key.as_str() {
            "*" => 0..u64::MAX,
            name => self.key(name)?,
        };
        let except = sites.except.iter().map(|name| self.key(name)).collect::<Lookup<Vec<_>>>()?;
        let within = match &sites.within {
            Some(function) => self.symbol(function)?.1.range(),
            None => 0..u64::MAX,
        };
        let jumps = self.jumps.iter().chain(self.modules.iter().flat_map(|module| &module.jumps));
        let wanted = |jump: &&JumpEntry| {
            !jump.init
                && keys.contains(&jump.key)
                && within.contains(&jump.code)
                && !except.iter().any(|keys| keys.contains(&jump.key))
        };
        let found: Vec<Site> =
            jumps.filter(wanted).map(|jump| Site { address: jump.code, jump: Some(*jump) }).collect();
        if found.is_empty() {
            let within =
                sites.within.as_ref().map(|function| format!(" in `{function}`")).unwrap_or_default();
            return Err(format!("the static key `{}` has no site{within}", sites.key).into());
        }
        Ok(found)
    }

    /// Returns the addresses of a key, or of the symbol that it is in.
    fn key(&self, name: &str) -> Lookup<Range<u64>> {
        let Some((symbol, offset)) = name.split_once('+') else { return Ok(self.symbol(name)?.1.range()) };
        let address = self.symbol(symbol)?.1.address.wrapping_add(number(offset)?);
        Ok(address..address.saturating_add(1))
    }

    /// Returns the instruction in vmlinux, or `first` if vmlinux has none or the boot patches it.
    pub(super) fn original(&self, address: u64, first: Option<u32>) -> Option<u32> {
        let boot = self.boot.iter().any(|range| range.contains(&address)) || self.is_ftrace_site(address);
        if boot { first } else { self.kernel.instruction(address).or(first) }
    }

    fn is_ftrace_site(&self, address: u64) -> bool {
        let symbols = self.kernel.symbols().unwrap_or_default();
        // The literal is before the function.
        let near = |symbol: &&Symbol| {
            symbol.code && (symbol.address.saturating_sub(8)..symbol.range().end).contains(&address)
        };
        symbols.iter().filter(near).any(|function| {
            let site = self.kernel.ftrace_site(function).ok().flatten();
            let covers = |start: u64| (start..start + 2 * INSTRUCTION).contains(&address);
            site.is_some_and(|site| covers(site.address) || site.ops.is_some_and(covers))
        })
    }
}

fn number(text: &str) -> Lookup<u64> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("`{text}` is not a number").into())
}
