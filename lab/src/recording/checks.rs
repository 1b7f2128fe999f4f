//! Checks that several kinds of steps share.

use crate::scenario::{Errno, TextCheck};
use protocol::Reply;

/// Checks a text of the guest, called `what` in the failure. Of a text of at least `limit` bytes, the rest is
/// not known.
pub(super) fn check_text(
    what: &str,
    check: Option<&TextCheck>,
    data: &[u8],
    limit: usize,
    failures: &mut Vec<String>,
) {
    let Some(check) = check else { return };
    match check.check(&String::from_utf8_lossy(data)) {
        Err(reason) => failures.push(format!("{what}: {reason}")),
        Ok(()) if data.len() >= limit && check.needs_all() => {
            failures.push(format!("{what}: cannot check all of it: only {} KiB were kept", limit >> 10));
        }
        Ok(()) => {}
    }
}

/// Checks that a request failed with the expected errno or, without one, that it succeeded.
pub(super) fn check_errno(expected: Option<Errno>, reply: Option<&Reply>, failures: &mut Vec<String>) {
    match (expected, reply) {
        (None, Some(Reply::Errno { what, errno })) => {
            failures.push(format!("expected success, found {what}: {}", Errno::from_number(*errno)));
        }
        (Some(expected), Some(Reply::Errno { errno, .. })) if expected.number() == *errno => {}
        (Some(expected), Some(Reply::Errno { errno, .. })) => {
            failures.push(format!("expected {expected}, found {}", Errno::from_number(*errno)));
        }
        (Some(expected), _) => failures.push(format!("expected {expected}, found success")),
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_which_the_rest_is_unknown_is_not_never_something() {
        let failures = |yaml: &str, data: &[u8]| {
            let check: TextCheck = crate::yaml::from_str(yaml).unwrap();
            let mut failures = Vec::new();
            check_text("stdout", Some(&check), data, 2048, &mut failures);
            failures.join("; ")
        };
        let (whole, cut) = (vec![b'x'; 2047], vec![b'x'; 2048]);
        assert_eq!(failures("{ never: BUG }", &whole), "");
        assert_eq!(failures("{ contains: xx }", &cut), "");
        let unknown = "stdout: cannot check all of it: only 2 KiB were kept";
        for yaml in ["{ never: BUG }", "{ matches: '^x*$' }", "{ ends_with: x }"] {
            assert_eq!(failures(yaml, &cut), unknown, "{yaml}");
        }
    }
}
