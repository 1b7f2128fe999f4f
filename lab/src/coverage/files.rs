//! The source files that are counted.

use crate::yaml;
use anyhow::{Context, Result};
use fs_err as fs;
use serde::Deserialize;
use std::path::Path;

/// The list of a checkout, below its root.
const LIST: &str = "kernels/coverage/tracing.yaml";

/// Patterns of the names of source files, relative to the kernel tree.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFiles {
    files: Vec<String>,
    #[serde(default)]
    except: Vec<String>,
}

impl SourceFiles {
    /// Reads the list of a checkout: the kernel's tracing code.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn of_tracing(root: &Path) -> Result<SourceFiles> {
        let path = root.join(LIST);
        yaml::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("cannot read `{}`", path.display()))
    }

    /// Files and directories by name, or patterns.
    pub fn named(names: &[String]) -> SourceFiles {
        SourceFiles { files: names.to_vec(), except: Vec::new() }
    }

    /// Returns whether a file is one of them.
    pub fn has(&self, file: &str) -> bool {
        let is_in = |patterns: &[String]| patterns.iter().any(|pattern| is_match(pattern, file));
        is_in(&self.files) && !is_in(&self.except)
    }

    /// Returns whether all are compiled by themselves: unlike that of a header, their code is in no other unit.
    pub fn are_compiled(&self) -> bool {
        self.files.iter().all(|pattern| pattern.ends_with(".c"))
    }

    /// Returns whether any of them may be below a directory.
    pub(super) fn reach(&self, directory: &str) -> bool {
        let is_below = |name: &String| is_match(directory, name) || is_match(name, directory);
        self.files.iter().any(is_below)
    }
}

/// Returns whether a file has the name, is below the directory, or matches the pattern. `*` does not match
/// a slash.
fn is_match(pattern: &str, file: &str) -> bool {
    let Some((start, end)) = pattern.split_once('*') else {
        let rest = file.strip_prefix(pattern.trim_end_matches('/'));
        return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    };
    let middle = file.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    middle.is_some_and(|middle| !middle.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_singly_by_directory_or_by_pattern() {
        let check = |pattern, file, expect| assert_eq!(is_match(pattern, file), expect, "{pattern} {file}");
        check("fs/eventfd.c", "fs/eventfd.c", true);
        check("fs/eventfd.c", "fs/eventfd.cc", false);
        check("kernel/trace", "kernel/trace/trace.c", true);
        check("kernel/trace/", "kernel/trace/rv/rv.c", true);
        check("kernel/trace", "kernel/tracepoint.c", false);
        check("kernel/trace/*.c", "kernel/trace/trace.c", true);
        check("kernel/trace/*.c", "kernel/trace/rv/rv.c", false);
        check("kernel/trace/*.c", "kernel/trace/trace.h", false);
        check("kernel/t*t.c", "kernel/t.c", false);
    }

    #[test]
    fn files_may_be_below_a_directory() {
        let check = |name: &str, expect| {
            assert_eq!(SourceFiles::named(&[name.to_owned()]).reach("guest/modules/a"), expect, "{name}");
        };
        check("guest/modules/a", true);
        check("guest/modules/a/a.c", true);
        check("guest", true);
        check("guest/modules/b", false);
        check("guest/modules/aa/a.c", false);
    }

    #[test]
    fn exceptions_are_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = SourceFiles::of_tracing(&root).unwrap();
        assert!(files.has("kernel/trace/ring_buffer.c"));
        assert!(!files.has("kernel/trace/bpf_trace.c"));
        assert!(!files.has("kernel/fork.c"));
    }
}
