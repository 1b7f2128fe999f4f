//! `guest/programs/NAME.c` × a userland → the program for that userland: third-party examples, compiled
//! and linked against the libraries that the guest has.

use super::{CROSS_GCC, cross_gcc_version};
use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::{confine::Reach, process::Tool},
    scenario::ProgramName,
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// Compiler flags. The sources are unmodified, so warnings are disabled.
const FLAGS: [&str; 3] = ["-O2", "-g", "-w"];

/// Debian's directory name for files of this architecture.
const TRIPLET: &str = "aarch64-linux-gnu";

/// The third-party programs of a repository.
#[derive(Clone, Debug)]
pub struct Programs {
    lab: Lab,
    sources: PathBuf,
}

impl Programs {
    /// Uses the programs in the directory `sources`, `guest/programs`.
    pub fn new(lab: &Lab, sources: PathBuf) -> Programs {
        Programs { lab: lab.clone(), sources }
    }

    /// Builds the program `name` for the userland in `tree`, which has the headers and the libraries.
    pub fn build(&self, name: &ProgramName, libraries: &[ProgramName], tree: &Path) -> Result<PathBuf> {
        let source = self.sources.join(format!("{name}.c"));
        let text = fs::read(&source)?;
        let arguments = arguments(libraries, tree);
        let key = KeyBuilder::default()
            .input("compiler", cross_gcc_version()?)
            // The path of the tree identifies its contents.
            .input("arguments", arguments.join(" "))
            .input("source", &text)
            .finish(name);
        let waiting = || {
            self.lab
                .progress
                .line(format!("waiting for another process that is building the program {name}"));
        };
        let entry = self.lab.cache.entry("programs", &key, waiting, |into| {
            let _task = self.lab.progress.task(format!("building the program {name}"), None);
            Tool::new(CROSS_GCC)
                .args(FLAGS)
                .arg("-o")
                .arg(into.join(&**name))
                .arg(&source)
                // Libraries follow the objects that need them.
                .args(&arguments)
                .confined(Reach::new(into).reading([source.as_path(), tree]))
                .run()
                .map(drop)
                .with_context(|| format!("cannot build `{}`", source.display()))
        })?;
        Ok(entry.join(&**name))
    }
}

/// Returns the arguments that make the compiler search only the tree, and for the headers of libraries
/// the directories that pkg-config would name. Debian's cross compiler has its own C library, which it
/// would search first.
fn arguments(libraries: &[ProgramName], tree: &Path) -> Vec<String> {
    let tree = tree.display();
    let (include, lib) = (format!("{tree}/usr/include"), format!("{tree}/usr/lib/{TRIPLET}"));
    let of_tree = [
        format!("--sysroot={tree}"),
        format!("-isystem{include}/{TRIPLET}"),
        format!("-isystem{include}"),
        format!("-B{lib}"),
        format!("-L{lib}"),
    ];
    let of_library = |library: &ProgramName| [format!("-I{include}/{library}"), format!("-l{library}")];
    of_tree.into_iter().chain(libraries.iter().flat_map(of_library)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FromText;

    #[test]
    fn headers_and_libraries_are_those_of_the_tree() {
        let name = |text| ProgramName::from_text(text).unwrap();
        assert_eq!(
            arguments(&[name("tracefs"), name("traceevent")], Path::new("/t")),
            [
                "--sysroot=/t",
                "-isystem/t/usr/include/aarch64-linux-gnu",
                "-isystem/t/usr/include",
                "-B/t/usr/lib/aarch64-linux-gnu",
                "-L/t/usr/lib/aarch64-linux-gnu",
                "-I/t/usr/include/tracefs",
                "-ltracefs",
                "-I/t/usr/include/traceevent",
                "-ltraceevent"
            ]
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let place = tempfile::tempdir().unwrap();
        let lab = Lab::alone(place.path()).unwrap();
        let programs = Programs::new(&lab, place.path().to_owned());
        let name = ProgramName::from_text("none").unwrap();
        let error = programs.build(&name, &[], place.path()).unwrap_err();
        assert!(format!("{error:#}").contains("none.c`: No such file"), "{error:#}");
    }
}
