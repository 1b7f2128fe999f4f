//! Writes a version 6 `trace.dat`, which every version of trace-cmd and KernelShark opens.
//!
//! While the recording lasts, the pages of each CPU go to an unnamed temporary file, so that memory
//! does not grow and a killed process leaves nothing behind. The formats and names of tasks are
//! complete only when the recording is over. The file is therefore assembled at the end, and
//! appears under its name complete or not at all.

use super::{CPUS_MAX, MAGIC, option};
use crate::page::{Page, PageLayout};
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufWriter, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// The files of tracefs and /proc that a trace file contains in addition to the pages, verbatim.
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
    /// `trace_clock`: the list of all clocks with the selected one in brackets, or only its name.
    pub trace_clock: String,
    /// `per_cpu/cpuN/stats` of each CPU, with sums over resets of the buffer.
    pub stats: Vec<(u32, String)>,
    /// The output of `uname -a`.
    pub uname: String,
    /// The program that wrote the file.
    pub version: String,
}

/// A trace file being written.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    directory: PathBuf,
    layout: PageLayout,
    /// The pages of each CPU so far.
    spools: Vec<Option<File>>,
    /// The size of these pages, and its maximum, in bytes.
    bytes: u64,
    max_bytes: u64,
    /// The CPUs with pages that were left out.
    cut: BTreeSet<u32>,
    /// Numbers of events, and those that their records get instead.
    numbers: BTreeMap<u16, u16>,
    /// The size of the pages of each CPU at the last mark.
    marks: Vec<u64>,
}

/// The content of pages that were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The number of bytes that hold records.
    pub used: usize,
    /// The number of events.
    pub events: u64,
}

impl Writer {
    /// Starts a file that will appear at `path`. `header_page` is the text of `events/header_page`
    /// in tracefs, `cpus` the number of CPUs of the machine.
    pub fn create(path: &Path, header_page: &str, cpus: u32) -> Result<Writer> {
        if cpus > CPUS_MAX {
            bail!("cannot write the trace of {cpus} CPUs: at most {CPUS_MAX} are supported");
        }
        let layout = PageLayout::parse(header_page)?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let spools = (0..cpus).map(|_| None).collect();
        let path = path.to_owned();
        Ok(Writer {
            path,
            directory,
            layout,
            spools,
            bytes: 0,
            max_bytes: u64::MAX,
            cut: BTreeSet::new(),
            numbers: BTreeMap::new(),
            marks: vec![0; cpus as usize],
        })
    }

    /// Limits the size of the pages. From the first that exceed it, all are left out, and the trace says for
    /// each of their CPUs that events were lost.
    pub fn limit(self, max_bytes: u64) -> Writer {
        Writer { max_bytes, ..self }
    }

    /// Returns whether pages were left out.
    pub fn is_cut(&self) -> bool {
        !self.cut.is_empty()
    }

    /// Returns the size of one page of `trace_pipe_raw`, in bytes.
    pub fn page_size(&self) -> usize {
        self.layout.size()
    }

    /// Adds whole pages of one CPU, after those added before. Returns what they hold.
    pub fn append(&mut self, cpu: u32, pages: &[u8]) -> Result<Appended> {
        let size = self.layout.size();
        if !pages.len().is_multiple_of(size) {
            bail!("{} bytes from CPU {cpu} are not a multiple of the page size {size}", pages.len());
        }
        let mut appended = Appended { used: 0, events: 0 };
        for bytes in pages.chunks_exact(size) {
            let page = self.layout.page(bytes).with_context(|| format!("CPU {cpu} sent an invalid page"))?;
            appended.used += page.cursor.left();
            let mut cursor = page.cursor;
            // A corrupt record is left to the reader.
            while let Ok(Some(_)) = cursor.next(bytes) {
                appended.events += 1;
            }
        }
        let cpus = self.spools.len();
        let Some(spool) = self.spools.get_mut(cpu as usize) else {
            bail!("pages from CPU {cpu}, but the machine has {cpus} CPUs");
        };
        let (lost, mut renumbered);
        let pages = if self.bytes.saturating_add(pages.len() as u64) > self.max_bytes {
            // Smaller ones must not follow what was left out.
            self.max_bytes = 0;
            let Some(first) = pages.get(..size).filter(|_| self.cut.insert(cpu)) else { return Ok(appended) };
            lost = self.layout.lost(first);
            &lost
        } else {
            self.bytes += pages.len() as u64;
            if self.numbers.is_empty() {
                pages
            } else {
                renumbered = pages.to_vec();
                for page in renumbered.chunks_exact_mut(size) {
                    renumber(&self.layout, page, &self.numbers);
                }
                &renumbered
            }
        };
        let file = match spool {
            Some(file) => file,
            None => spool.insert(tempfile::tempfile_in(&self.directory).with_context(|| {
                format!("cannot create a temporary file in `{}`", self.directory.display())
            })?),
        };
        file.write_all(pages)
            .with_context(|| format!("cannot write to a temporary file in `{}`", self.directory.display()))?;
        Ok(appended)
    }

    /// Marks the place after the pages added so far.
    pub fn mark(&mut self) -> Result<()> {
        for (mark, spool) in self.marks.iter_mut().zip(&self.spools) {
            let Some(spool) = spool else { continue };
            *mark = spool.metadata().context("cannot get the size of the pages")?.len();
        }
        Ok(())
    }

    /// Gives records of the event number `guest` the number `now` from now on, because another event has it.
    /// Those after the mark, with the number `before`, may be records of either event: they get the number 0,
    /// which no event has, unless there is no event now.
    pub fn renumber(&mut self, guest: u16, before: Option<u16>, now: u16) -> Result<()> {
        if guest == now {
            self.numbers.remove(&guest);
        } else {
            self.numbers.insert(guest, now);
        }
        let Some(before) = before.filter(|before| *before != 0 && now != 0) else { return Ok(()) };
        let unknown = BTreeMap::from([(before, 0)]);
        let mut page = vec![0; self.layout.size()];
        for (spool, mark) in self.spools.iter().zip(&self.marks) {
            let Some(file) = spool else { continue };
            let end = file.metadata().context("cannot get the size of the pages")?.len();
            for at in (*mark..end).step_by(page.len()) {
                file.read_exact_at(&mut page, at).context("cannot read a page again")?;
                renumber(&self.layout, &mut page, &unknown);
                file.write_all_at(&page, at).context("cannot write a page again")?;
            }
        }
        Ok(())
    }

    /// Returns the number of bytes of pages added so far.
    pub fn len(&self) -> Result<u64> {
        let mut sum = 0;
        for spool in self.spools.iter().flatten() {
            sum += spool.metadata().context("cannot get the size of the pages")?.len();
        }
        Ok(sum)
    }

    /// Returns whether no page was added.
    pub fn is_empty(&self) -> bool {
        self.spools.iter().all(Option::is_none)
    }

    /// Writes the file and moves it to its path.
    pub fn finish(self, files: &TracefsFiles) -> Result<()> {
        let temporary = tempfile::Builder::new()
            .prefix(".trace-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(&self.directory)
            .with_context(|| format!("cannot create a file in `{}`", self.directory.display()))?;
        let path = self.path.clone();
        self.write(files, temporary.as_file())
            .with_context(|| format!("cannot write the trace `{}`", path.display()))?;
        temporary
            .persist(&path)
            .with_context(|| format!("cannot rename a temporary file to `{}`", path.display()))?;
        Ok(())
    }

    fn write(mut self, files: &TracefsFiles, file: &File) -> Result<()> {
        let mut head = Vec::new();
        let page_size = u32::try_from(self.layout.size()).context("the pages are too large")?;
        head.extend(MAGIC);
        // Version, little-endian, size of `long`, page size.
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
            // A CPU without pages also has offset 0.
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

/// Replaces the numbers of events in a page. Leaves the rest of a corrupt one to the reader.
fn renumber(layout: &PageLayout, page: &mut [u8], numbers: &BTreeMap<u16, u16>) {
    let Ok(Page { mut cursor, .. }) = layout.page(page) else { return };
    while let Ok(Some(record)) = cursor.next(page) {
        let Some(id) = page.get_mut(record.payload).and_then(|payload| payload.first_chunk_mut()) else {
            continue;
        };
        *id = numbers.get(&u16::from_le_bytes(*id)).map_or(*id, |number| number.to_le_bytes());
    }
}

/// Appends formats, symbols and names of tasks.
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

/// Appends the options; trace-cmd expects strings with their NUL.
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
