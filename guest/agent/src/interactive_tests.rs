//! Interactive programs, through pipes and through a terminal, on the host's own kernel.

use super::*;
use protocol::Reply;

struct Talk {
    children: Children,
    events: Events,
    id: u32,
    /// Output that no `hear` has matched yet.
    heard: String,
}

impl Talk {
    fn new(script: &str, stdin: Stdin, output_max: u32) -> Talk {
        let (mut children, events) = (Children::default(), Events::new().unwrap());
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let env = vec!["PATH=/usr/bin:/bin".to_owned(), "PS1=$ ".to_owned()];
        let id = children.spawn(Program { argv, env, stdin, output_max }, &events).unwrap();
        Talk { children, events, id, heard: String::new() }
    }

    fn feed(&mut self, text: &str) {
        self.children.feed(self.id, text.as_bytes()).unwrap();
    }

    /// Waits like the server.
    fn listen(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.children.quiet_for(self.id).unwrap() != Some(Duration::ZERO) {
            assert!(Instant::now() < until, "nothing is said; heard so far: {}", self.heard);
            let pause = self.children.quiet_for(self.id).unwrap().unwrap_or(Duration::from_secs(20));
            for source in self.events.wait(Some(pause)).unwrap() {
                if let Source::Child(id) = source {
                    self.children.pump(id);
                }
            }
        }
    }

    /// Listens until the output contains `text`, and drops the output up to its end.
    fn hear(&mut self, text: &str) {
        while !self.heard.contains(text) {
            self.listen();
            let said = self.children.take(self.id).unwrap();
            assert!(!said.stdout.is_empty() || !said.stderr.is_empty(), "it ended; heard: {}", self.heard);
            assert_eq!(said.dropped, 0);
            self.heard += &String::from_utf8(said.stdout).unwrap();
        }
        let end = self.heard.find(text).unwrap() + text.len();
        self.heard.drain(..end);
    }

    fn end(&mut self) -> ChildState {
        loop {
            self.listen();
            if let ChildStatus::Over(state) = self.children.standing(self.id).unwrap() {
                return state;
            }
            self.children.take(self.id).unwrap();
        }
    }

    fn refused(&mut self, data: &[u8]) -> i32 {
        match Reply::from(self.children.feed(self.id, data).unwrap_err()) {
            Reply::Errno { errno, .. } => errno,
            other => panic!("{other:?}"),
        }
    }
}

const ECHO: &str = "while read -r word; do echo \"<$word>\"; done; echo over";

#[test]
fn a_child_with_an_open_stdin_is_asked_and_answers_until_it_is_closed() {
    let mut talk = Talk::new(ECHO, Stdin::Open, 1000);
    talk.feed("a\n");
    talk.hear("<a>\n");
    talk.feed("b\n");
    talk.hear("<b>\n");
    assert_eq!(talk.refused(&[b'x'; FEED_MAX + 1]), libc::EMSGSIZE);
    talk.feed("");
    talk.hear("over\n");
    assert_eq!(talk.refused(b"x"), libc::EPIPE);
    assert!(matches!(talk.end(), ChildState::Exited(0, _)));
    assert_eq!(talk.refused(b"x"), libc::ECHILD);
}

#[test]
fn a_child_that_says_more_than_is_kept_waits_until_it_was_taken() {
    for stdin in [Stdin::Open, Stdin::Terminal { rows: 24, columns: 80 }] {
        let mut talk = Talk::new("seq 100000; echo over", stdin, 1000);
        let last = if talk.children.known[&talk.id].terminal { "100000\r\nover" } else { "100000\nover" };
        for number in 1..=100_000 {
            if number % 7000 == 0 {
                talk.hear(&number.to_string());
            }
        }
        talk.hear(last);
        assert!(matches!(talk.end(), ChildState::Exited(0, _)));
    }
}

#[test]
fn what_holds_the_output_of_a_child_that_is_over_is_not_waited_for() {
    let mut talk = Talk::new("sleep 60 & echo $!", Stdin::Open, 1000);
    talk.hear("\n");
    assert!(matches!(talk.end(), ChildState::Exited(0, _)));
    assert_eq!(talk.children.known.len(), 0);
}

#[test]
fn a_terminal_has_a_size_that_changes() {
    let script = "stty size; trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut talk = Talk::new(script, Stdin::Terminal { rows: 7, columns: 33 }, 1000);
    talk.hear("7 33\r\n");
    talk.hear("ready");
    talk.children.resize(talk.id, 50, 132).unwrap();
    talk.hear("50 132\r\n");
    assert!(matches!(talk.end(), ChildState::Exited(3, _)));
}

#[test]
fn what_is_no_terminal_has_no_size() {
    let mut talk = Talk::new("cat", Stdin::Open, 1000);
    let refusal = talk.children.resize(talk.id, 1, 1).unwrap_err();
    assert!(matches!(Reply::from(refusal), Reply::Errno { errno: libc::ENOTTY, .. }));
    talk.feed("");
    talk.end();
}

#[test]
fn a_terminal_controls_its_session() {
    let mut talk = Talk::new("exec sh -i", Stdin::Terminal { rows: 24, columns: 80 }, 10_000);
    talk.hear("$ ");
    // Echo, and a job that a key interrupts while its shell continues.
    talk.feed("echo s$((1 + 1))t; sleep 60 || echo ended by $?\n");
    talk.hear("s2t\r\n");
    // The shell must have given the terminal to its job before the key reaches it.
    std::thread::sleep(Duration::from_millis(300));
    talk.feed("\x03");
    talk.hear("$ ");
    talk.feed("tty; ps -o tty= $$; exit 5\n");
    talk.hear("/dev/pts/");
    talk.hear("pts/");
    assert!(matches!(talk.end(), ChildState::Exited(5, _)));
}

#[test]
fn what_a_terminal_has_no_room_for_is_refused_and_nothing_is_lost() {
    let script = "stty raw -echo; echo ready; sleep 0.5; head -c 40960 | cksum";
    let mut talk = Talk::new(script, Stdin::Terminal { rows: 24, columns: 80 }, 10_000);
    talk.hear("ready");
    let (chunk, mut fed, mut refusals) = ("x".repeat(FEED_MAX), 0, 0);
    while fed < 10 {
        match talk.children.feed(talk.id, chunk.as_bytes()).map_err(Reply::from) {
            Ok(()) => fed += 1,
            Err(Reply::Errno { errno: libc::EAGAIN, .. }) => {
                refusals += 1;
                talk.events.wait(Some(Duration::from_millis(5))).unwrap();
                talk.children.pump(talk.id);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refusals > 0);
    let mut cksum = std::process::Command::new("sh");
    cksum.args(["-c", "head -c 40960 /dev/zero | tr '\\0' x | cksum"]);
    let expect = String::from_utf8(cksum.output().unwrap().stdout).unwrap();
    talk.hear(expect.trim());
    assert!(matches!(talk.end(), ChildState::Exited(0, _)));
}
