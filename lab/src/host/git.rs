//! git, apart from the environment that the lab was started in.
//!
//! git exports `GIT_DIR` and others to hooks, to `rebase --exec` and in linked work trees, and they
//! take precedence over the directory that git is started in. A lab started there would otherwise
//! change the user's repository instead of its own.

use super::process::Tool;
use std::{env, os::unix::ffi::OsStrExt, path::Path};

/// Returns a git command that runs in `directory`, without prompts, hooks and inherited `GIT_`
/// variables.
pub fn git(directory: &Path) -> Tool {
    let tool = apart(Tool::new("git")).args(["-c", "core.hooksPath=/dev/null"]).directory(directory);
    tool.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C")
}

/// Removes inherited `GIT_` variables from a tool that runs git itself, such as kbuild's scripts.
pub fn apart(tool: Tool) -> Tool {
    let inherited = env::vars_os().map(|(name, _)| name);
    inherited.filter(|name| name.as_bytes().starts_with(b"GIT_")).fold(tool, Tool::env_remove)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{path::PathBuf, process::Command};

    /// Names the directory of the repository that [`commits_in_a_repository`] changes.
    const OWN: &str = "FTRACE_LAB_TEST_REPOSITORY";

    /// Makes a repository with one commit in `directory`, and returns its HEAD.
    fn commit(directory: &Path) -> String {
        git(directory).args(["init", "--quiet"]).run().unwrap();
        let identity = ["-c", "user.name=A", "-c", "user.email=a@b.test"];
        git(directory).args(identity).args(["commit", "--quiet", "--allow-empty", "-m", "x"]).run().unwrap();
        git(directory).args(["rev-parse", "HEAD"]).run().unwrap()
    }

    #[test]
    fn inherited_variables_do_not_select_a_repository() {
        let directory = tempfile::tempdir().unwrap();
        let [users, own] = ["users", "own"].map(|name| directory.path().join(name));
        std::fs::create_dir(&users).unwrap();
        std::fs::create_dir(&own).unwrap();
        let head = commit(&users);
        // Variables of this process would be those of all tests.
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "host::git::tests::commits_in_a_repository", "--ignored"])
            .env(OWN, &own)
            .env("GIT_DIR", users.join(".git"))
            .env("GIT_WORK_TREE", &users)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
        assert_eq!(git(&users).args(["rev-list", "--all"]).run().unwrap(), head);
        assert_eq!(git(&own).args(["rev-list", "--count", "HEAD"]).run().unwrap(), "1\n");
    }

    #[test]
    #[ignore = "run in a child process by the test above"]
    fn commits_in_a_repository() {
        commit(&PathBuf::from(env::var_os(OWN).unwrap()));
    }
}
