//! A new scenario to begin with: it passes as it is, and says what stands where.

use super::{Scenario, ScenarioError, file::is_name};
use std::path::Path;

/// What a new scenario is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A kprobe on `eventfd_write`, and the values that a workload writes.
    Values,
    /// A kprobe on this function.
    Kprobe(String),
    /// A hook of `guest/modules/ftracehook` on this function.
    Hook(String),
}

/// The workload reaches these, among many more.
const WORKLOAD: &str = "eventfd --sleep 0 1 2 4";
const SAYS: &str = "{ ends_with: Parent read 7 (0x7) from efd }";

impl Starter {
    /// The scenario `name`, to be kept as `scenarios/NAME.yaml`.
    ///
    /// # Errors
    /// What is no scenario's name or no function's.
    pub fn written(&self, name: &str) -> Result<String, ScenarioError> {
        let file = format!("{name}.yaml");
        let path = Path::new(&file);
        if !is_name(name) {
            let message = "bad name, expected letters, digits, `-`, `_` and `.`, as in probes/mine";
            return Err(ScenarioError::of_file(path, message));
        }
        let function = match self {
            Starter::Values => "eventfd_write",
            Starter::Kprobe(function) | Starter::Hook(function) => function,
        };
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        if function.is_empty()
            || !function.chars().all(good)
            || function.starts_with(|c: char| c.is_ascii_digit())
        {
            let message = format!(
                "`{}` is no function's name, expected one such as vfs_write",
                function.escape_debug()
            );
            return Err(ScenarioError::of_file(path, message));
        }
        let text = self.text(&"../".repeat(name.matches('/').count()), function, name);
        Scenario::parse(path, &text)?;
        Ok(text)
    }

    fn text(&self, up: &str, function: &str, name: &str) -> String {
        let (summary, config, trace, steps, expect) = match self {
            Starter::Values => (
                "a kprobe on eventfd_write sees every value that the workload writes".to_owned(),
                "[KPROBE_EVENTS, EVENTFD]",
                format!("{}      args: {{ value: \"*(u64 __user *)buf\" }}\n", kprobe(function)),
                workload("  # A program of guest/workloads: a child writes 1, 2 and 4, the parent reads their sum.\n"),
                "  # The values of a field, in the order of the trace. Change one, and it fails and says what was\n  \
                 # found instead.\n  \
                 - values: { event: seen, field: value, equal: [1, 2, 4] }\n"
                    .to_owned(),
            ),
            Starter::Kprobe(_) => (
                format!("a kprobe on {function} is hit when the workload runs"),
                "[KPROBE_EVENTS]",
                format!("{}      args: {{ first: $arg1 }}\n", kprobe(function)),
                workload(&reach(function)),
                "  # Only events of the workload: where: takes every field, and comm, pid and cpu.\n  \
                 - count: { event: seen, where: 'comm == \"eventfd\"', at_least: 1 }\n"
                    .to_owned(),
            ),
            Starter::Hook(_) => (
                format!("a hook on {function} sees the calls of the workload, and is gone when it is taken away"),
                "[DYNAMIC_FTRACE]",
                "    # Each hit of a hook, recorded by the module that hooks.\n    - event: ftracehook:hit\n".to_owned(),
                format!(
                    "  # guest/modules/ftracehook hooks what it is told to; with comm= it sees only such tasks.\n  \
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
            "# yaml-language-server: $schema={up}schema.json\n\
             # Run it:           cargo xtask lab run {name}\n\
             # In words:         cargo xtask lab explain {name}\n\
             # What may be here: docs/scenarios.md\n\
             summary: {summary}\n\
             # Where this makes no sense; there the verdict is \"unsupported\" and no failure.\n\
             requires:\n  kernel: \">=5.10\"\n  config: {config}\n\
             # What is armed before the first step.\n\
             trace:\n  events:\n{trace}\
             # What happens, in order.\n\
             steps:\n{steps}\
             # What the whole trace must look like afterwards.\n\
             expect:\n{expect}"
        )
    }
}

fn kprobe(function: &str) -> String {
    format!(
        "    - kprobe: {function}\n      name: seen\n      \
         # What is recorded of each call, as in C. The function's parameters:\n      \
         # cargo xtask lab resolve 6.12 {function}\n"
    )
}

fn reach(function: &str) -> String {
    format!(
        "  # A program of guest/workloads. If it does not get to {function}, docs/workloads.md has others.\n"
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
            [Starter::Values, Starter::Kprobe("vfs_write".into()), Starter::Hook("vfs_write".into())];
        for starter in starters {
            let text = starter.written("area/mine").unwrap_or_else(|error| panic!("{error}"));
            assert!(text.starts_with("# yaml-language-server: $schema=../schema.json\n"), "{text}");
        }
        assert!(
            Starter::Values
                .written("mine")
                .unwrap()
                .starts_with("# yaml-language-server: $schema=schema.json\n")
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let check = |starter: Starter, name: &str, expect: &str| {
            let error = starter.written(name).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        for name in ["", "/etc/x", "../x", "a//b", "a/.b", "x y", "a/../b"] {
            check(Starter::Values, name, "bad name");
        }
        for function in ["", "vfs write", "x\"\nsteps: []", "9x", "vfs_*"] {
            check(Starter::Kprobe(function.into()), "mine", "is no function's name");
            check(Starter::Hook(function.into()), "mine", "is no function's name");
        }
    }
}
