//! The tools, one row each.

use super::{
    answer::Answer,
    parameters::{self, Parameters, Words},
};
use crate::{check, coverage, json, judge, list, resolve, trace};
use rmcp::{
    handler::server::tool::{schema_for_input, schema_for_output},
    model::{self, JsonObject, ToolAnnotations},
};
use schemars::JsonSchema;
use std::sync::Arc;

/// A verb that a client can call.
pub(super) struct Tool {
    /// The name of the verb.
    pub(super) name: &'static str,
    about: &'static str,
    /// How to get what an answer leaves out.
    pub(super) rest: &'static str,
    pub(super) printed: Printed,
    /// Whether it leaves everything as it is, except for the cache.
    only_reads: bool,
    input: fn() -> Result<Arc<JsonObject>, String>,
    output: Option<fn() -> Arc<JsonObject>>,
    pub(super) words: fn(JsonObject) -> Result<Words, String>,
}

/// The form of a verb's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    Text,
    /// One value, with `--json`.
    Json,
    /// A value in each line, with `--json`.
    JsonLines,
}

/// A verb with parameters `P`, whose output is for people.
const fn tool<P: Parameters>(name: &'static str, about: &'static str, rest: &'static str) -> Tool {
    Tool {
        name,
        about,
        rest,
        printed: Printed::Text,
        only_reads: true,
        input: schema_for_input::<P>,
        output: None,
        words: parameters::words::<P>,
    }
}

/// A verb with parameters `P` that finds a `T`.
const fn finds<P: Parameters, T: JsonSchema + 'static>(
    name: &'static str,
    about: &'static str,
    rest: &'static str,
) -> Tool {
    Tool {
        printed: Printed::Json,
        output: Some(schema_for_output::<Answer<T>>),
        ..tool::<P>(name, about, rest)
    }
}

static TOOLS: [Tool; 9] = [
    finds::<parameters::List, Vec<list::Listed<'static>>>(
        "list",
        "List scenarios and what each claims about the kernel",
        "Narrow it with `filter` or `paths`.",
    ),
    finds::<parameters::Kernels, Vec<list::ListedKernel<'static>>>(
        "kernels",
        "List the kernels that scenarios can run on",
        "The kernels are those of kernels/*.yaml.",
    ),
    tool::<parameters::Explain>(
        "explain",
        "Describe what scenarios arm, do and expect on a kernel, with each probe resolved, without running them; \
         says why the kernel does not support one",
        "Narrow it with `filter` or `paths`.",
    ),
    finds::<parameters::Check, Vec<check::Checked>>(
        "check",
        "Validate scenarios: files, or the text of one. With `kernel`, also what they probe and trace there, without \
         booting it",
        "Narrow it with `paths`.",
    ),
    Tool {
        only_reads: false,
        ..finds::<parameters::Run, Option<json::Ran<'static>>>(
            "run",
            "Run scenarios on kernels: files, or the text of one. Builds what is missing, which for a kernel takes \
             minutes, boots the kernel under QEMU and judges the trace. The answer has a directory for each scenario, \
             with trace.dat, the kernel log and the console, which `trace` and `judge` read",
            "results.json in the directory has all.",
        )
    },
    Tool {
        printed: Printed::JsonLines,
        ..finds::<parameters::Trace, Vec<trace::Line<'static>>>(
            "trace",
            "Select events of a trace: a trace.dat of the lab or of trace-cmd",
            "Narrow it with `where` or `event`.",
        )
    },
    finds::<parameters::Judge, Vec<judge::Judged>>(
        "judge",
        "Judge a stored run, or one of its scenarios, again without a kernel, also by other expectations",
        "Judge the directory of one scenario.",
    ),
    finds::<parameters::Resolve, resolve::ResolvedPaths<'static>>(
        "resolve",
        "Show the prototype of a kernel function, and the fetch arguments of probes for paths through structs",
        "Name fewer paths.",
    ),
    finds::<parameters::Coverage, coverage::Covered>(
        "coverage",
        "Show which code of the kernel and of modules the scenarios of a run with `coverage` ran: by file, a \
         function's lines, or what nothing ran",
        "Narrow it with `files`, or name a `function`.",
    ),
];

/// Returns the tool of this name.
pub(super) fn named(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Returns the tools as a client sees them.
pub(super) fn described() -> Vec<model::Tool> {
    TOOLS.iter().map(Tool::described).collect()
}

impl Tool {
    fn described(&self) -> model::Tool {
        // The parameters of every tool are a struct, which the tests below check.
        let input = (self.input)().unwrap_or_default();
        let hints = ToolAnnotations::new().read_only(self.only_reads).destructive(false).open_world(false);
        let tool = model::Tool::new(self.name, self.about, input).with_annotations(hints);
        match self.output {
            Some(output) => tool.with_raw_output_schema(output()),
            None => tool,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_and_every_parameter_is_described() {
        for tool in &TOOLS {
            let input = (tool.input)().unwrap();
            assert_eq!(input["additionalProperties"], false, "{}", tool.name);
            for (name, schema) in
                input.get("properties").and_then(|all| all.as_object()).into_iter().flatten()
            {
                assert!(schema["description"].is_string(), "{} {name}", tool.name);
            }
            let output = tool.output.map(|output| output());
            assert_eq!(output.is_none(), tool.printed == Printed::Text, "{}", tool.name);
            assert!(output.is_none_or(|output| output["type"] == "object"), "{}", tool.name);
        }
    }
}
