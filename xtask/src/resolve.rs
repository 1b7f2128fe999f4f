//! `cargo xtask lab resolve`

use crate::{complete, exit, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    kernel,
    probe::{Place, Resolver},
    progress::Progress,
};

/// What a probe has to fetch for a path through structs, on the kernel at hand
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab resolve 6.12 vfs_read 'file->f_inode->i_sb->s_type->name'\n    \
        +0(+0(+40(+24(+40($arg1))))):string, and how it came about\n  \
    cargo xtask lab resolve 6.12 vfs_read                        its prototype alone\n  \
    cargo xtask lab resolve 7.2 dev_get_by_name --return '$retval->name'\n\n\
    A path is written as in C, with `->`, `.`, `[3]`, `*x` and casts such as `(struct sock *)x->sk`. It begins \
    with a parameter's name, $argN or $retval. `:FORMAT` behind it takes the place of what the type says, as in \
    `dev->perm_addr:x8[6]`.\n\n\
    Exit codes: 0 all are resolved; 2 this kernel has nothing there, or it is no path; 3 the lab itself could not do \
    its work.")]
pub(crate) struct Resolve {
    /// A kernel of kernels/*.yaml; it is built if it is not yet
    #[arg(add = complete::kernels())]
    kernel: String,
    /// A function of the kernel, not of a module
    function: String,
    /// Paths to resolve
    paths: Vec<String>,
    /// As a kretprobe has it: with $retval
    #[arg(long = "return")]
    returns: bool,
    #[command(flatten)]
    setup: Setup,
}

impl Resolve {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let kernel = kernel::build(&cache, root(), &self.kernel, None, &progress)?;
        let types = kernel.types()?;
        let place = if self.returns { Place::of_return(&kernel.version) } else { Place::Entry };
        let resolver = match Resolver::new(types, &self.function, place) {
            Ok(resolver) => resolver,
            Err(error) => {
                eprintln!("error: {error:#}");
                return Ok(exit::INVALID);
            }
        };
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
}
