//! The parameters of the tools. Their names and meanings are those of the command line; the doc comments are what a
//! client sees.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// The words of a command line, and the scenario whose text they came with.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Each is one word, `--NAME=VALUE`, so that no value can be taken for an option.
    pub(super) options: Vec<String>,
    /// They follow `--`.
    pub(super) positionals: Vec<String>,
    pub(super) yaml: Option<Yaml>,
}

/// The text of a scenario. The verb gets its path.
#[derive(Debug)]
pub(super) struct Yaml {
    pub(super) text: String,
    /// The option that names the file. Without one, the file is a positional argument.
    pub(super) option: Option<&'static str>,
}

impl Words {
    fn flag(mut self, name: &str, set: bool) -> Words {
        if set {
            self.options.push(format!("--{name}"));
        }
        self
    }

    fn options<V: ToString>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> Words {
        self.options.extend(values.into_iter().map(|value| format!("--{name}={}", value.to_string())));
        self
    }

    fn positionals(mut self, words: impl IntoIterator<Item = String>) -> Words {
        self.positionals.extend(words);
        self
    }

    fn yaml(mut self, text: Option<String>, option: Option<&'static str>) -> Words {
        self.yaml = text.map(|text| Yaml { text, option });
        self
    }
}

/// The parameters of a tool.
pub(super) trait Parameters: DeserializeOwned + JsonSchema + 'static {
    fn words(self) -> Words;
}

/// Returns the words for what a client sent. An error says what is wrong with it.
pub(super) fn words<P: Parameters>(arguments: JsonObject) -> Result<Words, String> {
    serde_json::from_value::<P>(Value::Object(arguments)).map(P::words).map_err(|error| error.to_string())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Scenario files, directories, or names such as probes/paths. Default: all of the project or checkout.
    #[serde(default)]
    paths: Vec<String>,
    /// Only scenarios whose name matches this regular expression.
    filter: Option<String>,
    /// Only scenarios that one of these kernels may run, judging by the version in its name: names that `kernels`
    /// lists, `all`, or ranges such as `>=6.1`.
    #[serde(default)]
    kernel: Vec<String>,
}

impl Parameters for List {
    fn words(self) -> Words {
        let List { paths, filter, kernel } = self;
        Words::default().options("filter", filter).options("kernel", kernel).positionals(paths)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernels {}

impl Parameters for Kernels {
    fn words(self) -> Words {
        Words::default()
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explain {
    /// Scenario files, directories, or names such as probes/paths.
    #[schemars(length(min = 1))]
    paths: Vec<String>,
    /// The kernel to describe it for, by a name that `kernels` lists. It is built if necessary. Default: 6.12.
    kernel: Option<String>,
    /// Only scenarios whose name matches this regular expression.
    filter: Option<String>,
}

impl Parameters for Explain {
    fn words(self) -> Words {
        let Explain { paths, kernel, filter } = self;
        Words::default().options("kernel", kernel).options("filter", filter).positionals(paths)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    /// Scenario files, directories, or names such as probes/paths. Default: all of the project or checkout.
    #[serde(default)]
    paths: Vec<String>,
    /// The text of a scenario to check.
    yaml: Option<String>,
    /// Also check what these kernels can probe and trace: names that `kernels` lists, `all`, or ranges such as
    /// `>=6.1`. They are built if necessary.
    #[serde(default)]
    kernel: Vec<String>,
}

impl Parameters for Check {
    fn words(self) -> Words {
        let Check { paths, yaml, kernel } = self;
        Words::default().options("kernel", kernel).positionals(paths).yaml(yaml, None)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    /// Scenario files, directories, or names such as probes/paths. Without these, `yaml` and `filter`, all run.
    #[serde(default)]
    paths: Vec<String>,
    /// The text of a scenario to run, which gets the name `scenario`.
    yaml: Option<String>,
    /// Only scenarios whose name matches this regular expression.
    filter: Option<String>,
    /// Names that `kernels` lists, `all`, or ranges such as `>=6.1`. They are built if necessary. Default: those of
    /// ftrace-lab.yaml, or 6.12.
    #[serde(default)]
    kernel: Vec<String>,
    /// Build the kernel from this tree instead of its own source.
    kernel_tree: Option<String>,
    /// The number of machines to run at once.
    #[schemars(range(min = 1, max = 256))]
    jobs: Option<u16>,
    /// Run everything this many times.
    #[schemars(range(min = 1, max = 1_000_000))]
    repeat: Option<u32>,
    /// Repeat until a failure, or as often as `repeat` says.
    #[serde(default)]
    until_fail: bool,
    /// Start no further scenarios after a failure.
    #[serde(default)]
    fail_fast: bool,
    /// Run only the failures of the last run.
    #[serde(default)]
    rerun_failed: bool,
    /// Run only the fewest scenarios that run 95 % of the lines that all run, by the last coverage.
    #[serde(default)]
    smoke: bool,
    /// Measure which code of the kernel and of modules each scenario runs, for `coverage`.
    #[serde(default)]
    coverage: bool,
    /// Directory for results.
    results: Option<String>,
}

impl Parameters for Run {
    fn words(self) -> Words {
        Words::default()
            .options("filter", self.filter)
            .options("kernel", self.kernel)
            .options("kernel-tree", self.kernel_tree)
            .options("jobs", self.jobs)
            .options("repeat", self.repeat)
            .flag("until-fail", self.until_fail)
            .flag("fail-fast", self.fail_fast)
            .flag("rerun-failed", self.rerun_failed)
            .flag("smoke", self.smoke)
            .flag("coverage", self.coverage)
            .options("results", self.results)
            .positionals(self.paths)
            .yaml(self.yaml, None)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Trace {
    /// A trace.dat, or its directory, such as that of a scenario in what `run` returns.
    file: String,
    /// Only these events, NAME or GROUP:NAME.
    #[serde(default)]
    event: Vec<String>,
    /// Only events that satisfy this CEL condition, such as `value > 4 && comm == "eventfd"`.
    r#where: Option<String>,
}

impl Parameters for Trace {
    fn words(self) -> Words {
        let Trace { file, event, r#where } = self;
        Words::default().options("event", event).options("where", r#where).positionals([file])
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Judge {
    /// Directory of a run, or of one of its scenarios.
    result: String,
    /// Take the expectations from this file instead of the stored scenario.
    scenario: Option<String>,
    /// Take the expectations from this text of a scenario instead of the stored one.
    yaml: Option<String>,
}

impl Parameters for Judge {
    fn words(self) -> Words {
        let Judge { result, scenario, yaml } = self;
        Words::default().options("scenario", scenario).positionals([result]).yaml(yaml, Some("scenario"))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolve {
    /// A name that `kernels` lists. The kernel is built if necessary.
    kernel: String,
    /// A function of the kernel, not of a module.
    function: String,
    /// Paths as in C, such as `file->f_inode->i_sb->s_type->name`, which begin with a parameter, `$argN` or
    /// `$retval`. Without paths, only the prototype is returned.
    #[serde(default)]
    paths: Vec<String>,
    /// Resolve for a kretprobe, with `$retval`.
    #[serde(default)]
    r#return: bool,
}

impl Parameters for Resolve {
    fn words(self) -> Words {
        let Resolve { kernel, function, paths, r#return } = self;
        Words::default().flag("return", r#return).positionals([kernel, function]).positionals(paths)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Coverage {
    /// Directory of a run with coverage. Default: the last run.
    results: Option<String>,
    /// Files or directories of the kernel tree or of modules, instead of the kernel's tracing code; `*` stands for a
    /// part of a name.
    #[serde(default)]
    files: Vec<String>,
    /// The lines of this function, how many scenarios ran each, and which scenarios ran it.
    function: Option<String>,
    /// The functions that nothing ran.
    #[serde(default)]
    never: bool,
}

impl Parameters for Coverage {
    fn words(self) -> Words {
        let Coverage { results, files, function, never } = self;
        Words::default()
            .options("function", function)
            .flag("never", never)
            .positionals(results)
            .positionals(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words_of<P: Parameters>(arguments: Value) -> Result<Words, String> {
        let Value::Object(arguments) = arguments else { panic!("not an object") };
        words::<P>(arguments)
    }

    #[test]
    fn a_value_becomes_no_option() {
        let words =
            words_of::<List>(json!({ "paths": ["--json"], "filter": "--yes", "kernel": ["-h", "6.1"] }));
        let words = words.unwrap();
        assert_eq!(words.options, ["--filter=--yes", "--kernel=-h", "--kernel=6.1"]);
        assert_eq!(words.positionals, ["--json"]);
        let words = words_of::<Run>(json!({ "repeat": 2, "until_fail": true, "yaml": "--help" })).unwrap();
        assert_eq!(words.options, ["--repeat=2", "--until-fail"]);
        assert_eq!(words.positionals, [""; 0]);
        assert_eq!(words.yaml.unwrap().text, "--help");
    }

    #[test]
    fn a_parameter_that_does_not_exist_is_an_error() {
        let error = |found: Result<Words, String>| found.unwrap_err();
        assert!(error(words_of::<List>(json!({ "kernels": [] }))).contains("unknown field `kernels`"));
        assert!(error(words_of::<Run>(json!({ "jobs": 70000 }))).contains("70000"));
        assert!(error(words_of::<Trace>(json!({}))).contains("missing field `file`"));
    }
}
