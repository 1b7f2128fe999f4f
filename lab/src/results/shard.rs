//! A part of a split, as `2/5`.

use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
};

/// A part of a split: its number, and the number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) of: usize,
}

/// The maximum number of shards.
const SHARDS_MAX: usize = 10_000;

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if 1 <= number && number <= of && of <= SHARDS_MAX => Ok(Shard { number, of }),
            _ => Err(format!("expected I/N with 1 <= I <= N <= {SHARDS_MAX}, as in 2/5")),
        }
    }
}

impl Display for Shard {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_one_of_so_many() {
        let check = |text: &str, expect: Option<(usize, usize)>| {
            assert_eq!(text.parse::<Shard>().ok().map(|shard| (shard.number, shard.of)), expect, "{text}");
        };
        check("1/1", Some((1, 1)));
        check("2/5", Some((2, 5)));
        for wrong in ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/99999999999"] {
            check(wrong, None);
        }
    }
}
