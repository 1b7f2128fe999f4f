//! Arming: the plan's writes, and what the kernel says when it refuses one.

use super::{Recorder, read};
use crate::{
    machine::Death,
    plan::Plan,
    scenario::{Errno, nearest},
};
use protocol::{Reply, Request};

impl Recorder<'_> {
    /// Makes the plan's writes. `Some` says which one the kernel refused, and why.
    pub(super) fn arm(&mut self, plan: &Plan) -> Result<Option<String>, Death> {
        let requests: Vec<_> = plan
            .arming
            .iter()
            .map(|arm| Request::WriteFile {
                path: arm.file.clone(),
                data: format!("{}\n", arm.text).into_bytes(),
                mode: arm.mode,
            })
            .collect();
        let replies = self.call_all(&requests)?;
        let refused = plan.arming.iter().zip(&replies).find_map(|(arm, reply)| match reply {
            Reply::Errno { errno, .. } => Some((arm, *errno)),
            _ => None,
        });
        let Some((arm, errno)) = refused else { return Ok(None) };
        let mut reason =
            format!("cannot write `{}` to `{}`: {}", arm.text, arm.file, Errno::from_number(errno));
        if let Reply::Data(log) = self.call(&read("error_log"))?
            && !log.is_empty()
        {
            reason = format!("{reason}\n{}", String::from_utf8_lossy(&log).trim_end());
        }
        if arm.file == "kprobe_events"
            && let Some(hint) = self.hint(&arm.text)
        {
            reason = format!("{reason}\n{hint}");
        }
        Ok(Some(reason))
    }

    /// What a probe on a function that is not there may have meant.
    fn hint(&self, definition: &str) -> Option<String> {
        let symbol = definition.split(' ').nth(1)?.split('+').next()?;
        let map = self.kernel.functions().ok()?;
        let functions = || map.lines().filter_map(|line| line.split(' ').nth(2));
        if symbol.contains(':') || functions().any(|name| name == symbol) {
            return None;
        }
        let nearest = nearest(symbol, functions());
        let nearest = nearest.map(|name| format!("; the nearest is `{name}`")).unwrap_or_default();
        Some(format!("`{symbol}` is no function of this kernel{nearest}"))
    }
}
