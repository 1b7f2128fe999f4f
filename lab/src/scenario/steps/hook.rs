//! Steps for ftrace hooks: commands to the hook module, hit counts, and the state of a function in
//! `enabled_functions`.

use crate::{
    scenario::{
        Amount, Errno,
        read::scalar::{FromText, from_text, printable_line},
        values::names::Line,
    },
    words::unknown,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// Sends a command to `guest/modules/ftracehook`, which hooks functions or changes a hook. The module
/// is loaded before tracing is set up.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// The command: `+NAME symbol=… flags=… comm=… action=…`, `-NAME`, `NAME filter|notrace
    /// [+|-]PLACE[,…]`, or `NAME reset|disable|enable`.
    pub hook: HookCommand,
    /// The errno that ftrace must return, by name. Default: it must succeed.
    #[serde(default)]
    pub errno: Option<Errno>,
}

/// Checks how often a hook was hit since it was registered, on all CPUs in total.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hits {
    /// The hook's name.
    pub hits: HookName,
    /// Number of hits.
    #[serde(default)]
    pub count: Option<Amount>,
    /// Number of calls in which the callback could not act, such as a recursive call.
    #[serde(default)]
    pub misses: Option<Amount>,
}

/// Checks the entry of a function in tracefs' `enabled_functions`. Without any other key, requires that
/// there is one.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnabledFunctions {
    /// The function.
    pub enabled_functions: Line,
    /// Requires that there is no entry.
    #[serde(default)]
    pub absent: bool,
    /// Number of ftrace_ops attached to the function.
    #[serde(default)]
    pub count: Option<Amount>,
    /// Flags that must be set: R, registers are saved; I, an ftrace_ops may change the instruction
    /// pointer; D, a direct call; O, a single ftrace_ops is called directly (6.12); M, the function
    /// once had I or D (6.12).
    #[serde(default)]
    pub flags: Flags,
    /// Flags that must not be set.
    #[serde(default)]
    pub not_flags: Flags,
}

/// Flags of `enabled_functions`, as in `I O`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub Vec<char>);

/// All flags, in the order in which the kernel prints them.
pub(crate) const FLAGS: [char; 5] = ['R', 'I', 'D', 'O', 'M'];

impl FromText for Flags {
    const EXPECTED: &'static str = "flags such as `I O`, out of R I D O M";

    fn from_text(text: &str) -> Result<Flags, String> {
        let bad = text.chars().find(|c| !FLAGS.contains(c) && *c != ' ');
        match bad {
            Some(bad) => Err(format!("bad flag {bad:?}, expected any of R I D O M")),
            None => Ok(Flags(FLAGS.into_iter().filter(|flag| text.contains(*flag)).collect())),
        }
    }
}

from_text!(Flags, { "type": "string", "pattern": "^[RIDOM ]*$", "examples": ["I", "R I"] });

/// The name of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookName(pub String);

/// `HOOK_NAME_SIZE` of the module, without the final NUL.
const NAME_MAX: usize = 31;

impl FromText for HookName {
    const EXPECTED: &'static str = "the name of a hook";

    fn from_text(text: &str) -> Result<HookName, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(good) {
            return Err(format!(
                "`{text}` is not a hook's name, expected at most {NAME_MAX} letters, digits and `_`"
            ));
        }
        Ok(HookName(text.to_owned()))
    }
}

from_text!(HookName, { "type": "string", "pattern": "^[A-Za-z0-9_]{1,31}$" });

/// A line for the module's control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCommand(String);

impl HookCommand {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the functions, globs and addresses that it adds to a hook's filters or removes from
    /// them.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        let words: Vec<&str> = self.0.split_whitespace().collect();
        let places = match words[..] {
            [_, "filter" | "notrace", places] => Some(places),
            [name, ..] if name.starts_with('+') => words.iter().find_map(|word| word.strip_prefix("symbol=")),
            _ => None,
        };
        let places = places.into_iter().flat_map(|places| places.split(','));
        places.map(|place| place.strip_prefix(['+', '-']).unwrap_or(place))
    }
}

impl fmt::Display for HookCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

const KEYS: [&str; 14] = [
    "symbol", "flags", "filters", "comm", "action", "return", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5",
    "arg6", "arg7",
];
const OPS_FLAGS: [&str; 6] =
    ["save_regs", "save_regs_if_supported", "recursion", "ipmodify", "rcu", "permanent"];
const ACTIONS: [&str; 4] = ["observe", "redirect", "recurse", "direct"];
const VERBS: [&str; 5] = ["filter", "notrace", "reset", "disable", "enable"];

fn one_of(what: &str, word: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&word) { Ok(()) } else { Err(unknown(what, word, known)) }
}

/// Checks the words after `+NAME`.
fn check_new(words: &[&str]) -> Result<(), String> {
    for word in words {
        let Some((key, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return Err(format!("`{word}` in a hook command, expected KEY=VALUE such as symbol=vfs_write"));
        };
        one_of("key of a hook", key, &KEYS)?;
        match key {
            "flags" => value.split(',').try_for_each(|flag| one_of("flag of a hook", flag, &OPS_FLAGS))?,
            "filters" => one_of("filters of a hook", value, &["unset"])?,
            "action" => one_of("action of a hook", value, &ACTIONS)?,
            _ => {}
        }
    }
    Ok(())
}

impl FromText for HookCommand {
    const EXPECTED: &'static str = "a command such as +NAME symbol=vfs_write, -NAME, or NAME disable";

    fn from_text(text: &str) -> Result<HookCommand, String> {
        printable_line(text)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else {
            return Err(format!("empty command, expected {}", Self::EXPECTED));
        };
        HookName::from_text(first.strip_prefix(['+', '-']).unwrap_or(first))?;
        match (first.as_bytes().first(), rest) {
            (Some(b'+'), words) => check_new(words)?,
            (Some(b'-'), []) => {}
            (Some(b'-'), [word, ..]) => {
                return Err(format!("`{word}` after `{first}`, expected nothing"));
            }
            (_, []) => return Err(format!("`{first}` alone, expected `+{first}`, `-{first}`, or a verb")),
            (_, [verb, words @ ..]) => {
                one_of("verb of a hook", verb, &VERBS)?;
                let places = usize::from(matches!(*verb, "filter" | "notrace"));
                if words.len() != places {
                    let expected = if places == 1 { "one place" } else { "nothing" };
                    return Err(format!("{} words after `{first} {verb}`, expected {expected}", words.len()));
                }
            }
        }
        Ok(HookCommand(text.to_owned()))
    }
}

from_text!(HookCommand, {
    "type": "string",
    "minLength": 2,
    "examples": ["+w symbol=vfs_write flags=ipmodify action=observe", "-w", "w filter +vfs_read", "w disable"],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_checked_as_the_module_would() {
        for good in [
            "+w",
            "+w symbol=vfs_write,eventfd_* flags=ipmodify,recursion action=redirect",
            "+w symbol=@vfs_write+4 return=-EPERM",
            "+w symbol=do_eventfd arg0=100",
            "-w",
            "w filter +vfs_read,-vfs_write",
            "w notrace vfs_*",
            "w reset",
            "w disable",
        ] {
            assert_eq!(HookCommand::from_text(good).unwrap().as_str(), good);
        }
        let check = |text: &str, expect: &str| {
            let error = HookCommand::from_text(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("+w symbl=f", "unknown key of a hook `symbl`, expected one of `symbol`");
        check("+w flags=ipmodifi", "unknown flag of a hook `ipmodifi`, expected one of `save_regs`");
        check("+w action=observ", "unknown action of a hook `observ`");
        check("+w vfs_write", "expected KEY=VALUE");
        check("+w symbol=", "expected KEY=VALUE");
        check("w disabel", "unknown verb of a hook `disabel`");
        check("w", "`w` alone, expected `+w`");
        check("w reset f", "1 words after `w reset`, expected nothing");
        check("w filter", "0 words after `w filter`, expected one place");
        check("-w f", "`f` after `-w`, expected nothing");
        check("+a-b", "`a-b` is not a hook's name");
        check(" ", "empty command");
        check("+a\nb", "control character");
    }

    #[test]
    fn flags_are_in_the_kernels_order() {
        assert_eq!(Flags::from_text("O I").unwrap(), Flags(vec!['I', 'O']));
        assert_eq!(Flags::from_text("").unwrap(), Flags::default());
        assert!(Flags::from_text("X").unwrap_err().contains("any of R I D O M"));
    }
}
