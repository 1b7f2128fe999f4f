//! Opens a `trace.dat`: reads its metadata and locates the pages of each CPU.

use super::{
    CPUS_MAX, MAGIC,
    compression::Compression,
    input::{Input, METADATA_MAX},
    option,
    pages::CpuData,
    sections::{self, NAME_MAX, option_text},
};
use crate::metadata::RawMetadata;
use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
};

/// The maximum number of options of a file.
const OPTIONS_MAX: usize = 65_536;
/// The maximum number of blocks of options, each of which points to the next.
const OPTION_BLOCKS_MAX: usize = 1024;
/// Section flag: the section is compressed.
const COMPRESSED: u16 = 1;

/// The reason why a trace-cmd file of a latency tracer cannot be read.
const TEXT_ONLY: &str =
    "it contains latency tracer output, which is text, not events; `trace-cmd report -i FILE` shows it";

/// The contents of an opened file, except its pages.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) texts: RawMetadata,
    pub(crate) cpus: Vec<CpuData>,
    /// The other tracing instances in the file, whose pages are not read.
    pub(crate) instances: Vec<String>,
    pub(crate) times: Times,
}

/// The conversion of raw timestamps to event times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// Multiplier, shift and offset from cycles to nanoseconds.
    tsc: Option<(u32, u32, u64)>,
    /// Added to every timestamp, in nanoseconds.
    offset: i64,
}

impl Times {
    /// Converts the timestamp of a record to the time of its event.
    #[inline]
    pub(crate) fn apply(&self, stamp: u64) -> u64 {
        let time = match self.tsc {
            None => stamp,
            Some((multiplier, shift, offset)) => {
                let cycles = u128::from(stamp) * u128::from(multiplier);
                ((cycles >> shift) as u64).wrapping_add(offset)
            }
        };
        time.wrapping_add_signed(self.offset)
    }

    fn add(&mut self, text: &str) {
        let text = text.trim();
        let number = match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        self.offset = self.offset.wrapping_add(number.unwrap_or(0));
    }
}

/// Reads everything except the pages.
pub(crate) fn open(file: &File) -> Result<Contents> {
    let mut input = Input::new(BufReader::new(file), METADATA_MAX);
    if input.array::<10>("the magic number").ok().as_ref() != Some(MAGIC) {
        bail!("it is not a trace.dat file: the magic number is missing");
    }
    let version = input.string(16, "the version of the file")?;
    let [endian, long_size] = input.array("the byte order")?;
    if endian != 0 {
        bail!("it was written on a big-endian machine, which is not supported");
    }
    if !matches!(long_size, 4 | 8) {
        bail!("it declares a `long` of {long_size} bytes");
    }
    let _page_size = input.u32("the page size")?;
    let contents = match version.as_str() {
        "6" => version_6(input),
        "7" => version_7(file, input),
        other => bail!("it has version `{other}`, expected 6 or 7"),
    }?;
    // Thousands of CPUs that all claim the same pages would turn a small file into a long trace.
    let claimed = contents.cpus.iter().fold(0, |sum: u64, cpu| sum.saturating_add(cpu.size));
    let length = file.metadata().context("cannot get the size of the file")?.len();
    if claimed > length {
        bail!("its CPUs claim {claimed} bytes of pages, but the whole file has {length}");
    }
    Ok(contents)
}

fn version_6(mut input: Input<impl Read>) -> Result<Contents> {
    let mut contents = Contents::default();
    let texts = &mut contents.texts;
    sections::header_info(&mut input, texts)?;
    sections::ftrace_formats(&mut input, texts)?;
    sections::event_formats(&mut input, texts)?;
    sections::kallsyms(&mut input, texts)?;
    sections::printk_formats(&mut input, texts)?;
    sections::saved_cmdlines(&mut input, texts)?;
    let mut cpus = input.u32("the number of CPUs")?;
    let mut mark: [u8; 10] = input.array("the mark after the header")?;
    if mark.starts_with(b"options") {
        let mut number = 0;
        loop {
            let id = input.u16("the number of an option")?;
            if id == option::DONE {
                break;
            }
            number += 1;
            if number > OPTIONS_MAX {
                bail!("it has more than {OPTIONS_MAX} options");
            }
            let length = input.u32("the size of an option")?;
            let data = input.bytes(u64::from(length), "an option")?;
            match (id, data.first_chunk()) {
                (option::CPUCOUNT, Some(count)) => cpus = u32::from_le_bytes(*count),
                (option::BUFFER, _) => {
                    let mut data = Input::new(&data[..], u64::from(length));
                    data.u64("the offset of a buffer")?;
                    contents.instances.push(data.string(NAME_MAX, "the name of a buffer")?);
                }
                _ => contents.option(id, data)?,
            }
        }
        mark = input.array("the mark after the options")?;
    }
    if mark.starts_with(b"latency") {
        bail!(TEXT_ONLY);
    }
    if !mark.starts_with(b"flyrecord") {
        bail!("the mark before the pages is missing");
    }
    if cpus > CPUS_MAX {
        bail!("it has {cpus} CPUs, more than {CPUS_MAX}");
    }
    for cpu in 0..cpus {
        let offset = input.u64("the offset of a CPU's pages")?;
        let size = input.u64("the size of a CPU's pages")?;
        contents.cpus.push(CpuData { cpu, offset, size, compression: Compression::None });
    }
    Ok(contents)
}

fn version_7(file: &File, mut input: Input<impl Read>) -> Result<Contents> {
    let algorithm = input.string(64, "the name of the compression")?;
    input.string(64, "the version of the compression")?;
    let compression = Compression::named(&algorithm)?;
    let mut next = input.u64("the offset of the options")?;
    let mut sections = Sections { file, compression, left: METADATA_MAX };
    let mut contents = Contents::default();
    let mut buffers = Vec::new();
    let mut blocks = 0;
    while next != 0 {
        blocks += 1;
        if blocks > OPTION_BLOCKS_MAX {
            bail!("its blocks of options form a cycle");
        }
        let (_, section) = sections.read(next, option::DONE)?;
        let mut options = Input::new(&section[..], section.len() as u64);
        let mut number = 0;
        next = loop {
            number += 1;
            if number > OPTIONS_MAX {
                bail!("it has more than {OPTIONS_MAX} options");
            }
            let id = options.u16("the number of an option")?;
            let length = options.u32("the size of an option")?;
            let data = options.bytes(u64::from(length), "an option")?;
            let place = data.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            match (id, place) {
                (option::DONE, place) => break place.unwrap_or(0),
                (option::HEADER_INFO..=option::CMDLINES, Some(place)) => {
                    sections.texts(id, place, &mut contents.texts)?;
                }
                (option::BUFFER, _) => buffers.push(Buffer::parse(&data)?),
                (option::BUFFER_TEXT, _) => bail!(TEXT_ONLY),
                _ => contents.option(id, data)?,
            }
        };
    }
    contents.choose(&mut sections, buffers)?;
    Ok(contents)
}

/// A tracing instance in a version 7 file.
struct Buffer {
    place: u64,
    name: String,
    clock: String,
    /// CPU, offset and size.
    cpus: Vec<(u32, u64, u64)>,
}

impl Buffer {
    fn parse(data: &[u8]) -> Result<Buffer> {
        let mut input = Input::new(data, data.len() as u64);
        let place = input.u64("the offset of a buffer")?;
        let name = input.string(NAME_MAX, "the name of a buffer")?;
        let clock = input.string(NAME_MAX, "the clock of a buffer")?;
        let _page_size = input.u32("the page size of a buffer")?;
        let count = input.u32("the CPUs of a buffer")?;
        if count > CPUS_MAX {
            bail!("a buffer has {count} CPUs, more than {CPUS_MAX}");
        }
        let mut cpus = Vec::new();
        for _ in 0..count {
            let cpu = input.u32("a CPU's number")?;
            cpus.push((
                cpu,
                input.u64("the offset of a CPU's pages")?,
                input.u64("the size of a CPU's pages")?,
            ));
        }
        Ok(Buffer { place, name, clock, cpus })
    }
}

impl Contents {
    /// Reads an option that means the same in both versions.
    fn option(&mut self, id: u16, data: Vec<u8>) -> Result<()> {
        match id {
            option::CPUSTAT => self.texts.stats.push(option_text(data)),
            option::TRACECLOCK => self.texts.clock = option_text(data),
            option::UNAME => self.texts.uname = option_text(data),
            option::VERSION => self.texts.version = option_text(data),
            option::OFFSET | option::DATE => self.times.add(&option_text(data)),
            option::TSC2NSEC => {
                let mut input = Input::new(&data[..], data.len() as u64);
                let (multiplier, shift) = (input.u32("the cycles")?, input.u32("the cycles")?);
                if shift > 63 {
                    bail!("it shifts cycles by {shift} bits");
                }
                self.times.tsc = Some((multiplier, shift, input.u64("the cycles")?));
            }
            _ => {}
        }
        Ok(())
    }

    /// Selects the pages of the top-level instance if it has any, else of the first instance that
    /// has.
    fn choose(&mut self, sections: &mut Sections<'_>, buffers: Vec<Buffer>) -> Result<()> {
        let has_pages = |buffer: &Buffer| buffer.cpus.iter().any(|&(_, _, size)| size > 0);
        let top = buffers.iter().position(|buffer| buffer.name.is_empty() && has_pages(buffer));
        let chosen = top.or_else(|| buffers.iter().position(has_pages));
        for (number, buffer) in buffers.into_iter().enumerate() {
            if Some(number) != chosen {
                if !buffer.name.is_empty() {
                    self.instances.push(buffer.name);
                }
                continue;
            }
            let compression = match sections.flags(buffer.place)? & COMPRESSED {
                0 => Compression::None,
                _ => sections.compression,
            };
            if !buffer.clock.is_empty() {
                self.texts.clock = buffer.clock;
            }
            for (cpu, offset, size) in buffer.cpus {
                self.cpus.push(CpuData { cpu, offset, size, compression });
            }
        }
        Ok(())
    }
}

/// Reads the sections of a version 7 file.
struct Sections<'t> {
    file: &'t File,
    compression: Compression,
    /// The number of bytes that may still be read, unpacked.
    left: u64,
}

impl<'t> Sections<'t> {
    fn seek(&mut self, place: u64) -> Result<Input<BufReader<&'t File>>> {
        let mut file = BufReader::new(self.file);
        file.seek(SeekFrom::Start(place))
            .with_context(|| format!("cannot seek to the section at {place}"))?;
        Ok(Input::new(file, self.left))
    }

    fn flags(&mut self, place: u64) -> Result<u16> {
        let mut input = self.seek(place)?;
        input.u16("the number of a section")?;
        input.u16("the flags of a section")
    }

    /// Reads the section at `place`, unpacked; its number must be `expect`.
    fn read(&mut self, place: u64, expect: u16) -> Result<(u16, Vec<u8>)> {
        let mut input = self.seek(place)?;
        let id = input.u16("the number of a section")?;
        let flags = input.u16("the flags of a section")?;
        if id != expect {
            bail!("the section at {place} has number {id} instead of {expect}");
        }
        input.u32("the description of a section")?;
        let length = input.u64("the size of a section")?;
        let bytes = if flags & COMPRESSED == 0 {
            input.bytes(length, "a section")?
        } else {
            let packed = input.u32("the size of a compressed section")?;
            let size = u64::from(input.u32("the size of a section")?);
            if size > self.left {
                bail!("a section unpacks to {size} bytes; at most {} are read", self.left);
            }
            let packed = input.bytes(u64::from(packed), "a compressed section")?;
            let mut bytes = Vec::new();
            self.compression.unpack(&packed, size as usize, &mut bytes)?;
            bytes
        };
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok((flags, bytes))
    }

    fn texts(&mut self, id: u16, place: u64, texts: &mut RawMetadata) -> Result<()> {
        let (_, section) = self.read(place, id)?;
        let mut input = Input::new(&section[..], section.len() as u64);
        match id {
            option::HEADER_INFO => sections::header_info(&mut input, texts),
            option::FTRACE_EVENTS => sections::ftrace_formats(&mut input, texts),
            option::EVENT_FORMATS => sections::event_formats(&mut input, texts),
            option::KALLSYMS => sections::kallsyms(&mut input, texts),
            option::PRINTK => sections::printk_formats(&mut input, texts),
            _ => sections::saved_cmdlines(&mut input, texts),
        }
    }
}
