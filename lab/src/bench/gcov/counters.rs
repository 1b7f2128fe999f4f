//! The counters of a kernel's code: in the guest, and as lines.

use crate::{
    coverage::{Line, Source},
    host::{confine::Reach, process::Tool},
    kernel::Kernel,
    machine::{Death, Machine},
    splat::shortened,
};
use anyhow::{Context, Result, anyhow, ensure};
use fs_err as fs;
use protocol::{Reply, Request, WriteMode};
use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The directory of the objects that are counted, relative to the kernel tree.
pub(super) const AREA: &str = "kernel/trace";

/// Has the counters of each object, below the directory of the build.
const DEBUGFS: &str = "/sys/kernel/debug/gcov";

/// The program that turns counters into lines, of the compiler that kernels are built with.
const PROGRAM: &str = "aarch64-linux-gnu-gcov";

/// The maximum size of the counters of one object, in bytes; those of the largest have 50,000.
const COUNTERS_MAX: u32 = 512 << 10;

/// The time limit for reading or resetting them.
const DEADLINE: Duration = Duration::from_secs(60);

/// For each line of a [`Source`], whether it ran; `None` if it is not counted.
pub(super) type Counted = Vec<Option<bool>>;

/// The counters of a kernel.
pub(super) struct Counters {
    /// The build's directory of the objects.
    directory: PathBuf,
    /// The names of the objects, without a suffix.
    objects: Vec<String>,
    /// The prefixes of the names of source files.
    roots: Vec<PathBuf>,
}

/// What the program prints for an object, among other things.
#[derive(Deserialize)]
struct Report {
    current_working_directory: String,
    files: Vec<ReportedFile>,
}

#[derive(Deserialize)]
struct ReportedFile {
    file: String,
    lines: Vec<ReportedLine>,
}

#[derive(Deserialize)]
struct ReportedLine {
    line_number: u32,
    count: i64,
}

impl Counters {
    /// Finds what describes the counters of a kernel, in the directory of its build.
    pub(super) fn of(kernel: &Kernel, roots: &[PathBuf]) -> Result<Counters> {
        let directory = kernel.directory.join(AREA);
        let mut objects = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            objects.extend(name.strip_suffix(".gcno").map(str::to_owned));
        }
        objects.sort();
        ensure!(!objects.is_empty(), "`{}` has no counters", directory.display());
        Ok(Counters { directory, objects, roots: roots.to_vec() })
    }

    /// Sets all counters to zero.
    pub(super) fn reset(machine: &mut Machine) -> Result<(), Death> {
        let path = format!("{DEBUGFS}/reset");
        let write = Request::WriteFile { path, data: b"0".to_vec(), mode: WriteMode::Truncate };
        match machine.call(&write, DEADLINE)? {
            Reply::Done => Ok(()),
            other => Err(Death::Lab(anyhow!("cannot reset the counters: {other:?}"))),
        }
    }

    /// Returns the counters of each object that has some. Those of modules are there only while they are
    /// loaded.
    pub(super) fn read(&self, machine: &mut Machine) -> Result<Vec<(String, Vec<u8>)>, Death> {
        let path = |object| format!("{DEBUGFS}{}/{object}.gcda", self.directory.display());
        let read = |object| Request::ReadFile { path: path(object), max: COUNTERS_MAX };
        let requests: Vec<Request> = self.objects.iter().map(read).collect();
        let replies = machine.call_all(&requests, DEADLINE)?;
        let data = self.objects.iter().zip(replies).filter_map(|(object, reply)| match reply {
            Reply::Data(data) => Some((object.clone(), data)),
            _ => None,
        });
        Ok(data.collect())
    }

    /// Returns the lines that counters show to have run. `place` is a directory for files.
    ///
    /// # Errors
    /// They are not those of this kernel.
    pub(super) fn lines(
        &self,
        source: &Source,
        counters: &[(String, Vec<u8>)],
        place: &Path,
    ) -> Result<Counted> {
        ensure!(!counters.is_empty(), "the guest has no counters");
        let directory = place.join("gcov");
        fs::create_dir(&directory)?;
        for (object, data) in counters {
            let notes = format!("{object}.gcno");
            fs::copy(self.directory.join(&notes), directory.join(notes))?;
            fs::write(directory.join(object).with_extension("gcda"), data)?;
        }
        let names = counters.iter().map(|(object, _)| format!("{object}.gcda"));
        let tool = Tool::new(PROGRAM).args(["--json-format", "--stdout"]).args(names);
        let output = tool.confined(Reach::new(&directory)).run()?;
        let mut counted = vec![None; source.lines.len()];
        for report in output.lines() {
            let report =
                serde_json::from_str(report).with_context(|| format!("`{PROGRAM}` printed `{report}`"));
            self.count(&report?, source, &mut counted);
        }
        Ok(counted)
    }

    /// Adds the lines of an object. A line of a header may belong to several.
    fn count(&self, report: &Report, source: &Source, counted: &mut Counted) {
        for reported in &report.files {
            let path = Path::new(&report.current_working_directory).join(&reported.file);
            let name = shortened(&path.to_string_lossy(), &self.roots);
            let Ok(file) = source.files.binary_search(&name) else { continue };
            for line in &reported.lines {
                let Ok(place) = source.lines.binary_search(&Line { file, number: line.line_number }) else {
                    continue;
                };
                *counted[place].get_or_insert(false) |= line.count > 0;
            }
        }
    }
}
