//! Names that a scenario defines or uses: events, groups, symbols, files, programs.

use crate::scenario::read::scalar::{FromText, from_text, printable_line};
use std::fmt;

/// Checks the kernel's rule for events, groups and arguments: a C identifier of at most `max`
/// characters.
pub(in crate::scenario) fn identifier(
    what: &str,
    text: &str,
    max: usize,
    dash: bool,
) -> Result<String, String> {
    let good = |(i, c): (usize, char)| {
        c == '_'
            || (dash && c == '-')
            || if i == 0 { c.is_ascii_alphabetic() } else { c.is_ascii_alphanumeric() }
    };
    if text.is_empty() {
        return Err(format!("empty {what}, expected letters, digits and underscores"));
    }
    if let Some((_, bad)) = text.chars().enumerate().find(|&(i, c)| !good((i, c))) {
        return Err(format!(
            "bad character {bad:?} in {what}, expected letters, digits and underscores, no digit first"
        ));
    }
    if text.len() > max {
        return Err(format!("{what} of {} characters, expected at most {max}", text.len()));
    }
    Ok(text.to_owned())
}

/// `MAX_EVENT_NAME_LEN` and `MAX_ARG_NAME_LEN` of the kernel, without the final NUL.
pub(in crate::scenario) const EVENT_MAX: usize = 63;
const ARG_MAX: usize = 31;

/// Names of fields that every probe event already has.
const RESERVED_ARGS: [&str; 8] = [
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "common_tgid",
    "__probe_ip",
    "__probe_ret_ip",
    "__probe_func",
];

macro_rules! name {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// As written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The name of an event that a scenario defines.
    EventName
}

impl FromText for EventName {
    const EXPECTED: &'static str = "the name of an event";

    fn from_text(text: &str) -> Result<EventName, String> {
        identifier("event name", text, EVENT_MAX, false).map(EventName)
    }
}

from_text!(EventName, { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,62}$" });

name! {
    /// The name of an event group.
    GroupName
}

impl GroupName {
    /// Creates a default group of the kernel.
    pub(in crate::scenario) fn default_of(name: &'static str) -> GroupName {
        GroupName(name.to_owned())
    }
}

impl serde::Serialize for GroupName {
    /// Serializes it for the schema, which shows defaults.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl FromText for GroupName {
    const EXPECTED: &'static str = "the name of an event group";

    fn from_text(text: &str) -> Result<GroupName, String> {
        // The kernel allows a dash in groups, but not in events.
        identifier("group name", text, EVENT_MAX, true).map(GroupName)
    }
}

from_text!(GroupName, { "type": "string", "pattern": "^[A-Za-z_-][A-Za-z0-9_-]{0,62}$" });

name! {
    /// The name of a file of tracefs' `options/`.
    OptionName
}

impl FromText for OptionName {
    const EXPECTED: &'static str = "the name of an option";

    fn from_text(text: &str) -> Result<OptionName, String> {
        // Most options contain a dash, as in funcgraph-retval.
        identifier("option", text, EVENT_MAX, true).map(OptionName)
    }
}

from_text!(OptionName, { "type": "string", "pattern": "^[A-Za-z_-][A-Za-z0-9_-]{0,62}$" });

name! {
    /// The name of a probe's argument, which becomes a field of its events.
    ArgName
}

impl FromText for ArgName {
    const EXPECTED: &'static str = "the name of an argument";

    fn from_text(text: &str) -> Result<ArgName, String> {
        if RESERVED_ARGS.contains(&text) {
            return Err(format!(
                "`{text}` is a field that every probe event already has, expected a different name"
            ));
        }
        identifier("argument name", text, ARG_MAX, false).map(ArgName)
    }
}

from_text!(ArgName, { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,30}$" });

name! {
    /// A probe point: `SYMBOL`, `SYMBOL+OFFSET`, `MODULE:SYMBOL` or an address. A symbol of Rust may be written as
    /// the path that it is mangled from.
    ProbePoint
}

impl ProbePoint {
    /// Returns the parts of a probe point that is written as a path of Rust.
    pub fn rust(&self) -> Option<RustPoint<'_>> {
        RustPoint::of(&self.0)
    }
}

/// A probe point in a function of Rust: `PATH`, `PATH+OFFSET` or `MODULE:PATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RustPoint<'a> {
    /// The kernel module that has the function.
    pub module: Option<&'a str>,
    /// The path, as in `<a::Type as b::Trait>::function`.
    pub path: &'a str,
    /// The offset with its `+`; may be empty.
    pub offset: &'a str,
}

impl<'a> RustPoint<'a> {
    fn of(text: &'a str) -> Option<RustPoint<'a>> {
        let (module, path) = match text.split_once(':') {
            Some((module, path)) if !path.starts_with(':') && path.contains("::") => (Some(module), path),
            _ => (None, text),
        };
        // A path may contain `dyn A + B`.
        let end = path.rfind('+').filter(|plus| is_number(&path[plus + 1..])).unwrap_or(path.len());
        let (path, offset) = path.split_at(end);
        path.contains("::").then_some(RustPoint { module, path, offset })
    }
}

fn is_number(text: &str) -> bool {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).is_ok(),
        None => text.parse::<u64>().is_ok(),
    }
}

impl FromText for ProbePoint {
    const EXPECTED: &'static str = "a symbol, SYMBOL+OFFSET, MODULE:SYMBOL or an address";

    fn from_text(text: &str) -> Result<ProbePoint, String> {
        if let Some(point) = RustPoint::of(text) {
            if let Some(module) = point.module {
                identifier("module name", module, EVENT_MAX, true)?;
            }
            printable_line(text)?;
            return Ok(ProbePoint(text.to_owned()));
        }
        let (symbol, offset) =
            text.split_once('+').map_or((text, None), |(symbol, offset)| (symbol, Some(offset)));
        let symbol_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | ':');
        if symbol.is_empty() || !symbol.chars().all(symbol_char) || symbol.matches(':').count() > 1 {
            return Err(format!("`{text}` is not a probe point, expected {}", Self::EXPECTED));
        }
        if offset.is_some_and(|offset| !is_number(offset)) {
            return Err(format!("bad offset in `{text}`, expected a number of bytes after the `+`"));
        }
        if symbol.starts_with(|c: char| c.is_ascii_digit()) && (!is_number(symbol) || offset.is_some()) {
            return Err(format!("bad address `{text}`, expected a number such as 0xffff800080010000"));
        }
        Ok(ProbePoint(text.to_owned()))
    }
}

from_text!(ProbePoint, {
    "type": "string",
    "pattern": "^[A-Za-z0-9_.$:]+(\\+(0x)?[0-9A-Fa-f]+)?$|::",
    "examples": ["vfs_write", "vfs_write+0x10", "ext4:ext4_file_open"],
});

name! {
    /// A file: absolute, or below tracefs if it does not start with `/`.
    FilePath
}

impl FromText for FilePath {
    const EXPECTED: &'static str = "a file, absolute or below tracefs";

    fn from_text(text: &str) -> Result<FilePath, String> {
        printable_line(text)?;
        if text.is_empty() || text.ends_with('/') || text.len() > 4000 {
            return Err(format!("`{text}` is not a file, expected an absolute path or one below tracefs"));
        }
        if text.split('/').any(|part| part == "..") {
            return Err(format!("`{text}` contains `..`, expected a path without it"));
        }
        Ok(FilePath(text.to_owned()))
    }
}

from_text!(FilePath, { "type": "string", "examples": ["kprobe_events", "events/kprobes/enable", "/proc/version"] });

name! {
    /// One line without control characters: a filter, a trigger, a tracer's name, a function glob.
    Line
}

impl FromText for Line {
    const EXPECTED: &'static str = "a string of one line";

    fn from_text(text: &str) -> Result<Line, String> {
        printable_line(text)?;
        if text.trim().is_empty() {
            return Err("empty string, expected one line".to_owned());
        }
        Ok(Line(text.to_owned()))
    }
}

from_text!(Line, { "type": "string", "minLength": 1 });

name! {
    /// A program of `guest/workloads`.
    ProgramName
}

impl FromText for ProgramName {
    const EXPECTED: &'static str = "the name of a program";

    fn from_text(text: &str) -> Result<ProgramName, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if text.is_empty() || text.starts_with('-') || !text.chars().all(good) {
            return Err(format!("`{text}` is not a program's name, expected letters, digits, `-` and `_`"));
        }
        Ok(ProgramName(text.to_owned()))
    }
}

from_text!(ProgramName, { "type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*$" });

name! {
    /// A configuration symbol, without `CONFIG_`.
    ConfigSymbol
}

impl FromText for ConfigSymbol {
    const EXPECTED: &'static str = "a configuration symbol such as KPROBE_EVENTS";

    fn from_text(text: &str) -> Result<ConfigSymbol, String> {
        let bare = text.strip_prefix("CONFIG_").unwrap_or(text);
        if bare.is_empty() || !bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!(
                "`{text}` is not a configuration symbol, expected one such as KPROBE_EVENTS"
            ));
        }
        Ok(ConfigSymbol(bare.to_owned()))
    }
}

from_text!(ConfigSymbol, { "type": "string", "pattern": "^(CONFIG_)?[A-Za-z0-9_]+$" });

/// A configuration symbol that is required to be set or, after `!`, not to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRequirement {
    /// The symbol.
    pub symbol: ConfigSymbol,
    /// Whether it must be `y` or `m`.
    pub set: bool,
}

impl FromText for ConfigRequirement {
    const EXPECTED: &'static str = "a configuration symbol such as KPROBE_EVENTS or !CFI";

    fn from_text(text: &str) -> Result<ConfigRequirement, String> {
        let symbol = text.strip_prefix('!');
        Ok(ConfigRequirement {
            symbol: ConfigSymbol::from_text(symbol.unwrap_or(text))?,
            set: symbol.is_none(),
        })
    }
}

from_text!(ConfigRequirement, { "type": "string", "pattern": "^!?(CONFIG_)?[A-Za-z0-9_]+$" });

impl fmt::Display for ConfigRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CONFIG_{}{}", self.symbol.as_str(), if self.set { "" } else { " not set" })
    }
}

name! {
    /// A kernel module.
    ModuleName
}

/// `MODULE_NAME_LEN` of the kernel on 64 bits, without the final NUL.
const MODULE_MAX: usize = 55;

impl FromText for ModuleName {
    const EXPECTED: &'static str = "the name of a kernel module";

    fn from_text(text: &str) -> Result<ModuleName, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if text.is_empty() || text.len() > MODULE_MAX || text.starts_with('-') || !text.chars().all(good) {
            return Err(format!("`{text}` is not a module's name, expected letters, digits, `-` and `_`"));
        }
        Ok(ModuleName(text.to_owned()))
    }
}

from_text!(ModuleName, {
    "type": "string",
    "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,54}$",
    "examples": ["kprobe_example", "deaths"],
});

name! {
    /// The name of a tracing instance, a directory below `instances/`.
    InstanceName
}

impl FromText for InstanceName {
    const EXPECTED: &'static str = "the name of a tracing instance";

    fn from_text(text: &str) -> Result<InstanceName, String> {
        identifier("instance name", text, EVENT_MAX, true).map(InstanceName)
    }
}

from_text!(InstanceName, { "type": "string", "pattern": "^[A-Za-z_-][A-Za-z0-9_-]{0,62}$" });

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
