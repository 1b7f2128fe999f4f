//! The program of a `workload:` step: one of `guest/workloads`, or one built from sources of its own.

use crate::scenario::{
    read::{
        scalar::{FromText, from_text, printable_line},
        shapes::Shapes,
    },
    values::{
        command::{CommandLine, Words},
        names::{Line, ProgramName},
    },
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// One of `guest/workloads`.
    Named(CommandLine),
    /// One that the scenario brings.
    Brought(ProgramSource, Words),
}

/// What a program is built from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramSource {
    /// A C file named after it, relative to the scenario file.
    File(PathBuf),
    /// A directory, relative to the scenario file, in a copy of which a command makes it.
    Made {
        /// The directory.
        directory: PathBuf,
        /// The command, as for `sh -c`.
        command: String,
        /// The name of the program.
        name: String,
    },
}

/// A program that is built from sources outside of `guest/workloads`, in a copy. Other steps and uprobes name it by
/// its file without `.c`, or by its `name`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceProgram {
    /// The C file, relative to the scenario file. It can include the headers next to it and those of
    /// `guest/workloads`. With `build`, the directory in which that runs.
    pub source: SourcePlace,
    /// The command that makes the program, as for `sh -c`: `make tracer LDFLAGS=-static`, `cargo build --release`. It
    /// runs in a copy of the directory, without network. Compilers for arm64 are set for every make and cargo, and as
    /// `CC` and `CXX`; a program must be linked statically.
    #[serde(default)]
    pub build: Option<Line>,
    /// The name of the program that `build` makes, wherever it is below the directory.
    #[serde(default)]
    pub name: Option<ProgramName>,
    /// Its arguments, split into words like a shell command.
    #[serde(default)]
    pub arguments: Words,
}

impl SourceProgram {
    fn checked(self) -> Result<Program, String> {
        let SourceProgram { source: SourcePlace(place), build, name, arguments } = self;
        let source = match (build, name) {
            (Some(command), Some(name)) => {
                let (command, name) = (command.to_string(), name.as_str().to_owned());
                ProgramSource::Made { directory: place, command, name }
            }
            (Some(_), None) => return Err("`build` without the `name` of the program that it makes".into()),
            (None, Some(_)) => return Err("`name` without the `build` that makes it".into()),
            (None, None) => ProgramSource::File(CFile::from_text(&place.to_string_lossy())?.0),
        };
        Ok(Program::Brought(source, arguments))
    }
}

impl Program {
    /// Returns the program's name, without a directory.
    pub fn program(&self) -> &str {
        match self {
            Program::Named(command) => command.program(),
            Program::Brought(source, _) => source.name(),
        }
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &[String] {
        match self {
            Program::Named(command) => command.arguments(),
            Program::Brought(_, arguments) => &arguments.0,
        }
    }

    /// Returns what it is built from, if the scenario brings it.
    pub fn source(&self) -> Option<&ProgramSource> {
        match self {
            Program::Named(_) => None,
            Program::Brought(source, _) => Some(source),
        }
    }
}

impl ProgramSource {
    /// Returns the program's name.
    pub fn name(&self) -> &str {
        match self {
            ProgramSource::File(file) => file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default(),
            ProgramSource::Made { name, .. } => name,
        }
    }

    /// Returns the file or directory, relative to the scenario file.
    pub fn path(&self) -> &Path {
        let (ProgramSource::File(path) | ProgramSource::Made { directory: path, .. }) = self;
        path
    }
}

/// The form used in messages.
impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program::Named(command) => command.fmt(out),
            Program::Brought(source, arguments) => {
                let place = match source {
                    ProgramSource::File(file) => file.display().to_string(),
                    ProgramSource::Made { directory, name, .. } => {
                        // `.` alone would say nothing.
                        directory.join(name).display().to_string()
                    }
                };
                let words = [&[place][..], &arguments.0].concat();
                out.write_str(&words.join(" "))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Program, D::Error> {
        Shapes::new("a program and its arguments, or a C file such as `{ source: mine.c }`")
            .text(|text| CommandLine::from_text(text).map(Program::Named))
            .map(SourceProgram::checked)
            .read(deserializer)
    }
}

impl JsonSchema for Program {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Program".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let named = generator.subschema_for::<CommandLine>();
        let source = generator.subschema_for::<SourceProgram>();
        json_schema!({ "anyOf": [named, source] })
    }
}

/// Where the sources of a program are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace(PathBuf);

impl FromText for SourcePlace {
    const EXPECTED: &'static str = "a C file such as mine.c, or with `build` a directory";

    fn from_text(text: &str) -> Result<SourcePlace, String> {
        printable_line(text)?;
        if text.trim().is_empty() || text.len() > 4000 {
            return Err(format!("`{text}` is no path, expected {}", Self::EXPECTED));
        }
        Ok(SourcePlace(text.into()))
    }
}

from_text!(SourcePlace, { "type": "string", "minLength": 1, "examples": ["mine.c", "../programs/mine.c", "../tracer"] });

/// A C file with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CFile(PathBuf);

impl FromText for CFile {
    const EXPECTED: &'static str = "a C file named after its program, such as mine.c";

    fn from_text(text: &str) -> Result<CFile, String> {
        printable_line(text)?;
        let file = ProgramSource::File(text.into());
        let is_program = ProgramName::from_text(file.name()).is_ok();
        if text.len() > 4000 || !text.ends_with(".c") || !is_program {
            return Err(format!("`{text}` is not a program's source, expected {}", Self::EXPECTED));
        }
        Ok(CFile(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn a_name_has_one_file() {
        let check = |steps: &str, expect: Result<&[(&str, &str)], &str>| {
            let source = format!("summary: x\nsteps: [{steps}]\n");
            let found = Scenario::parse(Path::new("x.yaml"), &source).map_err(|error| error.message);
            match (found, expect) {
                (Ok(found), Ok(expect)) => {
                    let own = found.own_workloads().into_iter();
                    let own: Vec<_> =
                        own.map(|(name, source)| (name, source.path().to_str().unwrap())).collect();
                    assert_eq!(own, expect, "{steps}");
                }
                (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
                (found, expect) => panic!("found {found:?}, expected {expect:?}"),
            }
        };
        let one = "{ workload: { source: a/mine.c } }";
        check(&format!("{one}, {{ workload: eventfd 1 }}, {one}"), Ok(&[("mine", "a/mine.c")]));
        check(&format!("{one}, {{ workload: {{ source: b/mine.c }} }}"), Err("are both called `mine`"));
    }

    #[test]
    fn a_program_is_named_or_has_a_file() {
        let check = |yaml: &str, expect: Result<(&str, &[&str], Option<&str>), &str>| {
            let found = crate::yaml::from_str::<Program>(yaml).map_err(|error| error.to_string());
            match (&found, expect) {
                (Ok(found), Ok(expect)) => {
                    let arguments: Vec<_> = found.arguments().iter().map(String::as_str).collect();
                    let source = found.source().and_then(|source| source.path().to_str());
                    assert_eq!((found.program(), &arguments[..], source), expect, "{yaml}");
                }
                (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
                (found, expect) => panic!("found {found:?}, expected {expect:?}"),
            }
        };
        check("eventfd --sleep 0", Ok(("eventfd", &["--sleep", "0"], None)));
        check("{ source: ../a/mine.c }", Ok(("mine", &[], Some("../a/mine.c"))));
        check(
            "{ source: mine.c, arguments: one 'two three' }",
            Ok(("mine", &["one", "two three"], Some("mine.c"))),
        );
        check(
            "{ source: ../tool, build: make, name: mine, arguments: one }",
            Ok(("mine", &["one"], Some("../tool"))),
        );
        check("{ source: ../tool, build: make }", Err("`build` without the `name`"));
        check("{ source: mine.c, name: mine }", Err("`name` without the `build`"));
        for source in ["mine", "mine.cc", ".c", "a/.c", "'a b.c'", "'a\\nb.c'", "mine.c/"] {
            check(&format!("{{ source: {source} }}"), Err("expected"));
        }
        check("{ arguments: one }", Err("source"));
        check("{ source: mine.c, args: one }", Err("args"));
        check("7", Err("expected a program and its arguments, or a C file"));
    }
}
