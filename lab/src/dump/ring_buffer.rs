//! Writes the contents of a dumped kernel's ring buffer as a `trace.dat`, like that of a recording.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use trace::dat::{TracefsFiles, Writer};

/// The contents of `events/header_event`, which [`trace::page::check_record_header`] expects. A
/// dump does not contain it.
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
    \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

/// The ring buffer of the top-level instance: raw sub-buffers, and the metadata to decode them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingBuffer {
    pub(super) cpus: u32,
    pub(super) header_page: String,
    /// System and format.
    pub(super) formats: Vec<(String, String)>,
    pub(super) saved_cmdlines: String,
    pub(super) printk_formats: String,
    /// Functions of modules, in the format of /proc/kallsyms.
    pub(super) symbols: String,
    pub(super) clock: String,
    /// CPU and sub-buffer as hexadecimal digits, the oldest of each CPU first.
    pub(super) pages: Vec<(u32, String)>,
}

impl RingBuffer {
    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Writes a `trace.dat`. `functions` are the kernel's own, in the format of /proc/kallsyms.
    pub fn write(&self, path: &Path, functions: &str) -> Result<()> {
        let mut writer = Writer::create(path, &self.header_page, self.cpus)?;
        for (cpu, page) in &self.pages {
            let page = bytes(page).context("a sub-buffer is not hexadecimal")?;
            if page.len() != writer.page_size() {
                bail!("a sub-buffer has {} bytes, expected {}", page.len(), writer.page_size());
            }
            writer.append(*cpu, &page)?;
        }
        let (ftrace, events): (Vec<_>, Vec<_>) =
            self.formats.iter().cloned().partition(|(system, _)| system == "ftrace");
        writer.finish(&TracefsFiles {
            header_page: self.header_page.clone(),
            header_event: HEADER_EVENT.to_owned(),
            ftrace_formats: ftrace.into_iter().map(|(_, text)| text).collect(),
            event_formats: events,
            kallsyms: [functions, &self.symbols].concat(),
            printk_formats: self.printk_formats.clone(),
            saved_cmdlines: self.saved_cmdlines.clone(),
            trace_clock: self.clock.clone(),
            stats: Vec::new(),
            uname: String::new(),
            version: concat!("ftrace-lab ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::page::check_record_header;

    #[test]
    fn the_record_header_is_one_that_the_decoder_knows() {
        check_record_header(HEADER_EVENT).unwrap();
    }

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(bytes("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(bytes("0g"), None);
    }

    #[test]
    fn a_sub_buffer_of_another_size_is_refused() {
        let header_page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
        let ring_buffer = RingBuffer {
            cpus: 1,
            header_page: header_page.into(),
            formats: Vec::new(),
            saved_cmdlines: String::new(),
            printk_formats: String::new(),
            symbols: String::new(),
            clock: String::new(),
            pages: vec![(0, "00".into())],
        };
        let directory = tempfile::tempdir().unwrap();
        let error = ring_buffer.write(&directory.path().join("trace.dat"), "").unwrap_err();
        assert_eq!(error.to_string(), "a sub-buffer has 1 bytes, expected 4096");
    }
}
