//! Splats: what a kernel writes to its log when it caught itself doing wrong.

use super::Status;

/// A splat's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Splat {
    /// [`Status::Oops`] or [`Status::Splat`].
    pub(super) status: Status,
    /// The line, without its time stamp.
    pub(super) line: String,
}

/// How the first line of a splat reads, in arm64's words. The first that matches counts.
const MARKERS: [(&str, Status); 15] = [
    ("Kernel panic - not syncing", Status::Panic),
    ("Internal error: ", Status::Oops),
    ("Unable to handle kernel ", Status::Oops),
    ("kernel BUG at ", Status::Oops),
    ("BUG: KASAN: ", Status::Splat),
    ("BUG: KCSAN: ", Status::Splat),
    // Any other BUG: scheduling while atomic, soft lockup, sleeping function, bad page state.
    ("BUG: ", Status::Splat),
    ("WARNING: ", Status::Splat),
    ("UBSAN: ", Status::Splat),
    ("rcu: INFO: ", Status::Splat),
    ("INFO: rcu_", Status::Splat),
    ("INFO: task ", Status::Splat),
    ("Watchdog detected hard LOCKUP", Status::Splat),
    ("------------[ ftrace bug ]------------", Status::Splat),
    ("Kernel stack is corrupted", Status::Splat),
];

/// The first splat of a kernel log or console.
pub(super) fn find(log: &str) -> Option<Splat> {
    log.lines().map(without_time).find_map(|line| {
        let (_, status) = MARKERS.iter().find(|(marker, _)| line.starts_with(marker))?;
        Some(Splat { status: *status, line: line.to_owned() })
    })
}

/// A line without `<4>` and `[    1.234567]` (and the caller, `[    T1]`) in front.
fn without_time(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some((open, close)) = rest.chars().next().and_then(|c| match c {
        '<' => Some(('<', '>')),
        '[' => Some(('[', ']')),
        _ => None,
    }) {
        let Some((head, tail)) = rest[open.len_utf8()..].split_once(close) else { break };
        if !head.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == ' ') {
            break;
        }
        rest = tail.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &str, expect: Option<(Status, &str)>) {
        let found = find(log);
        let found = found.as_ref().map(|splat| (splat.status, splat.line.as_str()));
        assert_eq!(found, expect, "in `{log}`");
    }

    #[test]
    fn the_first_line_of_a_splat_is_found() {
        check(
            "[    0.000000] Booting Linux on physical CPU 0x0\n<6>[    1.0] Run /init as init process",
            None,
        );
        check(
            "<6>[ 1.0] fine\n<4>[    2.104242] WARNING: CPU: 1 PID: 44 at kernel/trace/ftrace.c:2100 ftrace_bug",
            Some((Status::Splat, "WARNING: CPU: 1 PID: 44 at kernel/trace/ftrace.c:2100 ftrace_bug")),
        );
        check(
            "[    2.1][   T44] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000",
            Some((
                Status::Oops,
                "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000",
            )),
        );
        check(
            "[    3.0] Internal error: Oops - BUG: 00000000f2000800 [#1] PREEMPT SMP",
            Some((Status::Oops, "Internal error: Oops - BUG: 00000000f2000800 [#1] PREEMPT SMP")),
        );
        check(
            "[    4.0] ------------[ ftrace bug ]------------",
            Some((Status::Splat, "------------[ ftrace bug ]------------")),
        );
        // A word in the middle of a message is not a splat.
        check("[    5.0] module: loading WARNING: x", None);
    }
}
