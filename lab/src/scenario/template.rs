//! Templates for new scenarios: each passes unchanged, and comments explain its parts.

use super::{Scenario, ScenarioError, file::is_name};
use crate::words::called;
use std::path::Path;

/// The subject of a new scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// A kprobe on `eventfd_write` that records the values a workload writes.
    Values,
    /// A kprobe on this function.
    Kprobe(String),
    /// A hook of `guest/modules/ftracehook` on this function.
    Hook(String),
}

/// A workload that calls these functions, among many others.
const WORKLOAD: &str = "eventfd --sleep 0 1 2 4";
const SAYS: &str = "{ ends_with: Parent read 7 (0x7) from efd }";

impl Template {
    /// Returns the scenario `name`, to be stored as `scenarios/NAME.yaml`. `schema` is the path of the schema from
    /// `scenarios`.
    ///
    /// # Errors
    /// Fails for an invalid name of a scenario or function.
    pub fn written(&self, name: &str, schema: &str) -> Result<String, ScenarioError> {
        let file = format!("{name}.yaml");
        let path = Path::new(&file);
        if !is_name(name) {
            let message = "bad name, expected letters, digits, `-`, `_` and `.`, as in probes/mine";
            return Err(ScenarioError::of_file(path, message));
        }
        let function = match self {
            Template::Values => "eventfd_write",
            Template::Kprobe(function) | Template::Hook(function) => function,
        };
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        if function.is_empty()
            || !function.chars().all(good)
            || function.starts_with(|c: char| c.is_ascii_digit())
        {
            let message = format!(
                "`{}` is not a function's name, expected one such as vfs_write",
                function.escape_debug()
            );
            return Err(ScenarioError::of_file(path, message));
        }
        let text = self.text(&("../".repeat(name.matches('/').count()) + schema), function, name);
        Scenario::parse(path, &text)?;
        Ok(called(&text).into_owned())
    }

    fn text(&self, schema: &str, function: &str, name: &str) -> String {
        let (summary, config, trace, steps, expect) = match self {
            Template::Values => (
                "a kprobe on eventfd_write sees every value that the workload writes".to_owned(),
                "[KPROBE_EVENTS, EVENTFD]",
                format!("{}      args: {{ value: \"*(u64 __user *)buf\" }}\n", kprobe(function)),
                workload("  # A program of guest/workloads: a child writes 1, 2 and 4, the parent reads the sum.\n"),
                "  # The values of a field, in the order of the trace. Change one, and the scenario fails and shows\n  \
                 # the recorded values.\n  \
                 - values: { event: seen, field: value, equal: [1, 2, 4] }\n"
                    .to_owned(),
            ),
            Template::Kprobe(_) => (
                format!("a kprobe on {function} is hit when the workload runs"),
                "[KPROBE_EVENTS]",
                format!("{}      args: {{ first: $arg1 }}\n", kprobe(function)),
                workload(&reach(function)),
                "  # Count only events of the workload. A condition may use all fields, comm, pid and cpu.\n  \
                 - count: { event: seen, where: 'comm == \"eventfd\"', at_least: 1 }\n"
                    .to_owned(),
            ),
            Template::Hook(_) => (
                format!("a hook on {function} sees the calls of the workload, and is detached when it is removed"),
                "[DYNAMIC_FTRACE]",
                "    # Each hit of a hook, recorded by the hook module.\n    - event: ftracehook:hit\n".to_owned(),
                format!(
                    "  # guest/modules/ftracehook attaches the hook; with comm= it sees only tasks of this name.\n  \
                     - hook: \"+mine symbol={function} comm=eventfd\"\n\
                     {}  \
                     - hits: mine\n    count: {{ at_least: 1 }}\n  \
                     - hook: \"-mine\"\n  \
                     - enabled_functions: {function}\n    absent: true\n",
                    workload(&reach(function))
                ),
                "  - count: { event: hit, where: 'hook == \"mine\"', at_least: 1 }\n".to_owned(),
            ),
        };
        format!(
            "# yaml-language-server: $schema={schema}\n\
             # Run it:     cargo xtask lab run {name}\n\
             # Explain it: cargo xtask lab explain {name}\n\
             # Reference:  docs/scenarios.md\n\
             summary: {summary}\n\
             # On other kernels the verdict is \"unsupported\", which is not a failure.\n\
             requires:\n  kernel: \">=5.10\"\n  config: {config}\n\
             # Tracing, set up before the first step.\n\
             trace:\n  events:\n{trace}\
             # Actions in the guest, in order.\n\
             steps:\n{steps}\
             # Checks of the whole trace after the last step.\n\
             expect:\n{expect}"
        )
    }
}

fn kprobe(function: &str) -> String {
    format!(
        "    - kprobe: {function}\n      name: seen\n      \
         # Values to record at each call, in C syntax. To show the function's parameters:\n      \
         # cargo xtask lab resolve 6.12 {function}\n"
    )
}

fn reach(function: &str) -> String {
    format!(
        "  # A program of guest/workloads. If it does not call {function}, docs/workloads.md lists others.\n"
    )
}

fn workload(comment: &str) -> String {
    format!("{comment}  - workload: {WORKLOAD}\n    stdout: {SAYS}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_scenario_is_well_formed() {
        let starters =
            [Template::Values, Template::Kprobe("vfs_write".into()), Template::Hook("vfs_write".into())];
        for starter in starters {
            let text = starter.written("area/mine", "schema.json").unwrap_or_else(|error| panic!("{error}"));
            assert!(text.starts_with("# yaml-language-server: $schema=../schema.json\n"), "{text}");
        }
        assert!(
            Template::Values
                .written("mine", "schema.json")
                .unwrap()
                .starts_with("# yaml-language-server: $schema=schema.json\n")
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let check = |starter: Template, name: &str, expect: &str| {
            let error = starter.written(name, "schema.json").unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        for name in ["", "/etc/x", "../x", "a//b", "a/.b", "x y", "a/../b"] {
            check(Template::Values, name, "bad name");
        }
        for function in ["", "vfs write", "x\"\nsteps: []", "9x", "vfs_*"] {
            check(Template::Kprobe(function.into()), "mine", "is not a function's name");
            check(Template::Hook(function.into()), "mine", "is not a function's name");
        }
    }
}
