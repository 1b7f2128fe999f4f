//! The files of a checkout that a scenario needs, and its text with module directories replaced.

use crate::{
    scenario::{ProgramSource, Scenario},
    yaml::Value,
};
use anyhow::Result;
use fs_err as fs;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Returns the files below `guest`, except modules, that a scenario may need, as relative paths. It needs
/// a workload if the name is a word in its text: a step names it, or a script calls it.
pub(super) fn guest_files(guest: &Path, scenario: &Scenario, text: &str) -> Result<Vec<String>> {
    let words = words(text);
    let workloads = names(&guest.join("workloads"))?;
    let workloads = workloads.into_iter().filter(|name| is_needed(name, &words));
    let mut files: Vec<String> = workloads.map(|name| format!("workloads/{name}")).collect();
    files.extend(scenario.programs().map(|(name, _)| format!("programs/{name}.c")));
    files.extend(scenario.userland.iter().map(|wanted| format!("userland/{}.yaml", wanted.name.as_str())));
    if !scenario.selftests().is_empty() {
        files.push("selftests/known.yaml".into());
    }
    Ok(files)
}

/// Returns whether a file of workloads is needed: a header always, a program if its name is a word.
fn is_needed(file: &str, words: &BTreeSet<&str>) -> bool {
    match file.rsplit_once('.') {
        Some((_, "h")) => true,
        Some((name, "c")) => words.contains(name),
        _ => false,
    }
}

/// Returns whether a smaller scenario still needs a file of a reproducer.
pub(crate) fn still_needed(path: &str, scenario: &Scenario, text: &str) -> bool {
    let below = |directory: &str| path.strip_prefix(directory);
    if let Some(file) = below("guest/workloads/") {
        return is_needed(file, &words(text));
    }
    if let Some((name, _)) = below("guest/modules/").and_then(|file| file.split_once('/')) {
        return scenario.modules().iter().any(|wanted| wanted.to_string() == name);
    }
    if path.starts_with("workloads/") {
        return scenario.own_workloads().values().any(|source| match source {
            ProgramSource::File(file) => file.parent() == Path::new(path).parent(),
            ProgramSource::Made { directory, .. } => Path::new(path).starts_with(directory),
        });
    }
    if let Some((name, _)) = below("modules/").and_then(|file| file.split_once('/')) {
        return text.contains(&format!("modules/{name}"));
    }
    true
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').collect()
}

/// Returns the names of the files in a directory, sorted.
fn names(directory: &Path) -> Result<BTreeSet<String>> {
    fs::read_dir(directory)?.map(|file| Ok(file?.file_name().to_string_lossy().into_owned())).collect()
}

/// Returns a scenario's text with the sources of its own modules and workloads replaced.
pub(super) fn with_sources(
    text: &str,
    renamed: &BTreeMap<(&'static str, PathBuf), String>,
) -> Result<String> {
    let mut document: Value = crate::yaml::from_str(text)?;
    let steps = document.get_mut("steps").and_then(Value::as_sequence_mut);
    for step in steps.into_iter().flatten() {
        for key in ["module", "workload"] {
            let Some(source) = step.get_mut(key).and_then(|value| value.get_mut("source")) else { continue };
            let name = source.as_str().and_then(|path| renamed.get(&(key, path.into())));
            if let Some(name) = name {
                *source = name.as_str().into();
            }
        }
    }
    Ok(crate::yaml::to_string(&document)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest")
    }

    fn scenario(text: &str) -> Scenario {
        Scenario::parse(Path::new("s.yaml"), text).unwrap()
    }

    #[test]
    fn a_scenario_brings_what_it_names() {
        let workloads = names(&guest().join("workloads")).unwrap();
        let headers = workloads.iter().filter(|name| name.ends_with(".h"));
        let all: Vec<_> = headers.map(|name| format!("workloads/{name}")).collect();
        let check = |steps: &str, more: &str, expect: &[&str]| {
            let text = format!("summary: s\n{more}\nsteps: [ {steps} ]\n");
            let files = guest_files(&guest(), &scenario(&text), &text).unwrap();
            let (headers, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.ends_with(".h"));
            // Any workload may include any header.
            assert_eq!(headers, all.iter().collect::<Vec<_>>(), "{text}");
            assert_eq!(others, expect, "{text}");
        };
        check("{ read: trace }", "", &[]);
        check("{ workload: eventfd 1 }", "", &["workloads/eventfd.c"]);
        check(
            "{ sh: eventfd 1, workloads: [eventfd], programs: { exec-open: [tracefs] } }",
            "userland: debian",
            &["workloads/eventfd.c", "programs/exec-open.c", "userland/debian.yaml"],
        );
        check(
            "{ kselftest: ftrace/test.d/kprobe }",
            "userland: debian",
            &["userland/debian.yaml", "selftests/known.yaml"],
        );
    }

    #[test]
    fn what_a_smaller_scenario_does_not_need_is_known() {
        let text = "summary: s\nsteps: [ { hook: +w symbol=vfs_write }, { workload: eventfd 1 }, \
                    { module: { source: modules/mine } }, { workload: { source: workloads/my/my.c } } ]\n";
        let needed = |path: &str| still_needed(path, &scenario(text), text);
        for path in ["guest/workloads/eventfd.c", "guest/workloads/x.h", "guest/modules/ftracehook/Kbuild"] {
            assert!(needed(path), "{path}");
        }
        assert!(needed("workloads/my/my.c") && needed("workloads/my/my.h") && !needed("workloads/m/my.c"));
        assert!(needed("modules/mine/Kbuild") && needed("kernels/6.12.yaml") && needed("guest/modules/x.h"));
        for path in ["guest/workloads/cat.c", "guest/modules/deaths/Kbuild", "modules/other/Kbuild"] {
            assert!(!needed(path), "{path}");
        }
    }

    #[test]
    fn a_modules_directory_is_renamed_and_nothing_else() {
        let text = "summary: ../mine\nsteps:\n- module: { source: ../mine }\n- module: { source: /other, name: x }\n\
                    - workload: { source: ../mine, arguments: ../mine }\n- workload: ../mine\n";
        let renamed = BTreeMap::from([
            (("module", "../mine".into()), "modules/mine".into()),
            (("module", "/other".into()), "modules/other".into()),
            (("workload", "../mine".into()), "workloads/mine".into()),
        ]);
        let found: Value = crate::yaml::from_str(&with_sources(text, &renamed).unwrap()).unwrap();
        let expect: Value = crate::yaml::from_str(
            "summary: ../mine\nsteps: [{ module: { source: modules/mine } }, { module: { source: modules/other, name: x } }, \
             { workload: { source: workloads/mine, arguments: ../mine } }, { workload: ../mine }]",
        )
        .unwrap();
        assert_eq!(found, expect);
    }
}
