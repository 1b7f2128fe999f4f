//! Questions to a dump, and their answers.

use crate::scenario::ValuePath;
use serde::{Deserialize, Serialize};

/// One question.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Question {
    /// The value at a path.
    Value {
        /// The parsed path.
        path: ValuePath,
    },
    /// The number of tasks with a name, including threads.
    Tasks {
        /// The name.
        comm: String,
    },
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// There is no answer.
    Refused {
        /// Why, with the symbol or member.
        refused: String,
    },
    /// A value.
    Found(Value),
}

/// A value in a dump.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// `0x…` for an address, decimal digits for a number, or a string.
    pub value: String,
    /// The symbols at exactly this address.
    pub symbols: Vec<String>,
    /// The symbol it points into, with the offset.
    #[serde(default)]
    pub near: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FromText;

    #[test]
    fn a_question_is_data_for_the_program_that_answers() {
        let path = ValuePath::from_text("*show_files[9].f_op->write").unwrap();
        let json = serde_json::to_string(&[Question::Value { path }, Question::Tasks { comm: "x".into() }]);
        assert_eq!(
            json.unwrap(),
            r#"[{"path":{"unary":["dereference"],"symbol":"show_files","accesses":[{"index":9},{"member":"f_op"},{"member":"write"}]}},{"comm":"x"}]"#
        );
    }

    #[test]
    fn an_answer_is_a_value_or_a_reason() {
        let check = |json, expect| assert_eq!(serde_json::from_str::<Answer>(json).unwrap(), expect);
        check(r#"{"refused": "no"}"#, Answer::Refused { refused: "no".into() });
        check(
            r#"{"value": "5", "symbols": []}"#,
            Answer::Found(Value { value: "5".into(), symbols: vec![], near: vec![] }),
        );
        assert!(serde_json::from_str::<Answer>(r#"{"value": 5}"#).is_err());
    }
}
