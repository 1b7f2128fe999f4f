//! Paths from files that others wrote.

use std::path::{Component, Path};

/// Returns whether `path`, joined to a directory, names something inside it: it is relative and has no `..`.
pub(crate) fn stays_inside(path: impl AsRef<Path>) -> bool {
    path.as_ref().components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_inside_if_each_part_is_a_name() {
        let check = |path, expect| assert_eq!(stays_inside(path), expect, "{path}");
        check("", true);
        check("a", true);
        check("a/b.yaml", true);
        check("a//b/", true);
        check("a/...", true);
        check("..", false);
        check("../a", false);
        check("a/../b", false);
        check("a/..", false);
        check("/a", false);
        check("./a", false);
    }
}
