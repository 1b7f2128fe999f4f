//! The program of a `workload:` step: one of `guest/workloads`, or one built from a C file of its own.

use crate::scenario::{
    read::{
        scalar::{FromText, from_text, printable_line},
        shapes::Shapes,
    },
    values::{
        command::{CommandLine, Words},
        names::ProgramName,
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
    Source(SourceProgram),
}

/// A program that is built from a C file outside of `guest/workloads`, in a copy. Other steps and uprobes
/// name it by its file without `.c`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceProgram {
    /// The C file, relative to the scenario file. It can include the headers next to it and those of
    /// `guest/workloads`.
    pub source: CFile,
    /// Its arguments, split into words like a shell command.
    #[serde(default)]
    pub arguments: Words,
}

impl Program {
    /// Returns the program's name, without a directory.
    pub fn program(&self) -> &str {
        match self {
            Program::Named(command) => command.program(),
            Program::Source(program) => program.source.name(),
        }
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &[String] {
        match self {
            Program::Named(command) => command.arguments(),
            Program::Source(program) => &program.arguments.0,
        }
    }

    /// Returns the C file, if the scenario brings it.
    pub fn source(&self) -> Option<&Path> {
        match self {
            Program::Named(_) => None,
            Program::Source(program) => Some(&program.source.0),
        }
    }
}

/// The form used in messages.
impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program::Named(command) => command.fmt(out),
            Program::Source(SourceProgram { source, arguments }) => {
                let words = [&[source.0.display().to_string()][..], &arguments.0].concat();
                out.write_str(&words.join(" "))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Program, D::Error> {
        Shapes::new("a program and its arguments, or a C file such as `{ source: mine.c }`")
            .text(|text| CommandLine::from_text(text).map(Program::Named))
            .map(|program: SourceProgram| Ok(Program::Source(program)))
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

/// A C file with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CFile(pub(in crate::scenario) PathBuf);

impl CFile {
    /// Returns the path of the file.
    pub(in crate::scenario) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the program's name.
    pub(in crate::scenario) fn name(&self) -> &str {
        self.0.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }
}

impl FromText for CFile {
    const EXPECTED: &'static str = "a C file named after its program, such as mine.c";

    fn from_text(text: &str) -> Result<CFile, String> {
        printable_line(text)?;
        let file = CFile(text.into());
        let is_program = ProgramName::from_text(file.name()).is_ok();
        if text.len() > 4000 || !text.ends_with(".c") || !is_program {
            return Err(format!("`{text}` is not a program's source, expected {}", Self::EXPECTED));
        }
        Ok(file)
    }
}

from_text!(CFile, { "type": "string", "pattern": "\\.c$", "examples": ["mine.c", "../programs/mine.c"] });

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
                    let own: Vec<_> = own.map(|(name, file)| (name, file.to_str().unwrap())).collect();
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
                    let source = found.source().and_then(Path::to_str);
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
        for source in ["mine", "mine.cc", ".c", "a/.c", "'a b.c'", "'a\\nb.c'", "mine.c/"] {
            check(&format!("{{ source: {source} }}"), Err("expected"));
        }
        check("{ arguments: one }", Err("source"));
        check("{ source: mine.c, args: one }", Err("args"));
        check("7", Err("expected a program and its arguments, or a C file"));
    }
}
