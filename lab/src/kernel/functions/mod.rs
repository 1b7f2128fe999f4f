//! Determines which functions of a kernel kprobes and ftrace accept, by the rules of trace_kprobe.c,
//! kprobes.c and ftrace.c. Does no I/O.

mod inlined;
mod omitted;
mod read;

pub(crate) use inlined::{inlined, reason as inlined_reason};
pub(crate) use omitted::{Omitted, omitted};

use crate::words::nearest;
use std::{collections::HashMap, fmt, ops::Range};

/// The way in which a function is to be probed or traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// By a kprobe or kretprobe event that names it.
    Kprobe,
    /// By ftrace: a filter of the function tracers, a hook, an fprobe.
    Ftrace,
}

/// The reason why a function cannot be probed or traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No symbol of the kernel has this name.
    Missing,
    /// Only what the compiler made of it has a symbol, with a suffix: `f.isra.0`, or `f.llvm.7` with ThinLTO.
    Renamed,
    /// It is in text that is freed after boot.
    Freed,
    /// Several functions have this name.
    Ambiguous {
        /// The number of functions.
        count: usize,
        /// Whether the kernel rejects the name; otherwise it uses the first.
        refused: bool,
    },
    /// It is on the kprobe blacklist, for this reason.
    Blacklisted(&'static str),
    /// It has no ftrace site.
    Notrace,
    /// ftrace lists its address only under this name.
    Alias(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Missing => f.write_str("this kernel has no such function"),
            Obstacle::Renamed => f.write_str("the compiler gave it another name"),
            Obstacle::Freed => f.write_str("init text, freed after boot"),
            Obstacle::Ambiguous { count, refused } => {
                let then = match refused {
                    true => "the kernel rejects the name",
                    false => "the kernel silently uses the first",
                };
                write!(f, "{count} functions have this name; {then}")
            }
            Obstacle::Blacklisted(why) => write!(f, "on the kprobe blacklist {why}"),
            Obstacle::Notrace => f.write_str("notrace"),
            Obstacle::Alias(of) => write!(f, "ftrace lists this address only as `{of}`"),
        }
    }
}

/// The functions of a kernel.
#[derive(Debug, Default)]
pub struct Functions {
    /// By address; at one address, in the order of kallsyms.
    symbols: Vec<(u64, String)>,
    /// Indexes into `symbols`.
    by_name: HashMap<String, Vec<usize>>,
    pub(crate) rules: Rules,
}

/// Properties of a kernel's functions, besides their addresses.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The range of its text after boot, if that is known.
    pub(crate) text: Option<Range<u64>>,
    /// An address in each function with an ftrace site, sorted; `None` if they are not known.
    pub(crate) sites: Option<Vec<u64>>,
    /// An address in each function of NOKPROBE_SYMBOL, sorted.
    pub(crate) nokprobe: Vec<u64>,
    /// Sections that cannot be probed, each with the reason.
    pub(crate) sections: Vec<(Range<u64>, &'static str)>,
    /// Whether a probe event must be in a function with an ftrace site.
    pub(crate) notrace_refused: bool,
    /// Whether a name that several functions have is rejected.
    pub(crate) ambiguous_refused: bool,
}

impl Functions {
    /// Indexes symbols: address, whether it is weak, and name, in the order of System.map.
    pub(crate) fn new(symbols: impl IntoIterator<Item = (u64, bool, String)>, rules: Rules) -> Functions {
        let mut symbols: Vec<(u64, bool, String)> = symbols.into_iter().collect();
        // Like compare_symbols() in scripts/kallsyms.c.
        symbols.sort_by_key(|(address, weak, name)| {
            (*address, *weak, name.len() - name.trim_start_matches('_').len())
        });
        let symbols: Vec<(u64, String)> =
            symbols.into_iter().map(|(address, _, name)| (address, name)).collect();
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, (_, name)) in symbols.iter().enumerate() {
            by_name.entry(name.clone()).or_default().push(place);
        }
        Functions { symbols, by_name, rules }
    }

    /// All names; one that several functions have is repeated.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols.iter().map(|(_, name)| name.as_str())
    }

    /// Returns the reason why the function cannot be probed or traced, if there is one.
    pub fn obstacle(&self, want: Want, name: &str) -> Option<Obstacle> {
        let Some(places) = self.by_name.get(name) else {
            let renamed = self.clones(name).any(|clone| !clone[name.len()..].starts_with(".part."));
            return Some(if renamed { Obstacle::Renamed } else { Obstacle::Missing });
        };
        let addresses = || places.iter().map(|place| self.symbols[*place].0);
        if addresses().all(|address| !self.stays(address)) {
            return Some(Obstacle::Freed);
        }
        match want {
            Want::Ftrace => {
                let mut traced = addresses().filter(|at| self.stays(*at) && self.has_site(*at)).peekable();
                let Some(first) = traced.peek().copied() else { return Some(Obstacle::Notrace) };
                let by_name = traced.any(|address| self.known_as(address) == name);
                (!by_name).then(|| Obstacle::Alias(self.known_as(first).to_owned()))
            }
            Want::Kprobe if places.len() > 1 => {
                Some(Obstacle::Ambiguous { count: places.len(), refused: self.rules.ambiguous_refused })
            }
            Want::Kprobe => self.kprobe_obstacle(addresses().next()?, name),
        }
    }

    fn kprobe_obstacle(&self, address: u64, name: &str) -> Option<Obstacle> {
        // An entry for `f` also applies to `f.isra.0`, by within_kprobe_blacklist().
        let base = name.split_once('.').and_then(|(base, _)| self.by_name.get(base)?.first());
        let base = base.map(|place| self.symbols[*place].0);
        if let Some(why) = [Some(address), base].into_iter().flatten().find_map(|at| self.blacklisted(at)) {
            return Some(Obstacle::Blacklisted(why));
        }
        // A site in `f` suffices for `f.isra.0`, by within_notrace_func().
        let traced = self.has_site(address) || base.is_some_and(|base| self.has_site(base));
        (self.rules.notrace_refused && !traced).then_some(Obstacle::Notrace)
    }

    /// The name that kallsyms, and therefore ftrace, has for an address.
    fn known_as(&self, address: u64) -> &str {
        let place = self.symbols.partition_point(|(at, _)| *at < address);
        self.symbols.get(place).map_or("", |(_, name)| name)
    }

    fn stays(&self, address: u64) -> bool {
        self.rules.text.as_ref().is_none_or(|text| text.contains(&address))
    }

    /// Returns whether the function at `address` has an ftrace site; true if sites are not known.
    fn has_site(&self, address: u64) -> bool {
        self.rules.sites.as_ref().is_none_or(|sites| self.any_within(sites, address))
    }

    fn any_within(&self, sorted: &[u64], address: u64) -> bool {
        let range = self.range(address);
        let place = sorted.partition_point(|at| *at < range.start);
        sorted.get(place).is_some_and(|at| *at < range.end)
    }

    fn blacklisted(&self, address: u64) -> Option<&'static str> {
        if self.any_within(&self.rules.nokprobe, address) {
            return Some("by NOKPROBE_SYMBOL");
        }
        let mut sections = self.rules.sections.iter();
        sections.find(|(range, _)| range.contains(&address)).map(|(_, why)| *why)
    }

    /// The range from a function's start to the next symbol, as in kallsyms.
    fn range(&self, address: u64) -> Range<u64> {
        let next = self.symbols.partition_point(|(at, _)| *at <= address);
        address..self.symbols.get(next).map_or(u64::MAX, |(at, _)| *at)
    }

    /// Returns what the compiler made of a function, and is called as one, unlike `f.cold`: all of it, or `f.part.0`.
    fn clones(&self, name: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{name}.");
        let is_cold = |other: &str| other.ends_with(".cold") || other.contains(".cold.");
        self.names().filter(move |other| other.starts_with(&prefix) && !is_cold(other))
    }

    /// Returns the name to suggest instead: a clone that the compiler made of it, a function that it is
    /// inlined into, the same name with other underscores, or one with a similar spelling.
    pub fn nearest(&self, want: Want, name: &str, into: &[String]) -> Option<&str> {
        let possible = |name: &str| self.obstacle(want, name).is_none();
        if let Some(Obstacle::Alias(of)) = self.obstacle(want, name) {
            return self.by_name.get_key_value(&of).map(|(name, _)| name.as_str());
        }
        let known = |name: &str| {
            let (known, _) = self.by_name.get_key_value(name)?;
            possible(known).then_some(known.as_str())
        };
        let clone = self.clones(name).find(|clone| possible(clone));
        let bare = name.trim_start_matches('_');
        let spellings = [bare.to_owned(), format!("_{bare}"), format!("__{bare}"), format!("__arm64_{bare}")];
        clone
            .or_else(|| into.iter().find_map(|name| known(name)))
            .or_else(|| spellings.iter().find_map(|name| known(name)))
            .or_else(|| nearest(name, self.names().filter(|name| possible(name))))
            .filter(|found| *found != name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of 16 bytes each; a name may occur twice.
    fn functions(rules: Rules) -> Functions {
        let names = [
            "__entry",
            "vfs_read",
            "vfs_write",
            "quiet",
            "never",
            "twice",
            "twice",
            "split",
            "split.isra.0",
            "lone.part.0",
            "lone.cold",
            "__x",
            "never.constprop.0",
            "start_up",
            "made.llvm.4711",
        ];
        let symbols = names.iter().zip(0_u64..).map(|(name, n)| (0x1000 + n * 16, false, name.to_string()));
        // Aliases of the second and the third: a weak one, and one with more underscores.
        let aliases = [(0x1010, true, "also_read".to_owned()), (0x1020, false, "_vfs_write".to_owned())];
        let symbols = aliases.into_iter().chain(symbols);
        Functions::new(symbols, rules)
    }

    /// All but `quiet` have a site, `never` is NOKPROBE, `__entry` is entry text, `start_up` is freed.
    fn rules() -> Rules {
        let sites = (0..14).filter(|n| ![3, 8].contains(n)).map(|n| 0x1000 + n * 16 + 8).collect();
        Rules {
            text: Some(0x1000..0x10d0),
            sites: Some(sites),
            nokprobe: vec![0x1044],
            sections: vec![(0x1000..0x1010, "as entry text")],
            notrace_refused: true,
            ambiguous_refused: true,
        }
    }

    #[test]
    fn the_kernels_rules_are_applied() {
        let functions = functions(rules());
        let check = |name: &str, kprobe: Option<Obstacle>, ftrace: Option<Obstacle>| {
            assert_eq!(functions.obstacle(Want::Kprobe, name), kprobe, "{name}");
            assert_eq!(functions.obstacle(Want::Ftrace, name), ftrace, "{name}");
        };
        let nokprobe = Some(Obstacle::Blacklisted("by NOKPROBE_SYMBOL"));
        check("vfs_read", None, None);
        check("nothing", Some(Obstacle::Missing), Some(Obstacle::Missing));
        check("made", Some(Obstacle::Renamed), Some(Obstacle::Renamed));
        check("lone", Some(Obstacle::Missing), Some(Obstacle::Missing));
        check("quiet", Some(Obstacle::Notrace), Some(Obstacle::Notrace));
        check("never", nokprobe.clone(), None);
        check("__entry", Some(Obstacle::Blacklisted("as entry text")), None);
        check("twice", Some(Obstacle::Ambiguous { count: 2, refused: true }), None);
        check("start_up", Some(Obstacle::Freed), Some(Obstacle::Freed));
        check("also_read", None, Some(Obstacle::Alias("vfs_read".to_owned())));
        check("_vfs_write", None, Some(Obstacle::Alias("vfs_write".to_owned())));
        // A clone is also judged by its original.
        check("never.constprop.0", nokprobe, None);
        check("split.isra.0", None, Some(Obstacle::Notrace));
    }

    #[test]
    fn what_is_not_known_is_no_obstacle() {
        let functions = functions(Rules::default());
        for name in ["vfs_read", "quiet", "never", "__entry", "start_up"] {
            assert_eq!(functions.obstacle(Want::Kprobe, name), None, "{name}");
            assert_eq!(functions.obstacle(Want::Ftrace, name), None, "{name}");
        }
        let first = Some(Obstacle::Ambiguous { count: 2, refused: false });
        assert_eq!(functions.obstacle(Want::Kprobe, "twice"), first);
        // With KPROBE_EVENTS_ON_NOTRACE.
        let functions = self::functions(Rules { notrace_refused: false, ..rules() });
        assert_eq!(functions.obstacle(Want::Kprobe, "quiet"), None);
        assert_eq!(functions.obstacle(Want::Ftrace, "quiet"), Some(Obstacle::Notrace));
    }

    #[test]
    fn the_nearest_can_be_had() {
        let functions = functions(rules());
        let check = |name: &str, into: &[&str], expect: Option<&str>| {
            let into: Vec<String> = into.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(functions.nearest(Want::Kprobe, name, &into), expect, "{name}");
        };
        check("vfs_raed", &[], Some("vfs_read"));
        check("lone", &["vfs_write"], Some("lone.part.0"));
        check("helper", &["quiet", "vfs_write"], Some("vfs_write"));
        check("x", &[], Some("__x"));
        check("___x", &[], Some("__x"));
        check("qwertz", &[], None);
        // The exact name exists, but is not suggested.
        check("quiet", &[], None);
    }
}
