//! The file `enabled_functions` of tracefs: the hooked functions, the number of their ftrace_ops, and flags.

use crate::{
    scenario::{EnabledFunctions, FLAGS},
    words::nearest_is,
};

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Enabled {
    pub(super) function: String,
    /// The number of ftrace_ops that are attached to it.
    pub(super) count: u64,
    /// Some of [`FLAGS`], in that order.
    pub(super) flags: Vec<char>,
}

/// Parses `vfs_write [module] (1) R I D O M`, which a tab and more may follow. The columns of flags that are
/// not set are blank. A kernel up to 6.1 has no columns for O and M. An indented line continues the one
/// before.
fn parse_line(line: &str) -> Option<Enabled> {
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let line = line.split('\t').next()?;
    let (function, rest) = line.split_once(" (")?;
    let (count, rest) = rest.split_once(')')?;
    // Old kernels print the separate trampoline of an ftrace_ops on the same line.
    let flags = rest.split(" tramp:").next()?;
    Some(Enabled {
        function: function.split(' ').next()?.to_owned(),
        count: count.parse().ok()?,
        flags: FLAGS.into_iter().filter(|flag| flags.split(' ').any(|word| is(word, *flag))).collect(),
    })
}

fn is(word: &str, flag: char) -> bool {
    word.chars().eq([flag])
}

/// Returns the functions that the file lists.
pub(super) fn parse(text: &str) -> Vec<Enabled> {
    text.lines().filter_map(parse_line).collect()
}

/// Returns the entries of the step's function.
pub(super) fn found(step: &EnabledFunctions, text: &str) -> String {
    let name = step.enabled_functions.as_str();
    let lines: Vec<String> =
        parse(text).iter().filter(|enabled| enabled.function == name).map(shown).collect();
    if lines.is_empty() { format!("`{name}` is not there") } else { format!("found {}", lines.join(", ")) }
}

/// Checks the entries of the step's function. Of several functions with its name, one must be as expected.
pub(super) fn check(step: &EnabledFunctions, text: &str) -> Option<String> {
    let name = step.enabled_functions.as_str();
    let all = parse(text);
    let named: Vec<&Enabled> = all.iter().filter(|enabled| enabled.function == name).collect();
    let Some(first) = named.first() else {
        let near = nearest_is(name, all.iter().map(|enabled| &enabled.function));
        return (!step.absent).then(|| format!("`{name}` is not in `enabled_functions`{near}"));
    };
    if step.absent {
        return Some(format!("expected no `{name}`, found {}", shown(first)));
    }
    let reasons: Vec<String> = named.iter().filter_map(|enabled| differs(step, enabled)).collect();
    (reasons.len() == named.len()).then(|| reasons.join("\n"))
}

fn differs(step: &EnabledFunctions, enabled: &Enabled) -> Option<String> {
    let count = step.count.unwrap_or_default();
    let missing = step.flags.0.iter().find(|flag| !enabled.flags.contains(flag));
    let forbidden = step.not_flags.0.iter().find(|flag| enabled.flags.contains(flag));
    let expected = match (missing, forbidden) {
        _ if !count.allows(enabled.count) => format!("{count} ftrace_ops"),
        (Some(flag), _) => format!("the flag {flag}"),
        (None, Some(flag)) => format!("no flag {flag}"),
        (None, None) => return None,
    };
    Some(format!("expected {expected}, found {}", shown(enabled)))
}

/// Formats an entry like the kernel, without the blanks.
fn shown(enabled: &Enabled) -> String {
    let flags: String = enabled.flags.iter().flat_map(|flag| [' ', *flag]).collect();
    format!("`{} ({}){flags}`", enabled.function, enabled.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Step};
    use std::path::Path;

    /// Lines as 5.10, 6.1 and 6.12 print them.
    const LINES: &[(&str, &str, u64, &str)] = &[
        ("vfs_write (1) R I  ", "vfs_write", 1, "RI"),
        ("vfs_write (2)      ", "vfs_write", 2, ""),
        (
            "schedule (1)      \ttramp: 0xffffffffc0000000 (function_trace_call+0x0/0x140) ->f+0x0/0x1",
            "schedule",
            1,
            "",
        ),
        ("vfs_write (1) R   D\n\tdirect-->my_tramp+0x0/0x1", "vfs_write", 1, "RD"),
        (
            "vfs_write (1)       O   \tops: global_ops+0x0/0xd8 (function_trace_call+0x0/0xf8)",
            "vfs_write",
            1,
            "O",
        ),
        (
            "vfs_write (1)   I   O M \tops: 0xffff0000c0de (hook_callback+0x0/0x1a0 [ftracehook])",
            "vfs_write",
            1,
            "IOM",
        ),
        ("ftracehook_recursed [ftracehook] (3)           ", "ftracehook_recursed", 3, ""),
    ];

    #[test]
    fn each_kernels_lines_are_read() {
        for (text, function, count, flags) in LINES {
            let expect =
                Enabled { function: (*function).into(), count: *count, flags: flags.chars().collect() };
            assert_eq!(parse(text), [expect], "{text}");
        }
        for odd in
            ["", "vfs_write", "vfs_write (x)", "\tdirect-->f (1)", "#### all functions enabled ####", "f (1"]
        {
            assert_eq!(parse(odd), [], "{odd}");
        }
    }

    #[test]
    fn each_kind_of_check_can_pass_and_fail() {
        let text = "vfs_read (2)             \nvfs_write (1)   I   O M \tops: x\n";
        let check = |fields: &str, expect: Option<&str>| {
            let yaml = format!("summary: x\nsteps: [ {{ enabled_functions: {fields} }} ]");
            let scenario = Scenario::parse(Path::new("x.yaml"), &yaml).unwrap();
            let Step::EnabledFunctions(step) = &scenario.steps[0].value else { panic!("{yaml}") };
            let found = check(step, text);
            assert_eq!(found.is_some(), expect.is_some(), "{fields}: {found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(expect.unwrap_or_default()), "{fields}: {found}");
        };
        check("vfs_write", None);
        check("vfs_writ", Some("`vfs_writ` is not in `enabled_functions`; the nearest is `vfs_write`"));
        check("vfs_write, absent: true", Some("expected no `vfs_write`, found `vfs_write (1) I O M`"));
        check("vfs_open, absent: true", None);
        check("vfs_read, count: 2, not_flags: R I D O M", None);
        check("vfs_read, count: 1", Some("expected exactly 1 ftrace_ops, found `vfs_read (2)`"));
        check("vfs_write, count: { at_least: 1 }, flags: I O, not_flags: R", None);
        check("vfs_write, flags: R", Some("expected the flag R, found `vfs_write (1) I O M`"));
        check("vfs_write, not_flags: M", Some("expected no flag M"));
    }
}
