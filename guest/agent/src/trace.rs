//! The raw ring buffer: whole sub-buffers from `trace_pipe_raw`.
//!
//! No file stays open between two requests. While a `trace_pipe_raw` is open, changing current_tracer
//! and removing the instance fail with EBUSY. Closing it loses nothing, since every read takes a whole
//! sub-buffer.

use crate::{
    files::{DATA_MAX, resolve, write_file},
    refusal::{Refusal, Refused},
    vectored,
};
use protocol::{CpuPages, Reply, WriteMode};
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    param::page_size,
};
use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The number of replies, each of which begins with another CPU: a sub-buffer may fill one.
static REPLIES: AtomicUsize = AtomicUsize::new(0);

/// Starts recording in an instance.
pub(crate) fn start(instance: &str) -> Result<(), Refusal> {
    write_file(&below(instance, "tracing_on"), b"1", WriteMode::Truncate)
}

/// Stops recording in an instance.
pub(crate) fn stop(instance: &str) -> Result<(), Refusal> {
    write_file(&below(instance, "tracing_on"), b"0", WriteMode::Truncate)
}

/// Takes the data that the CPUs of an instance have recorded, up to about `max` bytes or what fits a
/// reply.
pub(crate) fn drain(instance: &str, max: u32) -> Result<Reply, Refusal> {
    let size = subbuffer_size(instance);
    let per_cpu = below(instance, "per_cpu");
    let mut readers = Vec::new();
    for cpu in cpus(&per_cpu)? {
        let path = format!("{per_cpu}/cpu{cpu}/trace_pipe_raw");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open(&*resolve(&path), flags, Mode::empty()).refused("open", &path)?;
        readers.push((cpu, move |page: &mut [u8]| vectored::read(&file, page)));
    }
    // At least one sub-buffer is requested, however small `max` is.
    let room = (max as usize).min(DATA_MAX).max(size);
    let turn = REPLIES.fetch_add(1, Ordering::Relaxed);
    let (cpus, more) = collect(readers, turn, size, room).refused("read", &per_cpu)?;
    Ok(Reply::Pages { cpus, more })
}

/// Takes sub-buffers of `size` bytes from the CPUs in turn, so that a busy one does not starve others,
/// until all are empty or the next would exceed `room` bytes. In the latter case also returns true. Which CPU
/// is the first depends on `turn`.
fn collect(
    mut readers: Vec<(u32, impl FnMut(&mut [u8]) -> Result<usize, Errno>)>,
    turn: usize,
    size: usize,
    room: usize,
) -> Result<(Vec<CpuPages>, bool), Errno> {
    let first = turn % readers.len().max(1);
    readers.rotate_left(first);
    let mut left = room / size;
    let mut all: Vec<_> =
        readers.into_iter().map(|(cpu, read)| (CpuPages { cpu, data: Vec::new() }, read, true)).collect();
    let mut more = true;
    while more && left > 0 {
        more = false;
        for (pages, read, holds_some) in all.iter_mut().filter(|(_, _, holds_some)| *holds_some) {
            if left == 0 {
                more = true;
                break;
            }
            // A short read leaves the rest of the page zero.
            let start = pages.data.len();
            pages.data.resize(start + size, 0);
            match read(&mut pages.data[start..]) {
                // The kernel returns 0 if the writer interfered, EAGAIN if the buffer is empty, and
                // ENODEV if there is none, since the CPU was never online.
                Ok(0) | Err(Errno::AGAIN | Errno::NODEV) => {
                    pages.data.truncate(start);
                    *holds_some = false;
                }
                Ok(_) => {
                    left -= 1;
                    more = true;
                }
                Err(Errno::INTR) => {
                    pages.data.truncate(start);
                    more = true;
                }
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok((all.into_iter().map(|(pages, ..)| pages).filter(|pages| !pages.data.is_empty()).collect(), more))
}

/// Returns the size of a sub-buffer in bytes: a page, unless configured otherwise (possible since 6.8).
fn subbuffer_size(instance: &str) -> usize {
    let path = below(instance, "buffer_subbuf_size_kb");
    let kilobytes = vectored::read_to_string(&resolve(&path)).ok().and_then(|text| text.trim().parse().ok());
    match kilobytes {
        Some(kilobytes @ 1..=512_usize) => kilobytes * 1024,
        _ => page_size(),
    }
}

/// Returns the CPUs that can have a buffer.
fn cpus(per_cpu: &str) -> Result<Vec<u32>, Refusal> {
    let mut cpus = Vec::new();
    for entry in fs::read_dir(&*resolve(per_cpu)).refused("list", per_cpu)? {
        let name = entry.refused("list", per_cpu)?.file_name();
        if let Some(cpu) = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok()) {
            cpus.push(cpu);
        }
    }
    cpus.sort_unstable();
    Ok(cpus)
}

/// Returns the path of a file of an instance; the top-level one is `""`.
fn below(instance: &str, file: &str) -> String {
    if instance.is_empty() { file.into() } else { format!("{instance}/{file}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU with pages full of its number; the reader pads short ones.
    fn cpu(number: u32, lengths: &'static [usize]) -> (u32, impl FnMut(&mut [u8]) -> Result<usize, Errno>) {
        let mut lengths = lengths.iter();
        (number, move |page: &mut [u8]| match lengths.next() {
            Some(&length) => {
                page[..length].fill(number as u8);
                Ok(length)
            }
            None => Err(Errno::AGAIN),
        })
    }

    fn check(cpus: Vec<(u32, &'static [usize])>, (turn, room): (usize, usize), expect: &str) {
        let readers = cpus.into_iter().map(|(number, pages)| cpu(number, pages)).collect();
        let (pages, more) = collect(readers, turn, 4, room).unwrap();
        let pages: Vec<_> = pages.iter().map(|pages| format!("{}:{:?}", pages.cpu, pages.data)).collect();
        assert_eq!(format!("{} more={more}", pages.join(" ")), expect);
    }

    #[test]
    fn all_cpus_are_taken_until_they_are_empty() {
        check(
            vec![(1, &[4, 4]), (2, &[]), (3, &[2])],
            (0, 100),
            "1:[1, 1, 1, 1, 1, 1, 1, 1] 3:[3, 3, 0, 0] more=false",
        );
        check(vec![], (3, 100), " more=false");
    }

    #[test]
    fn a_limit_is_shared_by_the_cpus_and_told() {
        check(vec![(1, &[4, 4, 4]), (2, &[4])], (0, 11), "1:[1, 1, 1, 1] 2:[2, 2, 2, 2] more=true");
        // With 64 KiB pages, a reply has one.
        check(vec![(1, &[4, 4, 4]), (2, &[4])], (2, 7), "1:[1, 1, 1, 1] more=true");
        check(vec![(1, &[4, 4, 4]), (2, &[4])], (3, 7), "2:[2, 2, 2, 2] more=true");
    }

    #[test]
    fn an_errno_is_given_back() {
        let reader = (0, |_: &mut [u8]| Err(Errno::IO));
        assert_eq!(collect(vec![reader], 0, 4, 8).unwrap_err(), Errno::IO);
    }

    #[test]
    fn a_cpu_that_was_never_online_has_nothing() {
        let reader = (1, |_: &mut [u8]| Err(Errno::NODEV));
        assert_eq!(collect(vec![reader], 0, 4, 8), Ok((vec![], false)));
    }
}
