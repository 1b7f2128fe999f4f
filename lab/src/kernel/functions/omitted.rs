//! Finds the configuration symbol without which a kernel lacks a function, from its source: the file that
//! defines the function, and the lines of the Makefiles that build this file.
//!
//! Not found are functions of drivers, those that a macro defines, such as system calls, and those that `#ifdef`
//! leaves out of a file that is built.

use crate::{host::beneath::read_beneath, kernel::Config};
use anyhow::Result;
use fs_err as fs;
use std::path::{Path, PathBuf};

/// The directories to search. Drivers are most of the source, and would take several seconds.
const DIRECTORIES: [&str; 12] = [
    "kernel",
    "mm",
    "fs",
    "net",
    "lib",
    "block",
    "ipc",
    "init",
    "io_uring",
    "arch/arm64",
    "security",
    "crypto",
];

/// The maximum size of a source file in bytes; larger ones are generated tables.
const FILE_MAX: u64 = 4 << 20;

/// The maximum depth of directories, and of objects that are parts of others.
const DEPTH_MAX: usize = 16;

/// A function that the configuration leaves out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Omitted {
    /// The file that defines it, relative to the source tree.
    pub(crate) file: PathBuf,
    /// The symbol that must be set for the file to be built.
    pub(crate) symbol: String,
}

/// Returns the file that defines a function and the symbol that is not set for it; `None` if no file defines it,
/// or the configuration is not the reason.
///
/// # Errors
/// The source cannot be read.
pub(crate) fn omitted(source: &Path, config: &Config, name: &str) -> Result<Option<Omitted>> {
    for directory in DIRECTORIES {
        if let Some(file) = defining_file(source, Path::new(directory), name, 0)? {
            let symbol = unset_symbol(source, config, &file)?;
            return Ok(symbol.map(|symbol| Omitted { file, symbol }));
        }
    }
    Ok(None)
}

fn defining_file(source: &Path, directory: &Path, name: &str, depth: usize) -> Result<Option<PathBuf>> {
    let whole = source.join(directory);
    if depth == DEPTH_MAX || !whole.is_dir() {
        return Ok(None);
    }
    let mut below = Vec::new();
    for entry in fs::read_dir(&whole)? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            below.push(path);
        } else if kind.is_file()
            && path.extension().is_some_and(|extension| extension == "c")
            && entry.metadata()?.len() <= FILE_MAX
            && defines(&read_beneath(source, &path, FILE_MAX)?, name)
        {
            return Ok(Some(path));
        }
    }
    below.sort();
    for path in below {
        if let Some(file) = defining_file(source, &path, name, depth + 1)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Returns whether C source has a definition of the function, in the style of the kernel: its line starts in the
/// first column, and a `{` follows the parameters.
fn defines(text: &[u8], name: &str) -> bool {
    let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    memchr::memmem::find_iter(text, name).any(|at| {
        let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
        let before = &text[start..at];
        let whole = !before.last().is_some_and(|byte| is_word(*byte));
        let in_column_one = text.get(start).is_some_and(|byte| is_word(*byte));
        let plain = before.iter().all(|byte| is_word(*byte) || b" \t*".contains(byte));
        whole && in_column_one && plain && body_follows(&text[at + name.len()..])
    })
}

/// Returns whether this starts with parameters in parentheses, followed by a `{`.
fn body_follows(text: &[u8]) -> bool {
    let mut depth = 0_usize;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth <= 1 => {
                let mut rest = text[at + 1..].iter();
                return depth == 1 && rest.find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
            }
            b')' => depth -= 1,
            b';' | b'{' => return false,
            _ if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// Returns a symbol that is not set, on which the file, or a directory that it is in, is built.
fn unset_symbol(source: &Path, config: &Config, file: &Path) -> Result<Option<String>> {
    let object = file.with_extension("o");
    let mut path = object.as_path();
    while let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) {
        // Of a directory, the entry ends with a slash.
        let entry = if path == object { name.to_owned() } else { format!("{name}/") };
        for makefile in ["Kbuild", "Makefile"] {
            // Most directories have only one of them.
            let Ok(text) = read_beneath(source, parent.join(makefile), FILE_MAX) else { continue };
            let lines = logical_lines(&String::from_utf8_lossy(&text));
            if let Some(symbol) = unset_in(&lines, config, &entry, 0) {
                return Ok(Some(symbol));
            }
        }
        path = parent;
    }
    Ok(None)
}

/// Returns a symbol that is not set, if every line of a Makefile that has the entry depends on one.
fn unset_in(lines: &[String], config: &Config, entry: &str, depth: usize) -> Option<String> {
    let mut found = None;
    for line in lines {
        let Some((to, what)) = line.split_once('=') else { continue };
        if depth == DEPTH_MAX || !what.split_whitespace().any(|word| word == entry) {
            continue;
        }
        let to = to.trim_end_matches([':', '+', ' ', '\t']).trim();
        let symbol = to.split_once("CONFIG_").map(|(_, rest)| {
            rest.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).collect::<String>()
        });
        let unset = symbol.filter(|symbol| !config.is_set(symbol)).or_else(|| {
            // The object may be a part of another one.
            let whole = to.rsplit_once('-').map_or(to, |(whole, _)| whole);
            let part = !matches!(whole, "obj" | "lib" | "core") && format!("{whole}.o") != entry;
            part.then(|| unset_in(lines, config, &format!("{whole}.o"), depth + 1)).flatten()
        });
        // Built by this line.
        unset.as_ref()?;
        found = found.or(unset);
    }
    found
}

/// Joins lines that end with a backslash.
fn logical_lines(text: &str) -> Vec<String> {
    text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_told_from_a_call_and_a_prototype() {
        let check =
            |text: &str, expect: bool| assert_eq!(defines(text.as_bytes(), "ip_rcv"), expect, "{text}");
        check("int ip_rcv(struct sk_buff *skb,\n\t   int (*f)(int))\n{\n", true);
        check("static __always_inline int\nip_rcv(void)\n{", true);
        check("struct a *ip_rcv(void) {", true);
        check("int ip_rcv(struct sk_buff *skb);\n", false);
        check("\tip_rcv(skb);\n", false);
        check("int ip_rcv_core(int a)\n{", false);
        check("int skip_rcv(int a)\n{", false);
        check("x = ip_rcv(int a)\n{", false);
        check("int ip_rcv(", false);
    }

    #[test]
    fn a_file_is_built_on_the_symbols_of_its_makefiles() {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Kbuild", "obj-$(CONFIG_NET) += net/\n");
        write("net/Makefile", "obj-$(CONFIG_INET)\t\t+= ipv4/\nobj-y += core/\n");
        write(
            "net/ipv4/Makefile",
            "obj-y := route.o \\\n\tip_input.o\nfou-y := fou_core.o\nobj-$(CONFIG_FOU) += fou.o\n\
             obj-$(CONFIG_A) += both.o\nobj-$(CONFIG_B) += both.o\n",
        );
        for (file, function) in
            [("ip_input", "ip_rcv"), ("fou_core", "fou_create"), ("both", "shared"), ("none", "lost")]
        {
            write(&format!("net/ipv4/{file}.c"), &format!("int {function}(void)\n{{\n}}\n"));
        }
        let check = |config: &str, function: &str, expect: Option<&str>| {
            let config: String = config.split(' ').map(|symbol| format!("CONFIG_{symbol}=y\n")).collect();
            let found = omitted(tree.path(), &Config::parse(&config), function).unwrap();
            assert_eq!(found.map(|found| found.symbol).as_deref(), expect, "{function}: {config}");
        };
        check("NET", "ip_rcv", Some("INET"));
        check("INET", "ip_rcv", Some("NET"));
        check("NET INET", "ip_rcv", None);
        check("NET INET", "fou_create", Some("FOU"));
        check("NET INET FOU", "fou_create", None);
        check("NET INET", "shared", Some("A"));
        check("NET INET B", "shared", None);
        check("NET INET", "lost", None);
        check("NET INET", "ip_rvc", None);
    }
}
