//! A module → the scenarios of `lab module`: what must hold for any module, whatever it does.

use crate::{
    scenario::{FromText, Line},
    yaml::{Mapping, Value, to_string},
};
use std::path::Path;

/// Loads between two counts of memory. An object that each load leaks is far above the noise.
const LOADS: usize = 100;

const EXERCISE: &str = include_str!("exercise.sh");
const LIST: &str = include_str!("list.sh");
const LEFT: &str = include_str!("left.sh");
const COUNT: &str = include_str!("count.sh");
const TRACE: &str = include_str!("trace.sh");
const CALLED: &str = include_str!("called.sh");
const MODIFIED: &str = include_str!("modified.sh");
const LIVEPATCH: &str = include_str!("livepatch.sh");

/// Makes SLUB check each object and count exactly: otherwise, the objects of a CPU's slab count as used.
const SLUB: &str = "slub_debug=FZPU";

/// Has SLUB, if it can, look at each object of kmalloc: one that was written to after it was freed is a splat.
const VALIDATE: &str = "for validate in /sys/kernel/slab/kmalloc-*/validate; do\n  \
      if [ -e $validate ]; then echo 1 > $validate; fi\n\
    done";

/// The lab's module that takes functions as a livepatch does.
const IPMODIFY: &str = "ipmodify";

/// A module to check.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'a> {
    /// Its directory.
    pub source: &'a Path,
    /// Its name.
    pub name: &'a str,
    /// The command that builds it instead of kbuild.
    pub build: Option<&'a str>,
    /// Values for its parameters, each as for insmod; with none of them, it is loaded without.
    pub parameters: &'a [String],
    /// A script that uses it, in addition to what the lab does.
    pub exercise: Option<&'a str>,
}

impl Checked<'_> {
    /// Returns the scenarios, by name.
    ///
    /// # Errors
    /// The values of parameters have characters that no insmod takes.
    pub fn scenarios(&self) -> Result<Vec<(String, String)>, String> {
        for text in self.parameters {
            Line::from_text(text)?;
        }
        let first = self.parameters.first().map(String::as_str);
        let mut all = vec![
            self.loads(first),
            self.scenario(
                "twice",
                "loads again after it was unloaded",
                vec![self.load(first), self.unload(), self.load(first), self.unload()],
            ),
            self.used(first),
            self.hundred(first),
            self.livepatch(first),
        ];
        for (index, parameters) in self.parameters.iter().enumerate().skip(1) {
            let steps = vec![self.load(Some(parameters)), shell(self.script()), self.unload()];
            all.push(self.scenario(
                &format!("parameters-{}", index + 1),
                &format!("works with {parameters}"),
                steps,
            ));
        }
        Ok(all)
    }

    fn script(&self) -> String {
        self.exercise.map_or_else(|| EXERCISE.to_owned(), |own| format!("{EXERCISE}\n{own}"))
    }

    fn loads(&self, parameters: Option<&str>) -> (String, String) {
        let steps = vec![
            shell(format!("{LIST}list > /tmp/before")),
            self.load(parameters),
            self.unload(),
            shell(format!("{LIST}{LEFT}")),
        ];
        self.scenario("loads", "loads and unloads, and leaves no files and no taint", steps)
    }

    fn livepatch(&self, parameters: Option<&str>) -> (String, String) {
        let steps = vec![
            self.load(parameters),
            shell(MODIFIED.to_owned()),
            self.unload(),
            one("load", IPMODIFY.into()),
            shell(LIVEPATCH.to_owned()),
            self.load(parameters),
            self.unload(),
            one("unload", IPMODIFY.into()),
        ];
        self.scenario(
            "livepatch",
            "loads beside livepatches of the functions that it hooks with IPMODIFY",
            steps,
        )
    }

    fn used(&self, parameters: Option<&str>) -> (String, String) {
        let steps = vec![
            shell(self.script()),
            self.load(parameters),
            shell(self.script()),
            shell(format!("{TRACE}{}\n{CALLED}", self.script())),
            self.unload(),
            shell(format!("{}\n{VALIDATE}", self.script())),
        ];
        self.written("used", "is loaded and unloaded while both CPUs call what it hooks", steps, slub())
    }

    fn hundred(&self, parameters: Option<&str>) -> (String, String) {
        let pair = || [self.load(parameters), self.unload()];
        let mut steps: Vec<Value> = (0..2).flat_map(|_| pair()).collect();
        steps.push(shell(format!("patience=12; enough=0\n{COUNT}echo $least > /tmp/before")));
        steps.extend((0..LOADS).flat_map(|_| pair()));
        steps.push(shell(format!(
            "read -r before < /tmp/before\n\
             patience=60; enough=$((before + {}))\n\
             {COUNT}\
             echo \"$((least - before)) objects of kmalloc are left by {LOADS} loads\" >&2\n\
             [ $least -lt $enough ]",
            LOADS / 2
        )));
        let mut needs = slub();
        needs.insert("requires".into(), one("config", Value::Sequence(vec!["SLUB_DEBUG".into()])));
        self.written("hundred", &format!("leaks no memory when it is loaded {LOADS} times"), steps, needs)
    }

    fn load(&self, parameters: Option<&str>) -> Value {
        let mut module = Mapping::new();
        module.insert("source".into(), self.source.to_string_lossy().into_owned().into());
        module.insert("name".into(), self.name.into());
        if let Some(build) = self.build {
            module.insert("build".into(), build.into());
        }
        let mut step = Mapping::new();
        step.insert("module".into(), Value::Mapping(module));
        if let Some(parameters) = parameters {
            step.insert("parameters".into(), parameters.into());
        }
        Value::Mapping(step)
    }

    fn unload(&self) -> Value {
        one("unload", self.name.into())
    }

    fn scenario(&self, name: &str, claim: &str, steps: Vec<Value>) -> (String, String) {
        self.written(name, claim, steps, Mapping::new())
    }

    fn written(&self, name: &str, claim: &str, steps: Vec<Value>, needs: Mapping) -> (String, String) {
        let mut document = Mapping::new();
        document.insert("summary".into(), format!("{} {claim}", self.name).into());
        document.extend(needs);
        if steps.len() > LOADS {
            document.insert("timeout".into(), "180s".into());
        }
        document.insert("steps".into(), Value::Sequence(steps));
        // Only strings, lists and maps: there is nothing that YAML cannot express.
        (name.to_owned(), to_string(&Value::Mapping(document)).unwrap_or_default())
    }
}

/// Returns the key that turns on SLUB's checks of objects; a kernel that has none ignores it.
fn slub() -> Mapping {
    let mut needs = Mapping::new();
    needs.insert("cmdline".into(), SLUB.into());
    needs
}

/// Returns a step that runs a script, which may call the workload that the exercise calls.
fn shell(script: String) -> Value {
    let mut step = Mapping::new();
    step.insert("sh".into(), script.into());
    step.insert("workloads".into(), Value::Sequence(vec!["eventfd".into()]));
    Value::Mapping(step)
}

fn one(key: &str, value: Value) -> Value {
    let mut step = Mapping::new();
    step.insert(key.into(), value);
    Value::Mapping(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn each_check_is_a_scenario() {
        let parameters = ["a=1".to_owned(), "a=2 b=x".to_owned()];
        let checked = Checked {
            source: Path::new("/src/mine"),
            name: "mine",
            build: Some("make KDIR=${kernel}"),
            parameters: &parameters,
            exercise: Some("echo $((1 + 1))"),
        };
        let all = checked.scenarios().unwrap();
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["loads", "twice", "used", "hundred", "livepatch", "parameters-2"]);
        for (name, text) in &all {
            let scenario =
                Scenario::parse(Path::new("x.yaml"), text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(scenario.modules().len(), if name == "livepatch" { 2 } else { 1 }, "{name}");
        }
        assert!(Checked { parameters: &["a\nb".to_owned()], ..checked }.scenarios().is_err());
    }
}
