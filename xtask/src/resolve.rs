//! `cargo xtask lab resolve`

use crate::{
    complete, exit,
    json::{self, Json},
    setup::Setup,
};
use anyhow::Result;
use clap::Args;
use lab::{
    fit::{ProbeLocation, Resolved, Resolver},
    host::prerequisites::Need,
    kernel,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Show the fetch argument for a path through structs, on a given kernel
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab resolve 6.12 vfs_read 'file->f_inode->i_sb->s_type->name'\n    \
        +0(+0(+40(+24(+40($arg1))))):string, and each step to it\n  \
    cargo xtask lab resolve 6.12 vfs_read                        only its prototype\n  \
    cargo xtask lab resolve 7.2 dev_get_by_name --return '$retval->name'\n\n\
    A path is written as in C, with `->`, `.`, `[3]`, `*x` and casts such as `(struct sock *)x->sk`. It starts \
    with the name of a parameter, $argN or $retval. An appended `:FORMAT` overrides the format of the type, as in \
    `dev->perm_addr:x8[6]`.\n\n\
    Exit codes: 0 all paths are resolved; 2 the function or a path is invalid or not in this kernel; 3 the lab \
    itself failed.")]
pub(crate) struct Resolve {
    /// A kernel of kernels/*.yaml, which is built if necessary
    #[arg(add = complete::kernels())]
    kernel: String,
    /// A function of the kernel, not of a module
    function: String,
    /// Paths to resolve
    paths: Vec<String>,
    /// Resolve for a kretprobe, with $retval
    #[arg(long = "return")]
    returns: bool,
    #[command(flatten)]
    pub(crate) json: Json,
    #[command(flatten)]
    setup: Setup,
}

/// A function, and paths that begin at it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ResolvedPaths<'a> {
    /// In C syntax.
    prototype: String,
    paths: Vec<ResolvedPath<'a>>,
}

/// A path through structs.
#[derive(Serialize, JsonSchema)]
struct ResolvedPath<'a> {
    /// The path as given.
    text: &'a str,
    /// Null if it is not one of this kernel.
    resolved: Option<Resolved>,
    /// Why it is not.
    error: Option<String>,
}

impl Resolve {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure(Need::Run)?;
        let kernel = kernel::build(&lab, &self.kernel, None)?;
        let types = kernel.types()?;
        let place =
            if self.returns { ProbeLocation::of_return(&kernel.version) } else { ProbeLocation::Entry };
        let resolver = match Resolver::new(types, &self.function, place) {
            Ok(resolver) => resolver,
            Err(error) => {
                eprintln!("error: {error:#}");
                return Ok(exit::INVALID);
            }
        };
        if self.json.wanted {
            return self.print(&resolver);
        }
        println!("{}", resolver.prototype());
        let mut code = exit::SUCCESS;
        for path in &self.paths {
            match resolver.resolve(path) {
                Ok(resolved) => println!("{resolved}"),
                Err(error) => {
                    eprintln!("error: {}", error.shown(path));
                    code = exit::INVALID;
                }
            }
        }
        Ok(code)
    }

    fn print(&self, resolver: &Resolver<'_>) -> Result<u8> {
        let paths = self.paths.iter().map(|text| match resolver.resolve(text) {
            Ok(resolved) => ResolvedPath { text, resolved: Some(resolved), error: None },
            Err(error) => ResolvedPath { text, resolved: None, error: Some(error.shown(text).to_string()) },
        });
        let found = ResolvedPaths { prototype: resolver.prototype(), paths: paths.collect() };
        json::print(&found)?;
        let all = found.paths.iter().all(|path| path.resolved.is_some());
        Ok(if all { exit::SUCCESS } else { exit::INVALID })
    }
}
