//! Writing a version 6 `trace.dat`, which every trace-cmd and KernelShark opens.
//!
//! Pages are kept in one nameless temporary file a CPU while the recording lasts, so memory does
//! not grow and nothing is left behind by a lab that is killed. The formats and names of tasks are
//! only complete when the recording is over, so the file is put together at its end and appears
//! under its name whole or not at all.

use super::{CPUS_MAX, MAGIC, option};
use crate::trace::page::PageLayout;
use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::{self, BufWriter, Seek, Write},
    path::{Path, PathBuf},
};

/// What of tracefs and /proc stands in a trace file beside the pages. All of it is written as the
/// kernel gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracefsFiles {
    /// `events/header_page`.
    pub header_page: String,
    /// `events/header_event`.
    pub header_event: String,
    /// The `format` files below `events/ftrace`.
    pub ftrace_formats: Vec<String>,
    /// All other `format` files, each with the name of its system.
    pub event_formats: Vec<(String, String)>,
    /// `/proc/kallsyms`, read after the last module was loaded.
    pub kallsyms: String,
    /// `printk_formats`.
    pub printk_formats: String,
    /// `saved_cmdlines`, read at the end of the recording.
    pub saved_cmdlines: String,
    /// `trace_clock`: the line of all clocks with the chosen one in brackets, or its bare name.
    pub trace_clock: String,
    /// `per_cpu/cpuN/stats` of each CPU.
    pub stats: Vec<(u32, String)>,
    /// What `uname -a` would say.
    pub uname: String,
    /// What wrote the file.
    pub version: String,
}

/// A trace file in the making.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    directory: PathBuf,
    layout: PageLayout,
    /// Pages of each CPU so far.
    spools: Vec<Option<File>>,
}

impl Writer {
    /// Starts a file that will appear at `path`. `header_page` is tracefs's `events/header_page`,
    /// `cpus` the CPUs of the machine.
    pub fn create(path: &Path, header_page: &str, cpus: u32) -> Result<Writer> {
        if cpus > CPUS_MAX {
            bail!("cannot write the trace of {cpus} CPUs: {CPUS_MAX} are supported");
        }
        let layout = PageLayout::parse(header_page)?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let spools = (0..cpus).map(|_| None).collect();
        Ok(Writer { path: path.to_owned(), directory, layout, spools })
    }

    /// Bytes of one page as `trace_pipe_raw` gives them out.
    pub fn page_size(&self) -> usize {
        self.layout.size()
    }

    /// Adds whole pages of one CPU, which follow those added before. Gives back how many bytes of
    /// them hold records.
    pub fn append(&mut self, cpu: u32, pages: &[u8]) -> Result<usize> {
        let size = self.layout.size();
        if !pages.len().is_multiple_of(size) {
            bail!("{} bytes from CPU {cpu} are no whole pages of {size}", pages.len());
        }
        let mut used = 0;
        for page in pages.chunks_exact(size) {
            let page =
                self.layout.page(page).with_context(|| format!("CPU {cpu} sent a page that is none"))?;
            used += page.cursor.left();
        }
        let cpus = self.spools.len();
        let Some(spool) = self.spools.get_mut(cpu as usize) else {
            bail!("pages from CPU {cpu} of a machine with {cpus} CPUs");
        };
        let file = match spool {
            Some(file) => file,
            None => spool.insert(tempfile::tempfile_in(&self.directory).with_context(|| {
                format!("cannot make a temporary file in `{}`", self.directory.display())
            })?),
        };
        file.write_all(pages)
            .with_context(|| format!("cannot write to a temporary file in `{}`", self.directory.display()))?;
        Ok(used)
    }

    /// Bytes of pages added so far.
    pub fn len(&self) -> Result<u64> {
        let mut sum = 0;
        for spool in self.spools.iter().flatten() {
            sum += spool.metadata().context("cannot ask for the size of the pages")?.len();
        }
        Ok(sum)
    }

    /// Whether no page was added.
    pub fn is_empty(&self) -> bool {
        self.spools.iter().all(Option::is_none)
    }

    /// Writes the file and puts it in its place.
    pub fn finish(self, files: &TracefsFiles) -> Result<()> {
        let temporary = tempfile::Builder::new()
            .prefix(".trace-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(&self.directory)
            .with_context(|| format!("cannot make a file in `{}`", self.directory.display()))?;
        let path = self.path.clone();
        self.write(files, temporary.as_file())
            .with_context(|| format!("cannot write the trace `{}`", path.display()))?;
        temporary.persist(&path).with_context(|| format!("cannot put `{}` in place", path.display()))?;
        Ok(())
    }

    fn write(mut self, files: &TracefsFiles, file: &File) -> Result<()> {
        let mut head = Vec::new();
        let page_size = u32::try_from(self.layout.size()).context("the pages are too large")?;
        head.extend(MAGIC);
        // Version, little-endian, bytes of a `long`, bytes of a page.
        head.extend(b"6\0\0\x08");
        head.extend(page_size.to_le_bytes());
        tables(files, &mut head)?;
        head.extend(u32::try_from(self.spools.len())?.to_le_bytes());
        options(files, self.spools.len(), &mut head)?;
        head.extend(b"flyrecord\0");

        let page_size = u64::from(page_size);
        let mut at = (head.len() as u64 + 16 * self.spools.len() as u64).next_multiple_of(page_size);
        let start = at;
        for spool in &mut self.spools {
            let length = match spool {
                Some(file) => file.stream_position()?,
                None => 0,
            };
            // A CPU without pages has no place either.
            head.extend(if length == 0 { 0u64 } else { at }.to_le_bytes());
            head.extend(length.to_le_bytes());
            at += length;
        }
        head.resize(usize::try_from(start)?, 0);
        let mut out = BufWriter::with_capacity(1 << 16, file);
        out.write_all(&head)?;
        for spool in self.spools.iter_mut().flatten() {
            spool.rewind()?;
            io::copy(spool, &mut out)?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Formats, symbols and names of tasks.
fn tables(files: &TracefsFiles, out: &mut Vec<u8>) -> Result<()> {
    let sized = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    out.extend(b"header_page\0");
    sized(out, &files.header_page);
    out.extend(b"header_event\0");
    sized(out, &files.header_event);
    out.extend(u32::try_from(files.ftrace_formats.len())?.to_le_bytes());
    for text in &files.ftrace_formats {
        sized(out, text);
    }
    let mut systems: Vec<&str> = files.event_formats.iter().map(|(system, _)| system.as_str()).collect();
    systems.sort_unstable();
    systems.dedup();
    out.extend(u32::try_from(systems.len())?.to_le_bytes());
    for system in systems {
        if system.contains('\0') {
            bail!("the event system `{}` has a NUL in its name", system.escape_debug());
        }
        out.extend(system.as_bytes());
        out.push(0);
        let of_system = || files.event_formats.iter().filter(|(other, _)| other == system);
        out.extend(u32::try_from(of_system().count())?.to_le_bytes());
        for (_, text) in of_system() {
            sized(out, text);
        }
    }
    for text in [&files.kallsyms, &files.printk_formats] {
        out.extend(u32::try_from(text.len()).context("a table is larger than 4 GiB")?.to_le_bytes());
        out.extend(text.as_bytes());
    }
    sized(out, &files.saved_cmdlines);
    Ok(())
}

/// The options; trace-cmd takes texts with their NUL.
fn options(files: &TracefsFiles, cpus: usize, out: &mut Vec<u8>) -> Result<()> {
    out.extend(b"options  \0");
    let mut add = |id: u16, data: &[u8]| -> Result<()> {
        out.extend(id.to_le_bytes());
        out.extend(u32::try_from(data.len()).context("an option is larger than 4 GiB")?.to_le_bytes());
        out.extend(data);
        Ok(())
    };
    let text = |text: &str| [text.as_bytes(), b"\0"].concat();
    for (cpu, stats) in &files.stats {
        add(option::CPUSTAT, &text(&format!("CPU: {cpu}\n{stats}")))?;
    }
    if !files.trace_clock.is_empty() {
        add(option::TRACECLOCK, &text(files.trace_clock.trim_end()))?;
    }
    if !files.uname.is_empty() {
        add(option::UNAME, &text(&files.uname))?;
    }
    add(option::CPUCOUNT, &u32::try_from(cpus)?.to_le_bytes())?;
    if !files.version.is_empty() {
        add(option::VERSION, &text(&files.version))?;
    }
    out.extend(option::DONE.to_le_bytes());
    Ok(())
}
