//! What a client gets of a verb that ended.

use super::{
    call::Ended,
    cap::{ANSWER_MAX, shorten, whole_lines},
    tools::{Printed, Tool},
};
use crate::exit;
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Deserializer, Value};
use std::os::unix::process::ExitStatusExt;

/// The most that an error says, in bytes.
const ERROR_MAX: usize = 8 << 10;

/// What a verb found.
#[derive(Serialize, JsonSchema)]
pub(super) struct Answer<T> {
    /// That of the command: 0 all is well, 1 a scenario failed, 2 invalid input, 3 the lab itself failed.
    exit_code: i32,
    /// What the verb found.
    result: T,
    /// What was left out of `result` because it is too long, and how to get it.
    left_out: Option<String>,
}

/// Returns the answer to a call that no verb ran for.
pub(super) fn refused(tool: &Tool, error: &str) -> CallToolResult {
    CallToolResult::error(vec![text(whole_lines(&format!("{}: {error}", tool.name), ERROR_MAX))])
}

/// Returns the answer of a verb.
pub(super) fn of(tool: &Tool, ended: Ended) -> CallToolResult {
    let code = ended.status.code();
    let is_good = [exit::SUCCESS, exit::FAILED].iter().any(|good| code == Some(i32::from(*good)));
    let mut content = Vec::new();
    let mut structured = None;
    match tool.printed {
        Printed::Text => content.extend(printed_text(tool, &ended).map(text)),
        Printed::Json | Printed::JsonLines => match answer(tool, &ended) {
            Ok(answer) => {
                content.push(text(answer.to_string()));
                structured = Some(answer);
            }
            Err(error) if is_good => return refused(tool, &error),
            Err(_) => {}
        },
    }
    if is_good {
        let mut good = CallToolResult::success(content);
        good.structured_content = structured;
        return good;
    }
    content.insert(0, text(why(tool, &ended)));
    let mut failed = CallToolResult::error(content);
    failed.structured_content = structured;
    failed
}

fn text(text: impl Into<String>) -> ContentBlock {
    ContentBlock::text(text)
}

/// Returns what a verb printed for people, if it printed anything.
fn printed_text(tool: &Tool, ended: &Ended) -> Option<String> {
    let printed = String::from_utf8_lossy(&ended.printed.bytes);
    let lines = if ended.printed.length > ended.printed.bytes.len() {
        // One byte less than there is, so that a line that is not whole is not kept.
        let kept = whole_lines(&printed, printed.len().saturating_sub(1));
        let of = ended.printed.lines;
        format!("{kept}\n{} of {of} lines are left out. {}", of - kept.lines().count().min(of), tool.rest)
    } else {
        printed.into_owned()
    };
    (!lines.is_empty()).then_some(lines)
}

/// Returns what a verb printed as JSON.
fn answer(tool: &Tool, ended: &Ended) -> Result<Value, String> {
    let printed = &ended.printed;
    let is_cut = printed.length > printed.bytes.len();
    let too_much = || format!("it found too much to return, {} bytes. {}", printed.length, tool.rest);
    let (mut result, mut left_out) = match tool.printed {
        Printed::JsonLines => {
            let lines = Deserializer::from_slice(&printed.bytes).into_iter::<Value>();
            // The last one may be cut.
            let lines: Vec<Value> = lines.map_while(Result::ok).collect();
            let missing = printed.lines - lines.len();
            let left_out =
                (missing > 0).then(|| format!("{missing} of {} elements of `result`", printed.lines));
            (Value::Array(lines), left_out)
        }
        _ if is_cut => {
            return Err(too_much());
        }
        _ => (
            serde_json::from_slice(&printed.bytes).map_err(|error| format!("it printed no JSON: {error}"))?,
            None,
        ),
    };
    let shortened = shorten(&mut result, ANSWER_MAX);
    if shortened.is_some() && result.is_null() {
        return Err(too_much());
    }
    left_out = shortened.or(left_out);
    let left_out = left_out.map(|what| format!("{what}. {}", tool.rest));
    let exit_code = ended.status.code().unwrap_or(-1);
    serde_json::to_value(Answer { exit_code, result, left_out }).map_err(|error| error.to_string())
}

/// Returns why a verb failed: what its error says, or the last that it printed.
fn why(tool: &Tool, ended: &Ended) -> String {
    let is_error = |line: &String| line.starts_with("error: ");
    let first = ended.last.iter().position(is_error).unwrap_or(ended.last.len().saturating_sub(15));
    let lines = ended.last[first..].join("\n");
    let how = match (ended.status.code(), ended.status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => ended.status.to_string(),
    };
    let lines = whole_lines(&lines, ERROR_MAX).trim();
    format!("{} failed, {how}{}{lines}", tool.name, if lines.is_empty() { "" } else { "\n" })
}

#[cfg(test)]
mod tests {
    use super::super::{cap::Beginning, tools};
    use super::*;
    use std::process::ExitStatus;

    fn ended(printed: &str, last: &[&str], code: i32) -> Ended {
        let bytes = printed.as_bytes()[..printed.len().min(ANSWER_MAX)].to_vec();
        let printed = Beginning { bytes, length: printed.len(), lines: printed.lines().count() };
        let last = last.iter().map(|line| (*line).to_owned()).collect();
        Ended { printed, last, status: ExitStatus::from_raw(code << 8) }
    }

    fn said(result: &CallToolResult) -> String {
        serde_json::to_string(&result.content).unwrap()
    }

    #[test]
    fn a_failed_scenario_is_an_answer_and_a_mistake_is_an_error() {
        let check = |code: i32, is_error: bool| {
            let result =
                of(tools::named("check").unwrap(), ended("[]", &["building …", "error: `x`: no"], code));
            assert_eq!(result.is_error, Some(is_error), "{code}");
            assert_eq!(result.structured_content.as_ref().unwrap()["exit_code"], code);
            assert_eq!(said(&result).contains("error: `x`: no"), is_error, "{code}");
            assert!(!said(&result).contains("building"), "{code}");
        };
        check(0, false);
        check(1, false);
        check(2, true);
        check(3, true);
    }

    #[test]
    fn a_long_answer_says_what_it_leaves_out() {
        let lines: String = (0..20_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
        let result = of(tools::named("trace").unwrap(), ended(&lines, &[], 0));
        let answer = result.structured_content.unwrap();
        let kept = answer["result"].as_array().unwrap().len();
        assert!(kept > 1000, "{kept}");
        let expect = format!("{} of 20000 elements of `result`. ", 20_000 - kept);
        assert!(answer["left_out"].as_str().unwrap().starts_with(&expect), "{}", answer["left_out"]);
        let text: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        let result = of(tools::named("explain").unwrap(), ended(&text, &[], 0));
        let said = said(&result);
        assert!(said.contains("of 20000 lines are left out") && said.len() < ANSWER_MAX + 20_000);
    }

    #[test]
    fn a_verb_that_is_killed_is_an_error() {
        let mut killed = ended("", &["one", "two"], 0);
        killed.status = ExitStatus::from_raw(9);
        let result = of(tools::named("run").unwrap(), killed);
        assert_eq!(result.is_error, Some(true));
        assert!(said(&result).contains("run failed, killed by signal 9\\none\\ntwo"), "{}", said(&result));
    }
}
