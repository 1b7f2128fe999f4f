//! `guest/programs/NAME.c` × a userland → the same program for that userland: other people's
//! examples, compiled against its libraries and linked with them as they are in the guest.

use super::{CROSS_GCC, cross_gcc_version};
use crate::{
    cache::{Cache, KeyBuilder},
    host::process::Tool,
    progress::Progress,
    scenario::ProgramName,
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// How each is compiled: as its author wrote it, so without warnings.
const FLAGS: [&str; 3] = ["-O2", "-g", "-w"];

/// Debian's directory of what is for this architecture alone.
const TRIPLET: &str = "aarch64-linux-gnu";

/// The foreign programs of a repository.
#[derive(Clone, Debug)]
pub struct Programs {
    cache: Cache,
    sources: PathBuf,
    progress: Progress,
}

impl Programs {
    /// Those of the directory `sources`, `guest/programs`.
    pub fn new(cache: &Cache, sources: PathBuf, progress: &Progress) -> Programs {
        Programs { cache: cache.clone(), sources, progress: progress.clone() }
    }

    /// The program `name` for the userland in `tree`, which has the headers and the libraries.
    pub fn build(&self, name: &ProgramName, libraries: &[ProgramName], tree: &Path) -> Result<PathBuf> {
        let source = self.sources.join(format!("{name}.c"));
        let text = fs::read(&source).with_context(|| format!("cannot read `{}`", source.display()))?;
        let arguments = arguments(libraries, tree);
        let key = KeyBuilder::default()
            .input("compiler", cross_gcc_version()?)
            // The tree's path has all that is in it.
            .input("arguments", arguments.join(" "))
            .input("source", &text)
            .finish(name);
        let waiting = || self.progress.line(format!("another lab is building the program {name}; waiting"));
        let entry = self.cache.entry("programs", &key, waiting, |into| {
            let _task = self.progress.task(format!("building the program {name}"), None);
            Tool::new(CROSS_GCC)
                .args(FLAGS)
                .arg("-o")
                .arg(into.join(&**name))
                .arg(&source)
                // Libraries come behind what needs them.
                .args(&arguments)
                .env("LC_ALL", "C")
                .run()
                .map(drop)
                .with_context(|| format!("cannot build `{}`", source.display()))
        })?;
        Ok(entry.join(&**name))
    }
}

/// The compiler is to find everything in the tree, and libraries' headers where pkg-config would. A
/// cross compiler of Debian has a C library of its own, which it would look into first.
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
        let cache = Cache::at(place.path().join("cache")).unwrap();
        let programs = Programs::new(&cache, place.path().to_owned(), &Progress::silent());
        let name = ProgramName::from_text("none").unwrap();
        let error = programs.build(&name, &[], place.path()).unwrap_err();
        assert!(format!("{error:#}").contains("none.c`: No such file"), "{error:#}");
    }
}
