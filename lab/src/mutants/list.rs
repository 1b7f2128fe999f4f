//! `kernels/mutants/AREA.yaml` → the [`Mutant`]s.

use super::MutantError;
use crate::{kernel::check_name, yaml};
use anyhow::Result;
use fs_err as fs;
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    ops::Range,
    path::{Component, Path, PathBuf},
};

/// A defect: one place of the source, changed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The name of its file, without `.yaml`.
    #[serde(skip)]
    pub area: String,
    /// Its name.
    pub name: String,
    /// The source file, relative to the kernel tree.
    pub file: String,
    /// What no longer works, in a sentence.
    pub breaks: String,
    /// The scenario that notices it.
    #[serde(default)]
    pub scenario: Option<String>,
    /// The case of the kernel's ftracetest that notices it, or `none`; absent if it was not tried.
    #[serde(default)]
    pub ftracetest: Option<String>,
    /// Whether `cargo xtask mutants --explore` finds it; absent if it was not tried.
    #[serde(default)]
    pub explore: Option<Explored>,
    /// Why no scenario notices it.
    #[serde(default)]
    pub unnoticed: Option<String>,
    /// Text that the file has once.
    pub before: String,
    /// The text that takes its place.
    pub after: String,
}

/// Whether exploring finds a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Explored {
    /// Within ten minutes.
    Found,
    /// Not within ten minutes.
    None,
}

impl Mutant {
    /// Returns the text of its file with the defect; `None` if the file does not have the place, or has it
    /// more than once.
    pub fn put_into(&self, text: &str) -> Option<String> {
        let mut places = text.match_indices(&self.before);
        match (places.next(), places.next()) {
            (Some((at, before)), None) => {
                Some(format!("{}{}{}", &text[..at], self.after, &text[at + before.len()..]))
            }
            _ => None,
        }
    }

    /// Returns the lines of its place in the text of its file; `None` if the file does not have it once.
    pub fn lines(&self, text: &str) -> Option<Range<u32>> {
        self.put_into(text)?;
        let number = |text: &str| u32::try_from(text.lines().count()).ok();
        let first = number(&text[..text.find(&self.before)?])? + 1;
        Some(first..first + number(&self.before)?)
    }

    /// Returns what is wrong with it; `scenarios` is their directory.
    fn wrong(&self, scenarios: &Path) -> Option<String> {
        let path = Path::new(&self.file);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        // Modules are not built again for each mutant.
        let is_in_modules = path.components().any(|part| part.as_os_str() == "include");
        let has_scenario = |name: &String| {
            let plain = name.split('/').all(|part| check_name(part).is_ok());
            // That of a matrix has its cells below its name.
            let file = scenarios.join(format!("{name}.yaml"));
            plain
                && (file.is_file()
                    || file.parent().is_some_and(|parent| parent.with_extension("yaml").is_file()))
        };
        if let Err(error) = check_name(&self.name) {
            return Some(error.to_string());
        }
        if !is_below || is_in_modules {
            return Some(format!(
                "has the file `{}`, expected one of the kernel tree, outside of `include`",
                self.file
            ));
        }
        if self.before.trim().is_empty() || self.before == self.after {
            return Some("changes nothing".to_owned());
        }
        match (&self.scenario, &self.unnoticed) {
            (Some(name), None) if !has_scenario(name) => {
                Some(format!("names `{name}`, which is no scenario"))
            }
            (Some(_), None) | (None, Some(_)) => None,
            _ => Some("has none or both of `scenario` and `unnoticed`".to_owned()),
        }
    }
}

/// Reads all mutants of the checkout at `root`, in the order of files and of their lists.
pub fn load(root: &Path) -> Result<Vec<Mutant>> {
    let directory = root.join("kernels/mutants");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|kind| kind == "yaml"));
    files.sort();
    let (mut all, mut names) = (Vec::new(), BTreeSet::new());
    for path in files {
        let text = fs::read_to_string(&path)?;
        let area = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mutants: Vec<Mutant> =
            yaml::from_str(&text).map_err(|cause| MutantError::Yaml { path: path.clone(), cause })?;
        for mutant in mutants {
            let twice = || names.contains(&mutant.name).then(|| "exists twice".to_owned());
            if let Some(wrong) = mutant.wrong(&root.join("scenarios")).or_else(twice) {
                return Err(MutantError::Wrong { path, name: mutant.name, wrong }.into());
            }
            names.insert(mutant.name.clone());
            all.push(Mutant { area: area.clone(), ..mutant });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "- name: a\n  file: kernel/a.c\n  breaks: it\n  scenario: probes/a\n  before: x > 1\n  \
                        after: x >= 1\n";

    fn loaded(text: &str) -> Result<Vec<Mutant>> {
        let root = tempfile::tempdir().unwrap();
        for directory in ["kernels/mutants", "scenarios/probes"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("scenarios/probes/a.yaml"), "").unwrap();
        fs::write(root.path().join("kernels/mutants/one.yaml"), text).unwrap();
        load(root.path())
    }

    #[test]
    fn a_mutant_changes_one_place_of_a_source_file() {
        let mutants = loaded(GOOD).unwrap();
        let [mutant] = &mutants[..] else { panic!("{mutants:?}") };
        assert_eq!(mutant.area, "one");
        assert_eq!(mutant.put_into("if (x > 1)").as_deref(), Some("if (x >= 1)"));
        assert_eq!(mutant.put_into("if (x > 2)"), None);
        assert_eq!(mutant.put_into("x > 1, x > 1"), None);
        let longer = Mutant { before: "if (x)\n\tf();\n".into(), ..mutant.clone() };
        assert_eq!(longer.lines("{\nif (x)\n\tf();\n}\n"), Some(2..4));
        assert_eq!(longer.lines("{\n}\n"), None);
    }

    #[test]
    fn a_list_that_cannot_be_right_is_refused() {
        let check = |from: &str, to: &str, expect: &str| {
            assert!(GOOD.contains(from), "{from}");
            let error = format!("{:#}", loaded(&GOOD.replace(from, to)).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("kernel/a.c", "../a.c", "has the file `../a.c`");
        check("kernel/a.c", "include/linux/a.h", "has the file `include/linux/a.h`");
        check("probes/a", "probes/b", "names `probes/b`, which is no scenario");
        check("probes/a", "../probes/a", "names `../probes/a`");
        check("  scenario: probes/a\n", "", "has none or both");
        check("x >= 1", "x > 1", "changes nothing");
        check("name: a", "name: ../a", "../a");
        check("breaks", "braeks", "unknown field `braeks`");
        let error = loaded(&GOOD.repeat(2)).unwrap_err().to_string();
        assert!(error.contains("exists twice"), "{error}");
    }
}
