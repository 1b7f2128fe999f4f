//! How the lab is called: `cargo xtask lab` in a checkout, `ftrace-lab` where it is installed.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, Ordering},
};

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// From now on, the lab calls itself `ftrace-lab`.
pub fn set_installed() {
    INSTALLED.store(true, Ordering::Relaxed);
}

/// Returns whether the lab is an installed command.
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Returns a text whose commands, written as in a checkout, are as the user calls them.
pub fn called(text: &str) -> Cow<'_, str> {
    if is_installed() { installed(text) } else { Cow::Borrowed(text) }
}

fn installed(text: &str) -> Cow<'_, str> {
    if !text.contains("cargo xtask") {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("cargo xtask lab", "ftrace-lab").replace("cargo xtask", "ftrace-lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_the_user_calls_them() {
        assert_eq!(
            installed("run `cargo xtask doctor`, then `cargo xtask lab run`"),
            "run `ftrace-lab doctor`, then `ftrace-lab run`"
        );
        assert!(matches!(called("cargo xtask lab run"), Cow::Borrowed("cargo xtask lab run")));
    }
}
