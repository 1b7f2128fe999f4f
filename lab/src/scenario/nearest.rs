//! The nearest known name to a misspelled one.

/// The most alike of `known`, if it is alike at all.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name_lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&name_lower, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// "unknown WHAT `NAME`, expected one of `A`, `B`", the wording that error rendering knows.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => format!("unknown {what} `{name}`, expected none"),
        [one] => format!("unknown {what} `{name}`, expected {one}"),
        many => format!("unknown {what} `{name}`, expected one of {}", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_is_alike_is_offered() {
        let check = |name, expect| {
            assert_eq!(nearest(name, ["event", "where", "at_least"]), expect, "{name}");
        };
        check("wher", Some("where"));
        check("evnt", Some("event"));
        check("atleast", Some("at_least"));
        check("EVENT", Some("event"));
        check("xyz", None);
        check("", None);
    }
}
