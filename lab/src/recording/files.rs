//! Files that the lab copies into the guest, each once.

use super::link::{CHUNK, Link, unexpected};
use crate::{
    guest::{BUSYBOX, Guest},
    machine::Death,
    scenario::{Scenario, WORKLOADS},
};
use fs_err as fs;
use protocol::{Reply, Request};
use std::{collections::BTreeSet, path::Path};

/// The permissions of a program.
pub(super) const EXECUTABLE: u32 = 0o755;

/// The permissions of any other file.
pub(super) const READABLE: u32 = 0o644;

/// The files that can be copied into a guest, and those that were.
pub(super) struct Files<'a> {
    pub(super) guest: &'a Guest,
    pushed: BTreeSet<String>,
}

impl<'a> Files<'a> {
    /// Nothing is copied yet.
    pub(super) fn new(guest: &'a Guest) -> Files<'a> {
        Files { guest, pushed: BTreeSet::new() }
    }

    /// Copies a file into the guest, once.
    pub(super) fn push(
        &mut self,
        link: &mut Link<'_>,
        path: &str,
        file: &Path,
        mode: u32,
    ) -> Result<(), Death> {
        if self.pushed.contains(path) {
            return Ok(());
        }
        let data = fs::read(file).map_err(|error| Death::Lab(error.into()))?;
        self.push_bytes(link, path, &data, mode)
    }

    /// Creates a file with these bytes in the guest, once.
    pub(super) fn push_bytes(
        &mut self,
        link: &mut Link<'_>,
        path: &str,
        data: &[u8],
        mode: u32,
    ) -> Result<(), Death> {
        if self.pushed.contains(path) {
            return Ok(());
        }
        // An empty file is one empty chunk.
        let empty = data.is_empty().then_some(&[][..]);
        let requests: Vec<_> = data
            .chunks(CHUNK)
            .chain(empty)
            .enumerate()
            .map(|(index, chunk)| Request::Push {
                path: path.to_owned(),
                mode,
                offset: (index * CHUNK) as u64,
                data: chunk.to_vec(),
            })
            .collect();
        for reply in link.call_all(&requests)? {
            if reply != Reply::Done {
                return Err(unexpected(&format!("a place for `{path}`"), &reply));
            }
        }
        self.pushed.insert(path.to_owned());
        Ok(())
    }

    /// Copies the workloads that steps run into the guest, so that no step has to. A step whose workload does
    /// not exist says so itself.
    pub(super) fn push_workloads(&mut self, link: &mut Link<'_>, scenario: &Scenario) -> Result<(), Death> {
        let shell = scenario.needs_busybox().then_some(BUSYBOX);
        let programs = scenario.steps.iter().flat_map(|step| step.workloads()).chain(shell);
        for program in programs.filter(|program| self.guest.workloads.contains_key(*program)) {
            let _ = self.push_workload(link, program)?;
        }
        Ok(())
    }

    /// Copies a workload into the guest. Returns its path there, or why there is none.
    pub(super) fn push_workload(
        &mut self,
        link: &mut Link<'_>,
        program: &str,
    ) -> Result<Result<String, String>, Death> {
        let workloads = &self.guest.workloads;
        let Some(file) = workloads.get(program) else {
            let known = workloads.keys().cloned().collect::<Vec<_>>().join(", ");
            return Ok(Err(format!("no workload is called `{program}`; there are {known}")));
        };
        let path = format!("{WORKLOADS}/{program}");
        self.push(link, &path, file, EXECUTABLE)?;
        Ok(Ok(path))
    }
}
