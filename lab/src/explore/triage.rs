//! A finding and its results → a mail for the maintainers of tracing.

use super::names::PROGRAM;
use crate::{
    results::ScenarioResult,
    scenario::{Scenario, Step},
};
use std::fmt::Write;

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
        let _ = writeln!(mail, "  {command}");
        if is_last {
            break;
        }
    }
    if scenario
        .steps
        .iter()
        .any(|step| matches!(&step.value, Step::Workload(step) if step.workload.program() == PROGRAM))
    {
        let _ = writeln!(
            mail,
            "\n`{PROGRAM}`, linked statically, makes an eventfd, writes each number to it, and reads it once."
        );
    }
    if scenario.steps.iter().any(|step| matches!(step.value, Step::Hook(_))) {
        mail += "\nA `hook` is an ftrace_ops of a module, registered or changed as it says.\n";
    }
    let _ = writeln!(mail, "\nExpected, and found:\n");
    let detail = broken.and_then(|index| failed.steps.get(index)).map(|step| step.detail.as_str());
    for line in detail.unwrap_or(&failed.reason).lines() {
        let _ = writeln!(mail, "  {line}");
    }
    for splat in &failed.splats {
        let _ = writeln!(mail, "\n{}", splat.title);
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
        Step::Workload(step) => step.workload.to_string(),
        Step::Read(step) if is_last => format!("cat {}", step.read.as_str()),
        Step::EnabledFunctions(step) if is_last => {
            format!("grep '^{} ' enabled_functions", step.enabled_functions)
        }
        _ => return None,
    })
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
