//! Tests on random pages: decoding restores what was encoded, and corrupt bytes only cause errors.

use super::{Missed, PageError, PageLayout, check_record_header};
use proptest::prelude::*;

/// A record in the form that a kernel writes.
#[derive(Clone, Debug)]
enum Entry {
    /// An event, the nanoseconds since the previous record, and its payload in words.
    Event { delta: u32, payload: Vec<u32>, long: bool },
    /// A discarded event.
    Discarded { delta: u32, words: u8 },
    /// More time than the delta of a record can hold.
    Extend(u64),
    /// An absolute time, at least this much later.
    Stamp(u64),
}

fn entry() -> impl Strategy<Value = Entry> {
    let delta = 0u32..1 << 27;
    prop_oneof![
        6 => (delta.clone(), prop::collection::vec(any::<u32>(), 1..40), any::<bool>())
            .prop_map(|(delta, payload, long)| Entry::Event { delta, payload, long }),
        1 => (1..delta.end, 1u8..20).prop_map(|(delta, words)| Entry::Discarded { delta, words }),
        1 => (0u64..1 << 50).prop_map(Entry::Extend),
        1 => (0u64..1 << 50).prop_map(Entry::Stamp),
    ]
}

fn header_page(commit_size: usize, data_size: usize) -> String {
    let data = 8 + commit_size;
    format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:{commit_size};\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:{data};\tsize:{data_size};\tsigned:1;\n"
    )
}

/// A page under construction, with the result that a decoder should return.
struct Encoder {
    data: Vec<u8>,
    room: usize,
    time: u64,
    expect: Events,
}

impl Encoder {
    fn word(kind: u32, delta: u32) -> [u8; 4] {
        (kind | delta << 5).to_le_bytes()
    }

    /// Adds an entry if the page has room for it.
    fn push(&mut self, entry: &Entry) {
        let mut bytes = Vec::new();
        let mut time = self.time;
        let mut event = None;
        match entry {
            Entry::Event { delta, payload, long } => {
                let body: Vec<u8> = payload.iter().flat_map(|word| word.to_le_bytes()).collect();
                if *long || payload.len() > 28 {
                    bytes.extend(Self::word(0, *delta));
                    bytes.extend((body.len() as u32 + 4).to_le_bytes());
                } else {
                    bytes.extend(Self::word(payload.len() as u32, *delta));
                }
                bytes.extend(&body);
                time += u64::from(*delta);
                event = Some((time, body));
            }
            Entry::Discarded { delta, words } => {
                bytes.extend(Self::word(29, *delta));
                bytes.extend((u32::from(*words) * 4).to_le_bytes());
                bytes.extend(vec![0xaa; usize::from(*words) * 4 - 4]);
                time += u64::from(*delta);
            }
            Entry::Extend(more) => {
                bytes.extend(Self::word(30, (more & ((1 << 27) - 1)) as u32));
                bytes.extend(((more >> 27) as u32).to_le_bytes());
                time += more;
            }
            Entry::Stamp(more) => {
                time += more;
                bytes.extend(Self::word(31, (time & ((1 << 27) - 1)) as u32));
                bytes.extend(((time >> 27) as u32).to_le_bytes());
            }
        }
        if self.data.len() + bytes.len() <= self.room {
            self.data.extend(bytes);
            self.time = time;
            self.expect.extend(event);
        }
    }
}

/// Assembles a page: header, data, count of lost events.
fn page(commit_size: usize, data_size: usize, start: u64, data: &[u8], missed: Option<Missed>) -> Vec<u8> {
    let mut commit = data.len() as u64;
    let mut tail: Vec<u8> = Vec::new();
    if let Some(Missed(lost)) = missed {
        commit |= 1 << 31;
        if let Some(lost) = lost.filter(|_| data.len() + commit_size <= data_size) {
            commit |= 1 << 30;
            tail.extend(&lost.to_le_bytes()[..commit_size]);
        }
    }
    let mut page = start.to_le_bytes().to_vec();
    page.extend(&commit.to_le_bytes()[..commit_size]);
    page.extend(data);
    page.extend(tail);
    page.resize(8 + commit_size + data_size, 0);
    page
}

/// Time and payload of each event.
type Events = Vec<(u64, Vec<u8>)>;

/// Decodes a whole page.
fn decode(layout: &PageLayout, page: &[u8]) -> Result<(Option<Missed>, Events), PageError> {
    let header = layout.page(page)?;
    let mut cursor = header.cursor;
    let mut events = Vec::new();
    while let Some(record) = cursor.next(page)? {
        events.push((record.time, page[record.payload].to_vec()));
    }
    Ok((header.missed, events))
}

proptest! {
    #[test]
    fn encoded_is_decoded(
        entries in prop::collection::vec(entry(), 0..120),
        start in prop_oneof![0u64..1 << 40, (1u64 << 59)..(1 << 60), (7u64 << 59)..(15 << 59)],
        commit_size in prop_oneof![Just(4usize), Just(8)],
        data_size in prop_oneof![Just(4080usize), Just(4084), Just(16368), Just(64)],
        lost in prop_oneof![Just(None), Just(Some(None)), (0u64..1 << 32).prop_map(|lost| Some(Some(lost)))],
        padded in any::<bool>(),
    ) {
        let layout = PageLayout::parse(&header_page(commit_size, data_size)).unwrap();
        let mut encoder = Encoder { data: Vec::new(), room: data_size, time: start, expect: Vec::new() };
        for entry in &entries {
            encoder.push(entry);
        }
        if padded && encoder.data.len() + 8 <= data_size {
            // A null event: the rest of the page is ignored.
            encoder.data.extend(Encoder::word(29, 0));
            encoder.data.extend([0xff; 4]);
        }
        let Encoder { data, expect, .. } = encoder;
        let missed = lost.map(Missed);
        let bytes = page(commit_size, data_size, start, &data, missed);
        let (found, events) = decode(&layout, &bytes).unwrap();
        prop_assert_eq!(events, expect);
        let room_for_count = data.len() + commit_size <= data_size;
        prop_assert_eq!(found, missed.map(|Missed(lost)| Missed(lost.filter(|_| room_for_count))));
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300), commit in 0u32..300) {
        let layout = PageLayout::parse(&header_page(8, 240)).unwrap();
        let mut bytes = bytes;
        if let Some(field) = bytes.get_mut(8..16) {
            field.copy_from_slice(&u64::from(commit).to_le_bytes());
        }
        if let Ok((_, events)) = decode(&layout, &bytes) {
            // Every event takes at least one word.
            prop_assert!(events.len() <= 60);
        }
    }

    #[test]
    fn any_header_is_read_or_refused(text in "(\tfield: (u64|int) (timestamp|commit|data);\toffset:[0-9]{1,20};\tsize:[0-9]{1,20};\n){0,4}") {
        if let Ok(layout) = PageLayout::parse(&text) {
            prop_assert!(layout.size() <= super::SUB_BUFFER_MAX);
            let bytes = vec![0xff; layout.size().min(1 << 16)];
            let _ = decode(&layout, &bytes);
        }
    }
}

#[test]
fn damaged_pages() {
    let layout = PageLayout::parse(&header_page(8, 64)).unwrap();
    let check = |data: &[u32], commit: Option<u64>, expect: PageError| {
        let data: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = page(8, 64, 1000, &data, None);
        if let Some(commit) = commit {
            bytes[8..16].copy_from_slice(&commit.to_le_bytes());
        }
        assert_eq!(decode(&layout, &bytes), Err(expect), "{data:?}");
    };
    check(&[], Some(65), PageError::Commit { committed: 65, room: 64 });
    // A payload, a long payload, a discarded event and a time extend that reach beyond the page.
    check(&[2, 0], None, PageError::Record { at: 0, committed: 8 });
    check(&[1, 0, 0, 100], None, PageError::Record { at: 8, committed: 16 });
    check(&[0, 3], None, PageError::Record { at: 0, committed: 8 });
    check(&[29 | 1 << 5, 8], None, PageError::Record { at: 0, committed: 8 });
    check(&[30], None, PageError::Record { at: 0, committed: 4 });
    check(&[1, 0], Some(6), PageError::Record { at: 0, committed: 6 });
    assert_eq!(decode(&layout, &[0; 79]), Err(PageError::Short { found: 79, expected: 80 }));
}

#[test]
fn absolute_stamps_keep_their_top_bits() {
    // Three pages of one record each: an absolute timestamp after a base time.
    let check = |start: u64, stamp: u64, expect: u64| {
        let layout = PageLayout::parse(&header_page(8, 64)).unwrap();
        let mut data = Encoder::word(31, (stamp & ((1 << 27) - 1)) as u32).to_vec();
        data.extend(((stamp >> 27) as u32).to_le_bytes());
        data.extend(Encoder::word(1, 0));
        data.extend([0; 4]);
        let (_, events) = decode(&layout, &page(8, 64, start, &data, None)).unwrap();
        assert_eq!(events[0].0, expect, "{start:#x} {stamp:#x}");
    };
    check(10, 1 << 58, 1 << 58);
    check(5 << 59 | 7, 9, 5 << 59 | 9);
    // The lower 59 bits have wrapped once.
    check(5 << 59 | 7, 3, 6 << 59 | 3);
}

#[test]
fn record_headers() {
    let check = |text: &str, fine: bool| assert_eq!(check_record_header(text).is_ok(), fine, "{text}");
    check("# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n", true);
    check("\tpadding     : type == 29\n\ttime_extend : type == 30\n\tdata max type_len  == 28\n", true);
    check("\ttype_len    :    4 bits\n", false);
    check("\ttime_stamp : type == 30\n", false);
}

#[test]
fn header_pages() {
    let check = |text: &str, expect: Result<usize, &str>| {
        let found = PageLayout::parse(text).map(|layout| layout.size()).map_err(|error| error.to_string());
        match expect {
            Ok(size) => assert_eq!(found, Ok(size), "{text}"),
            Err(part) => assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{text} {found:?}"),
        }
    };
    check(&header_page(8, 4080), Ok(4096));
    check(&header_page(4, 4084), Ok(4096));
    check(&header_page(8, 65520), Ok(65536));
    check("", Err("lacks"));
    check(&header_page(2, 4080), Err("neither 4 nor 8"));
    check(&header_page(8, 1 << 30), Err("too large"));
    check(&header_page(8, 0), Err("too small"));
    check(&header_page(8, 4080).replace("offset:8", "offset:12"), Err("reaches into"));
}
