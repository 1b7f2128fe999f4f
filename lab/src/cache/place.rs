//! The path of a cache: make and the shells that it starts must be able to handle it.

use anyhow::{Result, bail};
use std::path::{Path, absolute};

/// The next step if the lab cannot use a directory as its cache.
pub(super) const ELSEWHERE: &str = "set FTRACE_LAB_CACHE to a writable directory";

/// Characters that separate words for make or a shell, or that they or kbuild replace.
const SPECIAL: &str = ":=#$%,;&|<>()*?!~[]{}'\"`\\";

/// Fails if make cannot build in a directory at this path.
pub(super) fn check(root: &Path) -> Result<()> {
    let path = absolute(root)?;
    let path = path.to_string_lossy();
    match path.chars().find(|&c| c.is_whitespace() || c.is_control() || SPECIAL.contains(c)) {
        Some(found) => bail!(
            "cannot use the cache `{path}`: make cannot build in a directory with {found:?} in its path; set \
             FTRACE_LAB_CACHE to another one"
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn make_handles_the_path_of_a_cache() {
        for good in ["/home/u/.cache/ftrace-lab", "/a_b-c+d@e/f.g", "relative", "/d\u{f6}ner"] {
            check(Path::new(good)).unwrap();
        }
        for bad in ["/home/a b", "/a:b", "/a\tb", "/a$b", "/a'b"] {
            let error = check(Path::new(bad)).unwrap_err().to_string();
            assert!(error.contains("FTRACE_LAB_CACHE"), "{bad}: {error}");
        }
    }
}
