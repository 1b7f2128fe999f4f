//! Loads and unloads kernel modules, with the kernel's own errno.
//!
//! The agent runs its own program again as a child for this, as `insmod` or `rmmod`. A module whose
//! init or exit oopses or hangs takes down that child instead of PID 1, whose death would be a panic.

use crate::{children::Program, files::resolve, vectored::write};
use protocol::Stdin;
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    system::{delete_module, finit_module},
};
use std::{
    ffi::{CStr, CString, OsStr},
    fs,
    process::Command,
};

/// The program of the child: this one, as resolved between fork and exec.
const SELF: &str = "/proc/self/exe";

/// The directory of the initramfs with the modules to load at start: drivers that the kernel has as
/// modules, and modules that many scenarios of one snapshot need.
const BOOT: &str = "/boot";

const INSMOD: &str = "insmod";
const RMMOD: &str = "rmmod";

/// The output limit of a child, which prints an errno at most.
const OUTPUT_MAX: u32 = 100;

/// Returns the program that loads the module in the file `path`, with `parameters` as for insmod.
pub(crate) fn loader(path: &str, parameters: &str) -> Program {
    program(&[INSMOD, &resolve(path), parameters])
}

/// Returns the program that unloads the module `name`. If that is in use, it fails instead of waiting.
pub(crate) fn unloader(name: &str) -> Program {
    program(&[RMMOD, name])
}

fn program(arguments: &[&str]) -> Program {
    let argv = [SELF].iter().chain(arguments).map(|&word| word.to_owned()).collect();
    Program { argv, env: Vec::new(), stdin: Stdin::Bytes(Vec::new()), output_max: OUTPUT_MAX }
}

/// Runs as such a child if `arguments` are those of one, and returns its exit status.
pub(crate) fn child(arguments: &[String]) -> Option<i32> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [INSMOD, path, parameters] => {
            call_oneself(c"insmod");
            load(path, parameters)
        }
        [RMMOD, name] => {
            call_oneself(c"rmmod");
            unload(name)
        }
        _ => return None,
    };
    Some(match done {
        Ok(()) => 0,
        Err(errno) => {
            // Without it, the lab misses the errno.
            let _ = write(rustix::stdio::stdout(), format!("{}\n", errno.raw_os_error()).as_bytes());
            1
        }
    })
}

/// Sets the name that kernel messages show for this process.
fn call_oneself(name: &CStr) {
    // SAFETY: PR_SET_NAME reads at most 16 bytes of a NUL-terminated string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn load(path: &str, parameters: &str) -> Result<(), Errno> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    finit_module(file, &c_string(parameters)?, 0)
}

/// Loads the modules in [`BOOT`], in the order of their names. Like a failed mount, a module that cannot
/// be loaded is only reported on the console.
pub(crate) fn load_all() {
    let files = fs::read_dir(BOOT).into_iter().flatten().flatten();
    let mut paths: Vec<_> = files.map(|file| file.path()).collect();
    paths.sort();
    for path in paths {
        let loaded = Command::new(SELF).args([OsStr::new(INSMOD), path.as_os_str(), OsStr::new("")]).output();
        let failed = match loaded {
            Ok(output) if output.status.success() => continue,
            Ok(output) => {
                format!("{}, errno {}", output.status, String::from_utf8_lossy(&output.stdout).trim())
            }
            Err(error) => error.to_string(),
        };
        eprintln!("agent: cannot load `{}`: {failed}", path.display());
    }
}

fn unload(name: &str) -> Result<(), Errno> {
    delete_module(&c_string(name)?, libc::O_NONBLOCK)
}

fn c_string(text: &str) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_told_from_an_agent_by_its_arguments() {
        let check = |arguments: &[&str], expect| {
            let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(child(&arguments), expect, "{arguments:?}");
        };
        check(&[], None);
        check(&["insmod"], None);
        check(&["insmod", "/no/such/module.ko", ""], Some(1));
        assert_eq!(loader("/m/x.ko", "a=1").argv, [SELF, "insmod", "/m/x.ko", "a=1"]);
        assert_eq!(unloader("x").argv, [SELF, "rmmod", "x"]);
    }
}
