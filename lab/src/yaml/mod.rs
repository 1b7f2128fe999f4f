//! Reading and writing YAML. Only this module names the crate that does it.
//!
//! Input is not trusted, so its expanded size is limited ([`within_budget`]); output is formatted to be readable
//! ([`flow`], [`blocks`]).

pub(crate) mod blocks;
mod budget;
pub(crate) mod flow;

pub(crate) use budget::check as within_budget;
pub(crate) use serde_yaml::{Deserializer, Error, Mapping, Value, from_str, to_string, with::singleton_map};
