//! Values that a step captures for later steps: `${name}`. One exists from the start: `shared`, the directory
//! with files of the host in a guest with a userland.

use crate::machine::SHARED;
use std::collections::BTreeMap;

/// The maximum size of a value, such as an address, a number or a name, in bytes.
const VALUE_MAX: usize = 4096;

/// Values by name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Captures(BTreeMap<String, String>);

impl Captures {
    /// The values before the first step.
    pub(super) fn new() -> Captures {
        Captures(BTreeMap::from([("shared".to_owned(), SHARED.to_owned())]))
    }

    /// Sets a value and replaces an earlier one of the same name. Truncates a value that is too long.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value[..value.floor_char_boundary(VALUE_MAX)].to_owned());
    }

    /// Sets the values of the named groups of an expression that matches the text.
    pub(super) fn set_groups(&mut self, expression: &regex::Regex, text: &str) {
        let Some(groups) = expression.captures(text) else { return };
        for name in expression.capture_names().flatten() {
            if let Some(group) = groups.name(name) {
                self.set(name, group.as_str());
            }
        }
    }

    /// Replaces each `${name}` by its value. The error names one without a value.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${") {
            let (name, behind) =
                behind.split_once('}').ok_or_else(|| format!("`${{` without a `}}` in `{text}`"))?;
            let value = self.0.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
                format!("no step has captured `{name}`; there are: {}", known.join(", "))
            })?;
            expanded.push_str(before);
            expanded.push_str(value);
            rest = behind;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_value_stands_in_for_its_name() {
        let mut captures = Captures::new();
        let expression = regex::Regex::new("file = (?<file>0x[0-9a-f]+)(?<more>x)?").unwrap();
        captures.set_groups(&expression, "(struct file *) file = 0xffff0001");
        captures.set("n", "3");
        let check = |text: &str, expect: Result<&str, &str>| {
            let found = captures.expand(text);
            assert_eq!(found.as_deref().map_err(String::as_str), expect, "{text}");
        };
        check("struct file.f_op ${file}", Ok("struct file.f_op 0xffff0001"));
        check("${n}${n} $n {n}", Ok("33 $n {n}"));
        check("plain", Ok("plain"));
        check("${more}", Err("no step has captured `more`; there are: file, n, shared"));
        check("${n", Err("`${` without a `}` in `${n`"));
    }
}
