//! `guest/workloads/NAME.c` → a static aarch64 program called NAME.

use super::{
    CROSS_GCC, busybox,
    modules::sources::{self, Files},
    recipe::Recipe,
    strip,
};
use crate::{
    cache::{Key, KeyBuilder},
    context::Lab,
    host::{confine::Reach, process::Tool},
    scenario::ProgramSource,
};
use anyhow::{Context, Result, anyhow};
use fs_err as fs;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Compiler flags. Stack traces and uprobes need frame pointers and symbols.
const FLAGS: [&str; 9] = [
    "-static",
    "-pthread",
    "-std=gnu11",
    "-O2",
    "-g",
    "-fno-omit-frame-pointer",
    "-Wall",
    "-Wextra",
    "-Werror",
];

/// Builds the workloads in the directory `sources` that are not in the cache for these sources and this
/// compiler. Returns all programs by name.
pub(super) fn build(lab: &Lab, sources: &Path, compiler: &str) -> Result<BTreeMap<String, PathBuf>> {
    let (programs, headers) = read_sources(sources)?;
    let mut built = BTreeMap::new();
    for (name, source) in programs {
        let key = key(compiler, &headers, &name, &source);
        let waiting =
            || lab.progress.line(format!("waiting for another process that is building the workload {name}"));
        let entry = lab.cache.entry("workloads", &key, waiting, |into| {
            let _task = lab.progress.task(format!("building the workload {name}"), None);
            compile(&sources.join(format!("{name}.c")), &into.join(&name))
        })?;
        built.insert(name.clone(), entry.join(&name));
    }
    Ok(built)
}

/// Builds the workloads that scenarios bring.
#[derive(Clone, Debug)]
pub struct OwnWorkloads {
    lab: Lab,
    compiler: String,
    /// The directory of the lab's workloads, whose headers they can include.
    shared: PathBuf,
}

impl OwnWorkloads {
    /// Builds with the cross compiler of this version.
    pub(super) fn new(lab: &Lab, shared: PathBuf, compiler: String) -> OwnWorkloads {
        OwnWorkloads { lab: lab.clone(), compiler, shared }
    }

    /// Returns the shell of guests without a userland.
    pub(super) fn busybox(&self) -> Result<PathBuf> {
        busybox::obtain(&self.lab)
    }

    /// Builds a program of a scenario in the directory `beside`, from a copy of its sources, unless the cache has
    /// it. Compiler warnings are ignored. Returns the program.
    pub(super) fn build(&self, source: &ProgramSource, beside: &Path) -> Result<PathBuf> {
        let name = source.name();
        let place = beside.join(source.path());
        let failed = || format!("cannot build the workload `{}`", place.display());
        let files = sources::program(source, beside).with_context(failed)?;
        let entry = match source {
            ProgramSource::File(_) => self.compiled(name, &place, &files),
            ProgramSource::Made { command, .. } => {
                Recipe { lab: &self.lab, compiler: &self.compiler, command, name }.made(&files)
            }
        };
        Ok(entry.with_context(failed)?.join(name))
    }

    /// Compiles a C file and the headers that it can include. Returns the entry of the cache.
    fn compiled(&self, name: &str, source: &Path, files: &Files) -> Result<PathBuf> {
        let (_, shared) = read_sources(&self.shared)?;
        let mut key = KeyBuilder::default()
            .input("compiler", &self.compiler)
            .input("flags", own_flags().join(" "))
            .input("name", name);
        for (header, text) in &shared {
            key = key.input(&format!("shared {header}"), text);
        }
        for (path, data) in files {
            key = key.input(&path.to_string_lossy(), data);
        }
        let waiting = || {
            let line = format!("waiting for another process that is building the workload {name}");
            self.lab.progress.line(line);
        };
        self.lab.cache.entry("workloads", &key.finish(name), waiting, |into| {
            let _task = self.lab.progress.task(format!("building the workload {name}"), None);
            let copy = into.join("build");
            let shared = shared.iter();
            let shared = shared.map(|(header, text)| (Path::new(header).with_extension("h"), text.clone()));
            sources::write(&shared.collect(), &copy)?;
            sources::write(files, &copy)?;
            let program = into.join(name);
            // The copy's path differs each time, and means nothing to anyone.
            let map = format!("-ffile-prefix-map={}=.", copy.display());
            let beside = source.parent().unwrap_or(Path::new("")).to_string_lossy();
            let built = compile_with(
                own_flags().into_iter().chain([&*map]),
                &copy.join(format!("{name}.c")),
                &program,
            );
            built
                .map_err(|error| anyhow!(format!("{error:#}").replace(&*copy.to_string_lossy(), &beside)))?;
            Ok(fs::remove_dir_all(&copy)?)
        })
    }
}

/// The compiler flags of workloads that scenarios bring.
fn own_flags<'a>() -> Vec<&'a str> {
    FLAGS.into_iter().filter(|flag| !flag.starts_with("-W")).collect()
}

/// The programs' sources by name, and all headers.
type Sources = (BTreeMap<String, Vec<u8>>, BTreeMap<String, Vec<u8>>);

fn read_sources(directory: &Path) -> Result<Sources> {
    let (mut programs, mut headers) = (BTreeMap::new(), BTreeMap::new());
    for file in fs::read_dir(directory).context("cannot list the workloads")? {
        let path = file?.path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let into = match path.extension().and_then(|extension| extension.to_str()) {
            Some("c") => &mut programs,
            Some("h") => &mut headers,
            _ => continue,
        };
        let text = fs::read(&path)?;
        into.insert(stem.to_owned(), text);
    }
    Ok((programs, headers))
}

fn key(compiler: &str, headers: &BTreeMap<String, Vec<u8>>, name: &str, source: &[u8]) -> Key {
    let mut key = KeyBuilder::default()
        .input("compiler", compiler)
        .input("flags", FLAGS.join(" "))
        .input("name", name)
        .input("source", source);
    for (header, text) in headers {
        key = key.input(header, text);
    }
    key.finish(name)
}

/// Compiles `source` to `program`, without symbols, and to `program` plus `.debug`, with symbols.
fn compile(source: &Path, program: &Path) -> Result<()> {
    compile_with(FLAGS, source, program)
        .with_context(|| format!("cannot build the workload `{}`", source.display()))
}

fn compile_with<'a>(flags: impl IntoIterator<Item = &'a str>, source: &Path, program: &Path) -> Result<()> {
    let with_symbols = program.with_extension("debug");
    let into = program.parent().unwrap_or(program);
    let sources = source.parent().unwrap_or(source);
    Tool::new(CROSS_GCC)
        .args(flags)
        .arg("-o")
        .arg(&with_symbols)
        .arg(source)
        .confined(Reach::new(into).reading([sources]))
        .run()?;
    strip(&[], &with_symbols, program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_keyed_by_all_that_shapes_it() {
        let none = BTreeMap::new();
        let one = key("gcc 12", &none, "cat", b"int main;");
        assert_eq!(one, key("gcc 12", &none, "cat", b"int main;"));
        let header = BTreeMap::from([("common".to_owned(), b"#define X".to_vec())]);
        for other in [
            key("gcc 13", &none, "cat", b"int main;"),
            key("gcc 12", &header, "cat", b"int main;"),
            key("gcc 12", &none, "dog", b"int main;"),
            key("gcc 12", &none, "cat", b"int  main;"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn sources_and_headers_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["one.c", "two.c", "both.h", "README.md"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let (programs, headers) = read_sources(directory.path()).unwrap();
        assert_eq!(programs.keys().collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["both"]);
        let error = read_sources(&directory.path().join("none")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot list the workloads"), "{error:#}");
    }

    #[test]
    fn a_compiler_error_shows_file_and_line() {
        if crate::host::process::which(CROSS_GCC).is_none() {
            eprintln!("unsupported: no {CROSS_GCC}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("bad.c");
        fs::write(&source, "int main(void)\n{\n\treturn missing;\n}\n").unwrap();
        let error = format!("{:#}", compile(&source, &directory.path().join("bad")).unwrap_err());
        assert!(error.contains("cannot build the workload") && error.contains("bad.c:3:"), "{error}");
    }
}
