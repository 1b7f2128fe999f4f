//! A `header_page`, a NUL, and the bytes of a page.

#![no_main]

use lab::trace::page::PageLayout;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (header, page) = match input.iter().position(|&byte| byte == 0) {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => return,
    };
    let Ok(layout) = PageLayout::parse(&String::from_utf8_lossy(header)) else { return };
    // What is missing of the page is zero, as the kernel leaves it.
    let mut page = page.to_vec();
    page.resize(layout.size().min(1 << 16), 0);
    let Ok(header) = layout.page(&page) else { return };
    let mut cursor = header.cursor;
    let mut last = 0;
    while let Ok(Some(record)) = cursor.next(&page) {
        assert!(record.payload.start >= last && record.payload.end <= page.len());
        last = record.payload.end;
    }
});
