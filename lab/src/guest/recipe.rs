//! A directory and a command → a static aarch64 program, such as that of a user's make or cargo project.

use super::{
    CROSS_GCC, CROSS_STRIP,
    modules::sources::{self, Files},
    strip,
    toolchain::Toolchain,
};
use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::{confine::Reach, process::Tool},
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use object::{
    Endianness,
    elf::{EM_AARCH64, FileHeader64, PT_INTERP},
    read::elf::{FileHeader, ProgramHeader},
};
use std::path::{Path, PathBuf};

/// A command that makes a program.
pub(super) struct Recipe<'a> {
    pub(super) lab: &'a Lab,
    /// The version of the cross compiler.
    pub(super) compiler: &'a str,
    /// As for `sh -c`.
    pub(super) command: &'a str,
    /// The name of the program.
    pub(super) name: &'a str,
}

impl Recipe<'_> {
    /// Makes the program in a copy of `files`, unless the cache has it. Returns the entry of the cache.
    pub(super) fn made(&self, files: &Files) -> Result<PathBuf> {
        let Recipe { lab, compiler, command, name } = self;
        // Looked for even if nothing is written in Rust: the key must not depend on what a command starts.
        let toolchain = Toolchain::find(lab)?;
        let mut key = KeyBuilder::default()
            .input("compiler", compiler)
            .input("rust", toolchain.identity())
            .input("command", command)
            .input("name", name);
        for (path, data) in files {
            key = key.input(&path.to_string_lossy(), data);
        }
        let waiting = || {
            lab.progress.line(format!("waiting for another process that is building the workload {name}"));
        };
        lab.cache.entry("workloads", &key.finish(name), waiting, |into| {
            let _task = lab.progress.task(format!("building the workload {name}"), None);
            let copy = into.join("build");
            sources::write(files, &copy)?;
            let log = into.join("build.log");
            let ran = self.tool(&toolchain, &copy).log(&log).run();
            ran.with_context(|| {
                format!("`{command}` failed; builds have no network: `cargo fetch` and the like come first")
            })?;
            let program = self.program(&copy)?;
            let with_symbols = into.join(format!("{name}.debug"));
            fs::rename(&program, &with_symbols)?;
            fs::remove_dir_all(&copy)?;
            fs::remove_file(&log)?;
            strip(&[], &with_symbols, &into.join(name))
        })
    }

    fn tool(&self, toolchain: &Toolchain, copy: &Path) -> Tool {
        let prefix = CROSS_STRIP.trim_end_matches("strip");
        let cc = CROSS_GCC.to_owned();
        let compilers = [
            ("ARCH", "arm64".to_owned()),
            ("CROSS_COMPILE", prefix.to_owned()),
            ("CC", cc),
            ("CXX", format!("{prefix}g++")),
        ];
        // For a Makefile that sets them itself.
        let flags: Vec<String> = compilers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let reach = Reach::new(copy).reading(toolchain.readable());
        let tool = Tool::new("sh").confined(reach).args(["-c", self.command]).directory(copy);
        let tool = compilers.iter().fold(tool, |tool, (name, value)| tool.env(name, value));
        toolchain
            .cargo_environment()
            .into_iter()
            .fold(tool.env("MAKEFLAGS", flags.join(" ")), |tool, (name, value)| tool.env(name, value))
    }

    /// Returns the program that the command made, wherever it is in the copy.
    fn program(&self, copy: &Path) -> Result<PathBuf> {
        let Recipe { command, name, .. } = self;
        let is_it = |path: &Path| path.file_name().is_some_and(|file| file == *name);
        let mut wrong = None;
        for path in sources::made(copy, &is_it)? {
            match unfit(&path)? {
                None => return Ok(path),
                Some(why) => wrong = Some((path, why)),
            }
        }
        match wrong {
            Some((path, why)) => {
                let path = path.strip_prefix(copy).unwrap_or(&path).display();
                bail!("`{command}` made `{path}`, which {why}")
            }
            None => bail!("`{command}` made no program `{name}`"),
        }
    }
}

/// The largest program, in bytes.
const PROGRAM_MAX: u64 = 256 << 20;

/// Returns why a file cannot run in any guest, if it cannot.
fn unfit(path: &Path) -> Result<Option<&'static str>> {
    if fs::metadata(path)?.len() > PROGRAM_MAX {
        return Ok(Some("is larger than 256 MiB"));
    }
    let data = fs::read(path)?;
    let Ok(header) = FileHeader64::<Endianness>::parse(&*data) else { return Ok(Some("is no ELF program")) };
    let endian = header.endian()?;
    if header.e_machine(endian) != EM_AARCH64 {
        return Ok(Some("is not for arm64; compile it with `$CC`, or with cargo"));
    }
    let segments = header.program_headers(endian, &*data)?;
    if segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP) {
        return Ok(Some("needs a dynamic linker; link it with `-static`"));
    }
    Ok(None)
}
