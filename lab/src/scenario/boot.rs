//! How a scenario's machine comes to life: restored as it was after boot, or booted for it alone.

use super::{
    text::{FromText, from_text, printable_line},
    userland::WantedUserland,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// What a scenario asks of its machine beside that it is pristine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fresh {
    /// Nothing: it is restored from a snapshot, alike to the last bit for every scenario.
    #[default]
    Snapshot,
    /// That it boots for this scenario alone: with random state and clocks of its own, and with its
    /// boot in the kernel log.
    Boot,
}

/// One kernel parameter, quotes included, as in `trace_event=initcall:*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameter(String);

impl KernelParameter {
    /// As it stands on the command line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A bootconfig, as Documentation/admin-guide/bootconfig.rst describes it: what the kernel's own
/// command line has no room or no words for, such as whole trace events with filters and actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootconfig(String);

impl Bootconfig {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the text has this word in it, as far as its separators tell.
    fn mentions(&self, word: &str) -> bool {
        has_word(&self.0, word)
    }
}

/// XBC_DATA_MAX is 32767 bytes, and the kernel refuses as much as that; three may be padding.
const BOOTCONFIG_MAX: usize = 32 * 1024 - 5;

impl FromText for Bootconfig {
    const EXPECTED: &'static str = "a bootconfig";

    fn from_text(text: &str) -> Result<Bootconfig, String> {
        let printable = |c: char| c.is_ascii_graphic() || matches!(c, ' ' | '\t' | '\n');
        if let Some(c) = text.chars().find(|&c| !printable(c)) {
            return Err(format!("{c:?} in a bootconfig, expected printable ASCII"));
        }
        if text.trim().is_empty() {
            return Err("nothing in it, expected a bootconfig".to_owned());
        }
        if text.len() > BOOTCONFIG_MAX {
            return Err(format!("{} bytes of bootconfig, expected at most {BOOTCONFIG_MAX}", text.len()));
        }
        Ok(Bootconfig(text.to_owned()))
    }
}

from_text!(Bootconfig, { "type": "string", "examples": ["ftrace.event.initcall.enable"] });

/// What is at odds in how a scenario's machine shall come to life, and the key it is told at.
pub(super) fn conflict(
    fresh: Option<Fresh>,
    cmdline: &Cmdline,
    bootconfig: Option<&Bootconfig>,
    userland: Option<&WantedUserland>,
) -> Option<(&'static str, String)> {
    if let (Some(_), Some(_)) = (bootconfig, userland) {
        // vmtest gives the guest no initramfs, behind which the kernel would find it.
        return Some(("bootconfig", "`bootconfig` and `userland`, expected one of them".to_owned()));
    }
    let (key, what) = match (bootconfig, userland) {
        (Some(_), _) => ("bootconfig", "a bootconfig is"),
        (_, Some(_)) => ("userland", "a userland is"),
        _ if !cmdline.0.is_empty() => ("cmdline", "kernel parameters are"),
        _ => return None,
    };
    (fresh == Some(Fresh::Snapshot))
        .then(|| ("fresh", format!("`snapshot` and `{key}`, expected `boot`: {what} for a boot")))
}

/// Whether what is given to the boot may define an event of this name.
pub(super) fn mentions(cmdline: &Cmdline, bootconfig: Option<&Bootconfig>, name: &str) -> bool {
    cmdline.mentions(name) || bootconfig.is_some_and(|config| config.mentions(name))
}

fn has_word(text: &str, word: &str) -> bool {
    let separators = [':', '/', ',', ';', '=', '"', '\'', '.', '{', '}'];
    text.split(|c: char| c.is_whitespace() || separators.contains(&c)).any(|part| part == word)
}

/// arm64's COMMAND_LINE_SIZE is 2048; the lab and a kernel's own file need some of it.
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

/// Splits as the kernel's `next_arg` does: at spaces outside of double quotes.
fn split(text: &str) -> Result<Vec<KernelParameter>, String> {
    printable_line(text)?;
    if !text.is_ascii() {
        return Err("a character that is not ASCII, expected kernel parameters".to_owned());
    }
    let mut quoted = false;
    let words = text.split(|c| {
        quoted ^= c == '"';
        c == ' ' && !quoted
    });
    let words: Vec<_> = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    if quoted {
        return Err(format!("a double quote is missing in `{text}`"));
    }
    if words.iter().any(|word| word == "--") {
        return Err("`--`, behind which nothing is a kernel parameter".to_owned());
    }
    Ok(words.into_iter().map(KernelParameter).collect())
}

/// Kernel parameters behind those of the lab and of the kernel's own file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cmdline(pub Vec<KernelParameter>);

impl Cmdline {
    /// Whether the text of a parameter has this word in it, as far as its separators tell.
    fn mentions(&self, word: &str) -> bool {
        self.0.iter().any(|parameter| has_word(&parameter.0, word))
    }

    fn checked<E: Error>(self) -> Result<Cmdline, E> {
        let length: usize = self.0.iter().map(|parameter| parameter.0.len() + 1).sum();
        if length > CMDLINE_MAX {
            return Err(E::custom(format!(
                "{length} characters of kernel parameters, expected at most {CMDLINE_MAX}"
            )));
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Cmdline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cmdline, D::Error> {
        struct Parameters;

        impl<'de> Visitor<'de> for Parameters {
            type Value = Cmdline;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("kernel parameters, as a list or separated by spaces")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Cmdline, E> {
                Cmdline(split(text).map_err(E::custom)?).checked()
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Cmdline, A::Error> {
                let mut all = Cmdline::default();
                while let Some(parameter) = list.next_element()? {
                    all.0.push(parameter);
                }
                all.checked()
            }
        }

        deserializer.deserialize_any(Parameters)
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
        let found = serde_yaml::from_str::<Cmdline>(yaml).map_err(|error| error.to_string());
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
        check(r#"a="b"#, Err("a double quote is missing"));
        check("a -- b", Err("`--`"));
        check(r#""a\nb""#, Err("control character"));
        check("ä", Err("not ASCII"));
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
        check(" \n", Err("nothing in it"));
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
