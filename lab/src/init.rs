//! A directory → the files with which its tests begin: `ftrace-lab.yaml` and a first scenario that passes.

use crate::{
    guest::is_kernel_tree,
    scenario::{FromText, ModuleName, PROJECT_FILE, ProgramName, Template},
    words::called,
};
use anyhow::{Result, bail};
use fs_err as fs;
use regex::Regex;
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

/// A kernel that needs no build.
const FIRST_KERNEL: &str = "debian-13";

/// Where schemas for editors are, below the directory of results.
pub const SCHEMAS: &str = "schema";

/// The schema of scenarios, below a project's directory.
pub const SCENARIO_SCHEMA: &str = "results/schema/scenario.json";

/// Maximum depth at which modules and programs are searched.
const DEPTH_MAX: usize = 4;

/// Maximum size of a file that is searched, in bytes.
const SIZE_MAX: u64 = 1 << 20;

/// What a directory has that can be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Modules that kbuild builds, by name, and the directory of each. Several directories may build one of a name.
    Modules(Vec<(String, PathBuf)>),
    /// The source of a kernel.
    KernelTree,
    /// A C file with a `main`.
    Program(PathBuf),
    /// A program that a command makes.
    Made {
        /// Its name.
        name: String,
        /// The command.
        command: &'static str,
    },
}

/// The commands that make the program of a cargo package, and of a Makefile.
const CARGO: &str = "cargo build --release";
const MAKE: &str = "make LDFLAGS=-static";

impl Subject {
    /// Looks at a directory.
    ///
    /// # Errors
    /// It has nothing that can be tested.
    pub fn of(directory: &Path) -> Result<Subject> {
        if is_kernel_tree(directory) {
            return Ok(Subject::KernelTree);
        }
        let mut files = Vec::new();
        collect(directory, Path::new(""), DEPTH_MAX, &mut files);
        let mut modules: Vec<(String, PathBuf)> = Vec::new();
        for file in files.iter().filter(|file| file.ends_with("Kbuild") || file.ends_with("Makefile")) {
            for name in modules_of(&text(&directory.join(file))) {
                let module = (name, file.parent().unwrap_or(file).to_owned());
                if !modules.contains(&module) {
                    modules.push(module);
                }
            }
        }
        if !modules.is_empty() {
            return Ok(Subject::Modules(modules));
        }
        if let Some(name) = package_of(&text(&directory.join("Cargo.toml"))) {
            return Ok(Subject::Made { name, command: CARGO });
        }
        let mains =
            files.into_iter().filter(|file| is_program(file) && has_main(&text(&directory.join(file))));
        // A test is meant to be run.
        let mut mains: Vec<PathBuf> = mains.collect();
        mains.sort_by_key(|file| (!file.to_string_lossy().contains("test"), file.clone()));
        let makefile = text(&directory.join("Makefile"));
        match mains.into_iter().next() {
            Some(program) => {
                let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let is_made = Regex::new(&format!(r"(?m)^([^#\n]*\s)?{}\s*:([^=]|$)", regex::escape(&name)));
                match is_made.is_ok_and(|rule| rule.is_match(&makefile)) {
                    true => Ok(Subject::Made { name, command: MAKE }),
                    false => Ok(Subject::Program(program)),
                }
            }
            None => bail!(
                "`{}` has neither a module (a Kbuild or a Makefile with `obj-m`), nor a program (a cargo package or a \
                 C file with a `main`), nor is it a kernel tree",
                directory.display()
            ),
        }
    }

    /// Returns the files to write, by their path below the directory.
    pub fn files(&self) -> Result<Vec<(PathBuf, String)>> {
        let schema = format!("../{SCENARIO_SCHEMA}");
        let head = format!("# yaml-language-server: $schema={schema}\n");
        let scenario = match self {
            Subject::Modules(modules) => {
                let (name, _) = &modules[0];
                format!(
                    "{head}# It fails if the module does not build, load or unload, or leaves probes, hooks or files \
                     behind,\n# or if the kernel warns.\n\
                     summary: {name} loads and unloads\n\
                     steps:\n  - load: {name}\n  - unload: {name}\n"
                )
            }
            Subject::Program(file) => runs(&head, &file.file_stem().unwrap_or_default().to_string_lossy()),
            Subject::Made { name, .. } => runs(&head, name),
            Subject::KernelTree => Template::Values.written("first", &schema)?,
        };
        Ok(vec![(PROJECT_FILE.into(), self.project()), ("scenarios/first.yaml".into(), scenario)])
    }

    fn project(&self) -> String {
        let mut text = "# yaml-language-server: $schema=results/schema/project.json\nversion: 1\n".to_owned();
        if !matches!(self, Subject::KernelTree) {
            let _ = writeln!(text, "kernels: [{FIRST_KERNEL}]");
        }
        match self {
            Subject::Modules(modules) => {
                text.push_str("modules:\n");
                for (index, (name, directory)) in modules.iter().enumerate() {
                    let directory = match directory.as_os_str().is_empty() {
                        true => ".".into(),
                        false => directory.to_string_lossy(),
                    };
                    let before = modules[..index].iter().filter(|(other, _)| other == name).count();
                    let _ = match before {
                        0 => writeln!(text, "  {name}: {{ source: {directory} }}"),
                        // Of the same name in another directory.
                        _ => {
                            writeln!(text, "  {name}_{}: {{ source: {directory}, name: {name} }}", before + 1)
                        }
                    };
                }
            }
            Subject::Program(file) => {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                let _ = writeln!(text, "workloads:\n  {name}: {{ source: {} }}", file.display());
            }
            Subject::Made { name, command } => {
                let _ = writeln!(text, "workloads:\n  {name}: {{ source: ., build: {command} }}");
            }
            Subject::KernelTree => {}
        }
        text
    }

    /// Returns the command that runs the first scenario.
    pub fn command(&self) -> String {
        let tree = if *self == Subject::KernelTree { " --kernel-tree ." } else { "" };
        format!("{}{tree}", called("cargo xtask lab run"))
    }
}

/// Returns a scenario that runs a program.
fn runs(head: &str, name: &str) -> String {
    format!(
        "{head}# It fails if the program does not build or does not return 0, or if the kernel warns.\n\
         summary: {name} succeeds\n\
         steps:\n  - workload: {name}\n"
    )
}

/// Collects the names of the files below a directory, without hidden ones.
fn collect(directory: &Path, below: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory.join(below)) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, kind) = (entry.file_name(), entry.file_type());
        let path = below.join(&name);
        match kind {
            _ if name.to_string_lossy().starts_with('.') => {}
            Ok(kind) if kind.is_dir() && depth > 1 && name != "target" && name != "results" => {
                collect(directory, &path, depth - 1, files);
            }
            Ok(kind) if kind.is_file() => files.push(path),
            _ => {}
        }
    }
}

/// Returns a file's text, or nothing if it is large or not text.
fn text(path: &Path) -> String {
    let is_small = fs::metadata(path).is_ok_and(|metadata| metadata.len() <= SIZE_MAX);
    if is_small { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

/// Returns the names of the modules that a Kbuild or Makefile has in `obj-m`.
fn modules_of(makefile: &str) -> Vec<String> {
    let lines = makefile.replace("\\\n", " ");
    let Ok(list) = Regex::new(r"(?m)^\s*obj-m\s*[:+]?=\s*([^#\n]*)") else { return Vec::new() };
    let objects = list.captures_iter(&lines).flat_map(|found| {
        let objects: Vec<String> = found[1].split_whitespace().map(str::to_owned).collect();
        objects
    });
    let names = objects.filter_map(|object| Some(object.strip_suffix(".o")?.replace('-', "_")));
    names.filter(|name| ModuleName::from_text(name).is_ok()).collect()
}

/// Returns the name of the program of a cargo package, which has one of its own name or declares one.
fn package_of(manifest: &str) -> Option<String> {
    let named = |section: &str| {
        let section = format!(r#"(?ms)^\[{section}\]\s*$[^\[]*?^name\s*=\s*"([^"]+)""#);
        Some(Regex::new(&section).ok()?.captures(manifest)?[1].to_owned())
    };
    let name = named(r"\[bin\]").or_else(|| named("package"))?;
    ProgramName::from_text(&name).is_ok().then_some(name)
}

fn is_program(file: &Path) -> bool {
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    file.extension().is_some_and(|extension| extension == "c") && ProgramName::from_text(name).is_ok()
}

fn has_main(source: &str) -> bool {
    Regex::new(r"(?m)^(int|void)?\s*main\s*\(").is_ok_and(|main| main.is_match(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(files: &[(&str, &str)]) -> Result<Subject> {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Subject::of(place.path())
    }

    #[test]
    fn a_directory_is_known_by_what_it_has() {
        let kbuild = "obj-m := my-hook.o \\\n\tother.o\nmy-hook-y := a.o\n";
        let modules = subject(&[("Kbuild", kbuild), ("a.c", "int main(void)\n")]).unwrap();
        assert_eq!(
            modules,
            Subject::Modules(vec![("my_hook".into(), "".into()), ("other".into(), "".into())])
        );
        let tree =
            subject(&[("drivers/probe/Makefile", "ifneq ($(KERNELRELEASE),)\nobj-m += probe.o\nendif\n")]);
        assert_eq!(tree.unwrap(), Subject::Modules(vec![("probe".into(), "drivers/probe".into())]));
        let twins = subject(&[("a/Kbuild", "obj-m := m.o\n"), ("b/Kbuild", "obj-m := m.o\n")]).unwrap();
        let written = twins.project();
        assert!(written.contains("  m: { source: a }\n  m_2: { source: b, name: m }\n"), "{written}");
        let program =
            subject(&[("src/tool.c", "int main(void)\n{\n"), ("tests/tracing.c", "int\nmain(int argc\n")]);
        assert_eq!(program.unwrap(), Subject::Program("tests/tracing.c".into()));
        let package = "[package]\nversion = \"1\"\nname = \"tool\"\n\n[dependencies]\nname = \"no\"\n";
        let made = |name: &str, command| Subject::Made { name: name.into(), command };
        assert_eq!(subject(&[("Cargo.toml", package)]).unwrap(), made("tool", CARGO));
        let several = format!("{package}[[bin]]\npath = \"a.rs\"\nname = \"other\"\n");
        assert_eq!(subject(&[("Cargo.toml", &several)]).unwrap(), made("other", CARGO));
        let makefile = "all: tool\n\ntool: tool.o util.o\n";
        let main = ("tool.c", "int main(void)\n");
        assert_eq!(subject(&[("Makefile", makefile), main]).unwrap(), made("tool", MAKE));
        assert_eq!(subject(&[("Makefile", "tool := 1\n"), main]).unwrap(), Subject::Program("tool.c".into()));
        let nothing = subject(&[("README", ""), ("Makefile", "all:\n")]).unwrap_err().to_string();
        assert!(nothing.contains("has neither a module"), "{nothing}");
    }

    #[test]
    fn what_is_written_is_a_project_with_a_scenario() {
        let subjects = [
            Subject::Modules(vec![("hook".into(), "".into())]),
            Subject::Program("tests/tracing.c".into()),
            Subject::Made { name: "tool".into(), command: MAKE },
            Subject::KernelTree,
        ];
        for subject in subjects {
            let place = tempfile::tempdir().unwrap();
            for (name, text) in subject.files().unwrap() {
                let path = place.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            crate::scenario::Scenario::load(&place.path().join("scenarios/first.yaml")).unwrap();
        }
    }
}
