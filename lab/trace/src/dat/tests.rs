//! Tests that write files and read them back, and tests with corrupt files.

use super::{CPUS_MAX, MAGIC, PageReader, TracefsFiles, Writer, open, option};
use crate::{Item, Trace, metadata::RawMetadata};
use anyhow::Result;
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/trace").join(name)
}

/// Returns the texts of a file and the pages of each CPU.
fn parts(path: &Path) -> Result<(RawMetadata, Vec<Vec<u8>>)> {
    let trace = Trace::open(path)?;
    let file = File::open(path)?;
    let contents = open(&file)?;
    let size = trace.metadata().layout().size();
    let mut all = Vec::new();
    for data in &contents.cpus {
        let (mut reader, mut batch, mut pages) = (PageReader::new(&file, data), Vec::new(), Vec::new());
        loop {
            reader.next(size, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            pages.extend(&batch);
        }
        all.push(pages);
    }
    Ok((contents.texts, all))
}

/// Returns a line for each event and loss.
fn lines(path: &Path) -> Result<Vec<String>> {
    let trace = Trace::open(path)?;
    let mut lines = Vec::new();
    trace.for_each(|item| {
        lines.push(match item {
            Item::Event(event) => format!("{} {:?}", trace.display(&event), event.data()),
            Item::Loss(loss) => format!("{loss:?}"),
        });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(lines)
}

fn files(texts: &RawMetadata) -> TracefsFiles {
    let (own, others) = texts.formats.iter().cloned().partition::<Vec<_>, _>(|(group, _)| group == "ftrace");
    let stats = texts.stats.iter().map(|text| {
        let (first, rest) = text.split_once('\n').unwrap();
        (first.strip_prefix("CPU: ").unwrap().parse().unwrap(), rest.to_owned())
    });
    TracefsFiles {
        header_page: texts.header_page.clone(),
        header_event: texts.header_event.clone(),
        ftrace_formats: own.into_iter().map(|(_, text)| text).collect(),
        event_formats: others,
        kallsyms: texts.kallsyms.clone(),
        printk_formats: texts.printk_formats.clone(),
        saved_cmdlines: texts.saved_cmdlines.clone(),
        trace_clock: texts.clock.clone(),
        stats: stats.collect(),
        uname: texts.uname.clone(),
        version: texts.version.clone(),
    }
}

fn write_v6(path: &Path, texts: &RawMetadata, pages: &[Vec<u8>]) -> Result<()> {
    let mut writer = Writer::create(path, &texts.header_page, u32::try_from(pages.len())?)?;
    let size = writer.page_size();
    // One page at a time from each CPU in turn, in the order of a recording.
    for at in (0..pages.iter().map(Vec::len).max().unwrap_or(0)).step_by(size) {
        for (cpu, pages) in (0..).zip(pages) {
            if let Some(page) = pages.get(at..at + size) {
                writer.append(cpu, page)?;
            }
        }
    }
    writer.finish(&files(texts))
}

const FIXTURES: [&str; 15] = [
    "arrays.dat",
    "boot.dat",
    "counter.dat",
    "dropped.dat",
    "filtered.dat",
    "graph.dat",
    "hwlat.dat",
    "kprobes.dat",
    "osnoise.dat",
    "overrun.dat",
    "printk.dat",
    "stacks.dat",
    "subbuf16.dat",
    "syscalls.dat",
    "timerlat.dat",
];

#[test]
fn written_is_read() -> Result<()> {
    let directory = tempfile::tempdir()?;
    for name in FIXTURES {
        let path = directory.path().join(name);
        let (texts, pages) = parts(&fixture(name))?;
        write_v6(&path, &texts, &pages)?;
        let (mut texts, mut again) = (texts, parts(&path)?);
        assert_eq!(again.1, pages, "{name}");
        texts.formats.sort();
        again.0.formats.sort();
        assert_eq!(format!("{:?}", again.0), format!("{texts:?}"), "{name}");
        let expect = lines(&fixture(name))?;
        assert!(!expect.is_empty(), "{name}");
        assert_eq!(lines(&path)?, expect, "{name}");
    }
    Ok(())
}

#[test]
fn version_7_in_every_compression() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("trace.dat");
    for name in ["kprobes.dat", "subbuf16.dat"] {
        let (texts, pages) = parts(&fixture(name))?;
        let expect = lines(&fixture(name))?;
        for compressed in [false, true] {
            fs::write(&path, version_7(&texts, &pages, compressed))?;
            assert_eq!(lines(&path)?, expect, "{name} {compressed}");
        }
    }
    Ok(())
}

/// Builds a version 7 file of one instance: sections, then the options that point to them.
fn version_7(texts: &RawMetadata, pages: &[Vec<u8>], compressed: bool) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(b"7\0\0\x08");
    file.extend(4096u32.to_le_bytes());
    file.extend(if compressed { &b"zlib\x001.2\0"[..] } else { &b"none\0\0"[..] });
    let options_at = file.len();
    file.extend([0; 8]);
    let mut options = Vec::new();
    for (id, body) in section_bodies(texts) {
        add_option(&mut options, id, &(file.len() as u64).to_le_bytes());
        add_section(&mut file, id, &body, compressed);
    }
    let at = file.len() as u64;
    let mut buffer = at.to_le_bytes().to_vec();
    buffer.extend(b"\0local\0");
    buffer.extend(4096u32.to_le_bytes());
    buffer.extend((pages.len() as u32).to_le_bytes());
    // The header of the section; its size is not read.
    file.extend(option::BUFFER.to_le_bytes());
    file.extend(u16::from(compressed).to_le_bytes());
    file.extend([0; 12]);
    for (cpu, pages) in (0u32..).zip(pages) {
        let start = file.len();
        match compressed {
            false => file.extend(pages),
            true => add_chunks(&mut file, pages),
        }
        buffer.extend(cpu.to_le_bytes());
        buffer.extend((start as u64).to_le_bytes());
        buffer.extend(((file.len() - start) as u64).to_le_bytes());
    }
    add_option(&mut options, option::BUFFER, &buffer);
    for stats in &texts.stats {
        add_option(&mut options, option::CPUSTAT, stats.as_bytes());
    }
    add_option(&mut options, option::DONE, &0u64.to_le_bytes());
    let at = (file.len() as u64).to_le_bytes();
    file[options_at..options_at + 8].copy_from_slice(&at);
    add_section(&mut file, option::DONE, &options, compressed);
    file
}

fn section_bodies(texts: &RawMetadata) -> Vec<(u16, Vec<u8>)> {
    let sized = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let short = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let head = [
        b"header_page\0".to_vec(),
        sized(&texts.header_page),
        b"header_event\0".to_vec(),
        sized(&texts.header_event),
    ];
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let (mut own_count, mut count) = (0u32, 0u32);
    for (group, text) in &texts.formats {
        if group == "ftrace" {
            own.extend(sized(text));
            own_count += 1;
        } else {
            others.extend(group.as_bytes());
            others.extend(b"\0\x01\0\0\0");
            others.extend(sized(text));
            count += 1;
        }
    }
    vec![
        (option::HEADER_INFO, head.concat()),
        (option::FTRACE_EVENTS, [&own_count.to_le_bytes()[..], &own].concat()),
        (option::EVENT_FORMATS, [&count.to_le_bytes()[..], &others].concat()),
        (option::KALLSYMS, short(&texts.kallsyms)),
        (option::PRINTK, short(&texts.printk_formats)),
        (option::CMDLINES, sized(&texts.saved_cmdlines)),
    ]
}

fn add_option(options: &mut Vec<u8>, id: u16, data: &[u8]) {
    options.extend(id.to_le_bytes());
    options.extend((data.len() as u32).to_le_bytes());
    options.extend(data);
}

fn add_section(file: &mut Vec<u8>, id: u16, body: &[u8], compressed: bool) {
    let packed = if compressed { block(body) } else { body.to_vec() };
    file.extend(id.to_le_bytes());
    file.extend(u16::from(compressed).to_le_bytes());
    file.extend([0; 4]);
    file.extend((packed.len() as u64).to_le_bytes());
    file.extend(packed);
}

/// Returns both sizes, followed by the packed bytes.
fn block(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    let packed = encoder.finish().unwrap();
    [&(packed.len() as u32).to_le_bytes()[..], &(body.len() as u32).to_le_bytes(), &packed].concat()
}

fn add_chunks(file: &mut Vec<u8>, pages: &[u8]) {
    let chunks: Vec<&[u8]> = pages.chunks(32768).collect();
    file.extend((chunks.len() as u32).to_le_bytes());
    for chunk in chunks {
        file.extend(block(chunk));
    }
}

#[test]
fn refused_files() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("trace.dat");
    let check = |bytes: &[u8], part: &str| -> Result<()> {
        fs::write(&path, bytes)?;
        let error = format!("{:#}", lines(&path).expect_err(part));
        assert!(error.contains(part), "`{error}` does not say `{part}`");
        Ok(())
    };
    let head = |rest: &[u8]| [&MAGIC[..], rest].concat();
    check(b"", "not a trace.dat")?;
    check(b"\x17\x08\x45tracing6\0", "not a trace.dat")?;
    check(&head(b"6\0\x01\x08\0\x10\0\0"), "big-endian")?;
    check(&head(b"6\0\0\x03\0\x10\0\0"), "`long` of 3 bytes")?;
    check(&head(b"5\0\0\x08\0\x10\0\0"), "version `5`")?;
    check(&head(b"7\0\0\x08\0\x10\0\0lz4\x001\0"), "compressed with `lz4`")?;
    check(&head(b"6\0\0\x08\0\x10\0\0header_page\0\xff\xff\xff\xff\xff\xff\xff\xff"), "bytes; at most ")?;
    check(&head(b"6\0\0\x08\0\x10\0\0header_page\0\xff\xff\x00\x00\x00\x00\x00\x00abc"), "the file ends in")?;
    Ok(())
}

#[test]
fn refused_pages() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("trace.dat");
    let (texts, pages) = parts(&fixture("overrun.dat"))?;
    assert!(Writer::create(&path, &texts.header_page, CPUS_MAX + 1).is_err());
    assert!(Writer::create(&path, "no page", 2).is_err());
    let mut writer = Writer::create(&path, &texts.header_page, 2)?;
    assert!(writer.append(0, &pages[0][..4095]).is_err(), "half a page");
    assert!(writer.append(2, &pages[0][..4096]).is_err(), "a third CPU");
    let mut full = pages[0][..4096].to_vec();
    full[8..10].copy_from_slice(&[0xff, 0xff]);
    assert!(writer.append(0, &full).is_err(), "more committed than there is");
    assert!(writer.is_empty());
    writer.append(1, &pages[1])?;
    assert_eq!(writer.len()?, pages[1].len() as u64);
    // An unfinished file is not visible, nor is one that never gets finished.
    assert_eq!(fs::read_dir(directory.path())?.count(), 0);
    drop(writer);
    assert_eq!(fs::read_dir(directory.path())?.count(), 0);
    Ok(())
}

#[test]
fn pages_beyond_the_limit_are_losses() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("trace.dat");
    let (texts, pages) = parts(&fixture("kprobes.dat"))?;
    let write = |max_bytes| -> Result<(bool, Vec<String>)> {
        let count = u32::try_from(pages.len())?;
        let mut writer = Writer::create(&path, &texts.header_page, count)?.limit(max_bytes);
        for (cpu, pages) in (0..).zip(&pages) {
            for page in pages.chunks(writer.page_size()) {
                writer.append(cpu, page)?;
            }
        }
        let (cut, held) = (writer.is_cut(), writer.len()?);
        assert!(held <= max_bytes.saturating_add(u64::from(count) * writer.page_size() as u64), "{held}");
        writer.finish(&files(&texts))?;
        Ok((cut, lines(&path)?))
    };
    let whole: usize = pages.iter().map(Vec::len).sum();
    let all = lines(&fixture("kprobes.dat"))?;
    assert_eq!(write(whole as u64)?, (false, all.clone()));
    let used = pages.iter().filter(|pages| !pages.is_empty()).count();
    for (max_bytes, cut_cpus) in [(whole as u64 - 1, 1), (0, used)] {
        let (cut, found) = write(max_bytes)?;
        let losses: Vec<_> = found.iter().filter(|line| line.contains("lost: None")).collect();
        assert!(cut && losses.len() == cut_cpus && found.len() < all.len(), "{losses:?}");
    }
    Ok(())
}

#[test]
fn an_event_is_renumbered_from_its_redefinition_on() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("trace.dat");
    let (texts, pages) = parts(&fixture("kprobes.dat"))?;
    let metadata = Trace::open(&fixture("kprobes.dat"))?;
    let id = metadata.metadata().formats().iter().find(|format| format.group() == "kprobes").unwrap().id();
    // How many records have which number, after the pages of CPU 0, the mark, and those of CPU 1.
    let numbers = |changes: &[(Option<u16>, u16)]| -> Result<BTreeMap<(u32, u16), u64>> {
        let mut writer = Writer::create(&path, &texts.header_page, u32::try_from(pages.len())?)?;
        writer.append(0, &pages[0])?;
        writer.mark()?;
        let (first, others) = changes.split_first().unwrap();
        writer.renumber(id, first.0, first.1)?;
        writer.append(1, &pages[1])?;
        for (before, now) in others {
            writer.renumber(id, *before, *now)?;
        }
        writer.finish(&files(&texts))?;
        let mut numbers = BTreeMap::new();
        Trace::open(&path)?.for_each(|item| {
            if let Item::Event(event) = item {
                let number = u16::from_le_bytes(*event.data().first_chunk().unwrap());
                *numbers.entry((event.cpu, number)).or_default() += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        numbers.retain(|(_, number), _| [0, id, 65535].contains(number));
        Ok(numbers)
    };
    let all = numbers(&[(None, id)])?;
    let (zero, one) = (all[&(0, id)], all[&(1, id)]);
    assert_eq!(numbers(&[(Some(id), 65535)])?, BTreeMap::from([((0, id), zero), ((1, 65535), one)]));
    assert_eq!(numbers(&[(Some(id), 0)])?, BTreeMap::from([((0, id), zero), ((1, 0), one)]));
    // Between the mark and the redefinition, a record may be of either.
    let changes = [(Some(id), 65535), (Some(65535), id)];
    assert_eq!(numbers(&changes)?, BTreeMap::from([((0, id), zero), ((1, 0), one)]));
    Ok(())
}

#[test]
fn truncated_files_are_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("trace.dat");
    let (texts, pages) = parts(&fixture("overrun.dat"))?;
    write_v6(&path, &texts, &pages)?;
    for whole in [fs::read(&path)?, fs::read(fixture("overrun.dat"))?, version_7(&texts, &pages, true)] {
        // trace-cmd ends its files with a section of section names, which is not read.
        for length in (0..whole.len() * 9 / 10).step_by(whole.len() / 100 + 1) {
            fs::write(&path, &whole[..length])?;
            assert!(lines(&path).is_err(), "{length} bytes of {}", whole.len());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Reading a corrupt file ends, and the limits of `Input` bound its memory.
    #[test]
    fn damaged_files_end(
        version in 0usize..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        early in any::<bool>(),
    ) {
        let files = WHOLE.with(|whole| whole.clone());
        let mut bytes = files[version].clone();
        for (place, byte) in damage {
            // The head is small compared with the rest, and it decides the most.
            let reach = if early { bytes.len().min(20_000) } else { bytes.len() };
            let at = place.index(reach);
            bytes[at] = byte;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &bytes).unwrap();
        let _ = lines(file.path());
    }
}

thread_local! {
    /// One file of each kind.
    static WHOLE: std::rc::Rc<[Vec<u8>; 3]> = {
        let (texts, pages) = parts(&fixture("kprobes.dat")).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.dat");
        write_v6(&path, &texts, &pages).unwrap();
        let version_6 = fs::read(&path).unwrap();
        let zstd = fs::read(fixture("printk.dat")).unwrap();
        [version_6, zstd, version_7(&texts, &pages, true)].into()
    };
}
