//! Command lines for a shell.

/// Joins words to a command line, quoted for a shell.
pub fn shell_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |word: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        let check = |words: &[&str], expect: &str| assert_eq!(shell_words(words.iter().copied()), expect);
        check(&["--shard", "1/2"], "--shard 1/2");
        check(&["--filter", "^a (b|$c)'", ""], r"--filter '^a (b|$c)'\''' ''");
    }
}
