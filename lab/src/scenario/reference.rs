//! The scenario reference, `docs/scenarios.md`: every field of a scenario file, generated from the
//! types that read it.
//!
//! It presents the JSON Schema as Markdown, so a field is described once: by its type and its comment.

use super::{Document, EventSpec, Expectation, InspectItem, ModuleSource, Step, TextPlace};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::fmt::Write;

/// The text before the generated part.
const HEAD: &str = "\
# The scenario file

Generated from the types that read scenario files, like `scenarios/schema.json`; `cargo xtask lab schema` \
writes both. The first line of a file, `# yaml-language-server: $schema=…/schema.json`, makes editors with a \
YAML language server complete and check it; `cargo xtask lab check FILE` checks it on the command line.

A scenario states what a kernel should do: `trace` sets up tracing before the first step, `steps` run in \
order and may check their results, `expect` checks the whole trace afterwards. The [tutorial](tutorial.md) \
introduces all of them.

";

/// A list whose items are of several kinds.
struct Family {
    /// The type of the items.
    items: &'static str,
    heading: &'static str,
    /// Introduction to all kinds.
    about: &'static str,
    /// The first key of each kind.
    verbs: &'static [&'static str],
    /// An example of each kind.
    examples: &'static [&'static str],
}

const FAMILIES: [Family; 3] = [
    Family {
        items: "EventSpec",
        heading: "Events",
        about: "Items of `trace: { events: […] }`. The first key selects the kind. Expectations name an event \
                by its `name` or by `GROUP:NAME`, followed by `@INSTANCE` if a tracing instance records it.",
        verbs: EventSpec::VERBS,
        examples: EventSpec::EXAMPLES,
    },
    Family {
        items: "Step",
        heading: "Steps",
        about: "Items of `steps`. The first key selects the kind; its value and the other keys are in the table \
                of the kind.",
        verbs: Step::VERBS,
        examples: Step::EXAMPLES,
    },
    Family {
        items: "Expectation",
        heading: "Expectations",
        about: "Items of `expect`. Each has one key, which selects its kind; the table shows the keys below it.",
        verbs: Expectation::VERBS,
        examples: Expectation::EXAMPLES,
    },
];

/// Other maps of several kinds, each with its examples.
const CHOICES: [(&str, &[&str]); 3] = [
    ("InspectItem", InspectItem::EXAMPLES),
    ("ModuleSource", ModuleSource::EXAMPLES),
    ("TextPlace", TextPlace::EXAMPLES),
];

/// Returns the reference as Markdown.
pub fn reference() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Document>();
    let schema = schema.to_value();
    Reference { types: schema["definitions"].as_object().cloned().unwrap_or_default() }.of(&schema)
}

struct Reference {
    /// The named types.
    types: Map<String, Value>,
}

impl Reference {
    fn of(&self, document: &Value) -> String {
        let mut out = HEAD.to_owned();
        self.fields(document, &mut out);
        let mut told = Vec::new();
        for Family { items, heading, about, verbs, examples } in FAMILIES {
            let _ = writeln!(out, "\n## {heading}\n\n{about}");
            told.push(items.to_owned());
            let kinds = self.types[items]["oneOf"].as_array().into_iter().flatten();
            for ((kind, verb), example) in kinds.zip(verbs).zip(examples) {
                let kind = if kind.get("$ref").is_some() { kind } else { &kind["properties"][verb] };
                let Some(name) = name_of(kind) else { continue };
                let _ = writeln!(out, "\n### `{verb}`\n");
                self.described(name, &mut out);
                if let Some(example) = example.split('`').nth(1) {
                    let _ = writeln!(out, "\n```yaml\n- {example}\n```");
                }
                self.body(name, &mut out);
                // `kernel_log` shares its checks of strings with many other fields.
                if name != "TextCheck" {
                    told.push(name.to_owned());
                }
            }
        }
        let _ =
            writeln!(out, "\n## Parts\n\nThe types that the tables above refer to, in alphabetical order.");
        for name in self.types.keys().filter(|name| !told.contains(name) && self.map_of(name).is_none()) {
            let _ = writeln!(out, "\n### {}\n", words(name));
            self.described(name, &mut out);
            self.body(name, &mut out);
        }
        out
    }

    fn described(&self, name: &str, out: &mut String) {
        let choices = CHOICES.iter().find(|(choice, _)| *choice == name);
        let _ = match (self.types[name]["description"].as_str(), choices) {
            (Some(text), _) => writeln!(out, "{}", prose(text)),
            (None, Some((_, examples))) => {
                let kinds = self.types[name]["oneOf"].as_array().into_iter().flatten().zip(*examples);
                let kinds =
                    kinds.map(|(kind, example)| format!("- {}: {}", self.value(kind), example.trim()));
                writeln!(
                    out,
                    "A map whose first key selects its kind:\n\n{}",
                    kinds.collect::<Vec<_>>().join("\n")
                )
            }
            (None, None) => writeln!(out, "{}.", capital(&self.value(&self.types[name]))),
        };
    }

    /// Writes the content of a type after its description: its fields, or the forms it can take.
    fn body(&self, name: &str, out: &mut String) {
        let of = &self.types[name];
        if of.get("properties").is_some() {
            out.push('\n');
            return self.fields(of, out);
        }
        if let (true, Some(forms)) = (of.get("description").is_some(), of["oneOf"].as_array()) {
            out.push('\n');
            for form in forms {
                if name_of(form).and_then(|form| self.map_of(form)) == Some(name) {
                    let _ = writeln!(out, "- a map:");
                    continue;
                }
                let about = form["description"].as_str().map(|text| format!(": {}", prose(text)));
                let _ = writeln!(out, "- {}{}", self.value(form), about.unwrap_or_default());
            }
        } else if of.get("enum").is_some() || (of["type"] == "string" && of.get("description").is_some()) {
            let _ = writeln!(out, "\n- {}", self.value(of));
        }
        let map = format!("{name}Map");
        if let Some(map) = self.types.get(&map) {
            out.push('\n');
            self.fields(map, out);
        }
    }

    /// Writes a table of the fields of a map.
    fn fields(&self, of: &Value, out: &mut String) {
        let required = |key: &str| {
            let mut required = of["required"].as_array().into_iter().flatten();
            required.any(|name| name == key)
        };
        out.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
        let fields = || of["properties"].as_object().into_iter().flatten();
        // Required fields come first.
        let (first, rest) =
            (fields().filter(|(key, _)| required(key)), fields().filter(|(key, _)| !required(key)));
        for (key, field) in first.chain(rest) {
            let default = match &field["default"] {
                _ if required(key) => "required".to_owned(),
                Value::Bool(_) | Value::Number(_) => format!("`{}`", field["default"]),
                Value::String(text) if !text.is_empty() => format!("`{text}`"),
                _ => String::new(),
            };
            let about = prose(field["description"].as_str().unwrap_or_default());
            let _ =
                writeln!(out, "| `{key}` | {} | {default} | {} |", cell(&self.value(field)), cell(&about));
        }
    }

    /// Describes the type of a value.
    fn value(&self, of: &Value) -> String {
        if let Some(name) = name_of(of) {
            return self.link(name);
        }
        for forms in ["oneOf", "anyOf"] {
            if let Some(forms) = of[forms].as_array() {
                let forms = forms.iter().filter(|form| form["type"] != "null");
                return forms.map(|form| self.value(form)).collect::<Vec<_>>().join(", or ");
            }
        }
        if let Some(values) = of["enum"].as_array() {
            let values = values.iter().filter(|value| !value.is_null()).map(|value| match value {
                Value::String(text) => format!("`{text}`"),
                value => format!("`{value}`"),
            });
            return values.collect::<Vec<_>>().join(", ");
        }
        if let Some(text) = of["const"].as_str() {
            return format!("`{text}`");
        }
        let kinds = match &of["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect::<Vec<_>>(),
        };
        let kinds = kinds.into_iter().filter(|kind| *kind != "null").map(|kind| self.plain(kind, of));
        kinds.collect::<Vec<_>>().join(" or ") + &such_as(of)
    }

    /// Describes a value of one of JSON's own types.
    fn plain(&self, kind: &str, of: &Value) -> String {
        match kind {
            "boolean" => "`true` or `false`".to_owned(),
            "array" => format!("list of: {}", self.value(&of["items"])),
            "object" => {
                let keys = such_as(&of["propertyNames"]);
                let keys = if keys.is_empty() { "names".to_owned() } else { format!("strings{keys}") };
                format!("map of {keys} to: {}", self.value(&of["additionalProperties"]))
            }
            "integer" | "number" => match (of["minimum"].as_i64(), of["maximum"].as_i64()) {
                (Some(least), Some(most)) => format!("number from {least} to {most}"),
                (Some(least @ 1..), None) => format!("number from {least}"),
                (Some(0), None) => "number".to_owned(),
                _ => "number, possibly negative".to_owned(),
            },
            _ if of["format"] == "regex" => "regular expression".to_owned(),
            _ => match of["pattern"].as_str() {
                Some(pattern) if of.get("examples").is_none() => format!("string that matches `{pattern}`"),
                _ => "string".to_owned(),
            },
        }
    }

    fn link(&self, name: &str) -> String {
        if let Some(of) = self.map_of(name) {
            return format!("a map, see [{}](#{})", words(of), anchor(&words(of)));
        }
        for Family { items, heading, verbs, .. } in FAMILIES {
            let kinds = self.types[items]["oneOf"].as_array().into_iter().flatten();
            if name == items {
                return format!("[{}](#{})", words(heading).trim_end_matches('s'), anchor(heading));
            }
            if let Some((_, verb)) = kinds.zip(verbs).find(|(kind, _)| name_of(kind) == Some(name)) {
                return format!("[`{verb}`](#{})", anchor(verb));
            }
        }
        format!("[{}](#{})", words(name), anchor(&words(name)))
    }

    /// Returns the type whose map form this type is.
    fn map_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_suffix("Map").filter(|of| self.types.contains_key(*of))
    }
}

/// Returns the name of a named type.
fn name_of(of: &Value) -> Option<&str> {
    let of = match of["allOf"].as_array().map(Vec::as_slice) {
        Some([only]) => only,
        _ => of,
    };
    of["$ref"].as_str()?.strip_prefix("#/definitions/")
}

fn such_as(of: &Value) -> String {
    let examples = of["examples"].as_array().into_iter().flatten();
    let examples = examples.map(|example| match example {
        Value::String(text) => format!("`{text}`"),
        example => format!("`{example}`"),
    });
    let examples: Vec<_> = examples.collect();
    if examples.is_empty() { String::new() } else { format!(" such as {}", examples.join(", ")) }
}

/// `TextCheck` becomes `text check`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

/// Returns the anchor of a heading in the page.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Formats a comment as one line of Markdown, with names of types as code.
fn prose(comment: &str) -> String {
    comment.replace("\n\n", " ").replace('\n', " ").replace("[`", "`").replace("`]", "`")
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scenarios.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == reference(),
            "docs/scenarios.md is stale; refresh it with `cargo xtask lab schema`"
        );
    }

    /// A duplicate heading would make one of the two unreachable.
    #[test]
    fn every_link_of_the_reference_has_its_heading() {
        let reference = reference();
        let headings: Vec<_> = reference.lines().filter(|line| line.starts_with('#')).collect();
        let anchors = headings.iter().map(|heading| {
            heading.trim_start_matches('#').trim().replace('`', "").to_lowercase().replace(' ', "-")
        });
        let found: BTreeSet<String> = anchors.collect();
        assert_eq!(found.len(), headings.len(), "{headings:#?}");
        for link in reference.split("](#").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            assert!(found.contains(link), "there is no heading for #{link}");
        }
        assert!(!reference.contains("| null"), "a type without a description");
    }

    #[test]
    fn every_kind_begins_with_an_example_that_is_one() {
        fn check<T: serde::de::DeserializeOwned>(
            verbs: &[&str],
            examples: &[&str],
            verb_of: fn(&T) -> &'static str,
        ) {
            for (verb, example) in verbs.iter().zip(examples) {
                let example = example.split('`').nth(1).unwrap_or_default();
                let parsed: Result<T, _> = crate::yaml::from_str(example);
                let parsed = parsed.unwrap_or_else(|error| panic!("{verb}: `{example}`: {error}"));
                assert_eq!(verb_of(&parsed), *verb, "{example}");
            }
        }
        check(EventSpec::VERBS, EventSpec::EXAMPLES, EventSpec::verb);
        check(Step::VERBS, Step::EXAMPLES, Step::verb);
        check(Expectation::VERBS, Expectation::EXAMPLES, Expectation::verb);
    }
}
