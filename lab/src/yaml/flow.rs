//! Formats a part of a scenario on one line, in YAML flow style: `count: { event: e, is: 1 }`.

use crate::yaml::{Mapping, Value};

/// The maximum length of a line, in characters.
const SHOWN_MAX: usize = 400;

/// Returns the line, truncated if it is too long.
pub(crate) fn shown(value: &Value) -> String {
    let line = match value {
        Value::Mapping(map) => pairs(map),
        value => flow(value),
    };
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn pairs(map: &Mapping) -> String {
    map.iter().map(|(key, value)| format!("{}: {}", flow(key), flow(value))).collect::<Vec<_>>().join(", ")
}

fn flow(value: &Value) -> String {
    match value {
        Value::Mapping(map) if map.is_empty() => "{}".to_owned(),
        Value::Mapping(map) => format!("{{ {} }}", pairs(map)),
        Value::Sequence(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if is_plain(text) => text.clone(),
        value => serde_json::to_string(value).unwrap_or_default(),
    }
}

/// Returns whether a string needs no quotes: YAML reads it as the same string.
fn is_plain(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || " _-./+=$()<>|".contains(c);
    let reads_as_itself = || crate::yaml::from_str::<Value>(text).is_ok_and(|read| read == *text);
    text.chars().all(good) && reads_as_itself()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_shown_as_they_would_be_written() {
        for line in [
            "count: { event: e, is: 1 }",
            "read: trace_clock",
            "hook: +w symbol=vfs_write, errno: EBUSY",
            "write: x, text: \"1\"",
            "values: { event: e, field: v, equal: [1, 2, 4] }",
            "sh: \"a\\nb: {c}\", dump: true, none: null, empty: {}",
        ] {
            let value: Value = crate::yaml::from_str(&format!("{{ {line} }}")).unwrap();
            assert_eq!(shown(&value), line);
        }
        let long = Value::String("x".repeat(1000));
        assert_eq!(shown(&long).chars().count(), SHOWN_MAX + 1);
    }
}
