//! The known name that is nearest to a misspelled one.

/// Returns the most similar name of `known`, if any is similar enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name_lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&name_lower, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Formats the end of a message that `name` is not one of `known`: "; the nearest is `NEAR`". Empty if none is
/// similar enough.
pub(crate) fn nearest_is<'a, S: AsRef<str> + ?Sized + 'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a S>,
) -> String {
    let near = nearest(name, known.into_iter().map(AsRef::as_ref));
    near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default()
}

/// Formats "unknown WHAT `NAME`, expected one of `A`, `B`", which error rendering parses.
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

    #[test]
    fn a_message_ends_with_the_nearest_name() {
        let known = ["event".to_owned(), "where".to_owned()];
        assert_eq!(nearest_is("wher", &known), "; the nearest is `where`");
        assert_eq!(nearest_is("evnt", ["event"]), "; the nearest is `event`");
        assert_eq!(nearest_is("xyz", &known), "");
    }
}
