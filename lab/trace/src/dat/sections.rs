//! The sections that both versions share: formats, symbols and names of tasks.

use super::input::{Input, into_text};
use crate::metadata::RawMetadata;
use anyhow::{Result, bail};
use std::io::Read;

/// The maximum number of event systems, and of events of one system.
const EVENTS_MAX: u32 = 65_536;
/// The longest `header_page`, `header_event` or `format` file, in bytes. In tracefs they have at
/// most some tens of KiB.
const FORMAT_MAX: u64 = 1 << 20;
/// The longest list of printk formats or of task names, in bytes.
const LIST_MAX: u64 = 16 << 20;
/// The longest name of a system or a buffer, in bytes.
pub(super) const NAME_MAX: usize = 4096;

/// Reads `header_page` and `header_event`.
pub(super) fn header_info(input: &mut Input<impl Read>, texts: &mut RawMetadata) -> Result<()> {
    input.literal(b"header_page\0", "the mark `header_page`")?;
    texts.header_page = sized_text(input, FORMAT_MAX, "`header_page`")?;
    input.literal(b"header_event\0", "the mark `header_event`")?;
    texts.header_event = sized_text(input, FORMAT_MAX, "`header_event`")?;
    Ok(())
}

/// Reads the formats of ftrace's own entries.
pub(super) fn ftrace_formats(input: &mut Input<impl Read>, texts: &mut RawMetadata) -> Result<()> {
    system(input, "ftrace", texts)
}

/// Reads the formats of all other events, system by system.
pub(super) fn event_formats(input: &mut Input<impl Read>, texts: &mut RawMetadata) -> Result<()> {
    let systems = count(input, "the number of event systems")?;
    for _ in 0..systems {
        let name = input.string(NAME_MAX, "the name of an event system")?;
        system(input, &name, texts)?;
    }
    Ok(())
}

fn system(input: &mut Input<impl Read>, name: &str, texts: &mut RawMetadata) -> Result<()> {
    let events = count(input, "the number of events of a system")?;
    for _ in 0..events {
        if texts.formats.len() >= EVENTS_MAX as usize {
            bail!("the file has more than {EVENTS_MAX} event formats");
        }
        texts.formats.push((name.to_owned(), sized_text(input, FORMAT_MAX, "an event format")?));
    }
    Ok(())
}

/// Reads the text of `/proc/kallsyms`.
pub(super) fn kallsyms(input: &mut Input<impl Read>, texts: &mut RawMetadata) -> Result<()> {
    let length = input.u32("the size of the symbols")?;
    texts.kallsyms = input.text(u64::from(length), "the symbols")?;
    Ok(())
}

/// Reads the text of `printk_formats`.
pub(super) fn printk_formats(input: &mut Input<impl Read>, texts: &mut RawMetadata) -> Result<()> {
    let length = u64::from(input.u32("the size of the printk formats")?);
    check(length, LIST_MAX, "the printk formats")?;
    texts.printk_formats = input.text(length, "the printk formats")?;
    Ok(())
}

/// Reads the text of `saved_cmdlines`.
pub(super) fn saved_cmdlines(input: &mut Input<impl Read>, texts: &mut RawMetadata) -> Result<()> {
    texts.saved_cmdlines = sized_text(input, LIST_MAX, "the names of tasks")?;
    Ok(())
}

/// Returns the text of an option, without the trailing NUL.
pub(super) fn option_text(data: Vec<u8>) -> String {
    let mut text = into_text(data);
    text.truncate(text.trim_end_matches('\0').len());
    text
}

fn sized_text(input: &mut Input<impl Read>, max: u64, what: &str) -> Result<String> {
    let length = input.u64("the size of a text")?;
    check(length, max, what)?;
    input.text(length, what)
}

fn check(length: u64, max: u64, what: &str) -> Result<()> {
    if length > max {
        bail!("{what} claims {length} bytes; at most {max} are read");
    }
    Ok(())
}

fn count(input: &mut Input<impl Read>, what: &str) -> Result<u32> {
    let count = input.u32(what)?;
    if count > EVENTS_MAX {
        bail!("{what} is {count}, more than {EVENTS_MAX}");
    }
    Ok(count)
}
