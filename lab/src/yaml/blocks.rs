//! Writes strings as readable YAML: sources, including tabs, as literal blocks. serde_yaml would write
//! them as quoted strings.

use anyhow::Result;
use std::{collections::BTreeMap, fmt::Write as _};

/// Formats a map of strings as a field of a document.
pub(crate) fn field(name: &str, texts: &BTreeMap<String, String>) -> Result<String> {
    if texts.is_empty() {
        return Ok(format!("{name}: {{}}\n"));
    }
    let mut yaml = format!("{name}:\n");
    for (key, text) in texts {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        if key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(is_plain) {
            write!(yaml, "  {key}: ")?;
        } else {
            // A JSON string is on one line, and also valid YAML.
            write!(yaml, "  {}: ", serde_json::to_string(key)?)?;
        }
        if is_block(text) {
            block(&mut yaml, text);
        } else {
            // A string that a block cannot represent is written on one line.
            yaml.push_str(&crate::yaml::to_string(text)?);
        }
    }
    Ok(yaml)
}

/// Returns whether a block can represent a string.
fn is_block(text: &str) -> bool {
    let plain = |c: char| match c {
        '\n' | '\t' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_control(),
    };
    text.contains('\n') && !text.trim().is_empty() && text.chars().all(plain)
}

fn block(yaml: &mut String, text: &str) {
    // The indentation is explicit since the string may begin with blanks. Trailing newlines matter.
    yaml.push_str(match text.strip_suffix('\n') {
        None => "|2-\n",
        Some(rest) if rest.ends_with('\n') => "|2+\n",
        Some(_) => "|2\n",
    });
    for line in text.lines() {
        if !line.is_empty() {
            yaml.push_str("    ");
            yaml.push_str(line);
        }
        yaml.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_read_as_it_was() {
        let texts = [
            "",
            "\n",
            "\n\n",
            " \n",
            "a",
            "a\n",
            "a\n\n\n",
            "a\nb",
            "\na\n",
            "  a\nb\n",
            "\ta\n\n\tb\n",
            "a \n \n b \n",
            "a\r\nb\n",
            "\u{1b}[31m\n",
            "\u{7f}\n\u{85}\n",
            "ä\u{feff}\n",
            "# a\n--- b\n...\n",
            "a: |\n  b\n",
            "\u{2028}\n",
            "%YAML\n",
            "a\n\t\n",
            "a\n    ",
            "'\"\n\"",
            "\u{0}\n",
        ];
        for text in texts {
            let map =
                BTreeMap::from([("guest/a.c".to_owned(), text.to_owned()), ("'b:\n c".into(), "x\n".into())]);
            let yaml = field("files", &map).unwrap();
            let read: BTreeMap<String, BTreeMap<String, String>> = crate::yaml::from_str(&yaml).unwrap();
            assert_eq!(read["files"], map, "{yaml}");
        }
    }

    #[test]
    fn sources_are_blocks() {
        let map = BTreeMap::from([("guest/a.c".to_owned(), "int a(void)\n{\n\treturn 0;\n}\n".to_owned())]);
        let expect = "files:\n  guest/a.c: |2\n    int a(void)\n    {\n    \treturn 0;\n    }\n";
        assert_eq!(field("files", &map).unwrap(), expect);
    }
}
