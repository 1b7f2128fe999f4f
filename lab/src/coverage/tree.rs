//! What changed in a kernel tree under git.

use super::FileChange;
use crate::host::git::git;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The options of `git diff` that make its output independent of the user's configuration.
const PLAIN: [&str; 5] = ["--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--unified=0"];

/// Returns the changes of a tree since a revision, those that are not committed included. Files that git does
/// not know are left out.
///
/// # Errors
/// It is no git tree, or has no such revision.
pub fn changes_since(tree: &Path, revision: &str) -> Result<Vec<FileChange>> {
    FileChange::parse_diff(&diff_since(tree, revision)?)
}

/// Returns the same as a diff.
///
/// # Errors
/// Those of [`changes_since`].
pub fn diff_since(tree: &Path, revision: &str) -> Result<String> {
    let diff = git(tree).arg("diff").args(PLAIN).args(["--end-of-options", revision, "--"]).run();
    diff.with_context(|| format!("cannot compare `{}` with `{revision}`", tree.display()))
}

/// Returns the directory of the repository that a tree is in, to which the names of changed files are relative.
///
/// # Errors
/// It is not a git tree.
pub fn top_of(tree: &Path) -> Result<PathBuf> {
    let top = git(tree).args(["rev-parse", "--show-toplevel"]).run();
    let top = top.with_context(|| format!("`{}` is not in a git tree", tree.display()))?;
    Ok(top.trim_end_matches('\n').into())
}

/// Returns a file of a revision, if the revision has it.
pub fn text_at(tree: &Path, revision: &str, file: &str) -> Option<String> {
    git(tree).args(["show", "--end-of-options", &format!("{revision}:{file}")]).run().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_tree_is_compared_with_a_revision() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
            git(tree).args(identity).args(arguments).run().unwrap();
        };
        fs::write(tree.join("a.c"), "one\ntwo\nthree\n").unwrap();
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message=first"]);
        assert_eq!(changes_since(tree, "HEAD").unwrap(), []);
        fs::create_dir(tree.join("deep")).unwrap();
        assert_eq!(top_of(&tree.join("deep")).unwrap(), tree.canonicalize().unwrap());
        fs::write(tree.join("a.c"), "one\n2\nthree\n").unwrap();
        #[expect(clippy::single_range_in_vec_init, reason = "a list of one range of lines")]
        let change = FileChange { file: "a.c".into(), before: vec![2..3], after: vec![2..3] };
        assert_eq!(changes_since(tree, "HEAD").unwrap(), [change]);
        assert_eq!(text_at(tree, "HEAD", "a.c").unwrap(), "one\ntwo\nthree\n");
        assert_eq!(text_at(tree, "HEAD", "b.c"), None);
        let error = format!("{:#}", changes_since(tree, "--output=x").unwrap_err());
        assert!(error.contains("--output=x"), "{error}");
        assert!(!tree.join("x").exists());
    }
}
