//! Kernel modules in and out, with the kernel's own errno.

use crate::{
    files::resolve,
    refusal::{Refusal, Refused},
};
use rustix::{
    fs::{Mode, OFlags, open},
    system::{delete_module, finit_module},
};
use std::ffi::CString;

/// Loads the module in the file `path`; `parameters` as insmod takes them.
pub(crate) fn load(path: &str, parameters: &str) -> Result<(), Refusal> {
    let parameters = c_string(parameters).refused("insmod", path)?;
    let file =
        open(&*resolve(path), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).refused("open", path)?;
    finit_module(file, &parameters, 0).refused("insmod", path)
}

/// Unloads a module. One that is in use is an errno, not a wait.
pub(crate) fn unload(name: &str) -> Result<(), Refusal> {
    let c_name = c_string(name).refused("rmmod", name)?;
    delete_module(&c_name, libc::O_NONBLOCK).refused("rmmod", name)
}

fn c_string(text: &str) -> std::io::Result<CString> {
    Ok(CString::new(text)?)
}
