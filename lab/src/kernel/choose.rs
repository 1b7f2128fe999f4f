//! The argument of `--kernel` → names of `kernels/*.yaml`.
//!
//! A name stands for itself, `all` for every kernel without `opt_in`, and a requirement such as `>=6.1`
//! for the kernels whose name is only a version: variants such as `6.12-kasan` must be named. Only the
//! name is compared, so nothing is fetched or built to answer; `6.12` is 6.12 whatever its patch level.

use super::{
    catalog,
    spec::{KernelSpec, SpecError},
    version::{KernelVersion, VersionReq},
};
use std::{collections::BTreeSet, path::Path};

/// The name that stands for every kernel without `opt_in`.
const ALL: &str = "all";

/// Returns the kernels below `root`, the checkout, that `asked` selects, each once, in the order of `asked`.
pub fn choose(root: &Path, asked: &[String]) -> Result<Vec<String>, SpecError> {
    let mut chosen = Vec::new();
    for asked in asked {
        if asked == ALL {
            let specs = catalog::list(root)?;
            chosen.extend(specs.into_iter().filter(|spec| !spec.opt_in).map(|spec| spec.name));
        } else if is_requirement(asked) {
            let known = catalog::names(root);
            let wanted = among(&known, &asked.parse()?);
            if wanted.is_empty() {
                let known = catalog::quoted_list(&known);
                return Err(SpecError::NoneChosen { asked: asked.clone(), known });
            }
            chosen.extend(wanted);
        } else {
            chosen.push(KernelSpec::load(root, asked)?.name);
        }
    }
    let mut seen = BTreeSet::new();
    chosen.retain(|name| seen.insert(name.clone()));
    Ok(chosen)
}

/// Returns the version at the start of a kernel's name, if there is one: 6.12 for `6.12-kasan`.
pub fn named_version(name: &str) -> Option<KernelVersion> {
    name.parse().ok()
}

/// Returns whether this is a requirement: no name begins with an operator.
fn is_requirement(asked: &str) -> bool {
    asked.trim_start().starts_with(['<', '>', '=', '!'])
}

fn among(known: &[String], requirement: &VersionReq) -> Vec<String> {
    let plain = |name: &&String| name.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut wanted: Vec<_> = known
        .iter()
        .filter(plain)
        .filter_map(|name| Some((named_version(name)?, name)))
        .filter(|(version, _)| requirement.matches(version))
        .collect();
    wanted.sort();
    wanted.into_iter().map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn check(asked: &[&str], expect: Result<&[&str], &str>) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("kernels")).unwrap();
        for name in ["5.10", "6.1", "6.12", "6.12-kasan", "7.2", "debian-trixie"] {
            let text = "summary: s\nfragments: [base]\nsource: { tree: /linux }";
            fs::write(root.path().join(format!("kernels/{name}.yaml")), text).unwrap();
        }
        let named = "summary: s\nfragments: [base]\nsource: { tree: /linux }\nopt_in: true";
        fs::write(root.path().join("kernels/6.12-named.yaml"), named).unwrap();
        let asked: Vec<String> = asked.iter().map(|asked| (*asked).to_owned()).collect();
        match (choose(root.path(), &asked), expect) {
            (Ok(chosen), Ok(expect)) => assert_eq!(chosen, expect, "{asked:?}"),
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{asked:?}: {error}"),
            (found, _) => panic!("{asked:?}: {found:?}"),
        }
    }

    #[test]
    fn names_requirements_and_all() {
        check(&["6.12"], Ok(&["6.12"]));
        check(&["6.12-named"], Ok(&["6.12-named"]));
        check(&["all"], Ok(&["5.10", "6.1", "6.12", "6.12-kasan", "7.2", "debian-trixie"]));
        check(&[">=6.1"], Ok(&["6.1", "6.12", "7.2"]));
        check(&[">=5.10, <6.12"], Ok(&["5.10", "6.1"]));
        check(&["=6.12"], Ok(&["6.12"]));
        check(&["!=6.12"], Ok(&["5.10", "6.1", "7.2"]));
        check(&["7.2", "6.12-kasan", ">=6.12"], Ok(&["7.2", "6.12-kasan", "6.12"]));
        check(&[], Ok(&[]));
    }

    #[test]
    fn what_takes_none_names_what_there_is() {
        check(&[">=8"], Err("no kernel matches `>=8`; there are `5.10`, `6.1`"));
        check(&[">=six"], Err("`>=six` is not a kernel requirement"));
        check(&["6.13"], Err("no kernel `6.13`"));
        check(&["6.12", "../x"], Err("`../x` is not a valid name"));
    }
}
