//! Which scenarios a change concerns: those that ran the functions that changed.

use super::{FileChange, Line, Measured, MeasuredModule};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// The scenarios that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Any may be concerned, for this reason.
    All(String),
    /// These, the most concerned first.
    Some(Vec<Concerned>),
}

impl Affected {
    /// Returns whether a scenario may be concerned.
    pub fn names(&self, scenario: &str) -> bool {
        match self {
            Affected::All(_) => true,
            Affected::Some(concerned) => concerned.iter().any(|concerned| concerned.scenario == scenario),
        }
    }
}

/// A scenario that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Concerned {
    /// The scenario.
    pub scenario: String,
    /// The number of changed lines that it ran.
    pub changed: usize,
    /// The number of lines that it ran of the functions that changed.
    pub around: usize,
    /// These lines.
    #[serde(skip)]
    lines: BTreeSet<usize>,
}

/// A scenario is slow if it takes this many times as long as most.
const SLOW: f64 = 20.0;

/// Takes the slow scenarios out of `concerned` whose lines the others ran, and returns them, given the seconds
/// that a scenario took, and those that most take.
pub fn take_slow(
    concerned: &mut Vec<Concerned>,
    seconds: impl Fn(&str) -> Option<f64>,
    median: f64,
) -> Vec<Concerned> {
    let time = |concerned: &Concerned| seconds(&concerned.scenario).unwrap_or(0.0);
    let (mut slow, quick): (Vec<&Concerned>, Vec<&Concerned>) =
        concerned.iter().partition(|concerned| time(concerned) > SLOW * median);
    let mut covered: BTreeSet<usize> = quick.iter().flat_map(|quick| &quick.lines).copied().collect();
    slow.sort_by(|a, b| time(a).total_cmp(&time(b)));
    slow.retain(|slow| {
        let is_needed = slow.lines.is_empty() || !slow.lines.is_subset(&covered);
        covered.extend(&slow.lines);
        !is_needed
    });
    let needless: BTreeSet<String> = slow.into_iter().map(|slow| slow.scenario.clone()).collect();
    concerned.extract_if(.., |concerned| needless.contains(&concerned.scenario)).collect()
}

/// A file that is part of every build: a change of it concerns any scenario.
const BUILD_FILES: [&str; 3] = ["Kconfig", "Makefile", "Kbuild"];

/// Returns why a change of the file may concern any scenario, if it may.
fn concerns_all(file: &str) -> Option<String> {
    let name = file.rsplit('/').next().unwrap_or(file);
    if name.ends_with(".h") {
        return Some(format!("`{file}` is a header, which many files include"));
    }
    if name.ends_with(".S") || name.ends_with(".lds") {
        return Some(format!("`{file}` is not C, and its lines are not measured"));
    }
    let is_build_file = BUILD_FILES.iter().any(|other| name.starts_with(other));
    is_build_file.then(|| format!("`{file}` affects how the kernel is built"))
}

impl Measured {
    /// Returns whether a file is one of the sources of a module that scenarios loaded.
    pub fn is_of_module(&self, file: &str) -> bool {
        self.modules_with(file).next().is_some()
    }

    /// Returns whether any of these lines of a file has code.
    pub fn has_code(&self, file: &str, lines: &Range<u32>) -> bool {
        let has = |line: &Line| self.source.files[line.file] == file && lines.contains(&line.number);
        self.source.lines.iter().any(has)
    }

    fn modules_with(&self, file: &str) -> impl Iterator<Item = &MeasuredModule> + Clone {
        self.modules.iter().filter(move |module| module.files.contains_key(file))
    }

    /// Returns whether any of the lines is in the init of a module that had run before scenarios began.
    fn restores(&self, module: &MeasuredModule, lines: &[usize]) -> bool {
        let ran = self.source.lines_in(&module.restored);
        lines.iter().any(|line| ran[*line])
    }
}

/// Returns the scenarios that a change of the measured kernel, or of its modules, concerns. `text` returns what a
/// file was before the change, if that is not what was measured.
pub fn affected(
    measured: &Measured,
    changes: &[FileChange],
    text: impl Fn(&str) -> Option<String>,
) -> Affected {
    let mut of_kernel = changes.iter().filter(|change| !measured.is_of_module(&change.file));
    if let Some(why) = of_kernel.find_map(|change| concerns_all(&change.file)) {
        return Affected::All(why);
    }
    let (mut changed, mut around) = (BTreeSet::new(), BTreeSet::new());
    let mut loading = BTreeSet::new();
    for change in changes {
        let modules = measured.modules_with(&change.file);
        if concerns_all(&change.file).is_some() {
            loading.extend(modules.clone().flat_map(|module| &module.scenarios));
        }
        let Some(file) = measured.source.files.iter().position(|file| *file == change.file) else { continue };
        let own = measured.text_of(&change.file).unwrap_or_default();
        let before = text(&change.file).unwrap_or_else(|| own.clone());
        let is_changed = |lines: &Range<u32>| {
            change.before.iter().any(|other| lines.start < other.end && other.start < lines.end)
        };
        let names: BTreeSet<String> =
            functions(&before).filter(|(_, lines)| is_changed(lines)).map(|(name, _)| name).collect();
        let concerned: Vec<Range<u32>> =
            functions(&own).filter(|(name, _)| names.contains(name)).map(|(_, lines)| lines).collect();
        let same = before == own;
        let in_file: Vec<(usize, u32)> = (measured.source.lines.iter().enumerate())
            .filter(|(_, line)| line.file == file)
            .map(|(index, line)| (index, line.number))
            .collect();
        let of_functions: Vec<usize> = (in_file.iter())
            .filter(|(_, number)| concerned.iter().any(|lines| lines.contains(number)))
            .map(|(index, _)| *index)
            .collect();
        loading.extend(
            modules
                .filter(|module| measured.restores(module, &of_functions))
                .flat_map(|module| &module.scenarios),
        );
        match of_functions.is_empty() {
            // A table, a macro, or a function that runs during boot: any code of the file may use it.
            true => around.extend(in_file.iter().map(|(index, _)| *index)),
            false => around.extend(of_functions),
        }
        let is_changed = |number: u32| same && is_changed(&(number..number + 1));
        changed.extend(in_file.iter().filter(|(_, number)| is_changed(*number)).map(|(index, _)| *index));
    }
    Affected::Some(ranked(measured, &changed, &around, &loading))
}

/// Returns the scenarios that ran any of the lines, and those that are `loading` a module of which all may have
/// changed. Of those that ran equally many lines, the one that ran the least else comes first.
fn ranked(
    measured: &Measured,
    changed: &BTreeSet<usize>,
    around: &BTreeSet<usize>,
    loading: &BTreeSet<&String>,
) -> Vec<Concerned> {
    let mut found = Vec::new();
    for (scenario, code) in &measured.scenarios {
        let own = measured.source.lines_in(&code.without(&measured.empty));
        let count = |lines: &BTreeSet<usize>| lines.iter().filter(|line| own[**line]).count();
        let lines: BTreeSet<usize> = changed.union(around).copied().filter(|line| own[*line]).collect();
        if !lines.is_empty() || loading.contains(scenario) {
            let (changed, around) = (count(changed), count(around));
            found.push((code.size(), Concerned { scenario: scenario.clone(), changed, around, lines }));
        }
    }
    found.sort_by_key(|(size, found)| (Reverse(found.changed), Reverse(found.around), *size));
    found.into_iter().map(|(_, concerned)| concerned).collect()
}

/// Returns the functions of a C file in the kernel's style, with their lines: a function begins with a line that
/// is not indented and has its name before a parenthesis, and ends with a brace that is not indented.
fn functions(text: &str) -> impl Iterator<Item = (String, Range<u32>)> {
    let mut open: Option<(String, u32)> = None;
    text.lines().zip(1_u32..).filter_map(move |(line, number)| {
        if line.starts_with('}') {
            return open.take().map(|(name, start)| (name, start..number + 1));
        }
        if let Some(name) = defined(line) {
            open = Some((name, number));
        }
        None
    })
}

/// Returns the name that a line may begin to define a function of: `static int f(…`, or `f(…` after a line
/// with its type. Of a macro that defines a function, as `SYSCALL_DEFINE2(f, …`, its name with its argument.
fn defined(line: &str) -> Option<String> {
    let starts = line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || line.trim_end().ends_with(';') {
        return None;
    }
    let (head, arguments) = line.split_once('(')?;
    let name = head.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    if name.ends_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()) && name.contains("DEFINE") {
        return Some(format!("{name}({}", arguments.split([',', ')']).next()?));
    }
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the changed lines that have code and that no scenario ran, by file.
pub fn never_run<'a>(measured: &'a Measured, changes: &[FileChange]) -> BTreeMap<&'a str, Vec<u32>> {
    let ran = measured.source.lines_in(&measured.ran());
    let mut never: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (line, ran) in measured.source.lines.iter().zip(ran) {
        let file = measured.source.files[line.file].as_str();
        let is_changed = changes.iter().any(|change| {
            change.file == file && change.after.iter().any(|lines| lines.contains(&line.number))
        });
        if is_changed && !ran {
            never.entry(file).or_default().push(line.number);
        }
    }
    never
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
#include <linux/x.h>

static int first(int a,
		 int b)
{
	if (a)
		return b;
	return 0;
}

struct s {
	int x;
};

long
second(void)
{
	return 1;
}

SYSCALL_DEFINE1(third, int, a)
{
	return first(a, 1);
}
static DEFINE_MUTEX(lock);
void declared(int);
";

    #[test]
    fn a_line_is_in_a_function() {
        let check = |lines: Range<u32>, expect: &[&str]| {
            let has = |of: &Range<u32>| of.start < lines.end && lines.start < of.end;
            let found: Vec<_> = functions(FILE).filter(|(_, of)| has(of)).map(|(name, _)| name).collect();
            assert_eq!(found, expect, "{lines:?}");
        };
        check(6..7, &["first"]);
        check(3..4, &["first"]);
        check(9..10, &["first"]);
        check(10..11, &[]);
        check(12..13, &[]);
        check(18..19, &["second"]);
        check(23..24, &["SYSCALL_DEFINE1(third"]);
        check(8..24, &["first", "second", "SYSCALL_DEFINE1(third"]);
        check(25..99, &[]);
    }

    #[test]
    fn a_slow_scenario_is_needed_for_lines_that_no_other_ran() {
        let concerned = |scenario: &str, lines: &[usize]| Concerned {
            scenario: scenario.to_owned(),
            changed: lines.len(),
            around: 0,
            lines: lines.iter().copied().collect(),
        };
        let all = || {
            vec![
                concerned("slow/all", &[1, 2, 3, 4]),
                concerned("slow/new", &[1, 3]),
                concerned("slow/same", &[1, 2]),
                concerned("quick", &[1, 2]),
                concerned("unknown", &[5]),
            ]
        };
        let check = |seconds: [f64; 3], expect: &[&str]| {
            let time = |scenario: &str| match scenario {
                "slow/all" => Some(seconds[0]),
                "slow/new" => Some(seconds[1]),
                "slow/same" => Some(seconds[2]),
                "quick" => Some(10.0),
                _ => None,
            };
            let mut kept = all();
            let slow = take_slow(&mut kept, time, 1.0);
            let names: Vec<_> = slow.iter().map(|concerned| concerned.scenario.as_str()).collect();
            assert_eq!(names, expect, "{seconds:?}");
            assert_eq!(kept.len() + slow.len(), all().len());
        };
        check([80.0, 30.0, 40.0], &["slow/same"]);
        check([25.0, 30.0, 40.0], &["slow/new", "slow/same"]);
        check([1.0, 30.0, 40.0], &["slow/new", "slow/same"]);
        check([80.0, 1.0, 1.0], &[]);
    }

    #[test]
    fn what_many_files_use_concerns_all() {
        let check = |file, expect: Option<&str>| {
            let why = concerns_all(file);
            assert_eq!(why.is_some(), expect.is_some(), "{file}");
            assert!(why.unwrap_or_default().contains(expect.unwrap_or_default()), "{file}");
        };
        check("kernel/trace/trace.h", Some("header"));
        check("kernel/trace/Kconfig", Some("built"));
        check("Makefile", Some("built"));
        check("arch/arm64/kernel/entry-ftrace.S", Some("not C"));
        check("kernel/trace/trace.c", None);
        check("Documentation/trace/ftrace.rst", None);
    }
}
