//! The origin of a scenario's machine: restored from a snapshot, or booted for it alone.

use super::userland_spec::UserlandSpec;
use crate::scenario::read::{
    scalar::{FromText, from_text, printable_line},
    shapes::Shapes,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// The origin of a scenario's machine, which is pristine in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Boot {
    /// Restored from a snapshot, bit-for-bit identical for every scenario.
    #[default]
    Snapshot,
    /// Booted for this scenario alone, with its own random state and clocks, and with the boot messages
    /// in the kernel log.
    Fresh,
}

/// One kernel parameter, quotes included, as in `trace_event=initcall:*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameter(String);

impl KernelParameter {
    /// As written on the command line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A bootconfig, as described in Documentation/admin-guide/bootconfig.rst, for settings that the kernel
/// command line is too short for or cannot express, such as trace events with filters and actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootconfig(String);

impl Bootconfig {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether `word` occurs between separators.
    fn mentions(&self, word: &str) -> bool {
        has_word(&self.0, word)
    }
}

/// The kernel rejects bootconfigs of XBC_DATA_MAX, 32767 bytes, and more; three bytes may be padding.
const BOOTCONFIG_MAX: usize = 32 * 1024 - 5;

impl FromText for Bootconfig {
    const EXPECTED: &'static str = "a bootconfig";

    fn from_text(text: &str) -> Result<Bootconfig, String> {
        let printable = |c: char| c.is_ascii_graphic() || matches!(c, ' ' | '\t' | '\n');
        if let Some(c) = text.chars().find(|&c| !printable(c)) {
            return Err(format!("{c:?} in a bootconfig, expected printable ASCII"));
        }
        if text.trim().is_empty() {
            return Err("empty bootconfig, expected at least one key".to_owned());
        }
        if text.len() > BOOTCONFIG_MAX {
            return Err(format!("{} bytes of bootconfig, expected at most {BOOTCONFIG_MAX}", text.len()));
        }
        Ok(Bootconfig(text.to_owned()))
    }
}

from_text!(Bootconfig, { "type": "string", "examples": ["ftrace.event.initcall.enable"] });

/// Returns the first conflict between the keys that define the machine's origin, with the key to report
/// it at.
pub(in crate::scenario) fn conflict(
    (boot, icount): (Option<Boot>, Option<u8>),
    cmdline: &Cmdline,
    bootconfig: Option<&Bootconfig>,
    userland: Option<&UserlandSpec>,
) -> Option<(&'static str, String)> {
    if let (Some(_), Some(_)) = (bootconfig, userland) {
        // vmtest boots without an initramfs, to whose end the bootconfig would be appended.
        return Some(("bootconfig", "both `bootconfig` and `userland`, expected only one".to_owned()));
    }
    if let (Some(_), Some(_)) = (icount, userland) {
        // vmtest itself selects the number of CPUs.
        return Some(("icount", "both `icount` and `userland`, expected only one".to_owned()));
    }
    let (key, what) = match (bootconfig, userland) {
        (Some(_), _) => ("bootconfig", "a bootconfig takes"),
        (_, Some(_)) => ("userland", "a userland takes"),
        _ if !cmdline.0.is_empty() => ("cmdline", "kernel parameters take"),
        _ if icount.is_some() => ("icount", "counting instructions takes"),
        _ => return None,
    };
    (boot == Some(Boot::Snapshot))
        .then(|| ("boot", format!("`snapshot` with `{key}`, expected `fresh`: {what} effect at boot")))
}

/// Returns whether the kernel parameters or the bootconfig may define an event of this name.
pub(in crate::scenario) fn mentions(cmdline: &Cmdline, bootconfig: Option<&Bootconfig>, name: &str) -> bool {
    cmdline.mentions(name) || bootconfig.is_some_and(|config| config.mentions(name))
}

fn has_word(text: &str, word: &str) -> bool {
    let separators = [':', '/', ',', ';', '=', '"', '\'', '.', '{', '}'];
    text.split(|c: char| c.is_whitespace() || separators.contains(&c)).any(|part| part == word)
}

/// arm64's COMMAND_LINE_SIZE is 2048; the lab and the kernel's YAML file need part of it.
const CMDLINE_MAX: usize = 1536;

impl FromText for KernelParameter {
    const EXPECTED: &'static str = "a kernel parameter";

    fn from_text(text: &str) -> Result<KernelParameter, String> {
        match split(text)?.as_slice() {
            [one] => Ok(one.clone()),
            all => Err(format!("{} kernel parameters in `{text}`, expected one", all.len())),
        }
    }
}

from_text!(KernelParameter, { "type": "string", "minLength": 1, "examples": ["trace_event=initcall:*"] });

/// Splits at spaces outside of double quotes, like the kernel's `next_arg`.
fn split(text: &str) -> Result<Vec<KernelParameter>, String> {
    printable_line(text)?;
    if !text.is_ascii() {
        return Err("non-ASCII character, expected kernel parameters".to_owned());
    }
    let mut quoted = false;
    let words = text.split(|c| {
        quoted ^= c == '"';
        c == ' ' && !quoted
    });
    let words: Vec<_> = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    if quoted {
        return Err(format!("missing double quote in `{text}`"));
    }
    if words.iter().any(|word| word == "--") {
        return Err("`--` ends the kernel parameters, expected only parameters".to_owned());
    }
    Ok(words.into_iter().map(KernelParameter).collect())
}

/// Kernel parameters, added after those of the lab and of the kernel's YAML file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cmdline(pub Vec<KernelParameter>);

impl Cmdline {
    /// Returns whether `word` occurs in a parameter, between separators.
    fn mentions(&self, word: &str) -> bool {
        self.0.iter().any(|parameter| has_word(&parameter.0, word))
    }

    fn checked(self) -> Result<Cmdline, String> {
        let length: usize = self.0.iter().map(|parameter| parameter.0.len() + 1).sum();
        if length > CMDLINE_MAX {
            return Err(format!("{length} characters of kernel parameters, expected at most {CMDLINE_MAX}"));
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Cmdline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cmdline, D::Error> {
        Shapes::new("kernel parameters, as a list or separated by spaces")
            .text(|text| Cmdline(split(text)?).checked())
            .list(|parameters| Cmdline(parameters).checked())
            .read(deserializer)
    }
}

impl JsonSchema for Cmdline {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cmdline".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parameter = generator.subschema_for::<KernelParameter>();
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": parameter }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, expect: Result<&[&str], &str>) {
        let found = crate::yaml::from_str::<Cmdline>(yaml).map_err(|error| error.to_string());
        match (found, expect) {
            (Ok(found), Ok(expect)) => {
                assert_eq!(found.0.iter().map(KernelParameter::as_str).collect::<Vec<_>>(), expect);
            }
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => panic!("found {found:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn parameters_are_a_list_or_one_string() {
        check("[ 'trace_event=initcall:*', quiet ]", Ok(&["trace_event=initcall:*", "quiet"]));
        check(
            r#"kprobe_event=p:x,vfs_read  dyndbg="file a.c +p" ro"#,
            Ok(&["kprobe_event=p:x,vfs_read", r#"dyndbg="file a.c +p""#, "ro"]),
        );
        check(r#"[ 'dyndbg="file a.c +p"' ]"#, Ok(&[r#"dyndbg="file a.c +p""#]));
        check("[]", Ok(&[]));
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        check("[ 'a b' ]", Err("2 kernel parameters in `a b`, expected one"));
        check("[ '' ]", Err("0 kernel parameters"));
        check(r#"a="b"#, Err("missing double quote"));
        check("a -- b", Err("`--`"));
        check(r#""a\nb""#, Err("control character"));
        check("ä", Err("non-ASCII"));
        check("{ a: b }", Err("expected kernel parameters, as a list or separated by spaces"));
        check(&"a".repeat(2000), Err("2001 characters of kernel parameters, expected at most 1536"));
    }

    #[test]
    fn a_bootconfig_is_what_the_kernel_takes() {
        let check = |text: &str, expect: Result<(), &str>| match (Bootconfig::from_text(text), expect) {
            (Ok(found), Ok(())) => assert_eq!(found.as_str(), text),
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => panic!("found {found:?}, expected {expect:?}"),
        };
        check("# why\nftrace {\n\ttracer = function\n}\n", Ok(()));
        check(&"a".repeat(BOOTCONFIG_MAX), Ok(()));
        check(&"a".repeat(BOOTCONFIG_MAX + 1), Err("32764 bytes of bootconfig, expected at most 32763"));
        check(" \n", Err("empty bootconfig"));
        check("a = \u{1b}[2J", Err("expected printable ASCII"));
        check("a = ä", Err("expected printable ASCII"));
    }

    #[test]
    fn an_event_is_mentioned_where_it_may_be_defined() {
        let cmdline = Cmdline(split("kprobe_event=p:g/one,vfs_read").unwrap());
        let config = Bootconfig("ftrace.event.kprobes.two {\n probes = \"vfs_read\"\n}".to_owned());
        for (name, expect) in [("one", true), ("two", true), ("on", false), ("two_more", false)] {
            assert_eq!(mentions(&cmdline, Some(&config), name), expect, "{name}");
        }
    }
}
