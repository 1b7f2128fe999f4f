//! Kernel configurations: the fragments that request symbols, and the resulting `.config`.
//!
//! A fragment has lines `CONFIG_NAME=value`, comments, and `# CONFIG_NAME is not set`. A line may
//! end in `# when REQUIREMENT` to apply only to those kernel versions.

use super::{
    small_file::read_capped,
    spec::directory,
    version::{KernelVersion, VersionReq},
};
use anyhow::{Context, Result, bail};
use std::{collections::BTreeMap, fmt, path::Path};

/// The `.config` of an allmodconfig has 300 kB.
const CONFIG_LIMIT_BYTES: u64 = 4 << 20;

/// Characters that a value must not contain: make expands `$` in the configuration, the shell backticks.
const EVALUATED: [char; 4] = ['"', '$', '`', '\\'];

/// A symbol that a fragment requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedSymbol {
    /// Without `CONFIG_`.
    pub(super) symbol: String,
    /// `y`, `m`, `n`, a number, or a string with its quotes.
    pub(super) value: String,
    /// Such as `kernels/base.config:12`.
    pub(super) origin: String,
}

impl fmt::Display for RequestedSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CONFIG_{}={}", self.symbol, self.value)
    }
}

/// Returns the symbols that `fragments` below `root`, the checkout, request of a kernel of this version.
/// For a symbol requested twice, the later line wins.
pub fn ask(root: &Path, fragments: &[String], version: &KernelVersion) -> Result<Vec<RequestedSymbol>> {
    let mut all: Vec<RequestedSymbol> = Vec::new();
    for fragment in fragments {
        let name = format!("{fragment}.config");
        let path = directory(root).join(&name);
        let text = read_capped(&path, CONFIG_LIMIT_BYTES)?;
        for asked in parse_fragment(&format!("kernels/{name}"), &text, version)? {
            all.retain(|earlier| earlier.symbol != asked.symbol);
            all.push(asked);
        }
    }
    Ok(all)
}

/// Returns the contents of the file that kconfig reads through KCONFIG_ALLCONFIG.
pub(super) fn allconfig(asked: &[RequestedSymbol]) -> String {
    asked.iter().map(|asked| format!("{asked}\n")).collect()
}

fn parse_fragment(name: &str, text: &str, version: &KernelVersion) -> Result<Vec<RequestedSymbol>> {
    let mut asked = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let origin = format!("{name}:{}", index + 1);
        let wrong = |expected: &str| format!("{origin}: `{}`, expected {expected}", line.trim());
        let (assignment, comment) = split_comment(line);
        if assignment.is_empty() {
            let unset = comment.strip_prefix("CONFIG_").and_then(|rest| rest.strip_suffix(" is not set"));
            if let Some(symbol) = unset.filter(|symbol| is_symbol(symbol)) {
                asked.push(RequestedSymbol { symbol: symbol.to_owned(), value: "n".to_owned(), origin });
            }
            continue;
        }
        let parts = assignment.strip_prefix("CONFIG_").and_then(|rest| rest.split_once('='));
        let Some((symbol, value)) = parts.filter(|(symbol, value)| is_symbol(symbol) && is_value(value))
        else {
            bail!(wrong(
                "a line such as `CONFIG_FTRACE=y`, with y, m, n, a number or a quoted string without `$`, backticks and \
                         backslashes"
            ));
        };
        let wanted = match comment.strip_prefix("when ") {
            Some(requirement) => {
                let requirement: VersionReq = requirement.parse().with_context(|| wrong("a requirement"))?;
                requirement.matches(version)
            }
            None => true,
        };
        if wanted {
            asked.push(RequestedSymbol { symbol: symbol.to_owned(), value: value.to_owned(), origin });
        }
    }
    Ok(asked)
}

/// Splits a line into assignment and comment; a `#` inside a quoted string does not start a comment.
fn split_comment(line: &str) -> (&str, &str) {
    let mut quoted = false;
    for (index, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return (line[..index].trim(), line[index + 1..].trim()),
            _ => {}
        }
    }
    (line.trim(), "")
}

fn is_symbol(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_value(text: &str) -> bool {
    let hexadecimal = |digits: &str| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    matches!(text, "y" | "m" | "n")
        || text.parse::<i64>().is_ok()
        || text.strip_prefix("0x").is_some_and(hexadecimal)
        || quoted.is_some_and(|inside| !inside.contains(EVALUATED))
}

/// A kernel's final `.config`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<String, String>,
}

impl Config {
    /// Reads a `.config`.
    pub fn load(path: &Path) -> Result<Config> {
        Ok(Config::parse(&read_capped(path, CONFIG_LIMIT_BYTES)?))
    }

    /// Parses the text of a `.config`. Symbols that are not set are left out.
    pub fn parse(text: &str) -> Config {
        let lines = text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='));
        Config { values: lines.map(|(symbol, value)| (symbol.to_owned(), value.to_owned())).collect() }
    }

    /// Returns the value of a symbol, named with or without `CONFIG_`: `y`, `m`, a number, or a string
    /// with its quotes. `None` is kconfig's `n`.
    pub fn get(&self, symbol: &str) -> Option<&str> {
        let symbol = symbol.strip_prefix("CONFIG_").unwrap_or(symbol);
        self.values.get(symbol).map(String::as_str)
    }

    /// Returns whether a symbol is `y` or `m`.
    pub fn is_set(&self, symbol: &str) -> bool {
        matches!(self.get(symbol), Some("y" | "m"))
    }

    /// Returns the requested symbols that are missing or have another value.
    pub(super) fn misses<'a>(&self, asked: &'a [RequestedSymbol]) -> Vec<&'a RequestedSymbol> {
        let came_out = |asked: &&RequestedSymbol| self.get(&asked.symbol).unwrap_or("n") == asked.value;
        asked.iter().filter(|asked| !came_out(asked)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, version: &str) -> Result<String> {
        let asked = parse_fragment("kernels/x.config", text, &version.parse().unwrap())?;
        Ok(asked.iter().map(RequestedSymbol::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn fragments() {
        let check =
            |text: &str, version: &str, expect: &str| assert_eq!(parse(text, version).unwrap(), expect);
        check("# why\nCONFIG_A=y\n\n  CONFIG_B=m # why\n", "6.12.1", "CONFIG_A=y CONFIG_B=m");
        check("CONFIG_A=y # when >=7.2", "6.12.1", "");
        check("CONFIG_A=y # when >=7.2", "7.2.1", "CONFIG_A=y");
        check("CONFIG_A=y # when >=5.10, <7", "6.1.1", "CONFIG_A=y");
        check("# CONFIG_A is not set", "6.12.1", "CONFIG_A=n");
        check(
            "CONFIG_A=\"a # b\" # c\nCONFIG_B=0x1f\nCONFIG_C=-3",
            "6.12.1",
            "CONFIG_A=\"a # b\" CONFIG_B=0x1f CONFIG_C=-3",
        );
    }

    #[test]
    fn what_is_wrong_in_a_fragment_is_named_with_its_line() {
        let check = |line: &str, expect: &str| {
            let error = format!("{:#}", parse(&format!("\n{line}"), "6.12.1").unwrap_err());
            assert!(error.starts_with("kernels/x.config:2: ") && error.contains(expect), "{error}");
        };
        check("FTRACE=y", "a line such as `CONFIG_FTRACE=y`");
        check("CONFIG_A = y", "a line such as");
        check("CONFIG_A=yes", "a line such as");
        check("CONFIG_A=\"b", "a line such as");
        check("CONFIG_INITRAMFS_SOURCE=\"$(shell touch /tmp/x)\"", "a quoted string without `$`");
        check("CONFIG_A=\"`id`\"", "a quoted string without `$`");
        check("CONFIG_A=\"a\\b\"", "a quoted string without `$`");
        check("CONFIG_A=y # when six", "not a kernel requirement");
    }

    #[test]
    fn a_later_fragment_wins() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("kernels")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.path().join("kernels").join(name), text);
        write("base.config", "CONFIG_A=y\nCONFIG_B=y\n").unwrap();
        write("top.config", "CONFIG_A=n\n").unwrap();
        let names = ["base".to_owned(), "top".to_owned()];
        let asked = ask(root.path(), &names, &KernelVersion::new(6, 12, 1)).unwrap();
        assert_eq!(allconfig(&asked), "CONFIG_B=y\nCONFIG_A=n\n");
        let error = ask(root.path(), &["none".into()], &KernelVersion::new(6, 12, 1)).unwrap_err();
        assert!(format!("{error:#}").contains("none.config"), "{error:#}");
    }

    #[test]
    fn the_final_config_is_compared_with_what_was_asked() {
        let config = Config::parse("# CONFIG_B is not set\nCONFIG_A=y\nCONFIG_M=m\nCONFIG_S=\"x=y\"\n");
        assert_eq!(
            (config.get("CONFIG_S"), config.get("A"), config.get("B")),
            (Some("\"x=y\""), Some("y"), None)
        );
        assert!(config.is_set("M") && !config.is_set("S") && !config.is_set("B"));
        let asked = parse_fragment(
            "f",
            "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=n\nCONFIG_M=y\nCONFIG_A=n\nCONFIG_S=\"x=y\"",
            &KernelVersion::new(6, 12, 0),
        );
        let asked = asked.unwrap();
        let misses: Vec<String> = config.misses(&asked).iter().map(|asked| asked.to_string()).collect();
        assert_eq!(misses, ["CONFIG_B=y", "CONFIG_M=y", "CONFIG_A=n"]);
    }
}
