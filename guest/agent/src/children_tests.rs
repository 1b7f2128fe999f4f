//! Children from start to exit, on the host's own kernel.

use super::*;
use protocol::Reply;
use std::path::Path;

struct Stage {
    children: Children,
    events: Events,
}

impl Stage {
    fn new() -> Stage {
        Stage { children: Children::default(), events: Events::new().unwrap() }
    }

    fn spawn(&mut self, program: Program) -> Result<u32, Refusal> {
        self.children.spawn(program, &self.events)
    }

    /// Runs `script` in a shell, keeping 1000 bytes of each output.
    fn shell(&mut self, script: &str, stdin: &[u8]) -> u32 {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let env = vec!["NAME=value".to_owned(), "PATH=/usr/bin:/bin".to_owned()];
        self.spawn(Program { argv, env, stdin: Stdin::Bytes(stdin.to_vec()), output_max: 1000 }).unwrap()
    }

    /// Waits like the server, but without a port.
    fn wait(&mut self, id: u32) -> ChildState {
        loop {
            let pause = match self.children.standing(id).unwrap() {
                ChildStatus::Over(state) => return state,
                ChildStatus::Closing(pause) => pause,
                ChildStatus::Running => Duration::from_secs(20),
            };
            let sources = self.events.wait(Some(pause)).unwrap();
            assert!(pause < Duration::from_secs(20) || !sources.is_empty(), "nothing happened");
            for source in sources {
                match source {
                    Source::Child(id) => self.children.pump(id),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn check(&mut self, script: &str, stdin: &[u8], expect: &str) {
        let id = self.shell(script, stdin);
        let (kind, status, output) = match self.wait(id) {
            ChildState::Exited(status, output) => ("exited", status, output),
            ChildState::Signaled(signal, output) => ("signaled", signal, output),
            ChildState::Running => panic!("reported as running"),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found = format!("{kind} {status} out={} err={}", text(&output.stdout), text(&output.stderr));
        assert_eq!(found, expect, "{script}");
    }
}

#[test]
fn a_program_starts_with_no_signal_blocked() {
    // Block SIGCHLD like the server, in this test's thread.
    // SAFETY: the set is initialized before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    let script = "while read name mask; do [ $name = SigBlk: ] && printf $mask; done </proc/self/status";
    Stage::new().check(script, b"", "exited 1 out=0000000000000000 err=");
}

fn errno<T: std::fmt::Debug>(result: Result<T, Refusal>) -> i32 {
    match Reply::from(result.unwrap_err()) {
        Reply::Errno { errno, .. } => errno,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_child_has_arguments_environment_input_and_two_outputs() {
    let mut stage = Stage::new();
    stage.check("printf %s \"$NAME$HOME\"; echo no >&2; exit 3", b"", "exited 3 out=value err=no\n");
    stage.check("cat", b"through", "exited 0 out=through err=");
    stage.check("cat", b"", "exited 0 out= err=");
    stage.check("kill -TERM $$", b"", "signaled 15 out= err=");
}

#[test]
fn much_goes_in_and_out_at_once_and_what_is_over_the_limit_is_counted() {
    let mut stage = Stage::new();
    let id = stage.shell("cat; cat /dev/null >&2", &vec![b'x'; 1 << 20]);
    let ChildState::Exited(0, output) = stage.wait(id) else { panic!() };
    assert_eq!(output.stdout, vec![b'x'; 1000]);
    assert_eq!(output.dropped, (1 << 20) - 1000);
}

#[test]
fn a_child_that_reads_nothing_ends_all_the_same() {
    Stage::new().check("exec <&-; echo done", &vec![b'x'; 1 << 20], "exited 0 out=done\n err=");
}

#[test]
fn output_that_a_descendant_holds_is_not_waited_for() {
    let mut stage = Stage::new();
    let id = stage.shell("sleep 30 & echo $!", b"");
    let ChildState::Exited(0, output) = stage.wait(id) else { panic!() };
    let descendant = String::from_utf8(output.stdout).unwrap();
    assert!(Path::new(&format!("/proc/{}/stat", descendant.trim())).exists());
    // Signals still reach the descendant, but its end is not reported.
    assert_eq!(errno(stage.children.standing(id)), libc::ECHILD);
    stage.children.kill(id, libc::SIGKILL).unwrap();
    while stage.children.known.contains_key(&id) {
        for source in stage.events.wait(Some(Duration::from_secs(20))).unwrap() {
            assert_eq!(source, Source::Child(id));
            stage.children.pump(id);
        }
    }
    assert_eq!(errno(stage.children.kill(id, 0)), libc::ESRCH);
}

#[test]
fn output_so_far_is_told_and_stays() {
    let mut stage = Stage::new();
    let id = stage.shell("echo one; read line; echo two; exec sleep 30", b"\n");
    let mut so_far = Vec::new();
    while so_far != b"one\ntwo\n" {
        stage.events.wait(Some(Duration::from_secs(20))).unwrap();
        so_far = stage.children.output(id).unwrap().stdout;
        assert!(b"one\ntwo\n".starts_with(&so_far), "{so_far:?}");
    }
    stage.children.kill(id, libc::SIGKILL).unwrap();
    let ChildState::Signaled(9, output) = stage.wait(id) else { panic!() };
    assert_eq!(output.stdout, b"one\ntwo\n");
    assert_eq!(errno(stage.children.output(id)), libc::ECHILD);
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let mut stage = Stage::new();
    let id = stage.shell("sleep 30 | sleep 30; true", b"");
    stage.children.kill(id, 0).unwrap();
    assert_eq!(errno(stage.children.kill(id, 999)), libc::EINVAL);
    stage.children.kill(id, libc::SIGKILL).unwrap();
    assert!(matches!(stage.wait(id), ChildState::Signaled(libc::SIGKILL, _)));
    assert_eq!(stage.children.known.len(), 0);
}

#[test]
fn an_end_is_told_once_and_numbers_are_not_used_again() {
    let mut stage = Stage::new();
    let first = stage.shell("true", b"");
    stage.wait(first);
    assert_eq!(errno(stage.children.standing(first)), libc::ECHILD);
    assert_ne!(stage.shell("true", b""), first);
}

#[test]
fn what_cannot_be_started_is_an_errno() {
    let mut stage = Stage::new();
    let mut check = |argv: &[&str], env: &[&str], expect: i32| {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let program =
            Program { argv: owned(argv), env: owned(env), stdin: Stdin::Bytes(Vec::new()), output_max: 0 };
        assert_eq!(errno(stage.spawn(program)), expect, "{argv:?}");
    };
    check(&[], &[], libc::EINVAL);
    check(&["true"], &[], libc::EINVAL);
    check(&["/no/such/program"], &[], libc::ENOENT);
    check(&["/etc/passwd"], &[], libc::EACCES);
    check(&["/bin/true", "a\0b"], &[], libc::EINVAL);
    check(&["/bin/true"], &["=value"], libc::EINVAL);
    check(&["/bin/true"], &["NA\0ME=value"], libc::EINVAL);
}

#[test]
fn there_is_a_most_of_children() {
    let mut stage = Stage::new();
    let ids: Vec<u32> = (0..CHILDREN_MAX).map(|_| stage.shell("exec sleep 30", b"")).collect();
    let argv = vec!["/bin/true".to_owned()];
    let one_more = Program { argv, env: Vec::new(), stdin: Stdin::Bytes(Vec::new()), output_max: 0 };
    assert_eq!(errno(stage.spawn(one_more)), libc::EAGAIN);
    let pids: Vec<Pid> = stage.children.known.values().map(|child| child.pid).collect();
    stage.children.clear();
    assert_eq!(errno(stage.children.standing(ids[0])), libc::ECHILD);
    for pid in pids {
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
    }
}
