//! The pages and schemas that a client can read.

use lab::scenario::{project_schema, reference, schema};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

struct Document {
    uri: &'static str,
    about: &'static str,
    mime_type: &'static str,
    text: fn() -> String,
}

const DOCUMENTS: [Document; 3] = [
    Document {
        uri: "ftrace-lab://scenarios.md",
        about: "The scenario file: every field, with examples",
        mime_type: "text/markdown",
        text: reference,
    },
    Document {
        uri: "ftrace-lab://scenario.schema.json",
        about: "The JSON Schema of scenario files",
        mime_type: "application/schema+json",
        text: schema,
    },
    Document {
        uri: "ftrace-lab://project.schema.json",
        about: "The JSON Schema of ftrace-lab.yaml, the file of a project",
        mime_type: "application/schema+json",
        text: project_schema,
    },
];

pub(super) fn described() -> Vec<Resource> {
    let resource = |document: &Document| {
        let name = document.uri.rsplit('/').next().unwrap_or(document.uri);
        Resource::new(document.uri, name)
            .with_description(document.about)
            .with_mime_type(document.mime_type)
            .with_size((document.text)().len() as u64)
    };
    DOCUMENTS.iter().map(resource).collect()
}

/// Returns the resource of this URI.
pub(super) fn read(uri: &str) -> Option<ReadResourceResult> {
    let document = DOCUMENTS.iter().find(|document| document.uri == uri)?;
    let contents = ResourceContents::text((document.text)(), uri).with_mime_type(document.mime_type);
    Some(ReadResourceResult::new(vec![contents]))
}
