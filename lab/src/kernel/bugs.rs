//! `bugs:` of a kernel's description: the scenarios that are known to fail on it, and a part of each
//! failure's text.
//!
//! `run::known` applies them to the results of a run.

use super::spec::{KernelSpec, check_name};
use std::{collections::btree_map::Entry, path::Path};

/// Checks that each bug has its scenario below `root`, the checkout. A description that comes with a
/// reproducer has no `scenarios` directory next to it, so its bugs are not checked.
pub(super) fn check(spec: &KernelSpec, root: &Path) -> Result<(), String> {
    let scenarios = root.join("scenarios");
    for (scenario, says) in &spec.bugs {
        let plain = scenario.split('/').all(|part| check_name(part).is_ok());
        let is_there = !scenarios.is_dir() || scenarios.join(format!("{scenario}.yaml")).is_file();
        if !plain || !is_there {
            return Err(format!("bugs has `{scenario}`, and there is no `scenarios/{scenario}.yaml`"));
        }
        if says.trim().is_empty() {
            return Err(format!("bugs.{scenario} is empty, expected part of the failure's text"));
        }
    }
    Ok(())
}

/// Adds the bugs of `other`, the kernel that `bugs_of` names.
pub(super) fn add(spec: &mut KernelSpec, other: KernelSpec) -> Result<(), String> {
    if other.bugs_of.is_some() {
        // The reader of one file would have to follow a chain of them.
        return Err(format!("bugs_of names `{}`, which has `bugs_of` itself", other.name));
    }
    if let Some(scenario) = spec.bugs_but.iter().find(|scenario| !other.bugs.contains_key(*scenario)) {
        return Err(format!("bugs_but has `{scenario}`, which is not one of `bugs` of `{}`", other.name));
    }
    spec.bugs_as_of = spec.bugs_as_of.or(other.bugs_as_of);
    for (scenario, says) in other.bugs.into_iter().filter(|(scenario, _)| !spec.bugs_but.contains(scenario)) {
        if let Entry::Vacant(entry) = spec.bugs.entry(scenario) {
            spec.inherited_bugs.insert(entry.key().clone());
            entry.insert(says);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_known_bug_has_a_scenario_and_says_something() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("kernels")).unwrap();
        fs::create_dir_all(root.path().join("scenarios/bugs")).unwrap();
        fs::write(root.path().join("scenarios/bugs/one.yaml"), "").unwrap();
        let load = |bugs: &str| {
            let text =
                format!("summary: s\nfragments: [base]\nsource: {{ tree: /linux }}\nbugs: {{ {bugs} }}");
            fs::write(root.path().join("kernels/x.yaml"), text).unwrap();
            KernelSpec::load(root.path(), "x").map_err(|error| error.to_string())
        };
        assert_eq!(load("bugs/one: it says so").unwrap().bugs["bugs/one"], "it says so");
        let check = |bugs: &str, expect: &str| {
            let error = load(bugs).unwrap_err();
            assert!(error.contains(expect), "{bugs}: {error}");
        };
        check("bugs/two: x", "bugs has `bugs/two`, and there is no `scenarios/bugs/two.yaml`");
        check("../scenarios/bugs/one: x", "bugs has `../scenarios/bugs/one`");
        check("bugs//one: x", "bugs has `bugs//one`");
        check("bugs/one: ' '", "bugs.bugs/one is empty");
    }

    #[test]
    fn a_kernel_has_the_bugs_of_another() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("kernels")).unwrap();
        let write = |name: &str, rest: &str| {
            let text = format!("summary: s\nfragments: [base]\nsource: {{ tree: /linux }}\n{rest}\n");
            fs::write(root.path().join(format!("kernels/{name}.yaml")), text).unwrap();
        };
        write("a", "bugs_as_of: 6.12.7\nbugs: { bugs/one: says so, bugs/two: says so }");
        write("b", "bugs_of: a\nbugs: { bugs/two: differently, bugs/three: too }");
        write("c", "bugs_of: b");
        write("e", "bugs_of: a\nbugs_but: [bugs/one]");
        write("f", "bugs_of: a\nbugs_but: [bugs/three]");
        write("d", "bugs_of: ../a");
        let load = |name| KernelSpec::load(root.path(), name).map_err(|error| error.to_string());
        let loaded = load("b").unwrap();
        let bugs: Vec<_> = loaded.bugs.iter().map(|(name, says)| (name.as_str(), says.as_str())).collect();
        assert_eq!(bugs, [("bugs/one", "says so"), ("bugs/three", "too"), ("bugs/two", "differently")]);
        assert_eq!(loaded.inherited_bugs.iter().collect::<Vec<_>>(), ["bugs/one"]);
        for (version, fixed) in [("6.12.6", false), ("6.12.7", false), ("6.12.8", true), ("7.2", true)] {
            let spec = loaded.clone().of_version(&version.parse().unwrap());
            assert_eq!(spec.bugs_may_be_fixed, fixed, "{version}");
        }
        assert_eq!(loaded.files()[..2], ["b.yaml", "a.yaml"]);
        assert!(load("c").unwrap_err().contains("bugs_of names `b`, which has `bugs_of` itself"));
        assert!(load("d").unwrap_err().contains("../a"));
        assert_eq!(load("e").unwrap().bugs.into_keys().collect::<Vec<_>>(), ["bugs/two"]);
        assert!(load("f").unwrap_err().contains("`bugs/three`, which is not one of `bugs` of `a`"));
    }
}
