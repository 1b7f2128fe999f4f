//! Module steps: into the guest and in, or out, with the errno the kernel gave.

use super::{Recorder, steps::check_errno, unexpected};
use crate::{
    machine::Death,
    scenario::{Errno, Line, Unload, Wanted},
};
use protocol::{Reply, Request};

/// Where modules are pushed to.
const MODULES: &str = "/modules";

/// The permissions of a pushed module.
const READABLE: u32 = 0o644;

impl Recorder<'_> {
    /// Loads a module that was built for this scenario.
    pub(super) fn load(
        &mut self,
        wanted: &Wanted,
        parameters: Option<&Line>,
        errno: Option<Errno>,
    ) -> Result<Vec<String>, Death> {
        let Some(module) = self.modules.get(wanted).cloned() else {
            return Ok(vec![format!("the module `{wanted}` was not built")]);
        };
        let path = format!("{MODULES}/{}.ko", module.name);
        self.push(&path, &module.file, READABLE)?;
        let parameters = parameters.map_or_else(String::new, |line| line.to_string());
        let what = format!("insmod {}", module.name);
        self.in_a_process(&Request::LoadModule { path, parameters }, &what, errno)
    }

    pub(super) fn unload(&mut self, step: &Unload) -> Result<Vec<String>, Death> {
        let name = step.unload.replace('-', "_");
        let what = format!("rmmod {name}");
        self.in_a_process(&Request::UnloadModule { name }, &what, step.errno)
    }

    /// Has a process of the agent's do `request`, and says where that did not come out as expected.
    fn in_a_process(
        &mut self,
        request: &Request,
        what: &str,
        errno: Option<Errno>,
    ) -> Result<Vec<String>, Death> {
        let child = match self.call(request)? {
            Reply::Started(child) => child,
            other => return Err(unexpected("a process for a module", &other)),
        };
        let (ended, said) = self.wait(child)?;
        let reply = if ended == "exit status 0" {
            Reply::Done
        } else {
            let errno = String::from_utf8_lossy(&said.stdout).trim().parse().ok();
            let Some(errno) = errno.filter(|_| ended == "exit status 1") else {
                // An oops in the module's init ends the process that loads it.
                return Ok(vec![format!("{what} ended with {ended}")]);
            };
            Reply::Errno { what: what.to_owned(), errno }
        };
        let mut failures = Vec::new();
        check_errno(errno, Some(&reply), &mut failures);
        Ok(failures)
    }
}
