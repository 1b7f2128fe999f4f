//! Checks the directories that results name: each result has its own, inside its run.

use super::ScenarioResult;
use crate::words::stays_inside;
use std::path::Path;

/// Returns an error if a result's directory is outside its run, or is or contains that of another result.
/// Each result comes with the directory of its run.
pub(super) fn check_directories<'a>(
    results: impl Iterator<Item = (&'a Path, &'a ScenarioResult)>,
) -> Result<(), String> {
    let mut named: Vec<_> = results
        .filter(|(_, result)| !result.directory.is_empty())
        .map(|(run, result)| (Path::new(&result.directory), run.display()))
        .collect();
    if let Some((directory, run)) = named.iter().find(|(directory, _)| !stays_inside(directory)) {
        return Err(format!(
            "the results in `{run}` name a directory outside of it: `{}`",
            directory.display()
        ));
    }
    // Paths are ordered by their parts: what is inside a directory follows it.
    named.sort_by_key(|(directory, _)| *directory);
    for pair in named.windows(2) {
        let [(outer, one), (inner, two)] = pair else { continue };
        if inner.starts_with(outer) {
            let (outer, inner) = (outer.display(), inner.display());
            return Err(format!("two results share files: `{outer}` in `{one}` and `{inner}` in `{two}`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Status, fixture::result};

    #[test]
    fn each_result_has_its_own_directory_inside_its_run() {
        let check = |named: &[&str], expect: &str| {
            let of = |directory: &&str| ScenarioResult {
                directory: (*directory).to_owned(),
                ..result("a", Status::Passed)
            };
            let results: Vec<_> = named.iter().map(of).collect();
            let found = check_directories(results.iter().map(|result| (Path::new("run"), result)));
            assert_eq!(found.err().unwrap_or_default(), expect, "{named:?}");
        };
        check(&["6.12/a", "6.12/a@2", "6.12/a-b", "6.12/ab", "6.12/b/a", "", ""], "");
        for outside in ["../other", "/etc", "6.12/../../x"] {
            check(&[outside], &format!("the results in `run` name a directory outside of it: `{outside}`"));
        }
        let shared = |one: &str, two: &str| {
            check(
                &[two, "6.1/a", one],
                &format!("two results share files: `{one}` in `run` and `{two}` in `run`"),
            );
        };
        shared("6.12/a", "6.12/a");
        shared("6.12/a", "6.12//a/./b");
        shared("6.12/a", "6.12/a/b");
        shared("6.12", "6.12/c");
    }
}
