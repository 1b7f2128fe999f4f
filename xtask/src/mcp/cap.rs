//! Limits on what is read from a verb and on what a client gets of it.

use serde_json::Value;
use std::{io, mem};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt};

/// The most that a client gets of a verb's output, in bytes.
pub(super) const ANSWER_MAX: usize = 64 << 10;

/// The most that is read of JSON, which is shortened afterwards, in bytes.
pub(super) const JSON_MAX: usize = 8 << 20;

/// The length after which a line of progress is cut, in bytes.
const LINE_MAX: usize = 1000;

/// The beginning of what a verb printed.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub(super) bytes: Vec<u8>,
    /// The length of the whole, in bytes.
    pub(super) length: usize,
    /// The number of lines of the whole.
    pub(super) lines: usize,
}

/// Reads everything and keeps the first `max` bytes.
pub(super) async fn beginning(mut from: impl AsyncRead + Unpin, max: usize) -> io::Result<Beginning> {
    let mut read = Beginning::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        let piece = &buffer[..length];
        if piece.is_empty() {
            return Ok(read);
        }
        let room = max - read.bytes.len();
        read.bytes.extend_from_slice(&piece[..length.min(room)]);
        read.length += length;
        read.lines += piece.iter().filter(|byte| **byte == b'\n').count();
    }
}

/// Reads a line, of which at most [`LINE_MAX`] bytes are kept. Returns nothing at the end.
pub(super) async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let available = from.fill_buf().await?;
        if available.is_empty() {
            return Ok(any.then(|| String::from_utf8_lossy(&line).into_owned()));
        }
        any = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        line.extend_from_slice(&piece[..piece.len().min(LINE_MAX - line.len())]);
        let used = piece.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

/// Returns the whole lines at the beginning of a text that fit into `max` bytes.
pub(super) fn whole_lines(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let cut = text.floor_char_boundary(max);
    text[..cut].rfind('\n').map_or(&text[..cut], |end| &text[..=end])
}

/// Shortens the longest lists, and then texts, of a value until its JSON has at most `max` bytes. Returns what was left
/// out, or nothing if the value fits.
pub(super) fn shorten(value: &mut Value, max: usize) -> Option<String> {
    let mut left_out = Vec::new();
    // Each round makes it shorter.
    while length(value) > max {
        match shorten_longest(value, max, "result") {
            Some(said) => left_out.push(said),
            None => {
                *value = Value::Null;
                return Some("all of `result`".to_owned());
            }
        }
    }
    (!left_out.is_empty()).then(|| left_out.join(", "))
}

/// Shortens the list or text that takes most of a value; `path` is the value's name.
fn shorten_longest(value: &mut Value, max: usize, path: &str) -> Option<String> {
    let all = length(value);
    match value {
        Value::Array(items) => {
            let of = items.len();
            let mut room = max.saturating_sub(2);
            let mut fits = |item: &Value| {
                let left = room.checked_sub(length(item) + 1);
                left.inspect(|left| room = *left).is_some()
            };
            let kept = items.iter().map_while(|item| Some(item).filter(|item| fits(item))).count();
            if kept == 0
                && let Some(first) = items.first_mut()
            {
                let said = shorten_longest(first, max.saturating_sub(3), &format!("{path}[0]"));
                if said.is_some() {
                    return said;
                }
            }
            items.truncate(kept);
            (kept < of).then(|| format!("{} of {of} elements of `{path}`", of - kept))
        }
        Value::Object(members) => {
            let (name, longest) = members.iter_mut().max_by_key(|(_, value)| length(value))?;
            let rest = all - length(longest);
            shorten_longest(longest, max.saturating_sub(rest), &format!("{path}.{name}"))
        }
        // A short one would not become shorter by the ellipsis.
        Value::String(text) if text.len() > 20 => {
            let cut = text.floor_char_boundary((text.len() / 2).min(text.len() * max / (2 * all)));
            let of = mem::replace(text, format!("{}…", &text[..cut])).len();
            Some(format!("{} of {of} bytes of `{path}`", of - cut))
        }
        _ => None,
    }
}

/// Returns the number of bytes of a value as JSON.
fn length(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::{io::BufReader, runtime};

    fn now<T>(future: impl Future<Output = io::Result<T>>) -> T {
        runtime::Builder::new_current_thread().build().unwrap().block_on(future).unwrap()
    }

    #[test]
    fn a_value_that_fits_stays_as_it_is() {
        let mut value = json!({ "a": [1, 2, 3] });
        assert_eq!(shorten(&mut value, 13), None);
        assert_eq!(value, json!({ "a": [1, 2, 3] }));
    }

    #[test]
    fn the_longest_lists_are_shortened() {
        let check = |mut value: Value, max: usize, expect: Value, left_out: &str| {
            assert_eq!(shorten(&mut value, max).as_deref(), Some(left_out));
            assert_eq!(value, expect);
            assert!(length(&value) <= max, "{value}");
        };
        check(json!([1, 2, 3, 4]), 7, json!([1, 2]), "2 of 4 elements of `result`");
        let long = "x".repeat(100);
        check(
            json!({ "a": ["k"], "b": { "c": [long, long, long] } }),
            240,
            json!({ "a": ["k"], "b": { "c": [long, long] } }),
            "1 of 3 elements of `result.b.c`",
        );
        // One element that is too long is itself shortened.
        check(
            json!([{ "name": "n", "steps": [long, long, long] }]),
            250,
            json!([{ "name": "n", "steps": [long, long] }]),
            "1 of 3 elements of `result[0].steps`",
        );
        check(json!({ "a": 1, "b": 2 }), 4, Value::Null, "all of `result`");
    }

    #[test]
    fn any_value_becomes_short_enough() {
        let text = "ä\n".repeat(5000);
        let value = json!({
            "texts": [text, text], "more": { "text": text, "list": (0..9999).collect::<Vec<_>>() },
            "deep": [[[[text]]]], "escaped": "\u{1}".repeat(5000),
        });
        for max in [4, 20, 100, 1000, 10_000, 20_000] {
            let mut shortened = value.clone();
            assert!(shorten(&mut shortened, max).is_some());
            assert!(length(&shortened) <= max, "{} > {max}", length(&shortened));
        }
    }

    #[test]
    fn only_the_beginning_is_kept() {
        let read = now(beginning("one\ntwo\nthree\n".as_bytes(), 6));
        assert_eq!((read.bytes.as_slice(), read.length, read.lines), (b"one\ntw".as_slice(), 14, 3));
        assert_eq!(whole_lines("one\ntwo\n", 6), "one\n");
        assert_eq!(whole_lines("ääää", 5), "ää");
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_whole() {
        let text = format!("{}\nnext\nlast", "x".repeat(5000));
        let mut from = BufReader::with_capacity(7, text.as_bytes());
        assert_eq!(now(line(&mut from)), Some("x".repeat(LINE_MAX)));
        assert_eq!(now(line(&mut from)).as_deref(), Some("next"));
        assert_eq!(now(line(&mut from)).as_deref(), Some("last"));
        assert_eq!(now(line(&mut from)), None);
    }
}
