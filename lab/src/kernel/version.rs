//! Kernel versions, and requirements on them such as `>=5.10, <7.2`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, cmp::Ordering, fmt, str::FromStr};

/// A kernel's version. A suffix such as the `-1` of a Debian package is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelVersion {
    /// The 6 of 6.12.107.
    pub major: u32,
    /// The 12 of 6.12.107.
    pub minor: u32,
    /// The 107 of 6.12.107, or 0 if there is none.
    pub patch: u32,
    /// The 3 of 7.2-rc3.
    pub candidate: Option<u32>,
}

/// A version or requirement that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Not a version.
    #[error("`{0}` is not a kernel version, expected one such as `6.12.107` or `7.2-rc3`")]
    Version(String),
    /// Not a requirement.
    #[error("`{0}` is not a kernel requirement, expected one such as `>=5.10`, `>=5.10, <7.2` or `6.12`")]
    Requirement(String),
}

impl KernelVersion {
    /// A released version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> KernelVersion {
        KernelVersion { major, minor, patch, candidate: None }
    }

    fn numbers(&self) -> [u32; 3] {
        [self.major, self.minor, self.patch]
    }
}

impl FromStr for KernelVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<KernelVersion, VersionError> {
        let error = || VersionError::Version(text.to_owned());
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let numbers = numbers_of(numbers).ok_or_else(error)?;
        let [major, minor, ref patch @ ..] = numbers[..] else { return Err(error()) };
        if !rest.is_empty() && !rest.starts_with(['-', '~', '+']) {
            return Err(error());
        }
        // `-rc3` upstream, `~rc3` in a Debian version.
        let candidate = rest.strip_prefix("-rc").or(rest.strip_prefix("~rc"));
        let candidate = candidate.map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().map_err(|_| error())
        });
        Ok(KernelVersion {
            major,
            minor,
            patch: patch.first().copied().unwrap_or(0),
            candidate: candidate.transpose()?,
        })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch != 0 || self.candidate.is_none() {
            write!(f, ".{}", self.patch)?;
        }
        self.candidate.map_or(Ok(()), |candidate| write!(f, "-rc{candidate}"))
    }
}

impl Ord for KernelVersion {
    fn cmp(&self, other: &KernelVersion) -> Ordering {
        // A candidate comes before its release.
        let candidate = |version: &KernelVersion| version.candidate.unwrap_or(u32::MAX);
        self.numbers().cmp(&other.numbers()).then(candidate(self).cmp(&candidate(other)))
    }
}

impl PartialOrd for KernelVersion {
    fn partial_cmp(&self, other: &KernelVersion) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for KernelVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KernelVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KernelVersion, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A requirement of a scenario or a config line on a kernel's version: conditions joined by commas.
///
/// A condition compares only the numbers it has: `6.12`, `<=6.12` and `>=6.12` all match
/// 6.12.107, `<6.12` and `>6.12` do not. Release candidates count as their release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionReq {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    operator: Operator,
    /// One to three numbers.
    numbers: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    AtLeast,
    AtMost,
    Above,
    Below,
    Not,
    Equal,
}

/// Longer spellings come first, so that none is taken for a shorter one.
const OPERATORS: [(&str, Operator); 7] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("!=", Operator::Not),
    (">", Operator::Above),
    ("<", Operator::Below),
    ("=", Operator::Equal),
    ("", Operator::Equal),
];

impl VersionReq {
    /// Combines the conditions of both.
    pub fn and(&self, other: &VersionReq) -> VersionReq {
        VersionReq { conditions: [self.conditions.as_slice(), &other.conditions].concat() }
    }

    /// Returns whether `version` meets all conditions.
    pub fn matches(&self, version: &KernelVersion) -> bool {
        self.conditions.iter().all(|condition| condition.matches(version))
    }
}

impl Condition {
    fn matches(&self, version: &KernelVersion) -> bool {
        let order = version.numbers()[..self.numbers.len()].cmp(&self.numbers[..]);
        match self.operator {
            Operator::AtLeast => order.is_ge(),
            Operator::AtMost => order.is_le(),
            Operator::Above => order.is_gt(),
            Operator::Below => order.is_lt(),
            Operator::Not => order.is_ne(),
            Operator::Equal => order.is_eq(),
        }
    }
}

impl FromStr for VersionReq {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<VersionReq, VersionError> {
        let condition = |part: &str| {
            let part = part.trim();
            let (sign, operator) = OPERATORS.into_iter().find(|(sign, _)| part.starts_with(sign))?;
            let numbers = numbers_of(part[sign.len()..].trim())?;
            Some(Condition { operator, numbers })
        };
        let conditions = text.split(',').map(condition).collect::<Option<Vec<_>>>();
        let conditions = conditions.ok_or_else(|| VersionError::Requirement(text.to_owned()))?;
        Ok(VersionReq { conditions })
    }
}

impl fmt::Display for VersionReq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, condition) in self.conditions.iter().enumerate() {
            let sign = match condition.operator {
                Operator::AtLeast => ">=",
                Operator::AtMost => "<=",
                Operator::Above => ">",
                Operator::Below => "<",
                Operator::Not => "!=",
                Operator::Equal => "",
            };
            let numbers = condition.numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
            write!(f, "{}{sign}{numbers}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Serialize for VersionReq {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VersionReq {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<VersionReq, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = VersionReq;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kernel requirement in quotes, such as \">=5.10\" or \"6.12\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<VersionReq, E> {
        text.parse().map_err(E::custom)
    }

    // Without quotes, YAML reads 6.10 as the number 6.1.
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<VersionReq, E> {
        Err(E::invalid_type(de::Unexpected::Float(number), &self))
    }
}

impl JsonSchema for VersionReq {
    fn schema_name() -> Cow<'static, str> {
        "VersionReq".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Kernel versions, such as `>=5.10, <7.2`, or `6.12` for that series.",
            "pattern": "^\\s*(>=|<=|!=|>|<|=)?\\s*\\d+(\\.\\d+){0,2}\\s*(,\\s*(>=|<=|!=|>|<|=)?\\s*\\d+(\\.\\d+){0,2}\\s*)*$",
            "examples": [">=5.10", ">=5.10, <7.2", "6.12"],
        })
    }
}

/// Parses one to three numbers joined by dots.
fn numbers_of(text: &str) -> Option<Vec<u32>> {
    let number = |part: &str| {
        if part.is_empty() || !part.chars().all(|c| c.is_ascii_digit()) { None } else { part.parse().ok() }
    };
    let numbers = text.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    (numbers.len() <= 3).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KernelVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions() {
        let check = |text: &str, expect: &str| assert_eq!(version(text).to_string(), expect, "{text}");
        check("6.12.107", "6.12.107");
        check("6.12.107-1", "6.12.107");
        check("7.3.4-1~bpo13+1", "7.3.4");
        check("7.2", "7.2.0");
        check("7.2-rc3", "7.2-rc3");
        check("7.2.0-rc3-00042-gabcdef", "7.2-rc3");
        check("7.2~rc3-1~exp1", "7.2-rc3");
        check("6.12.107+", "6.12.107");
        for wrong in ["", "6", "6.", ".6", "v6.12", "6.12.1.2", "6.12x", "6.12-rc", "99999999999.1"] {
            let error = wrong.parse::<KernelVersion>().unwrap_err();
            assert_eq!(error, VersionError::Version(wrong.to_owned()));
        }
    }

    #[test]
    fn versions_are_ordered_as_they_were_released() {
        let ordered = ["5.10.223", "6.1.9", "6.1.176", "6.12.1", "7.2-rc1", "7.2-rc10", "7.2", "7.2.1"];
        for pair in ordered.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn requirements() {
        let check = |requirement: &str, text: &str, expect: bool| {
            let parsed: VersionReq = requirement.parse().unwrap();
            assert_eq!(parsed.matches(&version(text)), expect, "{requirement} {text}");
            assert_eq!(parsed.to_string().parse::<VersionReq>().unwrap(), parsed);
        };
        check(">=5.10", "5.10.0", true);
        check(">=5.10", "5.9.9", false);
        check(">=5.10, <7.2", "7.1.9", true);
        check(">=5.10, <7.2", "7.2-rc1", false);
        check("6.12", "6.12.107", true);
        check("6.12", "6.1.12", false);
        check("<=6.12", "6.12.107", true);
        check(">6.12", "6.12.107", false);
        check("<7", "6.12.107", true);
        check("= 6.12.107", "6.12.107-1", true);
        check("!=6.1", "6.1.176", false);
        for wrong in ["", ">=", "six", ">=5.10,", "=>5.10", "^6.1", "6.x", "5.10 <7"] {
            let error = wrong.parse::<VersionReq>().unwrap_err();
            assert_eq!(error, VersionError::Requirement(wrong.to_owned()));
        }
    }

    #[test]
    fn an_unquoted_number_in_yaml_is_refused() {
        let error = crate::yaml::from_str::<VersionReq>("6.10").unwrap_err().to_string();
        assert!(error.contains("in quotes"), "{error}");
        assert_eq!(crate::yaml::from_str::<VersionReq>("'>=6.10'").unwrap().to_string(), ">=6.10");
    }
}
