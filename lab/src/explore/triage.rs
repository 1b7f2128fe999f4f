//! A finding and its results → a mail for the maintainers of tracing.

use super::names::{LANE, PROGRAM};
use crate::{
    results::ScenarioResult,
    scenario::{Scenario, Step},
};
use std::fmt::Write;

/// The number of frames of a stack in a mail.
const FRAMES: usize = 16;

/// The programs that a reader does not have, and what they do.
const PROGRAMS: [(&str, &str); 2] = [
    (PROGRAM, "makes an eventfd, writes each number to it, and reads it once"),
    (LANE, "reads the files of these events all the time, and records those of the scheduler in an instance"),
];

/// What became of a finding on one kernel.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The kernel's name and version.
    pub kernel: String,
    /// All results.
    pub results: Vec<ScenarioResult>,
}

/// Writes the mail: subject, affected versions, steps by plain shell on tracefs, expected and found. `None` if
/// it failed on no kernel.
pub fn mail(scenario: &Scenario, tried: &[Tried]) -> Option<String> {
    let failed = tried.iter().flat_map(|kernel| &kernel.results).find(|result| !result.status.is_good())?;
    let broken = failed.steps.iter().position(|step| !step.passed);
    let reason = match failed.splats.first() {
        Some(splat) => splat.title.clone(),
        // What was found follows below.
        None => failed.reason.split(['\n', ';']).next().unwrap_or_default().to_owned(),
    };
    let mut mail = format!("Subject: [BUG] tracing: {reason}\n\nKernels (arm64):\n");
    for Tried { kernel, results } in tried {
        let count = results.iter().filter(|result| !result.status.is_good()).count();
        let _ = writeln!(mail, "  {kernel}: fails in {count} of {} runs", results.len());
    }
    mail += "\nSteps, as root:\n\n  cd /sys/kernel/tracing\n";
    let commands = scenario.steps.iter().enumerate().filter_map(|(index, step)| {
        let is_last = broken.is_some_and(|broken| broken == index);
        command(&step.value, is_last).map(|command| (is_last, command))
    });
    for (is_last, command) in commands {
        for line in command.lines() {
            let _ = writeln!(mail, "  {line}");
        }
        if is_last {
            break;
        }
    }
    for (program, does) in PROGRAMS {
        let is_it = |step: &Step| matches!(step, Step::Workload(step) if step.workload.program() == program);
        if scenario.steps.iter().any(|step| is_it(&step.value)) {
            let _ = writeln!(mail, "\n`{program}`, linked statically, {does}.");
        }
    }
    if scenario.steps.iter().any(|step| matches!(step.value, Step::Hook(_))) {
        mail += "\nA `hook` is an ftrace_ops of a module, registered or changed as it says.\n";
    }
    let _ = writeln!(mail, "\nExpected, and found:\n");
    let detail = broken.and_then(|index| failed.steps.get(index)).map(|step| step.detail.as_str());
    for line in detail.unwrap_or(&failed.reason).lines() {
        let _ = writeln!(mail, "  {line}");
    }
    for stack in failed.splats.iter().chain(&failed.stacks) {
        let _ = writeln!(mail, "\n{}", stack.title);
        for frame in stack.frames.iter().take(FRAMES) {
            let _ = writeln!(mail, "  {}+{:#x}", frame.symbol, frame.offset);
        }
    }
    Some(mail)
}

/// A step as a command of a shell in tracefs. Of the steps that only look, the last one counts.
fn command(step: &Step, is_last: bool) -> Option<String> {
    Some(match step {
        Step::Write(step) => {
            let to = if step.append { ">>" } else { ">" };
            let errno =
                step.errno.as_ref().map_or_else(String::new, |errno| format!("    # fails with {errno}"));
            format!("echo '{}' {to} {}{errno}", step.text, step.write.as_str())
        }
        Step::MakeDirectory(step) => format!("mkdir {}", step.mkdir.as_str()),
        Step::Shell(step) => step.sh.as_str().to_owned(),
        Step::Load(step) => format!("insmod {}.ko", step.load.as_str()),
        Step::Unload(step) => format!("rmmod {}", step.unload.as_str()),
        Step::Hook(step) => format!("hook '{}'", step.hook.as_str()),
        Step::Workload(step) if step.workload.program() == "calls" => by_shell(&step.stdin),
        Step::Workload(step) if step.until.is_some() => format!("{} &", step.workload),
        Step::Workload(step) => step.workload.to_string(),
        Step::Read(step) if is_last => format!("cat {}", step.read.as_str()),
        Step::EnabledFunctions(step) if is_last => {
            format!("grep '^{} ' enabled_functions", step.enabled_functions)
        }
        _ => return None,
    })
}

/// What exploring's calls do with a file that stays open, as commands of a shell.
fn by_shell(calls: &str) -> String {
    let mut files = Vec::new();
    let mut lines = Vec::new();
    let mut is_met = false;
    for line in calls.lines().filter(|line| !line.is_empty()) {
        let (is_beside, line) = line.strip_prefix("meet ").map_or((false, line), |line| (true, line));
        let (call, errno) = line.split_once(" = ").unwrap_or((line, ""));
        let (name, rest) = call.split_once(' ').unwrap_or((call, ""));
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = |files: &[&str]| 3 + files.iter().position(|file| *file == first).unwrap_or_default();
        let command = match name {
            "open" => {
                files.push(first);
                let (path, flags) = more.split_once(' ').unwrap_or((more, ""));
                let how = if flags.contains("wronly") { ">" } else { "<" };
                format!("exec {}{how} {path}", number(&files))
            }
            "echo" => format!("echo '{more}' > {first}"),
            "append" => format!("echo '{more}' >> {first}"),
            "skip" => format!("cat <&{} >/dev/null", number(&files)),
            // No shell can.
            "map" => format!("# mmap(2) of {more} bytes of file descriptor {}", number(&files)),
            _ => call.to_owned(),
        };
        let beside = if is_beside { " &" } else { "" };
        let fails = if errno.is_empty() { String::new() } else { format!("    # fails with {errno}") };
        lines.push(format!("{command}{beside}{fails}"));
        lines.extend((is_met && !is_beside).then(|| "wait".to_owned()));
        is_met = is_beside;
    }
    let close = (3..3 + files.len()).map(|number| format!("exec {number}>&-"));
    lines.extend(close);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SCENARIO: &str = "summary: s\nsteps:\n  - { workload: counter --help }\n  - { write: a, text: \"-:b\", append: true, \
                            errno: ENOENT }\n  - { read: c }\n  - { read: d }\n  - { mkdir: e }\n";

    fn result(passed: [bool; 5]) -> ScenarioResult {
        let step = |passed: bool| serde_json::json!({ "text": "", "passed": passed, "detail": "it is \"1\"", "output": [], "seconds": 1.0 });
        let status = if passed.contains(&false) { "failed" } else { "passed" };
        let steps: Vec<_> = passed.into_iter().map(step).collect();
        serde_json::from_value(serde_json::json!({
            "name": "n", "kernel": "k", "summary": "s", "status": status, "reason": "step 4 failed: it is \"1\"",
            "seconds": 1.0, "directory": "k/n", "steps": steps, "expectations": [], "splats": [], "stacks": [],
            "left_behind": [], "notes": []
        }))
        .unwrap()
    }

    #[test]
    fn open_files_are_those_of_a_shell() {
        let calls =
            "open held instances/i/trace_pipe nonblock\necho instances/i/current_tracer function = EBUSY\n";
        let expect = "exec 3< instances/i/trace_pipe\necho 'function' > instances/i/current_tracer    # fails with EBUSY\n\
                      exec 3>&-";
        assert_eq!(by_shell(calls), expect);
        let calls = "meet append dynamic_events -:a = ENOENT\nmkdir instances/i\n";
        let expect = "echo '-:a' >> dynamic_events &    # fails with ENOENT\nmkdir instances/i\nwait";
        assert_eq!(by_shell(calls), expect);
        let calls = "open held raw\nmap held 4096\n";
        assert_eq!(by_shell(calls), "exec 3< raw\n# mmap(2) of 4096 bytes of file descriptor 3\nexec 3>&-");
        let calls = "open held instances/i/trace\nrmdir instances/i = EBUSY\nskip held 65536\n";
        let expect = "exec 3< instances/i/trace\nrmdir instances/i    # fails with EBUSY\n\
                      cat <&3 >/dev/null\nexec 3>&-";
        assert_eq!(by_shell(calls), expect);
    }

    #[test]
    fn a_mail_says_what_to_type_up_to_what_is_wrong() {
        let scenario = Scenario::parse(Path::new("s.yaml"), SCENARIO).unwrap();
        let (good, bad) = (result([true; 5]), result([true, true, true, false, true]));
        let tried = |kernel: &str, results: &[&ScenarioResult]| Tried {
            kernel: kernel.to_owned(),
            results: results.iter().map(|result| (*result).clone()).collect(),
        };
        assert_eq!(mail(&scenario, &[tried("one", &[&good])]), None);
        let mail = mail(&scenario, &[tried("one", &[&good, &bad]), tried("two", &[&good])]).unwrap();
        assert!(mail.starts_with("Subject: [BUG] tracing: step 4 failed"), "{mail}");
        for expect in [
            "  one: fails in 1 of 2 runs\n  two: fails in 0 of 1 runs\n",
            "  echo '-:b' >> a    # fails with ENOENT\n  cat d\n\n",
            "  it is \"1\"\n",
        ] {
            assert!(mail.contains(expect), "{expect}\n{mail}");
        }
    }
}
